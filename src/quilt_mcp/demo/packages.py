"""The packages of the company: the objects in S3 that make them up, and what the stack says about them."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import TypeVar

from graphql import GraphQLResolveInfo, get_named_type

from quilt_mcp.demo.accesses import count_accesses
from quilt_mcp.demo.query_strings import QueryString, Term, Value
from quilt_mcp.demo.records import Bucket, Package, Revision, Version

CREATED = 1_747_663_200  # the names of the pointers are in seconds since 1970
POINTERS = ".quilt/named_packages"
MANIFESTS = ".quilt/packages"
PLACES = "physical_keys"

JSON = dict[str, object]

T = TypeVar("T")
Field = tuple[str, Value]
"""A field of the search, and its value."""


def _make_manifest(bucket: Bucket, revision: Revision) -> Iterator[JSON]:
    """Yield the lines of a manifest, in the form of quilt3: one for the package, and one for each file."""
    head: JSON = {"version": "v0", "message": revision.message, "created": revision.created}
    if revision.user_meta is not None:
        head["user_meta"] = dict(revision.user_meta)
    if revision.workflow:
        head["workflow"] = {"config": f"s3://{bucket.name}/.quilt/workflows/config.yml", "id": revision.workflow}
    yield head
    for path, place in sorted(revision.entries.items(), key=lambda entry: entry[0].split("/")):
        content = bucket.read(place)
        yield {
            "logical_key": path,
            PLACES: [bucket.locate(place)],
            "size": len(content),
            "hash": {"type": "SHA256", "value": hashlib.sha256(content).hexdigest()},
            "meta": {},
        }


def compute_hash(bucket: Bucket, revision: Revision) -> str:
    """Return the top hash, as quilt3 computes it: it does not depend on where the files are."""
    lines = ({key: value for key, value in line.items() if key != PLACES} for line in _make_manifest(bucket, revision))
    text = "".join(json.dumps(line, sort_keys=True, separators=(",", ":")) for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()


def store_packages(bucket: Bucket) -> dict[str, str]:
    """Return the objects of the packages of a bucket: their manifests, and the pointers to them."""
    stored = {}
    for package in bucket.packages:
        for revision in package.revisions:
            top_hash = compute_hash(bucket, revision)
            manifest = _make_manifest(bucket, revision)
            stored[f"{MANIFESTS}/{top_hash}"] = "".join(f"{json.dumps(line)}\n" for line in manifest)
            stored[f"{POINTERS}/{package.name}/{revision.created}"] = top_hash
            stored[f"{POINTERS}/{package.name}/latest"] = top_hash
    return stored


def describe_packages(bucket: Bucket, filter_: str | None) -> JSON:
    found = [one for one in bucket.packages if (filter_ or "").lower() in one.name.lower()]

    def page(_: object, number: int, perPage: int, order: str) -> list[JSON]:  # noqa: N803 - the schema's name
        newest = sorted(found, key=lambda one: -one.revisions[-1].created)
        ordered = newest if order == "MODIFIED" else sorted(found, key=lambda one: one.name)
        return [describe_package(bucket, one) for one in _cut(ordered, number, perPage)]

    return {"total": len(found), "page": page}


def describe_package(bucket: Bucket, package: Package) -> JSON:
    newest = package.revisions[::-1]

    def page(_: object, number: int, perPage: int) -> list[JSON]:  # noqa: N803 - the schema's name
        return [_describe_revision(bucket, one) for one in _cut(newest, number, perPage)]

    def revision(_: object, hashOrTag: str) -> JSON | None:  # noqa: N803 - the schema's name
        names = {compute_hash(bucket, one): one for one in newest} | {str(one.created): one for one in newest}
        found = newest[0] if hashOrTag == "latest" else names.get(hashOrTag)
        return _describe_revision(bucket, found) if found else None

    return {
        "bucket": bucket.name,
        "name": package.name,
        "modified": _describe_time(newest[0].created),
        "revisions": {"total": len(newest), "page": page},
        "revision": revision,
        "accessCounts": lambda _, window: count_accesses(package.reads, window),
    }


def _cut(rows: Sequence[T], number: int, size: int) -> Sequence[T]:
    return rows[(number - 1) * size : number * size]


def _describe_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _describe_revision(bucket: Bucket, revision: Revision) -> JSON:
    sizes = {path: len(bucket.read(place)) for path, place in revision.entries.items()}
    return {
        "hash": compute_hash(bucket, revision),
        "modified": _describe_time(revision.created),
        "message": revision.message,
        "userMeta": revision.user_meta,
        "workflow": {"config": f"s3://{bucket.name}/.quilt/workflows/config.yml", "id": revision.workflow}
        if revision.workflow
        else None,
        "totalEntries": len(sizes),
        "totalBytes": float(sum(sizes.values())),
        "dir": lambda _, path: _describe_directory(bucket, revision, path),
        "file": lambda _, path: _describe_file(bucket, revision, path),
        "contentsFlatMap": lambda info, **given: _describe_contents(info, bucket, revision, **given),
    }


def _describe_contents(
    info: "GraphQLResolveInfo[object]",
    bucket: Bucket,
    revision: Revision,
    max: int | None,  # noqa: A002 - the schema's name
) -> JSON | None:
    """Return the map of all files; None above `max`. Before 2024-02-08, the catalog expects a hash without its type."""
    if max is not None and len(revision.entries) > max:
        return None
    is_typed = get_named_type(info.return_type).name == "PackageContentsFlatMap"
    contents: JSON = {}
    for path, place in revision.entries.items():
        content = bucket.read(place)
        value = hashlib.sha256(content).hexdigest()
        contents[path] = {
            "physicalKey": bucket.locate(place),
            "size": len(content),
            "hash": {"type": "SHA256", "value": value} if is_typed else value,
            "meta": {},
        }
    return contents


def _describe_directory(bucket: Bucket, revision: Revision, path: str) -> JSON | None:
    start = f"{path}/" if path else ""
    below = [one for one in revision.entries if one.startswith(start)]
    if path and not below:
        return None
    names = {start + one.removeprefix(start).partition("/")[0] for one in below}
    found = ((_describe_file(bucket, revision, one), _describe_directory(bucket, revision, one)) for one in names)
    children = [one for both in found for one in both if one]
    size = float(sum(len(bucket.read(revision.entries[one])) for one in below))
    return {"__typename": "PackageDir", "path": path, "size": size, "children": children}


def _describe_file(bucket: Bucket, revision: Revision, path: str) -> JSON | None:
    if path not in revision.entries:
        return None
    place = revision.entries[path]
    size = float(len(bucket.read(place)))
    return {"__typename": "PackageFile", "path": path, "size": size, "physicalKey": bucket.locate(place)}


def search(kind: str, buckets: Iterable[Bucket], asked: Iterable[str] | None, text: str | None) -> JSON:
    """Return the value of a search. `query_strings.py` says which syntax is understood."""
    visible = {one.name: one for one in buckets}
    if unknown := [name for name in asked or () if name not in visible]:
        problem = {"path": "buckets", "message": f"Unknown buckets: {', '.join(unknown)}", "name": "UnknownBuckets"}
        return {"__typename": "InvalidInput", "errors": [problem]}
    chosen = [visible[name] for name in (visible if asked is None else asked)]
    find = _find_packages if kind == "Packages" else _find_objects
    hits = [hit for bucket in chosen for hit in find(bucket, text or "")]
    if not hits:
        return {"__typename": "EmptySearchResultSet"}
    return {
        "__typename": f"{kind}SearchResultSet",
        "total": len(hits),
        "stats": {"total": len(hits)},
        "firstPage": lambda _, size, **__: _cut_hits(kind, hits, 0, size),
    }


def search_more(kind: str, buckets: Iterable[Bucket], after: str, size: int) -> JSON:
    """Return the value of the next page. The cursor names the text of the search and the place."""
    text, _, place = after.rpartition("@")
    find = _find_packages if kind == "Packages" else _find_objects
    return _cut_hits(kind, [hit for bucket in buckets for hit in find(bucket, text)], int(place), size)


def _cut_hits(kind: str, hits: list[JSON], start: int, size: int) -> JSON:
    page, end = hits[start : start + size], start + size
    cursor = f"{page[0]['text']}@{end}" if end < len(hits) else None
    return {"__typename": f"{kind}SearchResultSetPage", "cursor": cursor, "hits": page}


def _find_packages(bucket: Bucket, text: str) -> Iterator[JSON]:
    query = QueryString(text)
    for package in bucket.packages:
        revision = package.revisions[-1]
        meta, message = json.dumps(revision.user_meta or {}), revision.message or ""
        found = {
            "name": ("ptr_name", package.name),
            "comment": ("mnfst_message", message),
            "meta": ("mnfst_metadata", meta),
            "workflow": ("mnfst_workflow.id", revision.workflow or ""),
        }
        of_entries = {path: _list_fields(bucket, path, place) for path, place in sorted(revision.entries.items())}
        everything = [*found.values(), *(field for fields in of_entries.values() for field in fields.values())]
        if query.fits(partial(_has, everything)):
            yield {
                "text": text,
                "bucket": bucket.name,
                "name": package.name,
                "hash": compute_hash(bucket, revision),
                "size": float(sum(len(bucket.read(place)) for place in revision.entries.values())),
                "modified": _describe_time(revision.created),
                "totalEntriesCount": len(revision.entries),
                "comment": revision.message,
                "matchLocations": _locate(query, found),
                "matchingEntries": list(_find_entries(bucket, revision, query, of_entries)),
            }


def _list_fields(bucket: Bucket, path: str, place: str | Version) -> dict[str, Field]:
    """Return the fields of a file of a package that are searched, by where they are in a hit."""
    key, content = place if isinstance(place, str) else place.key, bucket.read(place)
    return {
        "logicalKey": ("entry_lk", path),
        "physicalKey": ("entry_pk", key),
        "contents": ("content", _read_text(content)),
        "size": ("entry_size", len(content)),
    }


def _has(fields: Iterable[Field], term: Term) -> bool:
    return any(term.fits(*field) for field in fields)


def _locate(query: QueryString, fields: Mapping[str, Field]) -> dict[str, bool]:
    return {place: any(term.fits(*field) for term in query.terms) for place, field in fields.items()}


def _find_entries(
    bucket: Bucket, revision: Revision, query: QueryString, of_entries: Mapping[str, Mapping[str, Field]]
) -> Iterator[JSON]:
    for path, fields in of_entries.items():
        matches = {**_locate(query, fields), "meta": False}
        if any(matches.values()):
            place = revision.entries[path]
            size = float(len(bucket.read(place)))
            yield {"logicalKey": path, "physicalKey": bucket.locate(place), "size": size, "matchLocations": matches}


def _find_objects(bucket: Bucket, text: str) -> Iterator[JSON]:
    query = QueryString(text)
    newest: dict[str, str | Version] = {
        **{key: key for key in bucket.objects},
        **{one.key: one for one in bucket.versions},
    }
    for key, place in sorted(newest.items(), key=lambda item: item[0]):
        is_deleted = isinstance(place, Version) and place.content is None
        content = bucket.read(place)
        extension = "".join(PurePosixPath(key).suffixes)
        fields: list[Field]
        fields = [("key", key), ("ext", extension), ("content", _read_text(content)), ("size", len(content))]
        if not is_deleted and query.fits(partial(_has, fields)):
            made_up = hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()
            yield {
                "text": text,
                "bucket": bucket.name,
                "key": key,
                "version": place.id if isinstance(place, Version) else made_up,
                "size": float(len(content)),
                "modified": _describe_time(place.stored if isinstance(place, Version) else CREATED),
                "deleted": False,
            }


def _read_text(content: bytes) -> str:
    """Return a text in lower case; empty for a file that is no text, which Quilt's search does not read here."""
    try:
        return content.decode().lower()
    except UnicodeDecodeError:
        return ""

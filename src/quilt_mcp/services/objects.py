"""quilt://buckets/{bucket}/objects and …/object: the folders of a bucket, and what is in an object."""

from itertools import islice
from typing import TYPE_CHECKING, Literal, NotRequired
from urllib.parse import quote

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core import cursors
from quilt_mcp.core.answers import JSONObject, ServiceResult, iso
from quilt_mcp.core.cursors import parse_limit
from quilt_mcp.core.errors import MissingTemplateVariable, NotFound, ResourceFailure
from quilt_mcp.services.bucket_access import check_bucket_name
from quilt_mcp.services.preview.answer import Content, show_file
from quilt_mcp.services.stack.aws_failures import find_code
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import explain
from quilt_mcp.services.stack.places import Place

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws import AWSClients

MOST_VERSIONS = 20

EntryKind = Literal["file", "folder"]


class ObjectRow(TypedDict):
    """An object, or a folder: the common start of several keys, up to a slash.

    Attributes:
        name: its name in the folder.
        kind: "file" or "folder".
        key: its key; of a folder, the start of the keys in it.
        size: its size in bytes; null for a folder.
        modified_at: when it was stored, ISO 8601 in UTC; null for a folder.
        storage_class: such as STANDARD or GLACIER; null for a folder.
        uri: the URI that shows what is in it.
    """

    name: str
    kind: EntryKind
    key: str
    size: int | None
    modified_at: str | None
    storage_class: str | None
    uri: str


class ObjectsAnswer(TypedDict):
    """A page of one folder of a bucket. S3 does not say how many there are.

    Attributes:
        bucket: its name.
        prefix: what all keys of the page start with; empty for the whole bucket.
        entries: the folders and objects of this page. Each kind is sorted by key.
        next_cursor: the `cursor` of the next page; null on the last page.
        folder: the URI of the folder above; null for the top of the bucket.
        catalog_url: its page in the catalog; null if no catalog is configured.
        packages: the URI of the packages of the bucket.
    """

    bucket: str
    prefix: str
    entries: list[ObjectRow]
    next_cursor: str | None
    folder: str | None
    catalog_url: str | None
    packages: str


class VersionRow(TypedDict):
    """A version of an object.

    Attributes:
        version: its id; "null" for one from before the bucket kept versions.
        is_latest: whether it is the newest one.
        is_deleted: whether it only says that the object was deleted.
        size: its size in bytes; null if it is deleted.
        modified_at: when it was stored, or deleted, ISO 8601 in UTC.
        uri: the URI that shows what is in it; null if it is deleted.
    """

    version: str
    is_latest: bool
    is_deleted: bool
    size: int | None
    modified_at: str
    uri: str | None


class ObjectAnswer(Content):
    """One object, with what is in it.

    Attributes:
        bucket: its bucket.
        key: its key.
        version: the version that was asked for; null for the newest one.
        versions: at most 20 versions, the newest first; null if they are not known.
        versions_truncated: true if there are more; absent if not, or if they are not known.
        versions_error: why the versions are not known; null if they are.
        catalog_url: its page in the catalog; null if no catalog is configured.
        folder: the URI of the folder that contains it.
    """

    bucket: str
    key: str
    version: str | None
    versions: list[VersionRow] | None
    versions_truncated: NotRequired[Literal[True]]
    versions_error: str | None
    catalog_url: str | None
    folder: str


def bucket_objects_list(
    bucket: str, prefix: str | None = None, cursor: str | None = None, limit: str | None = None
) -> ObjectsAnswer:
    """A folder of a bucket.

    There are 50 entries per page. `prefix` is the folder with a slash at its end, or any start of keys; by default, it
    is the top of the bucket. Objects have their size, time and storage class. Calls S3 once, with your role.
    """
    check_bucket_name(bucket)
    caller, start = current_caller(), prefix or ""
    size, tag = parse_limit(limit), cursors.compute_tag("objects", bucket, start)
    given: JSONObject = {"Bucket": bucket, "Prefix": start, "Delimiter": "/", "MaxKeys": size}
    if cursor is not None:
        given["ContinuationToken"] = cursors.decode(cursor, tag)
    try:
        found = caller.aws.call("s3", "list_objects_v2", **given)
    except NotFound as missing:
        raise make_unknown_bucket(bucket) from missing
    except ResourceFailure as failure:
        if cursor is not None and find_code(failure) == "InvalidArgument":
            raise cursors.make_invalid() from failure
        raise
    folders = [_describe_folder(bucket, one["Prefix"]) for one in found.get("CommonPrefixes", ())]
    objects = [_describe_object(bucket, one) for one in found.get("Contents", ()) if one["Key"] != start or start == ""]
    token = found.get("NextContinuationToken")
    catalog = caller.login.stack.catalog_url
    return {
        "bucket": bucket,
        "prefix": start,
        "entries": [*folders, *objects],
        "next_cursor": cursors.encode(token, tag) if token else None,
        "folder": make_objects_uri(bucket, _find_folder(start.rstrip("/"))) if start else None,
        "catalog_url": f"{catalog}/b/{bucket}/tree/{quote(start)}" if catalog else None,
        "packages": f"quilt://buckets/{bucket}/packages",
    }


def bucket_object_get(
    bucket: str,
    key: str | None = None,
    version: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> ServiceResult[ObjectAnswer]:
    """An object of a bucket.

    `key` is its key, with %2F for slashes. The answer has what is in it, as for a file of a package, and its versions.
    `version` is one of them; by default, it is the newest. Reads a part of the object and lists its versions with your
    role.
    """
    check_bucket_name(bucket)
    if key is None:
        raise MissingTemplateVariable(
            "`key` is missing: the key of the object.",
            suggested_actions=[
                f"Read quilt://buckets/{bucket}/objects for the objects of the bucket: each has its `uri`.",
                f"Example: quilt://buckets/{bucket}/object?key=README.md",
            ],
        )
    caller = current_caller()
    aws, catalog = caller.aws, caller.login.stack.catalog_url
    content, attachment = show_file(aws, Place(bucket, key, version), key, cursor=cursor, limit=limit)
    versions, problem = _list_versions(aws, bucket, key)
    pinned = f"?version={quote(version, safe='')}" if version else ""
    answer: ObjectAnswer = {
        "bucket": bucket,
        "key": key,
        "version": version,
        **content,  # type: ignore[typeddict-item]  # mypy misses what is not required
        "versions": versions and versions[:MOST_VERSIONS],
        "versions_error": problem,
        "catalog_url": f"{catalog}/b/{bucket}/tree/{quote(key)}{pinned}" if catalog else None,
        "folder": make_objects_uri(bucket, _find_folder(key)),
    }
    if versions and len(versions) > MOST_VERSIONS:
        answer["versions_truncated"] = True
    return ServiceResult(answer, attachment)


def make_objects_uri(bucket: str, prefix: str) -> str:
    return f"quilt://buckets/{bucket}/objects" + (f"?prefix={quote(prefix, safe='')}" if prefix else "")


def make_object_uri(bucket: str, key: str, version: str | None = None) -> str:
    pinned = f"&version={quote(version, safe='')}" if version else ""
    return f"quilt://buckets/{bucket}/object?key={quote(key, safe='')}{pinned}"


def make_unknown_bucket(bucket: str) -> NotFound:
    actions = ["Read quilt://buckets for the buckets of the stack that you can see."]
    return NotFound(f"S3 has no bucket {bucket!a}.", suggested_actions=actions)


def _find_folder(key: str) -> str:
    """Return the start of a key up to its last slash, with it."""
    parent, slash, _ = key.rpartition("/")
    return parent + slash


def _describe_folder(bucket: str, prefix: str) -> ObjectRow:
    return {
        "name": prefix[:-1].rpartition("/")[2],
        "kind": "folder",
        "key": prefix,
        "size": None,
        "modified_at": None,
        "storage_class": None,
        "uri": make_objects_uri(bucket, prefix),
    }


def _describe_object(bucket: str, found: JSONObject) -> ObjectRow:
    return {
        "name": found["Key"].rpartition("/")[2],
        "kind": "file",
        "key": found["Key"],
        "size": found["Size"],
        "modified_at": iso(found["LastModified"]),
        "storage_class": found.get("StorageClass"),
        "uri": make_object_uri(bucket, found["Key"]),
    }


def _list_versions(aws: "AWSClients", bucket: str, key: str) -> tuple[list[VersionRow] | None, str | None]:
    """Return one version more than an answer has, the newest first; or why they are not known."""
    try:
        found = aws.call("s3", "list_object_versions", Bucket=bucket, Prefix=key, MaxKeys=2 * MOST_VERSIONS)
    except ResourceFailure as failure:
        return None, explain(failure)
    rows = [
        _describe_version(bucket, one, is_deleted="Size" not in one)
        for one in (*found.get("Versions", ()), *found.get("DeleteMarkers", ()))
        if one["Key"] == key
    ]
    rows.sort(key=lambda row: (row["is_latest"], row["modified_at"]), reverse=True)
    return list(islice(rows, MOST_VERSIONS + 1)), None


def _describe_version(bucket: str, found: JSONObject, *, is_deleted: bool) -> VersionRow:
    return {
        "version": found["VersionId"],
        "is_latest": found["IsLatest"],
        "is_deleted": is_deleted,
        "size": None if is_deleted else found["Size"],
        "modified_at": iso(found["LastModified"]),
        "uri": None if is_deleted else make_object_uri(bucket, found["Key"], found["VersionId"]),
    }

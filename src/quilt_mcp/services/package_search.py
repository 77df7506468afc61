"""quilt://search: packages or objects, as the stack's search finds them."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.app.page_size import parse_limit
from quilt_mcp.core import cursors
from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import InvalidTemplateVariable, Unavailable
from quilt_mcp.services.packages import link, make_uri
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import QueryNotUnderstood

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

# Search exists since 2023-10-13. What matched in a package, and `total`, exist since 2025-07-18; before, it was in
# `stats`. Since 2026-08-21, the first page of packages can be an error too. A fragment fits both forms.
PACKAGES = """query searchPackages($buckets: [String!], $text: String, $size: Int!) {
  searchPackages(buckets: $buckets, searchString: $text, latestOnly: true) {
    __typename
    ... on PackagesSearchResultSet {
      total
      firstPage(size: $size) {
        __typename
        ... on PackagesSearchResultSetPage {
          cursor
          hits {
            bucket name hash size modified totalEntriesCount comment
            matchLocations { name comment meta workflow }
            matchingEntries {
              logicalKey physicalKey size matchLocations { logicalKey physicalKey meta contents }
            }
          }
        }
      }
    }
    ... on InvalidInput { errors { path message name } }
  }
}"""
MORE_PACKAGES = """query searchMorePackages($after: String!, $size: Int!) {
  searchMorePackages(after: $after, size: $size) {
    __typename
    ... on PackagesSearchResultSetPage {
      cursor
      hits {
        bucket name hash size modified totalEntriesCount comment
        matchLocations { name comment meta workflow }
        matchingEntries { logicalKey physicalKey size matchLocations { logicalKey physicalKey meta contents } }
      }
    }
    ... on InvalidInput { errors { path message name } }
  }
}"""
OLD_PACKAGES = """query searchPackagesUntil2025($buckets: [String!], $text: String, $size: Int!) {
  searchPackages(buckets: $buckets, searchString: $text) {
    __typename
    ... on PackagesSearchResultSet {
      stats { total }
      firstPage(size: $size) { __typename cursor hits { bucket name hash size modified comment } }
    }
    ... on InvalidInput { errors { path message name } }
  }
}"""
OLD_MORE_PACKAGES = """query searchMorePackagesUntil2025($after: String!, $size: Int!) {
  searchMorePackages(after: $after, size: $size) {
    __typename
    ... on PackagesSearchResultSetPage { cursor hits { bucket name hash size modified comment } }
    ... on InvalidInput { errors { path message name } }
  }
}"""
OBJECTS = """query searchObjects($buckets: [String!], $text: String, $size: Int!) {
  searchObjects(buckets: $buckets, searchString: $text) {
    __typename
    ... on ObjectsSearchResultSet {
      total
      firstPage(size: $size) { __typename cursor hits { bucket key version size modified deleted } }
    }
    ... on InvalidInput { errors { path message name } }
  }
}"""
MORE_OBJECTS = """query searchMoreObjects($after: String!, $size: Int!) {
  searchMoreObjects(after: $after, size: $size) {
    __typename
    ... on ObjectsSearchResultSetPage { cursor hits { bucket key version size modified deleted } }
    ... on InvalidInput { errors { path message name } }
  }
}"""
OLD_OBJECTS = """query searchObjectsUntil2025($buckets: [String!], $text: String, $size: Int!) {
  searchObjects(buckets: $buckets, searchString: $text) {
    __typename
    ... on ObjectsSearchResultSet {
      stats { total }
      firstPage(size: $size) { __typename cursor hits { bucket key version size modified deleted } }
    }
    ... on InvalidInput { errors { path message name } }
  }
}"""
FIRST = {"packages": (PACKAGES, OLD_PACKAGES), "objects": (OBJECTS, OLD_OBJECTS)}
MORE = {"packages": (MORE_PACKAGES, OLD_MORE_PACKAGES), "objects": (MORE_OBJECTS,)}
"""The queries for each kind, the newest first."""

KINDS = tuple(FIRST)
MATCHES = {"logicalKey": "path", "physicalKey": "physical key", "meta": "metadata"}
MAX_ENTRIES = 10
MAX_COMMENT = 1000
MAX_PROBLEM = 200


class _Match(TypedDict, total=False):
    """Where the text was found."""

    name: bool
    comment: bool
    meta: bool
    workflow: bool
    logicalKey: bool
    physicalKey: bool
    contents: bool


class _Entry(TypedDict):
    logicalKey: str
    physicalKey: str
    size: float
    matchLocations: _Match


class _Hit(TypedDict, total=False):
    """A package or an object in the data of the queries."""

    bucket: str
    name: str
    hash: str
    key: str
    version: str
    size: float
    modified: datetime
    deleted: bool
    comment: str | None
    totalEntriesCount: int
    matchLocations: _Match
    matchingEntries: list[_Entry]


class _Problem(TypedDict):
    """Why the stack does not accept the input."""

    path: str | None
    message: str
    name: str


class _Stats(TypedDict):
    total: int


_Page = TypedDict("_Page", {"__typename": str, "cursor": str | None, "hits": list[_Hit]}, total=False)
_Result = TypedDict(
    "_Result",
    {
        "__typename": str,
        "total": int,
        "stats": _Stats,
        "firstPage": _Page,
        "cursor": str | None,
        "hits": list[_Hit],
        "errors": list[_Problem],
    },
    total=False,
)


class FoundEntry(TypedDict):
    """A file in a package that was found.

    Attributes:
        path: its path in the package.
        physical_key: where it is.
        size: in bytes.
        matched: where the text was found: path, physical key, metadata, contents.
    """

    path: str
    physical_key: str
    size: int
    matched: list[str]


class FoundPackage(TypedDict):
    """A package that was found.

    Attributes:
        bucket: its bucket.
        name: its name.
        hash: the top hash of the revision.
        modified: ISO 8601 in UTC.
        size: in bytes.
        entries: the number of its files; null on stacks from before July 2025.
        message: its message, cut at 1,000 characters; null if there is none.
        matched: where the text was found: name, comment, metadata, workflow; null on stacks from before July 2025.
        matching_entries: the files in which it was found, at most 10; null as above.
        matching_entry_count: the number of files that the stack names; null as above.
        catalog_url: its page in the catalog; null if no catalog is configured.
        uri: the URI of the package.
    """

    bucket: str
    name: str
    hash: str
    modified: str
    size: int
    entries: int | None
    message: str | None
    matched: list[str] | None
    matching_entries: list[FoundEntry] | None
    matching_entry_count: int | None
    catalog_url: str | None
    uri: str


class FoundObject(TypedDict):
    """An object that was found. The stack does not say where the text was.

    Attributes:
        bucket: its bucket.
        key: its key.
        version: its version in S3.
        modified: ISO 8601 in UTC.
        size: in bytes.
        is_deleted: whether this version is a deletion.
    """

    bucket: str
    key: str
    version: str
    modified: str
    size: int
    is_deleted: bool


class SearchAnswer(TypedDict):
    """A page of what was found.

    Attributes:
        kind: "packages" or "objects".
        packages: the packages of this page, the best match first; null if objects were asked for.
        objects: the objects of this page, the best match first; null if packages were asked for.
        count: the total of all pages, as the stack counts it.
        has_more: whether there are more pages.
        next_cursor: the `cursor` of the next page; null on the last page, or if the stack's own is too long for a URI.
    """

    kind: Literal["packages", "objects"]
    packages: list[FoundPackage] | None
    objects: list[FoundObject] | None
    count: int
    has_more: bool
    next_cursor: str | None


def stack_search(
    query: str,
    buckets: str | None = None,
    kind: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> SearchAnswer:
    """Packages or objects with a text.

    There are 50 per page. `kind` is packages, the default, or objects. `buckets` are names with commas between them; by
    default, all buckets that you can see. The text can use the syntax of the catalog's search. Of packages, the newest
    revisions are searched, and the answer says where the text was found. Sends one GraphQL request, on older stacks
    two.
    """
    chosen = _check_kind(kind)
    names = sorted({name for name in (buckets or "").split(",") if name}) or None
    caller = current_caller()
    tag = cursors.compute_tag("search", caller.login.stack.registry_url, query, names, chosen)
    if cursor is None:
        size = parse_limit(limit)
        result = _ask(caller, FIRST[chosen], _name_field("search", chosen), buckets=names, text=query, size=size)
        total = result.get("total", result.get("stats", {"total": 0})["total"])
        page = result.get("firstPage") or {}
        _check({"__typename": page.get("__typename", "")})
    else:
        size, total, after = _read_cursor(cursor, tag, limit)
        result = _ask(caller, MORE[chosen], _name_field("searchMore", chosen), after=after, size=size)
        page = {"cursor": result.get("cursor"), "hits": result.get("hits", [])}
    hits, catalog = page.get("hits", []), caller.login.stack.catalog_url
    next_cursor = _write_cursor(size, total, page.get("cursor"), tag) if hits else None
    return {
        "kind": "packages" if chosen == "packages" else "objects",
        "packages": [_describe_package(one, catalog) for one in hits] if chosen == "packages" else None,
        "objects": [_describe_object(one) for one in hits] if chosen == "objects" else None,
        "count": total,
        "has_more": bool(hits and page.get("cursor")),
        "next_cursor": next_cursor,
    }


def _name_field(prefix: str, kind: str) -> str:
    return prefix + kind.capitalize()


def _check_kind(kind: str | None) -> str:
    if kind in (None, *KINDS):
        return kind or KINDS[0]
    raise InvalidTemplateVariable(
        f"`kind` must be {' or '.join(KINDS)}.",
        details=f"It was {kind!a}.",
        suggested_actions=["Omit `kind` to search packages."],
    )


def _ask(caller: "Caller", queries: Iterable[str], field: str, **variables: object) -> _Result:
    """Send the newest of these queries that the stack understands, and return the value of their field.

    Raises:
        QueryNotUnderstood: the stack has no search.
        ResourceFailure: as `Caller.send_query`, or the stack's search failed.
    """
    refusal: QueryNotUnderstood | None = None
    for text in queries:
        try:
            result = caller.send_query(text.split("(")[0].split()[1], text, dict[str, _Result], **variables)[field]
        except QueryNotUnderstood as failure:
            refusal = failure
        else:
            _check(result)
            return result
    raise _make_no_search(refusal) from refusal


def _make_no_search(refusal: QueryNotUnderstood | None) -> QueryNotUnderstood:
    return QueryNotUnderstood(
        "The Quilt stack does not know this query for search.",
        details=refusal.details if refusal else None,
        suggested_actions=[
            "Stacks can be searched since October 2023. Read quilt://buckets/{bucket}/packages?filter= instead.",
            *QueryNotUnderstood.default_actions,
        ],
    )


def _check(result: _Result) -> None:
    """Check that the stack could search.

    Raises:
        InvalidTemplateVariable: it does not accept the input.
        Unavailable: its search failed.
    """
    kind = result.get("__typename", "")
    if kind == "InvalidInput":
        problems = [f"{one['name']}: {one['message']}"[:MAX_PROBLEM] for one in result.get("errors", [])[:3]]
        raise InvalidTemplateVariable(
            "The stack's search does not accept this text, or one of the buckets.",
            details="; ".join(one if one.isprintable() else ascii(one) for one in problems) or None,
            suggested_actions=[
                "Put the text between quotation marks (%22) to search it without the syntax of the search.",
                "Read quilt://buckets for the buckets of the stack that you can see.",
            ],
        )
    if kind == "OperationError":
        raise Unavailable(
            "The stack's search failed, or it took too long.",
            details=kind,
            suggested_actions=["Repeat the call in a minute.", "Search fewer buckets, or a longer text."],
        )


def _read_cursor(cursor: str, tag: str, limit: str | None) -> tuple[int, int, str]:
    """Return the size of a page, the total, and the stack's own cursor."""
    size, total, after = cursors.decode(cursor, tag).split("|", 2)
    return int(size) if limit is None else parse_limit(limit), int(total), after


def _write_cursor(size: int, total: int, after: str | None, tag: str) -> str | None:
    cursor = cursors.encode(f"{size}|{total}|{after}", tag) if after else None
    return cursor if cursor and len(cursor) <= cursors.MAX_LENGTH else None


def _describe_package(hit: _Hit, catalog_url: str | None) -> FoundPackage:
    entries, comment = hit.get("matchingEntries"), hit.get("comment")
    return {
        "bucket": hit["bucket"],
        "name": hit["name"],
        "hash": hit["hash"],
        "modified": iso(hit["modified"]),
        "size": int(hit["size"]),
        "entries": hit.get("totalEntriesCount"),
        "message": None if comment is None else comment[:MAX_COMMENT],
        "matched": _name_matches(hit["matchLocations"]) if "matchLocations" in hit else None,
        "matching_entries": None if entries is None else [_describe_entry(one) for one in entries[:MAX_ENTRIES]],
        "matching_entry_count": None if entries is None else len(entries),
        "catalog_url": link(catalog_url, hit["bucket"], hit["name"], hit["hash"]),
        "uri": f"{make_uri(hit['bucket'], hit['name'])}?revision={hit['hash']}",
    }


def _describe_entry(entry: _Entry) -> FoundEntry:
    return {
        "path": entry["logicalKey"],
        "physical_key": entry["physicalKey"],
        "size": int(entry["size"]),
        "matched": _name_matches(entry["matchLocations"]),
    }


def _describe_object(hit: _Hit) -> FoundObject:
    return {
        "bucket": hit["bucket"],
        "key": hit["key"],
        "version": hit["version"],
        "modified": iso(hit["modified"]),
        "size": int(hit["size"]),
        "is_deleted": hit["deleted"],
    }


def _name_matches(found: _Match) -> list[str]:
    return [MATCHES.get(name, name) for name, is_match in found.items() if is_match]

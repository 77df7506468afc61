"""quilt://search: packages or objects, as the stack's search finds them."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, NotRequired

from pydantic import BeforeValidator
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import parse_limit
from quilt_mcp.core.cuts import fit
from quilt_mcp.core.errors import InvalidTemplateVariable, Unavailable
from quilt_mcp.services.objects import make_object_uri
from quilt_mcp.services.package_uris import link, make_contents_uri, make_uri
from quilt_mcp.services.packages import check_choice
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.catalog_failures import make_unexpected
from quilt_mcp.services.stack.failures import QueryNotUnderstood
from quilt_mcp.services.stack.graphql import Size, Time, keep_readable

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

OPERATIONS = {
    "packages": ("searchPackages", "searchPackagesUntil2025"),
    "objects": ("searchObjects", "searchObjectsUntil2025"),
}
MORE = {
    "packages": ("searchMorePackages", "searchMorePackagesUntil2025"),
    "objects": ("searchMoreObjects",),
}
"""The operations for each kind, the newest first."""
KINDS = tuple(OPERATIONS)
FOUND = re.compile("(Packages|Objects|Empty)SearchResultSet(Page)?")
"""The kinds of results with what was found."""
SYNTAX = re.compile(
    r"[~^][0-9.]*"  # a boost, or how different a word may be
    r"|(?<![^\s()])(?:AND|OR|NOT)(?![^\s()])"
    r"|(?<=\* )TO(?= \*)"
    r"|[\s.*?+\-=&|<>!(){}\[\]\":\\/]"
)
"""The parts of a query that search for nothing: wildcards, operators, and other characters with a meaning."""
ADVICE = (
    "Read quilt://search to learn how to write a query, with examples.",
    "To list the packages of a bucket, read quilt://buckets/{bucket}/packages.",
    "To list the objects of a bucket, read quilt://buckets/{bucket}/objects.",
    "To see what is in a bucket, read quilt://buckets/{bucket}.",
)
MAX_ENTRIES = 10
MAX_COMMENT = 1000
MAX_PROBLEM = 200


def _name_matches(found: object) -> object:
    return [name.replace("_", " ") for name, matches in found.items() if matches] if isinstance(found, dict) else found


Matches = Annotated[list[str], BeforeValidator(_name_matches)]


class _Entry(TypedDict):
    path: str
    physical_key: str
    size: Size
    matched: Matches


class FoundEntry(TypedDict):
    """A file in a package that was found.

    Attributes:
        path: its path in the package.
        physical_key: where it is.
        size: in bytes.
        matched: where the text was found: path, physical key, metadata, contents.
        uri: the URI that shows what is in it.
    """

    path: str
    physical_key: str
    size: int
    matched: list[str]
    uri: str


class FoundRevision(TypedDict):
    """A revision of a package that was found.

    Attributes:
        bucket: its bucket.
        name: its name.
        hash: the top hash of the revision.
        modified_at: ISO 8601 in UTC.
        size: in bytes.
        message: its message, cut at 1,000 characters; null if there is none.
    """

    bucket: str
    name: str
    hash: str
    modified_at: Time
    size: Size
    message: str | None


class _Package(FoundRevision):
    """A package in the data of the stack. Stacks from before July 2025 send only a part."""

    entries: NotRequired[int]
    matched: NotRequired[Matches]
    matching_entries: NotRequired[list[_Entry]]


class FoundPackage(FoundRevision):
    """A package that was found.

    Attributes:
        entries: the number of its files; null on stacks from before July 2025.
        matched: where the text was found: name, comment, metadata, workflow; null on stacks from before July 2025.
        matching_entries: the files in which it was found, at most 10; null as above.
        matching_entry_count: the number of files that the stack names; null as above.
        catalog_url: its page in the catalog; null if no catalog is configured.
        uri: the URI of the package.
    """

    entries: int | None
    matched: list[str] | None
    matching_entries: list[FoundEntry] | None
    matching_entry_count: int | None
    catalog_url: str | None
    uri: str


class StoredObject(TypedDict):
    """An object in the data of the stack, which does not say where the text was.

    Attributes:
        bucket: its bucket.
        key: its key.
        version: its version in S3.
        modified_at: ISO 8601 in UTC.
        size: in bytes.
        is_deleted: whether this version is a deletion.
    """

    bucket: str
    key: str
    version: str
    modified_at: Time
    size: Size
    is_deleted: bool


class FoundObject(StoredObject):
    """An object that was found."""

    uri: str | None
    """The URI that shows what is in it; null for a deletion."""


class _Problem(TypedDict):
    """Why the stack does not accept the input."""

    message: str
    name: str


class _Stats(TypedDict):
    total: int


class _Page(TypedDict, total=False):
    kind: str
    cursor: str | None
    packages: list[object]
    objects: list[object]
    errors: list[_Problem]


class _Result(_Page, total=False):
    """The first page, or another one: then it has the fields of a page itself."""

    total: int
    stats: _Stats
    firstPage: _Page


class SearchAnswer(TypedDict):
    """A page of what was found.

    Attributes:
        kind: "packages" or "objects".
        packages: the packages of this page, the best match first; null if objects were asked for.
        objects: the objects of this page, the best match first; null if packages were asked for.
        count: the total of all pages, as the stack counts it; null if it hides what S3 does not show to you (secure
            search), because it then counts nothing, and a page can be empty before the last one.
        has_more: whether there are more pages; with secure search, they can be empty.
        next_cursor: the `cursor` of the next page; null on the last page, or if the stack's own is too long for a URI.
        unreadable_count: the number of rows of this page of the stack that have a form that this server does not know;
            absent if there are none.
    """

    kind: Literal["packages", "objects"]
    packages: list[FoundPackage] | None
    objects: list[FoundObject] | None
    count: int | None
    has_more: bool
    next_cursor: str | None
    unreadable_count: NotRequired[int]


def stack_search(
    query: str,
    buckets: str | None = None,
    kind: str | None = None,
    cursor: str | None = None,
    limit: str | None = None,
) -> SearchAnswer:
    """Packages or objects with a text.

    There are 50 per page. `kind` is packages, the default, or objects. `buckets` are names with commas between them; by
    default, all buckets that you can see. The text can use the syntax of the catalog's search, which quilt://search
    explains; one that would match everything, such as `*`, is refused. Of packages, the newest
    revisions are searched, and the answer says where the text was found; stacks from before July 2025 also find older
    revisions, and do not say where. Sends one GraphQL request, on older stacks two.
    """
    _check_query(query)
    chosen = check_choice("kind", kind, KINDS, "Omit `kind` to search packages.")
    names = sorted({name.strip() for name in (buckets or "").split(",") if name.strip()}) or None
    caller = current_caller()
    tag = cursors.compute_tag("search", caller.login.stack.registry_url, query, names, chosen)
    start = _read_cursor(cursor, tag, limit)
    if not start.after:
        result = _ask(caller, OPERATIONS[chosen], buckets=names, text=query, size=start.size)
        total = result["stats"]["total"] if "stats" in result else result.get("total", 0)  # an empty result has none
        page: _Page = result.get("firstPage") or {}
        if page:
            _check(page)
    else:
        total = start.total
        page = _ask(caller, MORE[chosen], after=start.after, size=start.size)
    hits = keep_readable(_Package, page.get("packages", []))
    stored = keep_readable(StoredObject, page.get("objects", []))
    packages, objects = hits.readable[start.skipped :], stored.readable[start.skipped :]
    is_secure, catalog = total < 0, caller.login.stack.catalog_url
    shown_packages = fit([_describe_package(one, catalog) for one in packages])
    shown_objects = fit([_link_object(one) for one in objects])
    shown = len(shown_packages) + len(shown_objects)
    is_cut = shown < len(packages) + len(objects)
    more = page.get("cursor") if packages or objects or is_secure else None
    following = start._replace(total=total, skipped=start.skipped + shown) if is_cut else None
    if following is None and more:
        following = _Start(start.size, total, 0, more)
    next_cursor = _write_cursor(following, tag) if following else None
    answer: SearchAnswer = {
        "kind": "packages" if chosen == "packages" else "objects",
        "packages": shown_packages if chosen == "packages" else None,
        "objects": shown_objects if chosen == "objects" else None,
        "count": None if is_secure else total,
        "has_more": following is not None,
        "next_cursor": next_cursor,
    }
    if unreadable := hits.unreadable_count + stored.unreadable_count:
        answer["unreadable_count"] = unreadable
    return answer


def _check_query(query: str) -> None:
    """Check that a query contains something to search for.

    Without it, the search matches everything, as with `*`, `**` and `*:*`, or nothing, as with a dot. A wildcard with
    something beside it, or in a field, is a condition: `*.csv`, `ext:*`.

    Raises:
        InvalidTemplateVariable: it has only wildcards, operators, spaces, and characters with a meaning in the syntax.
    """
    if not SYNTAX.sub("", query):
        raise InvalidTemplateVariable(
            f"The query {query!a} has nothing to search for.",
            details="It has only wildcards, operators and punctuation, which match everything or nothing.",
            suggested_actions=ADVICE,
        )


def _ask(caller: "Caller", operations: Iterable[str], **variables: object) -> _Result:
    """Send the newest of these operations that the stack understands, and return what it found."""
    refusal: QueryNotUnderstood | None = None
    for operation in operations:
        try:
            result = caller.send_query(operation, _Result, "found", **variables)
        except QueryNotUnderstood as failure:
            refusal = failure
        else:
            _check(result)
            return result
    raise QueryNotUnderstood(
        "The Quilt stack does not know this query for search.",
        details=refusal.details if refusal else None,
        suggested_actions=[
            "Stacks can be searched since October 2023. Read quilt://buckets/{bucket}/packages?filter= instead.",
            *QueryNotUnderstood.default_actions,
        ],
    ) from refusal


def _check(result: _Page) -> None:
    """Check that the stack could search.

    Raises:
        InvalidTemplateVariable: it does not accept the input.
        Unavailable: its search failed.
        ResourceExecutionError: it found something of an unknown kind.
    """
    kind = result.get("kind", "")
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
    if not FOUND.fullmatch(kind):
        raise make_unexpected(ascii(kind)[:MAX_PROBLEM])


class _Start(NamedTuple):
    """Where a page starts.

    Attributes:
        size: the number of rows of the stack's pages.
        total: the number of all rows; -1 if the stack does not count.
        skipped: how many rows of the stack's page an earlier page had.
        after: the stack's cursor of its page; empty for its first page.
    """

    size: int
    total: int
    skipped: int
    after: str


def _read_cursor(cursor: str | None, tag: str, limit: str | None) -> _Start:
    if cursor is None:
        return _Start(parse_limit(limit), 0, 0, "")
    form = r"[0-9]+\|-?[0-9]{1,15}\|[0-9]{1,3}\|[\s\S]*"
    size, total, skipped, after = cursors.decode(cursor, tag, form).split("|", 3)
    # The rest of a page is only there with the size of that page.
    is_new = limit is not None and skipped == "0"
    return _Start(parse_limit(limit if is_new else size), int(total), int(skipped), after)


def _write_cursor(start: _Start, tag: str) -> str | None:
    """Return a cursor; None if that of the stack is too long for a URI."""
    cursor = cursors.encode("|".join(map(str, start)), tag)
    return cursor if len(cursor) <= cursors.MAX_LENGTH else None


def _link_entry(found: _Package, entry: _Entry) -> FoundEntry:
    uri = make_contents_uri(found["bucket"], found["name"], found["hash"], entry["path"], "file")
    return {**entry, "uri": uri}


def _link_object(found: StoredObject) -> FoundObject:
    uri = None if found["is_deleted"] else make_object_uri(found["bucket"], found["key"], found["version"])
    return {**found, "uri": uri}


def _describe_package(found: _Package, catalog_url: str | None) -> FoundPackage:
    entries, message = found.get("matching_entries"), found["message"]
    return {
        **found,
        "entries": found.get("entries"),
        "message": None if message is None else message[:MAX_COMMENT],
        "matched": found.get("matched"),
        "matching_entries": None if entries is None else [_link_entry(found, one) for one in entries[:MAX_ENTRIES]],
        "matching_entry_count": None if entries is None else len(entries),
        "catalog_url": link(catalog_url, found["bucket"], found["name"], found["hash"]),
        "uri": f"{make_uri(found['bucket'], found['name'])}?revision={found['hash']}",
    }

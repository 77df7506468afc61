"""quilt://buckets: the buckets of the stack."""

from typing import TYPE_CHECKING, Literal, NotRequired
from urllib.parse import quote

from typing_extensions import TypedDict

from quilt_mcp.core.cuts import cut_text, fit
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.pages import Paged, cut_page
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import QueryRefused
from quilt_mcp.services.stack.graphql import Named, Rows

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

BucketSource = Literal["buckets", "bucketConfigs"]
BucketScope = Literal["role", "stack"]
MAX_TITLE, MAX_DESCRIPTION = 200, 1000


class TitledBucket(TypedDict):
    """One bucket.

    Attributes:
        name: the name in S3.
        title: its title in the catalog.
        description: its description; null if it is not set.
        tags: its tags; null if they are not set.
        relevance: how far up the catalog shows it: higher is further up, and the catalog hides negative ones.
    """

    name: str
    title: str
    description: str | None
    tags: list[str] | None
    relevance: int


class ShortBucket(TitledBucket):
    """One bucket, with at most 200 characters of its title, and about 1,000 of its description and of its tags."""

    truncated: NotRequired[list[str]]
    """The names of those of the three that are longer in the catalog; absent if none is."""


class BucketRow(ShortBucket):
    """One bucket, with its address."""

    catalog_url: str | None
    """Its page in the catalog; null if no catalog is configured."""
    uri: str
    """The URI of the bucket."""


class BucketsAnswer(Paged):
    """A page of the buckets of the stack.

    Attributes:
        buckets: the buckets of this page, sorted by name.
        scope: "role" for the buckets that the stack shows to your role (to a role that Quilt does not manage, it shows
            all), "stack" for all buckets, as older stacks show them to administrators; null if it is unknown which.
        source: the field of the stack's API that listed them: bucketConfigs on stacks from before April 2026.
        unreadable_count: the number of buckets that the stack could not read, or sent in a form that this server does
            not know; absent if there are none. They are neither listed nor counted.
    """

    buckets: list[BucketRow]
    scope: BucketScope | None
    source: BucketSource
    unreadable_count: NotRequired[int]


def stack_buckets_list(cursor: str | None = None, limit: str | None = None) -> BucketsAnswer:
    """The stack's buckets, with descriptions.

    They also have tags, a link to the catalog and the URI of the bucket, and are sorted by name. `scope` says whether
    these are the buckets of your role, or all buckets of the stack. A bucket in this list is not necessarily readable:
    permissions://discover tests that. Sends one GraphQL request, and up to three on older stacks.
    """
    caller = current_caller()
    found, scope, source = _read_buckets(caller)
    rows, unreadable = found.readable, found.unreadable_count
    stack = caller.login.stack
    page = cut_page(
        rows,
        lambda bucket: bucket["name"],
        build=lambda bucket: _bucket_row(bucket, stack.catalog_url),
        cursor=cursor,
        limit=limit,
        scope=("buckets", stack.registry_url),
    )
    answer: BucketsAnswer = {
        "buckets": page.rows,
        "count": page.total,
        "next_cursor": page.next_cursor,
        "scope": scope,
        "source": source,
    }
    if unreadable:
        answer["unreadable_count"] = unreadable
    return answer


def _read_buckets(caller: "Caller") -> tuple[Rows[TitledBucket], BucketScope | None, BucketSource]:
    try:
        return caller.send_list_query("bucketTitles", TitledBucket, "buckets"), "role", "buckets"
    except QueryRefused as refusal:
        try:  # older stacks know only this one
            configs = caller.send_list_query("bucketConfigTitles", TitledBucket, "bucketConfigs")
        except ResourceFailure as failure:
            raise refusal from failure
    return configs, _find_scope(caller), "bucketConfigs"


def _find_scope(caller: "Caller") -> BucketScope | None:
    """Return what `bucketConfigs` lists for the caller. It ignores the role for administrators only."""
    try:
        is_admin = caller.fetch_standing().is_admin
    except ResourceFailure:
        return None
    return None if is_admin is None else "stack" if is_admin else "role"


def _bucket_row(bucket: TitledBucket, catalog_url: str | None) -> BucketRow:
    name = bucket["name"]
    return {
        **shorten(bucket),
        "catalog_url": link_bucket(catalog_url, name),
        "uri": f"quilt://buckets/{quote(name, safe='')}",
    }


def shorten(bucket: TitledBucket) -> ShortBucket:
    title, _ = cut_text(bucket["title"], MAX_TITLE)
    description = None if bucket["description"] is None else cut_text(bucket["description"], MAX_DESCRIPTION)[0]
    tags = None if bucket["tags"] is None else fit(bucket["tags"], MAX_DESCRIPTION)
    tags = None if tags is None else [cut_text(tag, MAX_TITLE)[0] for tag in tags]
    cut: ShortBucket = {
        "name": bucket["name"],
        "title": title,
        "description": description,
        "tags": tags,
        "relevance": bucket["relevance"],
    }
    if names := [name for name, value in cut.items() if value != bucket[name]]:  # type: ignore[literal-required]  # names of cut
        cut["truncated"] = names
    return cut


def link_bucket(catalog_url: str | None, name: str) -> str | None:
    return f"{catalog_url}/b/{quote(name, safe='')}" if catalog_url else None


def fetch_bucket_names(caller: "Caller") -> tuple[str, ...]:
    found = caller.send_query("stackBucketNames", list[Named], "bucketConfigs")
    return tuple(sorted(bucket["name"] for bucket in found))

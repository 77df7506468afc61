"""quilt://buckets: the buckets of the stack, as the catalog describes them."""

from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import quote

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.paging import cut_page
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.errors import QueryRefused

if TYPE_CHECKING:
    from quilt_mcp.services.stack.caller import Caller

# `buckets` exists since April 2026. It lists the buckets of the caller's role, for administrators too.
BUCKETS = "query stackBuckets { buckets { name title description tags relevanceScore } }"
CONFIGS = "query stackBucketConfigs { bucketConfigs { name title description tags relevanceScore } }"

Source = Literal["buckets", "bucketConfigs"]
Scope = Literal["role", "stack"]


class Bucket(TypedDict):
    """A bucket in the data of both queries."""

    name: str
    title: str
    description: str | None
    tags: list[str] | None
    relevanceScore: int


class BucketsData(TypedDict):
    """The data of the query for current stacks."""

    buckets: list[Bucket]


class ConfigsData(TypedDict):
    """The data of the query for older stacks."""

    bucketConfigs: list[Bucket]


class BucketRow(TypedDict):
    """One bucket.

    Attributes:
        name: the name in S3.
        title: its title in the catalog.
        description: its description; null if it is not set.
        tags: its tags; null if they are not set.
        relevance: how far up the catalog shows it: higher is further up, and the catalog hides negative ones.
        catalog_url: its page in the catalog; null if no catalog is configured.
    """

    name: str
    title: str
    description: str | None
    tags: list[str] | None
    relevance: int
    catalog_url: str | None


class BucketsAnswer(TypedDict):
    """A page of the buckets of the stack.

    Attributes:
        buckets: the buckets of this page, sorted by name.
        count: the total of all pages.
        next_cursor: the `cursor` of the next page; null on the last page.
        scope: "role" for the buckets that the stack shows to your role (to a role that Quilt does not manage, it shows
            all), "stack" for all buckets, as older stacks show them to administrators; null if it is unknown which.
        source: the field of the stack's API that listed them: bucketConfigs on stacks from before April 2026.
    """

    buckets: list[BucketRow]
    count: int
    next_cursor: str | None
    scope: Scope | None
    source: Source


class _Found(NamedTuple):
    """All buckets, and where they come from."""

    buckets: list[Bucket]
    scope: Scope | None
    source: Source


def stack_buckets_list(cursor: str | None = None, limit: str | None = None) -> BucketsAnswer:
    """The buckets of the stack, with title and description, 50 per page.

    They also have tags and a link to the catalog, and are sorted by name. `scope` says whether these are the buckets of
    your role, or all buckets of the stack. A bucket in this list is not necessarily readable: permissions://discover
    tests that. Sends one GraphQL request, and up to three on older stacks.
    """
    caller = current_caller()
    found = _read_buckets(caller)
    stack = caller.login.stack
    page = cut_page(
        found.buckets, lambda one: one["name"], cursor=cursor, limit=limit, scope=("buckets", stack.registry_url)
    )
    return {
        "buckets": [_bucket_row(one, stack.catalog_url) for one in page.rows],
        "count": page.total,
        "next_cursor": page.next_cursor,
        "scope": found.scope,
        "source": found.source,
    }


def _read_buckets(caller: "Caller") -> _Found:
    try:
        return _Found(caller.send_query("stackBuckets", BUCKETS, BucketsData)["buckets"], "role", "buckets")
    except QueryRefused as refusal:
        try:
            configs = caller.send_query("stackBucketConfigs", CONFIGS, ConfigsData)["bucketConfigs"]
        except ResourceFailure as failure:
            raise refusal from failure
    return _Found(configs, _find_scope(caller), "bucketConfigs")


def _find_scope(caller: "Caller") -> Scope | None:
    """Return what `bucketConfigs` lists for the caller. It ignores the role for administrators only."""
    try:
        is_admin = caller.fetch_standing().is_admin
    except ResourceFailure:
        return None
    return None if is_admin is None else "stack" if is_admin else "role"


def _bucket_row(bucket: Bucket, catalog_url: str | None) -> BucketRow:
    return {
        "name": bucket["name"],
        "title": bucket["title"],
        "description": bucket["description"],
        "tags": bucket["tags"],
        "relevance": bucket["relevanceScore"],
        "catalog_url": f"{catalog_url}/b/{quote(bucket['name'], safe='')}" if catalog_url else None,
    }

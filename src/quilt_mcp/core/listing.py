"""`resources/list` page by page: static resources, merged with rows that providers read from a data source.

Each provider owns the URIs that start with its prefix, which is one interval of all URIs in order. Within it, the order
is the provider's: that of a document, for instance. A page asks only the providers that own a part of it, each for no
more rows than the page still needs, starting after the last key of the previous page. So a page costs the same at any
depth, and inserts and deletes elsewhere neither repeat nor skip a row.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import anyio
from fastmcp import FastMCP
from fastmcp.resources import Resource as FastMCPResource
from fastmcp.server.context import Context
from fastmcp.server.dependencies import bind_request_context
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.server.middleware.middleware import mark_interior_dispatched
from mcp.server.context import ServerRequestContext
from mcp_types import ListResourcesResult, PaginatedRequestParams, Resource

from quilt_mcp.core import cursors
from quilt_mcp.core.errors import InvalidTemplateVariable, ResourceFailure, Unavailable
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.surfaces import ResourceRefused
from quilt_mcp.core.tracing import Read

logger = logging.getLogger(__name__)

_UNAVAILABLE = "The list is not available."


class ListedRow(NamedTuple):
    """A row of a provider.

    Attributes:
        key: from which the provider finds the rows that follow. Not empty.
        resource: what is listed.
    """

    key: str
    resource: Resource


class ListingProvider(Protocol):
    """Lists the resources of one interval of URIs, in an order of its own."""

    @property
    def name(self) -> str:
        """The name in logs, metrics and `_meta`."""

    @property
    def prefix(self) -> str:
        """The prefix of all its URIs, and of no other provider's."""

    async def page(self, after: str, limit: int, scope: Any) -> list[ListedRow]:
        """Return at most `limit` rows that follow the one with the key `after`; the first rows if it is empty.

        Raises:
            InvalidTemplateVariable: no row has such a key: the cursor is forged.
        """


async def _need_nothing() -> None:
    """Prepare a source that is ready at once."""


@dataclass(frozen=True)
class ListSource:
    """Providers that share a scope.

    Attributes:
        scope: returns what the caller of the request may see, as a hashable value for the providers.
        providers: with disjoint intervals.
        static: returns resources that need no data source.
        describe_rest: returns sentences for the descriptions of static resources, by URI: what this list leaves out of
            a collection.
        prepare: opens what the first page needs, such as a database. Its time does not count for a page.
    """

    scope: Callable[[], Awaitable[Hashable]]
    providers: Sequence[ListingProvider]
    static: Callable[[], Sequence[Resource]] = list
    describe_rest: Callable[[], Mapping[str, str]] = dict
    prepare: Callable[[], Awaitable[None]] = _need_nothing


@dataclass(frozen=True)
class ListingPage:
    """One page of the list.

    Attributes:
        resources: what needs no source, in the order of the URIs; where the URIs of a provider stand, its rows.
        next_cursor: the cursor of the next page; None at the end.
        failed: the names of the providers that are left out.
        advice: how to get what is left out; None if nothing is.
    """

    resources: list[Resource]
    next_cursor: str | None
    failed: list[str]
    advice: str | None = None


class _Place(NamedTuple):
    """The place of a row in the list.

    Attributes:
        uri: of what needs no source; of a provider's row, the prefix.
        key: of a provider's row; empty for others, which come first at the same place.
    """

    uri: str
    key: str


class Listing:
    """The pages of a server's list.

    Args:
        sources: where rows come from.
        page_size: resources per page.
        seconds: time budget of a page.
        find_failure: returns our failure for a foreign exception, or None for a bug, which is raised.

    Raises:
        ValueError: two providers own the same URIs.
    """

    def __init__(
        self,
        sources: Sequence[ListSource],
        *,
        page_size: int,
        seconds: float,
        find_failure: Callable[[Exception], ResourceFailure | None],
    ) -> None:
        self._sources = sources
        owned = [(provider, at) for at, source in enumerate(sources) for provider in source.providers]
        self._providers = sorted(owned, key=lambda pair: pair[0].prefix)
        for (one, _), (following, _) in zip(self._providers, self._providers[1:], strict=False):
            if _end(one.prefix) > following.prefix:
                raise ValueError(f"{one.name} and {following.name} own the same URIs")
        self._page_size = page_size
        self._seconds = seconds
        self._find_failure = find_failure

    async def page(self, cursor: str | None, static: Sequence[Resource], read: Read) -> ListingPage:
        """Return the page at a cursor, or the first page.

        If a source does not say in time what the caller may see, the first page has what needs no source.

        Raises:
            InvalidTemplateVariable: the cursor belongs to another list or caller.
            Unavailable: all providers of this page failed.
        """
        for source in self._sources:
            await source.prepare()
        until = anyio.current_time() + self._seconds
        size, ordered = self._page_size, self._order_static(static)
        try:
            with anyio.fail_after(self._seconds):
                scopes = [await source.scope() for source in self._sources]
        except TimeoutError as error:
            if cursor or len(ordered) > size:
                raise Unavailable(_UNAVAILABLE, details="The data source did not respond in time.") from error
            read.failed += [provider.name for provider, _ in self._providers]
            return ListingPage(ordered, None, read.failed, self._advise(read))
        tag = cursors.compute_tag("resources/list", scopes)
        after = _Place(*cursors.decode_values(cursor, tag, [str, str])) if cursor else _Place("", "")
        rows = await self._rows(after, size + 1, scopes, read, until)
        following = [(_Place(_uri(one), ""), one) for one in ordered if _uri(one) > after.uri]
        found = sorted(
            [*following[: size + 1], *rows], key=lambda row: row[0].uri
        )  # the rows of a provider stay in order
        next_cursor = cursors.encode_values(found[size - 1][0], tag) if len(found) > size else None
        return ListingPage([one for _, one in found[:size]], next_cursor, read.failed, self._advise(read))

    def _order_static(self, static: Sequence[Resource]) -> list[Resource]:
        """Return what needs no source, in the order of the URIs."""
        notes = {uri: note for source in self._sources for uri, note in source.describe_rest().items()}
        own = [one for source in self._sources for one in source.static()]
        return sorted([_add_note(one, notes.get(_uri(one))) for one in (*static, *own)], key=_uri)

    def _advise(self, read: Read) -> str | None:
        lost = ", ".join(provider.prefix for provider, _ in self._providers if provider.name in read.failed)
        return f"Resources that start with {lost} are missing. Request this page again later." if lost else None

    async def _rows(
        self, after: "_Place", wanted: int, scopes: Sequence[Hashable], read: Read, until: float
    ) -> list[tuple["_Place", Resource]]:
        """Return the next rows; fewer than wanted at the end of all intervals, or if a provider failed.

        One provider is asked after the other, for no more rows than are missing. One that takes half of the time does
        not delay the others: then they are asked at the same time.
        """
        asked = [
            Asked(one, scopes[at], after.key if one.prefix == after.uri else "")
            for one, at in self._providers
            if after.uri <= one.prefix
        ]
        async with anyio.create_task_group() as group:
            for one in asked:
                missing = wanted - sum(len(other.rows) for other in asked)
                if missing <= 0:
                    break
                group.start_soon(self._ask, one, missing, read, until)
                with anyio.move_on_at(until - self._seconds / 2):
                    await one.done.wait()
        failures: list[ResourceFailure] = []
        for one in asked:
            if isinstance(one.failure, ResourceFailure) and not isinstance(one.failure, InvalidTemplateVariable):
                name, kind = one.provider.name, type(one.failure).__name__
                logger.warning("%s is left out: %s, correlation_id=%s", name, kind, read.correlation_id)
                read.failed.append(name)
                failures.append(one.failure)
            elif one.failure:  # a bug, or a forged cursor
                raise one.failure
        if failures and len(failures) == len(asked):
            details, actions = f"No response from {', '.join(read.failed)}", failures[0].suggested_actions
            transient = any(failure.transient for failure in failures)
            raise Unavailable(_UNAVAILABLE, details=details, suggested_actions=actions, transient=transient)
        return [(_Place(one.provider.prefix, key), row) for one in asked for key, row in one.rows][:wanted]

    async def _ask(self, asked: "Asked", limit: int, read: Read, until: float) -> None:
        """Ask a provider for rows, and note what it returns or how it fails."""
        started = time.perf_counter()
        try:
            with anyio.fail_after(until - anyio.current_time()):
                asked.rows = await asked.provider.page(asked.after, limit, asked.scope)
        except TimeoutError:
            asked.failure = Unavailable(_UNAVAILABLE)
        except Exception as error:  # noqa: BLE001 - one of ours, a foreign one, or a bug, which `_rows` raises
            asked.failure = error if isinstance(error, ResourceFailure) else self._find_failure(error) or error
        finally:
            read.providers[asked.provider.name] = time.perf_counter() - started
            asked.done.set()


@dataclass
class Asked:
    """A provider that is asked for a page, and its result."""

    provider: ListingProvider
    scope: Hashable
    after: str
    rows: list[ListedRow] = field(default_factory=list)
    failure: Exception | None = None
    done: anyio.Event = field(default_factory=anyio.Event)


def _describe(uri: str, resource: FastMCPResource) -> Resource:
    """Return the row of a resource, without a title that repeats the name, and tags that repeat the category."""
    title = None if resource.title == resource.name else resource.title
    category = (resource.meta or {}).get("category")
    meta = resource.meta if resource.tags == {category} else resource.get_meta()
    return resource.to_mcp_resource(uri=uri, title=title, _meta=meta)


def _add_note(resource: Resource, note: str | None) -> Resource:
    if note is None:
        return resource
    return resource.model_copy(update={"description": " ".join(filter(None, (resource.description, note)))})


def _uri(resource: Resource) -> str:
    return str(resource.uri)


def _end(prefix: str) -> str:
    """Return the smallest text that is greater than every text with this prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


class PagedFastMCP(FastMCP):
    """A server with a `resources/list` that comes from a listing, guarded by a manager like every read.

    FastMCP collects the resources of all providers for each page, and its providers cannot see the cursor. Only the
    handler of `resources/list` can page by key. It must be the root server's, because a mounted server is asked for its
    whole list. The methods with an underscore are FastMCP's: tests/core/test_listing.py fails if they change.

    Args:
        name: of the server; `_meta` of an incomplete page has the keys `io.github.<name>/partial`, `…-advice`.
        listing: makes the pages.
        manager: guards them.
        ttl_seconds: how long clients may cache a page.
        options: as for FastMCP.
    """

    def __init__(
        self, name: str, *, listing: Listing, manager: ResourceManager, ttl_seconds: float = 0, **options: Any
    ) -> None:
        super().__init__(name, **options)
        self.manager = manager
        self._listing = listing
        self._ttl_ms = round(ttl_seconds * 1000)

    async def _on_list_resources(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Answer `resources/list`. The middleware hooks for messages and requests run once, around the page.

        The hooks for lists do not run: they have no cursor, so a cache in one would answer every page with the first.
        """
        with bind_request_context(ctx):
            async with Context(fastmcp=self) as context:
                message = MiddlewareContext(
                    message=params, source="client", type="request", method="resources/list", fastmcp_context=context
                )
                mark_interior_dispatched()  # then FastMCP does not run the hooks again
                page: ListingPage = await self._run_middleware(message, self._page, phase="outer")
        partial = f"io.github.{self.name}/partial"
        meta = {partial: page.failed, f"{partial}-advice": page.advice} if page.failed else None
        return ListResourcesResult(
            resources=page.resources,
            next_cursor=page.next_cursor,
            ttl_ms=0 if page.failed else self._ttl_ms,
            cache_scope="private",
            _meta=meta,
        )

    async def _page(self, context: MiddlewareContext[PaginatedRequestParams | None]) -> ListingPage:
        cursor = context.message.cursor if context.message else None
        with self.manager.guard(surface="list") as guarded:
            async with guarded.admission:
                guarded.read.uri = "resources/list"
                page = await self._listing.page(cursor, await self._static(), guarded.read)
                guarded.read.rows = len(page.resources)
        if guarded.error:
            raise ResourceRefused(guarded.error)
        return page

    async def _static(self) -> list[Resource]:
        """Return the few resources that FastMCP lists from memory for this caller. A row says each thing once."""
        listed = {str(one.uri): one for one in await self.list_resources(run_middleware=False)}
        return [_describe(uri, one) for uri, one in listed.items()]

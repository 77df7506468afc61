"""FastMCP with a `resources/list` that reads one page instead of everything.

FastMCP collects the resources of all providers for each page, and its providers cannot see the cursor. Only the handler
of `resources/list` can page by key. It must be the root server's, because a mounted server is asked for its whole list.
The methods and functions with an underscore are FastMCP's own: tests/core/test_listing.py fails if they change.
"""

from typing import Any

from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.dependencies import bind_request_context
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.server.middleware.middleware import mark_interior_dispatched
from mcp.server.context import ServerRequestContext
from mcp_types import ListResourcesResult, PaginatedRequestParams, Resource

from quilt_mcp.core.listing import Listing, Page
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.surfaces import ResourceRefused


class PagedFastMCP(FastMCP):
    """A server with a `resources/list` that comes from a listing, guarded by a manager like every read.

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
                mark_interior_dispatched()
                page: Page = await self._run_middleware(message, self._page, phase="outer")
        partial = f"io.github.{self.name}/partial"
        meta = {partial: page.failed, f"{partial}-advice": page.advice} if page.failed else None
        return ListResourcesResult(
            resources=page.resources,
            next_cursor=page.next_cursor,
            ttl_ms=0 if page.failed else self._ttl_ms,
            cache_scope="private",
            _meta=meta,
        )

    async def _page(self, context: MiddlewareContext[PaginatedRequestParams | None]) -> Page:
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
        """Return the few resources that FastMCP lists from memory for this caller."""
        listed = {str(one.uri): one for one in await self.list_resources(run_middleware=False)}
        return [one.to_mcp_resource(uri=uri) for uri, one in listed.items()]

"""The server: FastMCP, with a `resources/list` that reads one page instead of everything.

FastMCP gathers all resources of all providers for each page, and its providers cannot see the cursor; only the handler
of `resources/list` can page by key. It must be that of the root server, because a mounted one is asked for its whole
list. The methods and the function with an underscore here are FastMCP's own and may change with it:
tests/unit/test_paged_server.py fails when they do.
"""

from typing import Any

from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.dependencies import bind_request_context
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.server.middleware.middleware import mark_interior_dispatched
from mcp.server.context import ServerRequestContext
from mcp_types import ListResourcesResult, PaginatedRequestParams, Resource

from quilt_mcp.listing import Listing, Page
from quilt_mcp.manager import ResourceManager
from quilt_mcp.models.responses import GetResourceError
from quilt_mcp.surfaces import ResourceRefused
from quilt_mcp.trace import Read

PARTIAL = "io.github.quilt-mcp/partial"
"""The key in `_meta` of a page that names the providers which are left out."""


class PagedFastMCP(FastMCP[Any]):
    """A server whose `resources/list` is a listing's, guarded by a manager as each read is."""

    def __init__(self, name: str, *, listing: Listing, manager: ResourceManager, **options: Any) -> None:
        super().__init__(name, **options)
        self._listing = listing
        self._manager = manager

    async def _on_list_resources(
        self, ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Answer `resources/list`: the middleware's hooks for any message and any request run once, around the page.

        Its hooks for lists do not: they know no cursor, and FastMCP's own response cache would answer the first page
        for each.
        """
        with bind_request_context(ctx):
            async with Context(fastmcp=self) as context:
                message = MiddlewareContext(
                    message=params, source="client", type="request", method="resources/list", fastmcp_context=context
                )
                mark_interior_dispatched()
                page: Page = await self._run_middleware(message, self._page, phase="outer")
        meta = {PARTIAL: page.failed} if page.failed else None
        return ListResourcesResult(resources=page.resources, next_cursor=page.next_cursor, _meta=meta)

    async def _page(self, context: MiddlewareContext[PaginatedRequestParams | None]) -> Page:
        cursor = context.message.cursor if context.message else None

        async def read_page(read: Read) -> Page:
            read.uri = "resources/list"
            page = await self._listing.page(cursor, await self._static(), read)
            read.rows = len(page.resources)
            return page

        page = await self._manager.guarded(read_page, surface="list")
        if isinstance(page, GetResourceError):
            raise ResourceRefused(page)
        return page

    async def _static(self) -> list[Resource]:
        """What FastMCP lists to this caller: few, and in memory."""
        listed = {str(one.uri): one for one in await self.list_resources(run_middleware=False)}
        return [one.to_mcp_resource(uri=uri) for uri, one in listed.items()]

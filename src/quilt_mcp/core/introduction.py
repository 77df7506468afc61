"""What a server says about itself at the start of a connection: only what it has.

FastMCP announces change notifications, logging and MCP Apps for every server. Clients that believe it wait for
notifications that never come, and set a log level that changes nothing.
"""

from collections.abc import Sequence
from typing import Any

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp_types import (
    SERVER_INFO_META_KEY,
    DiscoverRequest,
    DiscoverResult,
    Icon,
    Implementation,
    InitializeRequest,
    InitializeResult,
    ServerCapabilities,
)

APPS = "io.modelcontextprotocol/ui"
APPS_SESSION = "shows-mcp-apps-"
"""How the session ids begin of clients that declared MCP Apps when they connected over HTTP."""


class Introduction(Middleware):
    """Corrects the capabilities, and adds what a person sees: the title, the icons and the website.

    The answers of `initialize` and `server/discover` have them. In the newest protocol every answer names the server;
    those have only its name and version, because icons would be longer than many answers.

    Args:
        title: of the server, for a person.
        website_url: of the product.
        icons: of the server.
        has_apps: whether a tool has a page of MCP Apps.
    """

    def __init__(self, *, title: str, website_url: str, icons: Sequence[Icon], has_apps: bool = False) -> None:
        self._title, self._website_url, self._icons, self._has_apps = title, website_url, list(icons), has_apps

    async def on_initialize(
        self,
        context: MiddlewareContext[InitializeRequest],
        call_next: CallNext[InitializeRequest, InitializeResult | None],
    ) -> InitializeResult | None:
        result = await call_next(context)
        if result is None:
            return None
        capabilities = await self._correct(result.capabilities, context)
        described = self._describe(result.server_info)
        return result.model_copy(update={"capabilities": capabilities, "server_info": described})

    async def on_discover(
        self,
        context: MiddlewareContext[DiscoverRequest],
        call_next: CallNext[DiscoverRequest, DiscoverResult | dict[str, Any]],
    ) -> DiscoverResult | dict[str, Any]:
        result = await call_next(context)
        if isinstance(result, dict):  # of an extension
            return result
        meta = dict(result.meta or {})
        info = self._describe(Implementation.model_validate(meta[SERVER_INFO_META_KEY]))
        meta[SERVER_INFO_META_KEY] = info.model_dump(mode="json", by_alias=True, exclude_none=True)
        capabilities = await self._correct(result.capabilities, context)
        return result.model_copy(update={"capabilities": capabilities, "meta": meta})

    def _describe(self, info: Implementation) -> Implementation:
        shown = {"title": self._title, "website_url": self._website_url, "icons": self._icons}
        return info.model_copy(update=shown)

    async def _correct(self, announced: ServerCapabilities, context: MiddlewareContext[Any]) -> ServerCapabilities:
        silent = {"list_changed": False}
        server = context.fastmcp_context.fastmcp if context.fastmcp_context else None
        # not `server.list_prompts`, which imports a store of sessions: a fifth of the time to the first answer
        prompts = [await one.list_prompts() for one in server.providers] if server else []
        extensions = dict(announced.extensions or {})
        if not self._has_apps:
            extensions.pop(APPS, None)
        return announced.model_copy(
            update={
                "resources": announced.resources and announced.resources.model_copy(update=silent),
                "tools": announced.tools and announced.tools.model_copy(update=silent),
                "prompts": announced.prompts.model_copy(update=silent) if announced.prompts and any(prompts) else None,
                "logging": None,
                "extensions": extensions or None,
            }
        )

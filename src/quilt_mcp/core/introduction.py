"""What a server says about itself at the start of a connection: only what it has. It refuses the method of the rest.

FastMCP announces change notifications, logging and MCP Apps for every server. Clients that believe it wait for
notifications that never come, and set a log level that changes nothing.

Protocol 2025-03-26 requires servers to read batches. It is the only version with them, and the MCP library reads none.
A client that asks for it gets the version before, which such clients know too: the library's messages are the same.
"""

from collections.abc import Sequence
from typing import Any

from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    METHOD_NOT_FOUND,
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


BATCHED, _BEFORE = "2025-03-26", "2024-11-05"
_SET_LEVEL = "logging/setLevel"


class Introduction(Middleware):
    """Corrects the capabilities and the version, and adds what a person sees: the title, the icons and the website.

    The answers of `initialize` and `server/discover` have them. In the newest protocol every answer names the server;
    those have only its name and version, because icons would be longer than many answers.

    Args:
        title: of the server, for a person.
        website_url: of the product, if it has one.
        icons: of the server.
        has_apps: whether a tool has a page of MCP Apps.
    """

    def __init__(
        self, title: str, website_url: str | None = None, icons: Sequence[Icon] = (), *, has_apps: bool = False
    ) -> None:
        self._title, self._website_url, self._icons, self._has_apps = title, website_url, list(icons), has_apps

    async def on_initialize(
        self,
        context: MiddlewareContext[InitializeRequest],
        call_next: CallNext[InitializeRequest, InitializeResult | None],
    ) -> InitializeResult | None:
        result = await call_next(context)
        if result is None:
            return None
        version = _BEFORE if result.protocol_version == BATCHED else result.protocol_version
        capabilities = self._correct(result.capabilities)
        described = self._describe(result.server_info)
        corrected = {"protocol_version": version, "capabilities": capabilities, "server_info": described}
        return result.model_copy(update=corrected)

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, object]) -> object:
        if context.method == _SET_LEVEL:
            raise MCPError(code=METHOD_NOT_FOUND, message="This server sends no log messages to clients.")
        return await call_next(context)

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
        capabilities = self._correct(result.capabilities)
        return result.model_copy(update={"capabilities": capabilities, "meta": meta})

    def _describe(self, info: Implementation) -> Implementation:
        shown = {"title": self._title, "website_url": self._website_url, "icons": self._icons or None}
        return info.model_copy(update=shown)

    def _correct(self, announced: ServerCapabilities) -> ServerCapabilities:
        silent = {"list_changed": False}
        extensions = dict(announced.extensions or {})
        if not self._has_apps:
            extensions.pop(APPS, None)
        return announced.model_copy(
            update={
                "resources": announced.resources and announced.resources.model_copy(update=silent),
                "tools": announced.tools and announced.tools.model_copy(update=silent),
                "prompts": announced.prompts and announced.prompts.model_copy(update=silent),
                "logging": None,
                "extensions": extensions or None,
            }
        )

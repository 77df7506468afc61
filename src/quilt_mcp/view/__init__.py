"""The view of answers for a person: the tool `show_resource`, and the page that hosts of MCP Apps show for it.

The page is one file, page.html, with the addresses of the server written into it. Its address has a hash of its
content: hosts may keep it for as long as they like, and a new version is a new resource.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal

from fastmcp.server.dependencies import get_context, get_http_headers
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import TextContent, ToolAnnotations
from pydantic import ConfigDict, SkipValidation

from quilt_mcp.core.answers import Document, GetResourceError, GetResourceSuccess, JSONObject
from quilt_mcp.core.introduction import APPS, APPS_SESSION
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import ResourceDefinition
from quilt_mcp.core.surfaces import PARAMETERS, leave_out_uri, make_attachment_blocks

TOOL_NAME = "show_resource"
SESSION_ID = "mcp-session-id"
DESCRIPTION = """\
Show a resource to the person, as tables and badges in a view beside the chat. Use it when the person asks to see
something; it returns a short text. To read data yourself, use get_resource, which takes the same URIs.\
"""
Mode = Literal["auto", "on", "off"]
MIME_TYPE = "text/html;profile=mcp-app"
TTL_SECONDS = 86_400
META = {"ui": {"prefersBorder": True, "permissions": {"clipboardWrite": {}}}}
"""For the host. Without `csp`, the page can reach nothing but the host."""
PLACEHOLDER = "[/*addresses*/]"


@cache
def read_page() -> str:
    return files("quilt_mcp.view").joinpath("page.html").read_text("utf-8")


def make_page(definitions: Iterable[ResourceDefinition]) -> Document:
    """Return the page. It names what the server has about a thing, and says what an empty list would hold."""
    addresses = sorted([one["uri"], one["description"]] for one in definitions)
    text = read_page().replace(PLACEHOLDER, json.dumps(addresses).replace("<", "\\u003c"), 1)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Document(
        uri=f"ui://quilt-mcp/view/{digest}",
        resource_name="View",
        data={},
        text=text,
        mime_type=MIME_TYPE,
        meta=META,
        ttl_ms=TTL_SECONDS * 1000,
        cache_scope="public",
    )


class ShowResourceTool(Tool):
    """Reads a resource for the page. The model gets a short text, and the page the whole body.

    A client that does not declare MCP Apps may show nothing. Its model gets the whole body too, as from `get_resource`.
    """

    manager: SkipValidation[ResourceManager]

    model_config = ConfigDict(arbitrary_types_allowed=True)

    async def run(self, arguments: JSONObject) -> ToolResult:
        """Answer a call with any arguments, as `get_resource` does."""
        response = await self.manager.respond(arguments.get("uri"), surface="tool", others=leave_out_uri(arguments))
        text = response.body_json()
        if isinstance(response, GetResourceSuccess) and client_shows_pages():
            text = describe(response)
        return ToolResult(
            content=[TextContent(type="text", text=text), *make_attachment_blocks(response)],
            structured_content=response.body(),
            is_error=isinstance(response, GetResourceError),
        )


def describe(answer: GetResourceSuccess) -> str:
    """Say what the person sees, and how much of it. The text holds no data of the answer."""
    lists = {key: len(rows) for key, rows in answer.data.items() if isinstance(rows, list) and has_objects(rows)}
    key = max(lists, key=lambda name: lists[name], default=None)
    rows = f", with {lists[key]} {key.replace('_', ' ')}" if key and lists[key] else ""
    more = " and a next page" if rows and answer.data.get("next_cursor") else ""
    shown = f"{answer.resource_name} ({answer.uri})" if answer.uri else "the list of resources"
    return f"The person sees {shown}{rows}{more} in a view. Do not repeat it; call get_resource to read it yourself."


def has_objects(rows: list[object]) -> bool:
    """Return whether a list has rows, and not only texts."""
    return all(isinstance(row, dict) for row in rows)


class ViewProvider(Provider):
    """Offers the tool to clients that can show its page.

    Hosts show the page for each call of a tool that links to it. A model calls `get_resource` often, so that tool has
    no link.

    Args:
        manager: reads the resources.
        address: of the page.
        mode: `auto` for clients that declare MCP Apps, `on` for all clients, `off` for none.
    """

    def __init__(self, manager: ResourceManager, address: str, mode: Mode) -> None:
        super().__init__()
        self._mode = mode
        self._tool = ShowResourceTool(
            name=TOOL_NAME,
            title="Show resource",
            description=DESCRIPTION,
            parameters=PARAMETERS,
            annotations=ToolAnnotations(
                read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=True
            ),
            meta={"ui": {"resourceUri": address}},
            tags={"resources"},
            manager=manager,
        )

    async def _list_tools(self) -> Sequence[Tool]:
        is_offered = self._mode == "on" or (self._mode == "auto" and client_shows_pages())
        return [self._tool] if is_offered else []


def client_shows_pages() -> bool:
    """Return whether the client of the current request declares MCP Apps, now or when it connected over HTTP."""
    if get_http_headers(include={SESSION_ID}).get(SESSION_ID, "").startswith(APPS_SESSION):
        return True
    try:
        return get_context().client_supports_extension(APPS)
    except RuntimeError:
        return False

"""config://server and info://capabilities: what the server that answers says of itself.

Both ask the live server, within the request: nothing is typed by hand and nothing is kept, so that a caller sees what
that caller can use now.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import dedupe_with_versions
from typing_extensions import TypedDict

from quilt_mcp import runtime_context
from quilt_mcp.errors import ResourceExecutionError

_Component = TypeVar("_Component", bound=FastMCPComponent)


class ServerConfig(TypedDict):
    """The answer of config://server.

    Attributes:
        version: the server's.
        default_timeout_seconds: how long an analysis may take where the call does not say.
        mask_error_details: whether the text of unforeseen errors is kept from clients.
        transport: `oauth` if clients must sign in, else `stdio`, whatever the transport is.
    """

    version: str
    default_timeout_seconds: int
    mask_error_details: bool
    transport: Literal["oauth", "stdio"]


class Named(TypedDict):
    """A tool or prompt, with the first line of its description."""

    name: str
    description: str


class ResourceDescription(TypedDict):
    """A resource, with the first line of its description."""

    uri: str
    description: str


class TemplateDescription(TypedDict):
    """A resource template, with the first line of its description."""

    uri_template: str
    description: str


class Capabilities(TypedDict):
    """The answer of info://capabilities: each list sorted, each name once."""

    tools: list[Named]
    resources: list[ResourceDescription]
    templates: list[TemplateDescription]
    prompts: list[Named]


async def server_config() -> ServerConfig:
    """This server's version, default time limit, masking of errors; transport: oauth if clients sign in, else stdio.

    Raises:
        ResourceExecutionError: not called within a request to a server.
    """
    server = _server()
    return {
        "version": str(server.version),
        "default_timeout_seconds": runtime_context.settings().analysis_default_timeout_seconds,
        "mask_error_details": server._mask_error_details,  # noqa: SLF001 - FastMCP shows it nowhere else
        "transport": "stdio" if server.auth is None else "oauth",
    }


async def capabilities() -> Capabilities:
    """The tools, resources, resource templates and prompts that you can use here, each with one line about it.

    Rows of databases, which resources/list also names, are not among them: their templates are.

    Raises:
        ResourceExecutionError: not called within a request to a server.
    """
    server = _server()
    tools = _lines(await server.list_tools(), lambda one: one.name)
    resources = _lines(await server.list_resources(), lambda one: str(one.uri))
    templates = _lines(await server.list_resource_templates(), lambda one: one.uri_template)
    prompts = _lines(await server.list_prompts(), lambda one: one.name)
    return {
        "tools": [{"name": name, "description": line} for name, line in tools],
        "resources": [{"uri": uri, "description": line} for uri, line in resources],
        "templates": [{"uri_template": uri, "description": line} for uri, line in templates],
        "prompts": [{"name": name, "description": line} for name, line in prompts],
    }


def _server() -> FastMCP:
    try:
        return get_context().fastmcp
    except RuntimeError as error:
        raise ResourceExecutionError(
            "This resource tells of the server that answers, and no server is answering.",
            suggested_actions=["Read it through an MCP client, or with `quilt-mcp get`."],
        ) from error


def _lines(components: Sequence[_Component], name: Callable[[_Component], str]) -> list[tuple[str, str]]:
    """The name and first line of each, sorted; of several versions the highest, as in the protocol's lists."""
    highest = dedupe_with_versions(components, name)
    return sorted((name(one), (one.description or "").strip().partition("\n")[0].strip()) for one in highest)

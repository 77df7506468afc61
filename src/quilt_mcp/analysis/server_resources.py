"""config://server and info://capabilities: the configuration and the components of the running server.

Both ask the running server during the request. Nothing is listed by hand or cached, so each caller sees what that
caller can use now.
"""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.versions import dedupe_with_versions
from typing_extensions import TypedDict

from quilt_mcp.analysis.settings import AnalysisSettings
from quilt_mcp.app import current_app
from quilt_mcp.core.errors import ResourceExecutionError

_Component = TypeVar("_Component", bound=FastMCPComponent)


class ServerConfig(TypedDict):
    """The data of config://server.

    Attributes:
        version: the version of the server.
        default_timeout_seconds: the timeout of an analysis if the call does not set one.
        mask_error_details: whether clients do not see the text of unexpected errors.
        transport: `oauth` if clients must sign in, else `stdio`, also over HTTP.
    """

    version: str
    default_timeout_seconds: int
    mask_error_details: bool
    transport: Literal["oauth", "stdio"]


class Named(TypedDict):
    """A tool or prompt, with the first line of its description."""

    name: str
    """Its name."""
    description: str
    """The first line."""


class ResourceDescription(TypedDict):
    """A resource, with the first line of its description."""

    uri: str
    """Its URI."""
    description: str
    """The first line."""


class TemplateDescription(TypedDict):
    """A resource template, with the first line of its description."""

    uri_template: str
    """Its URI, with variables."""
    description: str
    """The first line."""


class Capabilities(TypedDict):
    """The data of info://capabilities. The lists are sorted and contain each name once."""

    tools: list[Named]
    """The tools that you can use."""
    resources: list[ResourceDescription]
    """The resources that you can read."""
    templates: list[TemplateDescription]
    """The resource templates that you can read."""
    prompts: list[Named]
    """The prompts that you can use."""


async def server_config() -> ServerConfig:
    """The server's version, default timeout and error masking; transport: oauth if clients must sign in, else stdio.

    Raises:
        ResourceExecutionError: there is no current request to a server.
    """
    server = _find_server()
    return {
        "version": str(server.version),
        "default_timeout_seconds": current_app().settings_as(AnalysisSettings).analysis_default_timeout_seconds,
        "mask_error_details": server._mask_error_details,  # noqa: SLF001 - FastMCP has no public name for it
        "transport": "stdio" if server.auth is None else "oauth",
    }


async def capabilities() -> Capabilities:
    """The tools, resources, resource templates and prompts that you can use, each with one line of description.

    It contains the templates of database rows, but not the rows themselves, which resources/list contains.

    Raises:
        ResourceExecutionError: there is no current request to a server.
    """
    server = _find_server()
    tools = _first_lines(await server.list_tools(), lambda one: one.name)
    resources = _first_lines(await server.list_resources(), lambda one: str(one.uri))
    templates = _first_lines(await server.list_resource_templates(), lambda one: one.uri_template)
    prompts = _first_lines(await server.list_prompts(), lambda one: one.name)
    return {
        "tools": [{"name": name, "description": line} for name, line in tools],
        "resources": [{"uri": uri, "description": line} for uri, line in resources],
        "templates": [{"uri_template": uri, "description": line} for uri, line in templates],
        "prompts": [{"name": name, "description": line} for name, line in prompts],
    }


def _find_server() -> FastMCP:
    try:
        return get_context().fastmcp
    except RuntimeError as error:
        raise ResourceExecutionError(
            "Only a running server can answer this resource.",
            suggested_actions=["Read it with an MCP client or with `quilt-mcp get`."],
        ) from error


def _first_lines(components: Sequence[_Component], name: Callable[[_Component], str]) -> list[tuple[str, str]]:
    """Return the name and the first line of each component, sorted. Of several versions, only the highest counts."""
    highest = dedupe_with_versions(components, name)
    return sorted((name(one), (one.description or "").strip().partition("\n")[0].strip()) for one in highest)

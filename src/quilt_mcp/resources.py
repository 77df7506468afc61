"""The registry and the resource surface. Promised to Python callers at this place."""

from fastmcp import FastMCP

from quilt_mcp.app import App
from quilt_mcp.app.domain import collect_resources
from quilt_mcp.core.answers import to_json
from quilt_mcp.core.surfaces import add_surfaces
from quilt_mcp.server import create_manager, find_domains, read_settings

RESOURCE_REGISTRY = collect_resources(find_domains())


def _serialize_result(result: object) -> str:
    """Return the JSON text of what a service function returned, as `resources/read` sends it."""
    return to_json(result)


def register_resources(mcp: FastMCP) -> None:
    """Add every resource to any server, on both surfaces: `resources/read`, and the tool `get_resource`.

    The resources get an app of their own, with the settings of the environment.
    """
    add_surfaces(mcp, create_manager(App(read_settings())))

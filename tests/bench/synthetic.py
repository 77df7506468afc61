"""Resources that need almost no time, on servers of our core and of FastMCP."""

import json
from collections.abc import Callable
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.transforms import ResourcesAsTools

from quilt_mcp.app import App
from quilt_mcp.app.domain import Domain
from quilt_mcp.app.request_guard import RequestGuard
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import ResourceDefinition, define
from quilt_mcp.core.surfaces import ResourceSurface, add_surfaces
from quilt_mcp.server import QuiltServer, create_server
from quilt_mcp.settings import Settings

PAYLOADS = {"1 KB": 1_000, "10 KB": 10_000, "150 KB": 150_000, "1 MB": 1_000_000}
"""The sizes of answers, in bytes of JSON."""


def payload_uri(size: int) -> str:
    """The URI of the resource with an answer of this size."""
    return f"payload://bytes/{size}"


def payloads() -> ResourceManager:
    """A resource for each size."""
    return ResourceManager({row["uri"]: row for row in _payloads()})


def payload_server() -> QuiltServer:
    """Our whole server, with the payloads instead of its domains."""
    return create_server(domains=[Domain(name="payloads", resources=_payloads())])


class ServableFastMCP(FastMCP[Any]):
    """FastMCP's own server, with the attributes that `quilt-mcp serve` reads over HTTP."""

    def __init__(self, name: str, manager: ResourceManager) -> None:
        super().__init__(name)
        self.app, self.manager, self.guard = App(Settings()), manager, RequestGuard(manager)


def server_of(manager: ResourceManager) -> FastMCP:
    """A server with both surfaces of a manager."""
    mcp = ServableFastMCP("ours", manager)
    add_surfaces(mcp, manager)
    return mcp


def server_with_resources_as_tools(manager: ResourceManager) -> FastMCP:
    """The same resources as tools, by FastMCP's own transform."""
    mcp = ServableFastMCP("ResourcesAsTools", manager)
    mcp.add_provider(ResourceSurface(manager))
    mcp.add_transform(ResourcesAsTools(mcp))
    return mcp


def rows(size: int) -> dict[str, Any]:
    """Data with about this number of bytes as JSON: rows such as a database answers."""
    made: list[dict[str, Any]] = []
    length = len('{"rows":[]}')
    while length < size:
        number = len(made)
        made.append({"id": number, "name": f"row {number}", "ratio": number / 7, "tags": ["a", "b"], "active": True})
        length += len(json.dumps(made[-1], separators=(",", ":"))) + 1
    return {"rows": made}


def _payloads() -> list[ResourceDefinition]:
    return [define(payload_uri(size), _constant(rows(size)), name=f"{size} bytes") for size in PAYLOADS.values()]


def _constant(data: dict[str, Any]) -> Callable[[], Any]:
    async def answer() -> dict[str, Any]:
        """Rows."""
        return data

    return answer

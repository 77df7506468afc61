"""A toy registry and a toy server: what tests of the machinery use instead of Quilt's resources."""

from collections.abc import Callable
from threading import Event
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider

from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import ResourceDefinition, build_registry, define
from quilt_mcp.core.surfaces import add_surfaces
from tests.support.waiting import SECONDS

QUICK, SLOW = "shop://quick", "shop://slow"


def toy(uri: str, function: Callable[..., Any], **options: Any) -> ResourceDefinition:
    """Return a row with a name and a description."""
    return define(uri, function, **{"name": uri, "description": "A toy."} | options)


def toy_manager(*rows: ResourceDefinition, **options: Any) -> ResourceManager:
    """Return a manager of these rows. The options are those of ResourceManager."""
    return ResourceManager(build_registry(rows), **options)


def toy_server(manager: ResourceManager, auth: AuthProvider | None = None) -> FastMCP[Any]:
    """Return a server with both surfaces of the manager."""
    server: FastMCP[Any] = FastMCP("shop", auth=auth)
    add_surfaces(server, manager)
    return server


class Shop:
    """A server with two resources. The slow one answers only after the test has opened the gate.

    Attributes:
        begun: set when a read of the slow resource has begun.
        gate: lets the slow resource answer.
        manager: has the resources QUICK and SLOW.
        server: offers them on both surfaces.
    """

    def __init__(self, auth: AuthProvider | None = None) -> None:
        self.begun, self.gate = Event(), Event()
        self.manager = toy_manager(toy(QUICK, lambda: {"open": True}), toy(SLOW, self._wait))
        self.server = toy_server(self.manager, auth)

    def _wait(self) -> dict[str, Any]:
        self.begun.set()
        return {"open": self.gate.wait(SECONDS)}

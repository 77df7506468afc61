"""Contract tests for the resources of any MCP server, and a tool that reads them all."""

from typing import TYPE_CHECKING, Any

from mcp_parity.failures import Failure, InvalidVariable, NotFound, Unauthorized, Unavailable

if TYPE_CHECKING:
    from mcp_parity.get_resource import add_get_resource

__all__ = ["Failure", "InvalidVariable", "NotFound", "Unauthorized", "Unavailable", "add_get_resource"]


def __getattr__(name: str) -> Any:
    """Import FastMCP only when it is needed: every pytest run in the environment imports this package."""
    if name != "add_get_resource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcp_parity.get_resource import add_get_resource  # noqa: PLC0415 - only when it is used

    return add_get_resource

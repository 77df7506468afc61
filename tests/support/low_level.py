"""The server of the MCP library inside of a server of FastMCP."""

from typing import Any

from fastmcp import FastMCP
from mcp.server.lowlevel import Server


def low_level(mcp: FastMCP[Any]) -> Server[Any]:
    """Return it. It has the handlers of requests."""
    return mcp._mcp_server  # noqa: SLF001 - FastMCP has no public name for it

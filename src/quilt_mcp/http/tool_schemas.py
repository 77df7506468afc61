"""Tells the MCP library the tools' input schemas, so that it does not look them up anew at each call."""

from collections.abc import Mapping
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.providers import AggregateProvider


async def declare_input_schemas(mcp: FastMCP[Any]) -> None:
    """Let the schemas of the tools as they are now serve for all calls.

    In the sessionless era the library checks each call's `Mcp-Param-*` headers against the tool's schema, and without
    this runs a whole `tools/list` to find it. That of `AggregateProvider` is not filtered by a caller's rights.
    """
    schemas: Mapping[str, dict[str, Any]] = {
        tool.name: tool.parameters for tool in await AggregateProvider.list_tools(mcp)
    }
    mcp._mcp_server.get_tool_input_schema = schemas.get  # noqa: SLF001 - FastMCP has no public way; pinned by a test

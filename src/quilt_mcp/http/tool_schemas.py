"""Input schemas of the tools, for the MCP library."""

from collections.abc import Mapping

from fastmcp import FastMCP
from fastmcp.server.providers import AggregateProvider

from quilt_mcp.core.answers import JSONObject


async def declare_input_schemas(mcp: FastMCP) -> None:
    """Give the MCP library the input schemas of the current tools.

    In the sessionless protocol the library checks the `Mcp-Param-*` headers of each call against the tool's schema.
    Without this, it runs a whole `tools/list` for each call. `AggregateProvider.list_tools` does not filter by the
    caller's rights.
    """
    schemas: Mapping[str, JSONObject] = {tool.name: tool.parameters for tool in await AggregateProvider.list_tools(mcp)}
    mcp._mcp_server.get_tool_input_schema = schemas.get  # noqa: SLF001 - FastMCP has no public way; a test pins it

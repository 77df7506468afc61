"""The tool of the Quilt domain."""

from fastmcp import FastMCP
from mcp_types import ToolAnnotations

from quilt_mcp.app import App
from quilt_mcp.app.checked_tool import CheckedTool
from quilt_mcp.app.pools import make_pooled
from quilt_mcp.services.athena_query import athena_query
from quilt_mcp.services.settings import QuiltSettings


def add_quilt_tools(mcp: FastMCP, app: App) -> None:
    """Add the tool that runs queries, unless the operator has turned it off. It is not read-only, because it costs."""
    if not app.settings_as(QuiltSettings).athena_queries:
        return
    tool = CheckedTool.create(
        make_pooled("aws", athena_query),
        app=app,
        title="Query Athena",
        tags={"athena"},
        annotations=ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
        ),
        output_schema=None,
    )
    for parameter in tool.parameters["properties"].values():
        if parameter.get("default", ...) is None:  # null is not one of the declared types
            del parameter["default"]
    mcp.add_tool(tool)

"""The tools that write workflows. The workflow:// resources read them."""

from collections.abc import Callable, Mapping

from fastmcp import FastMCP
from mcp_types import ToolAnnotations

from quilt_mcp.app import App
from quilt_mcp.app.checked_tool import CheckedTool
from quilt_mcp.app.pools import make_pooled
from quilt_mcp.workflows import service

_TOOLS: tuple[tuple[Callable[..., Mapping[str, object]], str, bool], ...] = (
    (service.workflow_create, "Create workflow", False),
    (service.workflow_add_step, "Add workflow step", False),
    (service.workflow_update_step, "Update workflow step", True),
    (service.workflow_delete, "Delete workflow", True),
)
"""The function of each tool, its title, and whether it replaces or deletes what was there."""


def add_workflow_tools(mcp: FastMCP, app: App) -> None:
    """Add the tools to a server. All but the last return what workflow://workflows/{workflow_id}/status does."""
    for function, title, replaces in _TOOLS:
        tool = CheckedTool.create(
            make_pooled("database", function),
            app=app,
            title=title,
            tags={"workflow"},
            annotations=ToolAnnotations(
                read_only_hint=False, destructive_hint=replaces, idempotent_hint=True, open_world_hint=False
            ),
            output_schema=None,
        )
        for parameter in tool.parameters["properties"].values():
            if parameter.get("default", ...) is None:  # null is not one of the declared types
                del parameter["default"]
            if parameter.get("additionalProperties") is True:  # as without it
                del parameter["additionalProperties"]
        mcp.add_tool(tool)

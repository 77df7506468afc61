"""The tools that write workflows. The workflow:// resources read them."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import cast

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
    """Add the tools to a server. The first three return the changed step and what is next."""
    for function, title, replaces in _TOOLS:
        tool = CheckedTool.create(
            make_pooled("database", function if function is service.workflow_delete else _shorten(function)),
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


def _shorten(function: Callable[..., Mapping[str, object]]) -> Callable[..., Mapping[str, object]]:
    """Return a function that answers with what changed, instead of with the whole status."""

    @wraps(function)
    def change(**arguments: object) -> Mapping[str, object]:
        step_id = arguments.get("step_id")
        found = cast("service.WorkflowReport", function(**arguments))
        return service.describe_change(found, step_id if isinstance(step_id, str) else None)

    change.__annotations__ = function.__annotations__ | {"return": service.WorkflowChange}
    signature = inspect.signature(function).replace(return_annotation=service.WorkflowChange)
    vars(change)["__signature__"] = signature
    return change

"""The workflow functions. Promised to Python callers at this place."""

from quilt_mcp.workflows.model import WorkflowRuleError
from quilt_mcp.workflows.service import (
    workflow_add_step,
    workflow_create,
    workflow_delete,
    workflow_get_status,
    workflow_list_all,
    workflow_update_step,
)

__all__ = [
    "WorkflowRuleError",
    "workflow_add_step",
    "workflow_create",
    "workflow_delete",
    "workflow_get_status",
    "workflow_list_all",
    "workflow_update_step",
]

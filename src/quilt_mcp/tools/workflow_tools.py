"""The tools that write workflows; reading them is what the workflow:// resources are for."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from quilt_mcp.errors import ResourceFailure
from quilt_mcp.services import workflow_service
from quilt_mcp.services.workflow_arguments import NAME_LENGTH, TEXT_LENGTH
from quilt_mcp.services.workflow_model import StepStatus
from quilt_mcp.services.workflow_rules import DEPENDENCIES
from quilt_mcp.uri_rules import VALUE_PATTERN

_ID = f"^{VALUE_PATTERN}$"
_JSON = "any JSON object up to 4 KiB"

WorkflowId = Annotated[str, Field(description="The workflow's id: letters, digits and . _ ~ -", pattern=_ID)]
StepId = Annotated[
    str, Field(description="The step's id, unique in its workflow: letters, digits and . _ ~ -", pattern=_ID)
]
Name = Annotated[str, Field(description="A short name, for people.", min_length=1, max_length=NAME_LENGTH)]
Purpose = Annotated[str, Field(description="What the workflow is for.", max_length=TEXT_LENGTH)]
Task = Annotated[str, Field(description="What is to be done in this step.", min_length=1, max_length=TEXT_LENGTH)]
StepType = Annotated[
    str,
    Field(description="Who or what does it, such as manual or script.", min_length=1, max_length=NAME_LENGTH),
]
Dependencies = Annotated[
    list[str] | None,
    Field(description="Ids of steps that must be completed or skipped before it can start.", max_length=DEPENDENCIES),
]
Metadata = Annotated[dict[str, Any] | None, Field(description=f"What else should be kept with it: {_JSON}.")]
Status = Annotated[StepStatus, Field(description="The step's new status.")]
Message = Annotated[str | None, Field(description="A note for the workflow's log.", max_length=TEXT_LENGTH)]
Result = Annotated[dict[str, Any] | None, Field(description=f"What the step produced: {_JSON}.")]
ErrorMessage = Annotated[
    str | None, Field(description="Why it failed; only with the status failed.", max_length=TEXT_LENGTH)
]


def register_workflow_tools(mcp: FastMCP) -> None:
    """Register workflow_create, workflow_add_step and workflow_update_step.

    Each answers the workflow's full status, as workflow://workflows/{workflow_id}/status does.
    """
    adds = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    replaces = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
    mcp.tool(workflow_create, title="Create a workflow", tags={"workflow"}, annotations=adds)
    mcp.tool(workflow_add_step, title="Add a step to a workflow", tags={"workflow"}, annotations=adds)
    mcp.tool(workflow_update_step, title="Update a workflow's step", tags={"workflow"}, annotations=replaces)


def workflow_create(
    workflow_id: WorkflowId, name: Name, description: Purpose = "", metadata: Metadata = None
) -> dict[str, Any]:
    """Create a workflow: a named list of steps whose progress is kept on this machine across conversations.

    Answers its full status. Creating it again with the same values changes nothing. Then add steps with
    workflow_add_step; read workflow://workflows to see all workflows.
    """
    with _tool_errors():
        return workflow_service.workflow_create(workflow_id, name, description, metadata)


def workflow_add_step(  # noqa: PLR0913, PLR0917 - each is an argument that clients give by name
    workflow_id: WorkflowId,
    step_id: StepId,
    description: Task,
    step_type: StepType = "manual",
    dependencies: Dependencies = None,
    metadata: Metadata = None,
) -> dict[str, Any]:
    """Add a pending step to the end of a workflow. Steps that it depends on must have been added before.

    Answers the workflow's full status. Adding the same step again changes nothing; adding one to a completed workflow
    opens it again. At most 200 steps.
    """
    with _tool_errors():
        return workflow_service.workflow_add_step(workflow_id, step_id, description, step_type, dependencies, metadata)


def workflow_update_step(  # noqa: PLR0913, PLR0917 - each is an argument that clients give by name
    workflow_id: WorkflowId,
    step_id: StepId,
    status: Status,
    message: Message = None,
    result: Result = None,
    error_message: ErrorMessage = None,
) -> dict[str, Any]:
    """Set the status of a workflow's step when it starts, ends, fails or is skipped. The workflow's status follows.

    A step can start once all its dependencies are completed or skipped. A failed step is tried again by setting it to
    in_progress; in_progress and pending drop the result and the error of the attempt before. Answers the workflow's
    full status with the steps that can be started next.
    """
    with _tool_errors():
        return workflow_service.workflow_update_step(workflow_id, step_id, status, message, result, error_message)


@contextmanager
def _tool_errors() -> Iterator[None]:
    """What happened on the first line, what to do about it on the second. Refusals are no errors of the server's."""
    try:
        yield
    except workflow_service.WorkflowRuleError as refusal:
        raise ToolError(f"{refusal.message}\n{refusal.suggested_action}", log_level=logging.INFO) from refusal
    except ResourceFailure as failure:
        actions = " ".join(failure.suggested_actions)
        raise ToolError(f"{failure.message}\n{actions}", log_level=logging.WARNING) from failure

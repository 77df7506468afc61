"""The tools that write workflows; reading them is what the workflow:// resources are for."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from quilt_mcp.errors import ResourceFailure
from quilt_mcp.services import workflow_service
from quilt_mcp.services.workflow_arguments import NAME_LENGTH, TEXT_LENGTH
from quilt_mcp.services.workflow_model import StepStatus
from quilt_mcp.services.workflow_rules import DEPENDENCIES
from quilt_mcp.uri_rules import VALUE_PATTERN

MANUAL = "manual"
_ID = f"^{VALUE_PATTERN}$"

# Short, because each client pays for these in every conversation. So what may be null is not declared as such, though
# some models send it; and an id that must exist needs no pattern.
WorkflowId = Annotated[str, Field(description="The workflow.")]
StepId = Annotated[str, Field(description="The step.")]
NewWorkflowId = Annotated[WorkflowId, Field(pattern=_ID)]
NewStepId = Annotated[StepId, Field(pattern=_ID)]
Name = Annotated[str, Field(description="For people.", min_length=1, max_length=NAME_LENGTH)]
Purpose = Annotated[
    Annotated[str, Field(max_length=TEXT_LENGTH)] | SkipJsonSchema[None], Field(description="What it is for.")
]
Task = Annotated[str, Field(description="What is to be done.", min_length=1, max_length=TEXT_LENGTH)]
StepType = Annotated[
    Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)] | SkipJsonSchema[None],
    Field(description="Who or what does it."),
]
Dependencies = Annotated[list[str], Field(max_length=DEPENDENCIES)] | SkipJsonSchema[None]
JSONObject = Annotated[dict[str, Any] | SkipJsonSchema[None], Field(description="Up to 4 KiB of JSON.")]
Status = Annotated[StepStatus, Field(description="The new one.")]
Text = Annotated[str, Field(max_length=TEXT_LENGTH)] | SkipJsonSchema[None]


def register_workflow_tools(mcp: FastMCP) -> None:
    """Register workflow_create, workflow_add_step and workflow_update_step.

    Each answers the workflow's full status, as workflow://workflows/{workflow_id}/status does.
    """
    adds = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    replaces = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
    mcp.add_tool(_tool(workflow_create, "Create a workflow", adds))
    mcp.add_tool(_tool(workflow_add_step, "Add a step to a workflow", adds))
    mcp.add_tool(_tool(workflow_update_step, "Update a workflow's step", replaces))


def _tool(function: Callable[..., dict[str, Any]], title: str, annotations: ToolAnnotations) -> Tool:
    tool = Tool.from_function(function, title=title, tags={"workflow"}, annotations=annotations, output_schema=None)
    for parameter in tool.parameters["properties"].values():
        if parameter.get("default", ...) is None:  # it is none of the types that are declared
            del parameter["default"]
    return tool


def workflow_create(
    workflow_id: NewWorkflowId, name: Name, description: Purpose = "", metadata: JSONObject = None
) -> dict[str, Any]:
    """Create a workflow: a list of steps whose progress is kept across conversations. Then add its steps.

    Answers its status; the same call again changes nothing.
    """
    with _tool_errors():
        return workflow_service.workflow_create(workflow_id, name, description or "", metadata)


def workflow_add_step(  # noqa: PLR0913, PLR0917 - each is an argument that clients give by name
    workflow_id: WorkflowId,
    step_id: NewStepId,
    description: Task,
    step_type: StepType = MANUAL,
    dependencies: Annotated[Dependencies, Field(description="Ids of steps.")] = None,
    metadata: JSONObject = None,
) -> dict[str, Any]:
    """Add a pending step to the end of a workflow, after those that it depends on.

    Answers the workflow's status; the same call again changes nothing. A completed workflow is open again.
    """
    with _tool_errors():
        return workflow_service.workflow_add_step(
            workflow_id, step_id, description, step_type or MANUAL, dependencies, metadata
        )


def workflow_update_step(  # noqa: PLR0913, PLR0917 - each is an argument that clients give by name
    workflow_id: WorkflowId,
    step_id: StepId,
    status: Status,
    message: Annotated[Text, Field(description="For the log.")] = None,
    result: JSONObject = None,
    error_message: Annotated[Text, Field(description="Only if it failed.")] = None,
) -> dict[str, Any]:
    """Set the status of a workflow's step when it starts, ends, fails or is skipped.

    It can start once all it depends on is completed or skipped; a failed one is tried again by in_progress, which drops
    the result and error before. Answers the workflow's status with the steps that can start next.
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

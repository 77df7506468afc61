"""The tools that write workflows. The workflow:// resources read them."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import AfterValidator, Field
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from quilt_mcp.app import App
from quilt_mcp.app.checked_tool import CheckedTool
from quilt_mcp.app.pools import make_pooled
from quilt_mcp.core.answers import JSONObject as AnyObject
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.core.uris import VALUE_PATTERN
from quilt_mcp.workflows import service as workflow_service
from quilt_mcp.workflows.model import DEPENDENCIES, NAME_LENGTH, TEXT_LENGTH, StepStatus
from quilt_mcp.workflows.service import WorkflowDeletion, WorkflowReport

MANUAL = "manual"
_ID = f"^{VALUE_PATTERN}$"


def _check_unicode(text: str) -> str:
    """Refuse half of a surrogate pair, which databases cannot encode. Pydantic only looks if there is another limit."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise PydanticCustomError("string_unicode", "not valid Unicode") from None
    return text


# Short, because each conversation contains these texts. For the same reason null is valid, because some models send it,
# but not declared, and ids that must exist have no pattern.
WorkflowId = Annotated[str, Field(description="The workflow."), AfterValidator(_check_unicode)]
StepId = Annotated[str, Field(description="The step."), AfterValidator(_check_unicode)]
NewWorkflowId = Annotated[str, Field(description="The workflow.", pattern=_ID)]
NewStepId = Annotated[str, Field(description="The step.", pattern=_ID)]
Name = Annotated[str, Field(description="Its title.", min_length=1, max_length=NAME_LENGTH)]
Purpose = Annotated[
    Annotated[str, Field(max_length=TEXT_LENGTH)] | SkipJsonSchema[None], Field(description="Its purpose.")
]
Task = Annotated[str, Field(description="What to do.", min_length=1, max_length=TEXT_LENGTH)]
StepType = Annotated[
    Annotated[str, Field(min_length=1, max_length=NAME_LENGTH)] | SkipJsonSchema[None],
    Field(description="Who does it."),
]
Dependencies = Annotated[list[str], Field(max_length=DEPENDENCIES)] | SkipJsonSchema[None]
JSONObject = Annotated[AnyObject | SkipJsonSchema[None], Field(description="Up to 4 KiB.")]
Status = Annotated[StepStatus, Field(description="The new status.")]
Text = Annotated[str, Field(max_length=TEXT_LENGTH)] | SkipJsonSchema[None]


def add_workflow_tools(mcp: FastMCP, app: App) -> None:
    """Add workflow_create, workflow_add_step, workflow_update_step and workflow_delete to a server.

    All but the last return the full status of the workflow, as workflow://workflows/{workflow_id}/status does.
    """
    adds = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    replaces = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
    mcp.add_tool(_tool(app, workflow_create, "Create workflow", adds))
    mcp.add_tool(_tool(app, workflow_add_step, "Add workflow step", adds))
    mcp.add_tool(_tool(app, workflow_update_step, "Update workflow step", replaces))
    mcp.add_tool(_tool(app, workflow_delete, "Delete workflow", replaces))


def _tool(app: App, function: Callable[..., Mapping[str, object]], title: str, annotations: ToolAnnotations) -> Tool:
    tool = CheckedTool.create(
        make_pooled("database", function),
        app=app,
        title=title,
        tags={"workflow"},
        annotations=annotations,
        output_schema=None,
    )
    for parameter in tool.parameters["properties"].values():
        if parameter.get("default", ...) is None:  # null is not one of the declared types
            del parameter["default"]
        if parameter.get("additionalProperties") is True:  # as without it
            del parameter["additionalProperties"]
    return tool


def workflow_create(
    workflow_id: NewWorkflowId, name: Name, description: Purpose = "", metadata: JSONObject = None
) -> WorkflowReport:
    """Create a workflow, a list of steps that is stored across conversations. Returns its status."""
    with _tool_errors():
        return workflow_service.workflow_create(workflow_id, name, description or "", metadata)


def workflow_add_step(  # noqa: PLR0917 - clients name the arguments
    workflow_id: WorkflowId,
    step_id: NewStepId,
    description: Task,
    step_type: StepType = MANUAL,
    dependencies: Annotated[Dependencies, Field(description="Earlier steps.")] = None,
    metadata: JSONObject = None,
) -> WorkflowReport:
    """Add a pending step to the end of a workflow. Reopens a completed workflow. Returns its status."""
    with _tool_errors():
        return workflow_service.workflow_add_step(
            workflow_id, step_id, description, step_type or MANUAL, dependencies, metadata
        )


def workflow_update_step(  # noqa: PLR0917 - clients name the arguments
    workflow_id: WorkflowId,
    step_id: StepId,
    status: Status,
    message: Annotated[Text, Field(description="For the log.")] = None,
    result: JSONObject = None,
    error_message: Annotated[Text, Field(description="If it failed.")] = None,
) -> WorkflowReport:
    """Set the status of a step. It can start when its dependencies are completed or skipped.

    Retry a failed step with in_progress, which removes its result and error. Returns the workflow with its next steps.
    """
    with _tool_errors():
        return workflow_service.workflow_update_step(workflow_id, step_id, status, message, result, error_message)


def workflow_delete(workflow_id: WorkflowId) -> WorkflowDeletion:
    """Delete a workflow with its steps and log. Returns whether it existed."""
    with _tool_errors():
        return workflow_service.workflow_delete(workflow_id)


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Put the message on the first line of a tool error, and the actions on the second. Log refusals as INFO."""
    try:
        yield
    except workflow_service.WorkflowRuleError as refusal:
        raise ToolError(f"{refusal.message}\n{refusal.suggested_action}", log_level=logging.INFO) from refusal
    except ResourceFailure as failure:
        actions = " ".join(failure.suggested_actions)
        raise ToolError(f"{failure.message}\n{actions}", log_level=logging.WARNING) from failure

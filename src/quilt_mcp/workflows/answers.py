"""The answers of the workflow functions, and how a status is built.

Points in time are ISO 8601 in UTC, to the second, with a `Z`. null means that it has not happened, or was not given.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Literal, cast

from typing_extensions import TypedDict

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.workflows.model import Step, StepStatus, Workflow, WorkflowStatus
from quilt_mcp.workflows.rules import shorten

RECENT_ENTRIES = 5
_NUMBERS: tuple[Literal["total_steps", "completed_steps", "failed_steps", "skipped_steps"], ...] = (
    "total_steps",
    "completed_steps",
    "failed_steps",
    "skipped_steps",
)


class ListedProgress(TypedDict):
    """How far a workflow is."""

    completed_steps: int
    """The number of completed steps."""
    skipped_steps: int
    """The number of skipped steps."""
    total_steps: int
    """The number of all steps."""
    percentage: float
    """Of the steps that are completed or skipped, 0 to 100, to one decimal; 0 if there are no steps."""


class ListedWorkflow(TypedDict):
    """A workflow in the list of all."""

    id: str
    """The ID that its creator chose."""
    name: str
    """For a person."""
    status: WorkflowStatus
    """It follows from the statuses of the steps."""
    progress: ListedProgress
    """How many steps are done."""
    created_at: str
    """When it was created, ISO 8601 in UTC."""
    updated_at: str
    """When it or one of its steps last changed, ISO 8601 in UTC."""


class WorkflowList(TypedDict):
    """The workflows, most recently updated first, and how many there are."""

    workflows: list[ListedWorkflow]
    """At most 200."""
    total_workflows: int
    """The number of all."""
    active_workflows: int
    """The number with the status created or in_progress."""
    completed_workflows: int
    """The number with the status completed."""


class StepAnswer(TypedDict):
    """A step."""

    id: str
    """Its ID in the workflow."""
    description: str
    """What is to be done."""
    step_type: str
    """The kind of step, as its creator named it."""
    dependencies: list[str]
    """The IDs of the steps that must be completed or skipped before it starts."""
    metadata: JSONObject
    """The fields that were given."""
    created_at: str
    """When it was added, ISO 8601 in UTC."""
    status: StepStatus
    """Set by workflow_update_step."""
    started_at: str | None
    """When the latest attempt started, ISO 8601 in UTC; null if none has."""
    completed_at: str | None
    """When it was completed or skipped, ISO 8601 in UTC; null if it is neither."""
    error_message: str | None
    """Why it failed; null if no message was given."""
    result: JSONObject | None
    """What it produced; null if no result was given."""


class LogEntryAnswer(TypedDict):
    """An update of a step."""

    timestamp: str
    """When the step was updated, ISO 8601 in UTC."""
    step_id: str
    """The ID of the step."""
    status_change: str
    """"old -> new"."""
    message: str | None
    """The message of the update; null if none was given."""


class WorkflowAnswer(TypedDict):
    """A workflow with its steps in the order in which they were added, and its newest log entries, oldest first."""

    id: str
    """The ID that its creator chose."""
    name: str
    """For a person."""
    description: str
    """What it is for; empty if nothing was given."""
    metadata: JSONObject
    """The fields that were given."""
    created_at: str
    """When it was created, ISO 8601 in UTC."""
    updated_at: str
    """When it or one of its steps last changed, ISO 8601 in UTC."""
    status: WorkflowStatus
    """It follows from the statuses of the steps."""
    started_at: str | None
    """When its first step started, ISO 8601 in UTC; null if none has."""
    completed_at: str | None
    """When its last step was completed or skipped, ISO 8601 in UTC; null if steps are left."""
    steps: list[StepAnswer]
    """All of them."""
    execution_log: list[LogEntryAnswer]
    """The newest updates of steps."""
    total_steps: int
    """The number of all steps."""
    completed_steps: int
    """The number of completed steps."""
    failed_steps: int
    """The number of failed steps."""
    skipped_steps: int
    """The number of skipped steps."""


class Progress(ListedProgress):
    """The numbers of steps with each status."""

    failed_steps: int
    """The number of failed steps."""
    in_progress_steps: int
    """The number of steps in progress."""
    pending_steps: int
    """The number of pending steps."""


class WorkflowReport(TypedDict):
    """The full status of a workflow."""

    workflow: WorkflowAnswer
    """The workflow."""
    progress: Progress
    """How many steps are done."""
    next_available_steps: list[str]
    """The IDs of the pending steps with finished dependencies."""
    can_proceed: bool
    """Whether there are any."""
    recent_activity: list[LogEntryAnswer]
    """The last log entries."""
    recommendations: list[str]
    """What to do next."""


class WorkflowDeletion(TypedDict):
    """`deleted` is false if the caller had no such workflow. `remaining_workflows` is how many the caller has now."""

    workflow_id: str
    deleted: bool
    remaining_workflows: int


def report(workflow: Workflow) -> WorkflowReport:
    """Return the full status of a workflow."""
    progress = _count(workflow.steps)
    answer = _describe(workflow, progress)
    ready = [
        step.id for step in workflow.steps if step.status == "pending" and not workflow.unfinished_dependencies(step)
    ]
    return {
        "workflow": answer,
        "progress": progress,
        "next_available_steps": ready,
        "can_proceed": bool(ready),
        "recent_activity": answer["execution_log"][-RECENT_ENTRIES:],
        "recommendations": list(_recommend(workflow, ready)),
    }


def calculate_percentage(done: int, total: int) -> float:
    """Return the percentage to one decimal; 0 if there is nothing."""
    return round(100 * done / total, 1) if total else 0.0


def _count(steps: list[Step]) -> Progress:
    count = Counter(step.status for step in steps)
    return {
        "total_steps": len(steps),
        "completed_steps": count["completed"],
        "skipped_steps": count["skipped"],
        "failed_steps": count["failed"],
        "in_progress_steps": count["in_progress"],
        "pending_steps": count["pending"],
        "percentage": calculate_percentage(count["completed"] + count["skipped"], len(steps)),
    }


def _describe(workflow: Workflow, progress: Progress) -> WorkflowAnswer:
    """Return the fields of the model, which are those of the answer, and the numbers of steps."""
    return cast("WorkflowAnswer", asdict(workflow) | {name: progress[name] for name in _NUMBERS})


def _recommend(workflow: Workflow, ready: list[str]) -> Iterable[str]:
    failed = [step.id for step in workflow.steps if step.status == "failed"]
    running = [step.id for step in workflow.steps if step.status == "in_progress"]
    if not workflow.steps:
        yield "Add the first step with workflow_add_step."
    if failed:
        yield (
            f"Failed: {shorten(failed)}. Read the error_message of each and fix the cause. Then use "
            "workflow_update_step: in_progress to retry, or skipped to continue without it."
        )
    if running:
        yield (
            f"In progress: {shorten(running)}. When one ends, set it to completed or failed with workflow_update_step."
        )
    if ready:
        yield f"Ready to start: {shorten(ready)}. When one starts, set it to in_progress with workflow_update_step."
    if workflow.status == "completed":
        yield "Every step is completed or skipped. Adding a step with workflow_add_step reopens the workflow."

"""The answers of the workflow functions, and how a status is built.

Points in time are ISO 8601 in UTC, to the second, with a `Z`. null means that it has not happened, or was not given.
"""

from collections import Counter
from collections.abc import Iterable

from typing_extensions import TypedDict

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.workflows.model import LogEntry, Step, StepStatus, Workflow, WorkflowStatus
from quilt_mcp.workflows.rules import shorten

RECENT_ENTRIES = 5


class ListedProgress(TypedDict):
    """Numbers of steps, and the percentage of those that are completed or skipped, to one decimal."""

    completed_steps: int
    skipped_steps: int
    total_steps: int
    percentage: float


class ListedWorkflow(TypedDict):
    """A workflow in the list of all."""

    id: str
    name: str
    status: WorkflowStatus
    progress: ListedProgress
    created_at: str
    updated_at: str


class WorkflowList(TypedDict):
    """The workflows, most recently updated first; the totals count all, also those beyond the list's end."""

    workflows: list[ListedWorkflow]
    total_workflows: int
    active_workflows: int
    completed_workflows: int


class StepAnswer(TypedDict):
    """A step."""

    id: str
    description: str
    step_type: str
    dependencies: list[str]
    metadata: JSONObject
    created_at: str
    status: StepStatus
    started_at: str | None
    completed_at: str | None
    error_message: str | None
    result: JSONObject | None


class LogEntryAnswer(TypedDict):
    """An update of a step. `status_change` is "old -> new"."""

    timestamp: str
    step_id: str
    status_change: str
    message: str | None


class WorkflowAnswer(TypedDict):
    """A workflow with its steps in the order in which they were added, and its newest log entries, oldest first."""

    id: str
    name: str
    description: str
    metadata: JSONObject
    created_at: str
    updated_at: str
    status: WorkflowStatus
    started_at: str | None
    completed_at: str | None
    steps: list[StepAnswer]
    execution_log: list[LogEntryAnswer]
    total_steps: int
    completed_steps: int
    failed_steps: int
    skipped_steps: int


class Progress(TypedDict):
    """Numbers of steps, and the percentage of those that are completed or skipped, to one decimal."""

    total_steps: int
    completed_steps: int
    skipped_steps: int
    failed_steps: int
    in_progress_steps: int
    pending_steps: int
    percentage: float


class WorkflowReport(TypedDict):
    """The full status of a workflow.

    `next_available_steps` are the ids of the pending steps with finished dependencies, and `can_proceed` is whether
    there are any. `recent_activity` are the last log entries.
    """

    workflow: WorkflowAnswer
    progress: Progress
    next_available_steps: list[str]
    can_proceed: bool
    recent_activity: list[LogEntryAnswer]
    recommendations: list[str]


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
    return {
        "id": workflow.id,
        "name": workflow.name,
        "description": workflow.description,
        "metadata": workflow.metadata,
        "created_at": workflow.created_at,
        "updated_at": workflow.updated_at,
        "status": workflow.status,
        "started_at": workflow.started_at,
        "completed_at": workflow.completed_at,
        "steps": [_describe_step(step) for step in workflow.steps],
        "execution_log": [_describe_entry(entry) for entry in workflow.execution_log],
        "total_steps": progress["total_steps"],
        "completed_steps": progress["completed_steps"],
        "failed_steps": progress["failed_steps"],
        "skipped_steps": progress["skipped_steps"],
    }


def _describe_step(step: Step) -> StepAnswer:
    return {
        "id": step.id,
        "description": step.description,
        "step_type": step.step_type,
        "dependencies": step.dependencies,
        "metadata": step.metadata,
        "created_at": step.created_at,
        "status": step.status,
        "started_at": step.started_at,
        "completed_at": step.completed_at,
        "error_message": step.error_message,
        "result": step.result,
    }


def _describe_entry(entry: LogEntry) -> LogEntryAnswer:
    return {
        "timestamp": entry.timestamp,
        "step_id": entry.step_id,
        "status_change": entry.status_change,
        "message": entry.message,
    }


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

"""The workflow:// resources, and what the workflow tools write. `workflow_store` keeps it.

Each writer answers the workflow's whole status, as `workflow_get_status` does. Repeating a write that has just been
done changes nothing and answers the same. All of them, writers and readers, raise Unavailable if another process holds
the workflow file for too long, and ResourceExecutionError if the file cannot be used.
"""

from datetime import UTC, datetime
from typing import Any

from quilt_mcp.errors import NotFound
from quilt_mcp.services import workflow_arguments as arguments
from quilt_mcp.services import workflow_rules as rules
from quilt_mcp.services import workflow_store
from quilt_mcp.services.workflow_model import LogEntry, Step, Workflow
from quilt_mcp.services.workflow_report import percentage, status_report
from quilt_mcp.services.workflow_rules import WorkflowRuleError
from quilt_mcp.services.workflow_store import WorkflowStore

__all__ = [
    "WorkflowRuleError",
    "workflow_add_step",
    "workflow_create",
    "workflow_get_status",
    "workflow_ids",
    "workflow_list_all",
    "workflow_update_step",
]

LISTED_WORKFLOWS = 200
_EXAMPLES = 5


def workflow_list_all() -> dict[str, Any]:
    """The workflows that are tracked on this machine, with status and progress, the one updated last first.

    Returns:
        `workflows`: the 200 newest at most, each with id, name, status, progress (completed_steps, skipped_steps,
        total_steps, percentage of steps done), created_at and updated_at. `total_workflows`, `active_workflows`
        (created or in progress) and `completed_workflows` count all that there are.
    """
    with workflow_store.reading() as store:
        newest, counts = store.newest(LISTED_WORKFLOWS), store.count_by_status()
    return {
        "workflows": [_listed(row) for row in newest],
        "total_workflows": counts.total(),
        "active_workflows": counts["created"] + counts["in_progress"],
        "completed_workflows": counts["completed"],
    }


def workflow_get_status(id: str) -> dict[str, Any]:  # noqa: A002 - the resource contract maps workflow_id to `id`
    """One workflow in full: its steps, its progress, what happened last, and what can be done next.

    Args:
        id: the workflow's id.

    Returns:
        See `workflow_report.status_report`.

    Raises:
        NotFound: there is no such workflow.
    """
    with workflow_store.reading() as store:
        return status_report(_existing(store, id))


def workflow_ids() -> list[str]:
    """The ids of all workflows, the one updated last first."""
    with workflow_store.reading() as store:
        return store.ids()


def workflow_create(
    workflow_id: str, name: str, description: str = "", metadata: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Create a workflow without steps.

    Raises:
        WorkflowRuleError: an argument is refused, or the id is taken by a workflow that was created otherwise.
    """
    new = arguments.new_workflow(workflow_id, name, description, metadata, _now())
    with workflow_store.writing() as store:
        existing = store.load(workflow_id)
        if existing is None:
            store.save(new)
        elif not existing.defined_like(new):
            raise WorkflowRuleError(
                f"Workflow {workflow_id} exists already, with another name, description or metadata.",
                f"Choose another id, or go on with that one: see workflow://workflows/{workflow_id}/status.",
            )
        return status_report(existing or new)


def workflow_add_step(  # noqa: PLR0913, PLR0917 - they are the tool's arguments
    workflow_id: str,
    step_id: str,
    description: str,
    step_type: str = "manual",
    dependencies: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Add a pending step to the end of a workflow; a completed workflow is thereby open again.

    Raises:
        WorkflowRuleError: an argument is refused, or the id is taken by a step that was added otherwise.
        NotFound: there is no such workflow.
    """
    new = arguments.new_step(step_id, description, step_type, dependencies, metadata, now := _now())
    with workflow_store.writing() as store:
        workflow = _existing(store, workflow_id)
        if (existing := workflow.step(step_id)) is None:
            rules.check_new_step(workflow, new)
            workflow = workflow.with_step(new, now)
            store.save(workflow, new)
        elif not existing.defined_like(new):
            raise WorkflowRuleError(
                f"Workflow {workflow_id} has a step {step_id} already, which was added with other values.",
                "Choose another step_id, or change that step's status with workflow_update_step.",
            )
        return status_report(workflow)


def workflow_update_step(  # noqa: PLR0913, PLR0917 - they are the tool's arguments
    workflow_id: str,
    step_id: str,
    status: str,
    message: str | None = None,
    result: dict[str, Any] | None = None,
    error_message: str | None = None,
) -> dict[str, Any]:
    """Set a step's status, and log it; the workflow's own status follows.

    Raises:
        WorkflowRuleError: an argument is refused, the step's dependencies are not done, or other steps build on it.
        NotFound: there is no such workflow, or it has no such step.
    """
    new_status, new_result = arguments.checked_update(status, message, result, error_message)
    with workflow_store.writing() as store:
        workflow = _existing(store, workflow_id)
        step = _existing_step(workflow, step_id)
        rules.check_change(workflow, step, new_status)
        changed = step.moved(new_status, now := _now(), result=new_result, error_message=error_message)
        entry = LogEntry(
            timestamp=now, step_id=step_id, status_change=f"{step.status} -> {new_status}", message=message
        )
        if changed != step or not entry.repeats(workflow.last_entry(step_id)):
            store.save(workflow.with_step(changed, now), changed, entry)
        return status_report(_existing(store, workflow_id))


def _existing(store: WorkflowStore, workflow_id: str) -> Workflow:
    if workflow := store.load(workflow_id):
        return workflow
    if not (ids := store.ids(_EXAMPLES)):
        raise NotFound(
            f"There is no workflow {workflow_id!r}; none has been created yet.",
            suggested_actions=["Create one with the tool workflow_create."],
        )
    raise NotFound(
        f"There is no workflow {workflow_id!r}.",
        suggested_actions=[
            f"Use the id of one that exists, such as {', '.join(ids)}; workflow://workflows lists them.",
            "Or create it with the tool workflow_create.",
        ],
    )


def _existing_step(workflow: Workflow, step_id: str) -> Step:
    if step := workflow.step(step_id):
        return step
    raise NotFound(
        f"Workflow {workflow.id} has no step {step_id!r}.",
        suggested_actions=[
            f"Use one of its steps: {rules.listed(step.id for step in workflow.steps)}.",
            "Or add the step with the tool workflow_add_step.",
        ],
    )


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    done, total = row["completed_steps"] + row["skipped_steps"], row["total_steps"]
    return {
        "id": row["id"],
        "name": row["name"],
        "status": row["status"],
        "progress": {
            "completed_steps": row["completed_steps"],
            "skipped_steps": row["skipped_steps"],
            "total_steps": total,
            "percentage": percentage(done, total),
        },
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

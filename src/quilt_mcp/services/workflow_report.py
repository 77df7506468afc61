"""What a workflow's status says: the workflow, its progress, and what can be done next."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from quilt_mcp.services.workflow_model import Step, Workflow
from quilt_mcp.services.workflow_rules import listed

RECENT_ENTRIES = 5


def status_report(workflow: Workflow) -> dict[str, Any]:
    """The full status.

    Returns:
        `workflow` (with steps and execution_log), `progress` (the number of steps in each status, and the percentage
        that is completed or skipped), `next_available_steps` (ids of pending steps whose dependencies are done),
        `can_proceed` (whether there are such), `recent_activity` (the last log entries) and `recommendations`.
    """
    document = asdict(workflow)
    progress = _progress(workflow.steps)
    ready = [
        step.id for step in workflow.steps if step.status == "pending" and not workflow.unfinished_dependencies(step)
    ]
    totals = {name: progress[name] for name in ("total_steps", "completed_steps", "failed_steps", "skipped_steps")}
    return {
        "workflow": document | totals,
        "progress": progress,
        "next_available_steps": ready,
        "can_proceed": bool(ready),
        "recent_activity": document["execution_log"][-RECENT_ENTRIES:],
        "recommendations": list(_recommendations(workflow, ready)),
    }


def percentage(done: int, total: int) -> float:
    """The part that is done, in percent to one decimal; 0 of nothing."""
    return round(100 * done / total, 1) if total else 0.0


def _progress(steps: list[Step]) -> dict[str, Any]:
    count = Counter(step.status for step in steps)
    return {
        "total_steps": len(steps),
        "completed_steps": count["completed"],
        "skipped_steps": count["skipped"],
        "failed_steps": count["failed"],
        "in_progress_steps": count["in_progress"],
        "pending_steps": count["pending"],
        "percentage": percentage(count["completed"] + count["skipped"], len(steps)),
    }


def _recommendations(workflow: Workflow, ready: list[str]) -> Iterable[str]:
    failed = [step.id for step in workflow.steps if step.status == "failed"]
    running = [step.id for step in workflow.steps if step.status == "in_progress"]
    if not workflow.steps:
        yield "Add the first step with workflow_add_step."
    if failed:
        yield (
            f"Failed: {listed(failed)}. Read each one's error_message, remove the cause, and set it to in_progress "
            "with workflow_update_step to try again, or to skipped to go on without it."
        )
    if running:
        yield f"In progress: {listed(running)}. Set each to completed or failed with workflow_update_step when it ends."
    if ready:
        yield f"Ready to start: {listed(ready)}. Set a step to in_progress with workflow_update_step when it starts."
    if workflow.status == "completed":
        yield "Every step is completed or skipped. A step added with workflow_add_step opens the workflow again."

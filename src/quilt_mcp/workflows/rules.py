"""The rules of a workflow: which steps can be added, and which status changes are valid."""

from collections.abc import Iterable

from quilt_mcp.workflows.model import DONE, Step, StepStatus, Workflow

STEPS = 100
DEPENDENCIES = 50


class WorkflowRuleError(ValueError):
    """A request that breaks a rule.

    Attributes:
        message: what is wrong.
        suggested_action: what to do instead.
    """

    def __init__(self, message: str, suggested_action: str) -> None:
        super().__init__(message)
        self.message = message
        self.suggested_action = suggested_action


def check_new_step(workflow: Workflow, step: Step) -> None:
    """Check that a workflow can get another step, and that the step depends only on existing steps.

    So dependencies cannot form cycles.

    Raises:
        WorkflowRuleError: it breaks a rule.
    """
    if len(workflow.steps) >= STEPS:
        raise WorkflowRuleError(
            f"Workflow {workflow.id} has {STEPS} steps, which is the maximum.",
            "Create another workflow with workflow_create for more steps.",
        )
    if len(step.dependencies) > DEPENDENCIES:
        raise WorkflowRuleError(f"{len(step.dependencies)} dependencies are too many.", f"Use at most {DEPENDENCIES}.")
    if step.id in step.dependencies:
        raise WorkflowRuleError(f"Step {step.id} cannot depend on itself.", "Remove it from its dependencies.")
    if missing := [name for name in step.dependencies if workflow.step(name) is None]:
        raise WorkflowRuleError(
            f"Workflow {workflow.id} has no step {shorten(map(repr, missing))} to depend on.",
            "Add these steps first with workflow_add_step. "
            f"Existing steps: {shorten(step.id for step in workflow.steps)}.",
        )


def check_change(workflow: Workflow, step: Step, status: StepStatus) -> None:
    """Check that a step starts only when its dependencies are done, and stays done while other steps need it.

    Raises:
        WorkflowRuleError: it breaks a rule.
    """
    if status == step.status:
        return
    if status not in {"pending", "skipped"} and (waiting_for := workflow.unfinished_dependencies(step)):
        raise WorkflowRuleError(
            f"Step {step.id} cannot be {status}: it depends on {shorten(waiting_for)}, not yet completed or skipped.",
            "Set these steps to completed or skipped first, with workflow_update_step.",
        )
    if step.status in DONE and status not in DONE:
        _check_not_needed(workflow, step, status)


def shorten(names: Iterable[str], most: int = 5) -> str:
    """Return the first names and the number of the others; "none" if there are none."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more or "none"


def _check_not_needed(workflow: Workflow, step: Step, status: StepStatus) -> None:
    needed_by = [s.id for s in workflow.steps if step.id in s.dependencies and s.status in {"in_progress", "completed"}]
    if needed_by:
        raise WorkflowRuleError(
            f"Step {step.id} cannot change from {step.status} to {status}: {shorten(needed_by)} started after it.",
            "Set those steps to pending first, with workflow_update_step.",
        )

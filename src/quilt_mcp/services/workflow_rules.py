"""Which steps may be added to a workflow, and which of their changes are refused."""

from collections.abc import Iterable

from quilt_mcp.services.workflow_model import DONE, Step, StepStatus, Workflow

STEPS = 100
DEPENDENCIES = 50


class WorkflowRuleError(ValueError):
    """A request that a workflow's rules refuse.

    Attributes:
        message: what is wrong.
        suggested_action: what to do instead.
    """

    def __init__(self, message: str, suggested_action: str) -> None:
        super().__init__(message)
        self.message = message
        self.suggested_action = suggested_action


def check_new_step(workflow: Workflow, step: Step) -> None:
    """Refuse a step that would be one too many, or that depends on itself or on steps that do not exist.

    As a step can only depend on steps that exist before it, cycles cannot form.
    """
    if len(workflow.steps) >= STEPS:
        raise WorkflowRuleError(
            f"Workflow {workflow.id} has {STEPS} steps, which is the most.",
            "Put further steps into another workflow, made with workflow_create.",
        )
    if len(step.dependencies) > DEPENDENCIES:
        raise WorkflowRuleError(
            f"{len(step.dependencies)} dependencies are too many.", f"Name at most {DEPENDENCIES} of them."
        )
    if step.id in step.dependencies:
        raise WorkflowRuleError(f"Step {step.id} cannot depend on itself.", "Remove it from its dependencies.")
    if missing := [name for name in step.dependencies if workflow.step(name) is None]:
        raise WorkflowRuleError(
            f"Workflow {workflow.id} has no step {listed(map(repr, missing))} to depend on.",
            f"Add these steps first with workflow_add_step; there are: {listed(step.id for step in workflow.steps)}.",
        )


def check_change(workflow: Workflow, step: Step, status: StepStatus) -> None:
    """Refuse to start a step before its dependencies are done, and to undo one that others already build on."""
    if status == step.status:
        return
    if status not in {"pending", "skipped"} and (waiting_for := workflow.unfinished_dependencies(step)):
        raise WorkflowRuleError(
            f"Step {step.id} cannot be {status}: it depends on {listed(waiting_for)}, not yet completed or skipped.",
            "Bring these steps to completed or skipped first, with workflow_update_step.",
        )
    if step.status in DONE and status not in DONE:
        _check_undone(workflow, step, status)


def listed(names: Iterable[str], most: int = 5) -> str:
    """The names as a text, with the number of those beyond the first few; "none" if there are none."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more or "none"


def _check_undone(workflow: Workflow, step: Step, status: StepStatus) -> None:
    built_on = [s.id for s in workflow.steps if step.id in s.dependencies and s.status in {"in_progress", "completed"}]
    if built_on:
        raise WorkflowRuleError(
            f"Step {step.id} cannot go from {step.status} to {status}: {listed(built_on)} already built on it.",
            "Set those steps back to pending first, with workflow_update_step.",
        )

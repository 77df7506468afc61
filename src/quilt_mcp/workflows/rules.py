"""The rules of workflows: valid arguments, steps and status changes, and the quota of a caller."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from quilt_mcp.app import current_app, identity
from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.uris import is_value
from quilt_mcp.workflows.model import DONE, STEP_STATUSES, Step, StepStatus, Workflow
from quilt_mcp.workflows.settings import WorkflowSettings

if TYPE_CHECKING:
    from quilt_mcp.workflows.store import WorkflowStore

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


NAME_LENGTH = 200
TEXT_LENGTH = 1000
JSON_BYTES = 4 * 1024
JSON_DEPTH = 32


def create_workflow(workflow_id: str, name: str, description: str, metadata: JSONObject | None, now: str) -> Workflow:
    """Return a workflow without steps."""
    _check_id("workflow_id", workflow_id)
    _check_text("name", name, NAME_LENGTH, required=True)
    _check_text("description", description, TEXT_LENGTH)
    return Workflow(
        id=workflow_id,
        name=name,
        description=description,
        metadata=_json_object("metadata", metadata or {}),
        created_at=now,
        updated_at=now,
    )


def create_step(  # noqa: PLR0917 - the arguments of the tool
    step_id: str,
    description: str,
    step_type: str,
    dependencies: list[str] | None,
    metadata: JSONObject | None,
    now: str,
) -> Step:
    """Return a pending step."""
    _check_id("step_id", step_id)
    _check_text("description", description, TEXT_LENGTH, required=True)
    _check_text("step_type", step_type, NAME_LENGTH, required=True)
    return Step(
        id=step_id,
        description=description,
        step_type=step_type,
        dependencies=list(dict.fromkeys(dependencies or [])),
        metadata=_json_object("metadata", metadata or {}),
        created_at=now,
    )


def parse_update(
    status: str, message: str | None, result: JSONObject | None, error_message: str | None
) -> tuple[StepStatus, JSONObject | None]:
    """Return the status and the result of an update."""
    _check_text("message", message, TEXT_LENGTH)
    _check_text("error_message", error_message, TEXT_LENGTH)
    if error_message is not None and status != "failed":
        raise WorkflowRuleError("error_message is only valid with the status failed.", "Use message for other notes.")
    for known in STEP_STATUSES:
        if known == status:
            return known, None if result is None else _json_object("result", result)
    raise WorkflowRuleError("Unknown step status.", f"Use one of: {', '.join(STEP_STATUSES)}.")


def _check_id(what: str, value: str) -> None:
    if not is_value(value):  # otherwise no URI could contain it
        raise WorkflowRuleError(
            f"{what} is not valid.", "Use 1 to 128 characters of A-Z a-z 0-9 . _ ~ -, for example rna-seq-2026."
        )


def _check_text(what: str, value: str | None, longest: int, *, required: bool = False) -> None:
    text = value or ""
    if required and not text.strip():
        raise WorkflowRuleError(f"{what} is empty.", f"Use 1 to {longest} characters.")
    if len(text) > longest:
        raise WorkflowRuleError(f"{what} has {len(text)} characters.", f"Use at most {longest} characters.")
    if "\0" in text:  # PostgreSQL cannot store it
        raise WorkflowRuleError(f"{what} contains a NUL character.", "Remove it.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise WorkflowRuleError(f"{what} is not valid Unicode.", "Remove the unpaired surrogates.") from error


def _json_object(what: str, value: JSONObject) -> JSONObject:
    """Return a copy of the value, which must be JSON, and not too large or too deep for other parsers."""
    not_json = WorkflowRuleError(
        f"{what} is not a JSON object.",
        "Use only objects with string keys, arrays, strings, finite numbers, booleans and null.",
    )
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise not_json from error
    if size > JSON_BYTES:
        raise WorkflowRuleError(
            f"{what} has {size} bytes as JSON.",
            f"Use at most {JSON_BYTES} bytes. Put large data into a Quilt package, and store its name here.",
        )
    if _depth(value) > JSON_DEPTH:
        raise WorkflowRuleError(f"{what} is nested too deeply.", f"Use at most {JSON_DEPTH} levels.")
    copy: JSONObject = json.loads(text)
    if copy != value:  # json.dumps has converted a key to a string, or a tuple to a list
        raise not_json
    return copy


def _depth(value: object) -> int:
    """Return the number of nested objects and arrays. Not recursive, because Python limits recursion."""
    depth, level = 0, [value]
    while containers := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return depth


_NAMED = 5


def check_number(store: "WorkflowStore") -> None:
    """Check that the caller can have another workflow. Writers take turns, so no other one is created meanwhile.

    Raises:
        WorkflowRuleError: the caller has as many as the quota allows.
    """
    most = current_app().settings_as(WorkflowSettings).workflows_per_caller
    if not identity.current().is_local and (number := store.count_by_status().total()) >= most:
        raise WorkflowRuleError(f"You have {number} workflows. Your quota is {most}.", _suggest_deletion(store))


def check_size(store: "WorkflowStore") -> None:
    """Check that the workflows of the caller are not too large, after a write. If they are, the write is rolled back.

    Raises:
        WorkflowRuleError: they are larger than the quota allows.
    """
    most = current_app().settings_as(WorkflowSettings).workflow_bytes_per_caller
    if not identity.current().is_local and (size := store.count_bytes()) > most:
        raise WorkflowRuleError(
            f"With this change, your workflows would have {size} bytes. Your quota is {most}. Nothing was changed.",
            _suggest_deletion(store),
        )


def _suggest_deletion(store: "WorkflowStore") -> str:
    names = ", ".join(store.oldest(_NAMED))
    return f"Delete workflows that you no longer need with workflow_delete, such as {names}."

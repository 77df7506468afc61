"""Workflows, their steps, and what is valid. The status of a workflow follows from the statuses of its steps.

    step       pending, in_progress, completed, failed, skipped
    workflow   created      every step is pending, or there is none
               in_progress  not all steps are pending, not all are done, and none has failed
               failed       at least one step has failed
               completed    there are steps, and all are completed or skipped

Points in time are text: ISO 8601 in UTC, to the second, with a `Z`. null means that it has not happened, or was not
given. A workflow, a step and a log entry are what the answers contain; nothing changes them in place.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.errors import InvalidArguments
from quilt_mcp.core.uris import is_value

StepStatus = Literal["pending", "in_progress", "completed", "failed", "skipped"]
WorkflowStatus = Literal["created", "in_progress", "failing", "failed", "completed"]
"""Of a workflow with a failed step: `failing` if another step is in progress or can start, else `failed`."""

STEP_STATUSES: tuple[StepStatus, ...] = get_args(StepStatus)
DONE = frozenset({"completed", "skipped"})
STEPS = 100
DEPENDENCIES = 50
NAME_LENGTH = 200
TEXT_LENGTH = 1000
JSON_BYTES = 4 * 1024
JSON_DEPTH = 32


class Step(TypedDict):
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


class LogEntry(TypedDict):
    """An update of a step."""

    timestamp: str
    """When the step was updated, ISO 8601 in UTC."""
    step_id: str
    """The ID of the step."""
    status_change: str
    """"old -> new"."""
    message: str | None
    """The message of the update; null if none was given."""


class Workflow(TypedDict):
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
    """When its first step started or was skipped, ISO 8601 in UTC; null if all are pending."""
    completed_at: str | None
    """When its last step was completed or skipped, ISO 8601 in UTC; null if steps are left."""
    steps: list[Step]
    """All of them."""
    execution_log: list[LogEntry]
    """The newest updates of steps, at most 100."""


class WorkflowRuleError(InvalidArguments):
    """A request that breaks a rule. The action says what to do instead."""

    def __init__(self, message: str, suggested_action: str) -> None:
        super().__init__(message, suggested_actions=[suggested_action])


def create_workflow(workflow_id: str, name: str, description: str, metadata: JSONObject | None, now: str) -> Workflow:
    _check_id("workflow_id", workflow_id)
    _check_text("name", name, NAME_LENGTH, required=True)
    _check_text("description", description, TEXT_LENGTH)
    return {
        "id": workflow_id,
        "name": name,
        "description": description,
        "metadata": _json_object("metadata", metadata or {}),
        "created_at": now,
        "updated_at": now,
        "status": "created",
        "started_at": None,
        "completed_at": None,
        "steps": [],
        "execution_log": [],
    }


def create_step(  # noqa: PLR0917 - the arguments of the tool
    step_id: str,
    description: str,
    step_type: str,
    dependencies: list[str] | None,
    metadata: JSONObject | None,
    now: str,
) -> Step:
    _check_id("step_id", step_id)
    _check_text("description", description, TEXT_LENGTH, required=True)
    _check_text("step_type", step_type, NAME_LENGTH, required=True)
    return {
        "id": step_id,
        "description": description,
        "step_type": step_type,
        "dependencies": list(dict.fromkeys(dependencies or [])),
        "metadata": _json_object("metadata", metadata or {}),
        "created_at": now,
        "status": "pending",
        "started_at": None,
        "completed_at": None,
        "error_message": None,
        "result": None,
    }


def parse_update(
    status: str, message: str | None, result: JSONObject | None, error_message: str | None
) -> tuple[StepStatus, JSONObject | None]:
    _check_text("message", message, TEXT_LENGTH)
    _check_text("error_message", error_message, TEXT_LENGTH)
    if error_message is not None and status != "failed":
        raise WorkflowRuleError("error_message is only valid with the status failed.", "Use message for other notes.")
    if status not in STEP_STATUSES:
        raise WorkflowRuleError("Unknown step status.", f"Use one of: {', '.join(STEP_STATUSES)}.")
    return status, None if result is None else _json_object("result", result)


def find_step(workflow: Workflow, step_id: str) -> Step | None:
    return next((step for step in workflow["steps"] if step["id"] == step_id), None)


def list_unfinished(workflow: Workflow, step: Step) -> list[str]:
    """Return the IDs of the step's dependencies that are neither completed nor skipped."""
    wanted = step["dependencies"]
    return [one["id"] for one in workflow["steps"] if one["id"] in wanted and one["status"] not in DONE]


def set_step(workflow: Workflow, changed: Step, now: str) -> Workflow:
    """Return the workflow with a step added or replaced, and the status that follows."""
    steps = [changed if step["id"] == changed["id"] else step for step in workflow["steps"]]
    if find_step(workflow, changed["id"]) is None:
        steps.append(changed)
    status = derive_status(steps)
    return {
        **workflow,
        "steps": steps,
        "status": status,
        "updated_at": now,
        "started_at": None if status == "created" else workflow["started_at"] or now,
        "completed_at": max(step["completed_at"] or now for step in steps) if status == "completed" else None,
    }


def set_status(
    step: Step, status: StepStatus, now: str, *, result: JSONObject | None = None, error_message: str | None = None
) -> Step:
    """Return the step with another status, or with the same status and a new result or error message.

    The statuses pending and in_progress remove the result and the error message of an earlier attempt.
    """
    kept = None if status in {"pending", "in_progress"} and status != step["status"] else step["result"]
    changed: Step = {**step, "status": status, "result": kept if result is None else result}
    if status == step["status"]:
        changed["error_message"] = step["error_message"] if error_message is None else error_message
        return changed
    first_start = step["started_at"] if status == "skipped" else step["started_at"] or now
    changed["started_at"] = {"pending": None, "in_progress": now}.get(status, first_start)
    changed["completed_at"] = now if status in DONE else None
    changed["error_message"] = error_message
    return changed


def list_ready(steps: Sequence[Step]) -> list[str]:
    """Return the IDs of the pending steps whose dependencies are completed or skipped."""
    open_ones = {one["id"] for one in steps if one["status"] not in DONE}
    return [one["id"] for one in steps if one["status"] == "pending" and not open_ones & {*one["dependencies"]}]


def derive_status(steps: Sequence[Step]) -> WorkflowStatus:
    """Return the status of a workflow with steps, which depends only on them."""
    present = {step["status"] for step in steps}
    if "failed" in present:
        return "failing" if "in_progress" in present or list_ready(steps) else "failed"
    if present <= DONE:
        return "completed"
    return "in_progress" if present - {"pending"} else "created"


_GIVEN = ("name", "description", "step_type", "dependencies", "metadata")


def is_defined_like(one: Workflow | Step, other: Workflow | Step) -> bool:
    """Return whether two workflows, or two steps, were created with the same values. Later updates do not matter."""
    return all(is_same(one.get(name), other.get(name)) for name in _GIVEN)


def is_same(one: object, other: object) -> bool:
    """Return whether two values are equal as JSON. In Python, `1 == True == 1.0`."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def is_repeated(workflow: Workflow, entry: LogEntry) -> bool:
    """Return whether the newest log entry of the same step has the same status and message."""
    for earlier in reversed(workflow["execution_log"]):
        if earlier["step_id"] == entry["step_id"]:
            is_same_status = earlier["status_change"].split()[-1] == entry["status_change"].split()[-1]
            return is_same_status and earlier["message"] == entry["message"]
    return entry["message"] is None


def check_new_step(workflow: Workflow, step: Step) -> None:
    """Check that a workflow can get another step, and that the step depends only on existing steps.

    So dependencies cannot form cycles.
    """
    if len(workflow["steps"]) >= STEPS:
        raise WorkflowRuleError(
            f"Workflow {workflow['id']} has {STEPS} steps, which is the maximum.",
            "Create another workflow with workflow_create for more steps.",
        )
    dependencies = step["dependencies"]
    if len(dependencies) > DEPENDENCIES:
        raise WorkflowRuleError(f"{len(dependencies)} dependencies are too many.", f"Use at most {DEPENDENCIES}.")
    if step["id"] in dependencies:
        raise WorkflowRuleError(f"Step {step['id']} cannot depend on itself.", "Remove it from its dependencies.")
    if missing := [name for name in dependencies if find_step(workflow, name) is None]:
        raise WorkflowRuleError(
            f"Workflow {workflow['id']} has no step {name_some(map(repr, missing))} to depend on.",
            "Add these steps first with workflow_add_step. "
            f"Existing steps: {name_some(one['id'] for one in workflow['steps'])}.",
        )


def check_change(workflow: Workflow, step: Step, status: StepStatus) -> None:
    """Check that a step starts only when its dependencies are done, and stays done while other steps need it."""
    if status == step["status"]:
        return
    if status not in {"pending", "skipped"} and (waiting_for := list_unfinished(workflow, step)):
        raise WorkflowRuleError(
            f"Step {step['id']} cannot be {status}: it depends on {name_some(waiting_for)}, "
            "not yet completed or skipped.",
            "Set these steps to completed or skipped first, with workflow_update_step.",
        )
    later = [one for one in workflow["steps"] if step["id"] in one["dependencies"]]
    started = [one["id"] for one in later if one["status"] in {"in_progress", "completed"}]
    if started and step["status"] in DONE and status not in DONE:
        raise WorkflowRuleError(
            f"Step {step['id']} cannot change from {step['status']} to {status}: "
            f"{name_some(started)} started after it.",
            "Set those steps to pending first, with workflow_update_step.",
        )


def name_some(names: Iterable[str], most: int = 5) -> str:
    """Return the first names and the number of the others; "none" if there are none."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more or "none"


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

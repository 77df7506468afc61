"""Checks the arguments of the workflow tools.

Every function raises WorkflowRuleError for an argument that is not valid.
"""

import json

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.uris import is_value
from quilt_mcp.workflows.model import STEP_STATUSES, Step, StepStatus, Workflow
from quilt_mcp.workflows.rules import WorkflowRuleError

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

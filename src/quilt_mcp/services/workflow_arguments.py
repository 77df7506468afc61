"""The arguments of the workflow tools: their limits, and what they are checked and made into.

Every function raises WorkflowRuleError for an argument that it refuses.
"""

import json
from typing import Any

from quilt_mcp.services.workflow_model import STEP_STATUSES, Step, StepStatus, Workflow
from quilt_mcp.services.workflow_rules import WorkflowRuleError
from quilt_mcp.uri_rules import is_value

NAME_LENGTH = 200
TEXT_LENGTH = 1000
JSON_BYTES = 4 * 1024
JSON_DEPTH = 32


def new_workflow(workflow_id: str, name: str, description: str, metadata: dict[str, Any] | None, now: str) -> Workflow:
    """A workflow without steps."""
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


def new_step(  # noqa: PLR0913, PLR0917 - they are the tool's arguments
    step_id: str,
    description: str,
    step_type: str,
    dependencies: list[str] | None,
    metadata: dict[str, Any] | None,
    now: str,
) -> Step:
    """A pending step."""
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


def checked_update(
    status: str, message: str | None, result: dict[str, Any] | None, error_message: str | None
) -> tuple[StepStatus, dict[str, Any] | None]:
    """The status and the result of an update."""
    _check_text("message", message, TEXT_LENGTH)
    _check_text("error_message", error_message, TEXT_LENGTH)
    if error_message is not None and status != "failed":
        raise WorkflowRuleError("error_message goes with the status failed.", "Use message for any other note.")
    for known in STEP_STATUSES:
        if known == status:
            return known, None if result is None else _json_object("result", result)
    raise WorkflowRuleError("This is no status of a step.", f"Use one of: {', '.join(STEP_STATUSES)}.")


def _check_id(what: str, value: str) -> None:
    if not is_value(value):  # else no URI could name it
        raise WorkflowRuleError(
            f"{what} is not valid.", "Use 1 to 128 characters of A-Z a-z 0-9 . _ ~ - for it, such as rna-seq-2026."
        )


def _check_text(what: str, value: str | None, longest: int, *, required: bool = False) -> None:
    text = value or ""
    if required and not text.strip():
        raise WorkflowRuleError(f"{what} is empty.", f"Give it 1 to {longest} characters.")
    if len(text) > longest:
        raise WorkflowRuleError(f"{what} has {len(text)} characters.", f"Shorten it to at most {longest}.")
    if "\0" in text:  # PostgreSQL keeps none
        raise WorkflowRuleError(f"{what} holds a NUL character.", "Remove it.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise WorkflowRuleError(f"{what} is not valid Unicode.", "Remove its unpaired surrogates.") from error


def _json_object(what: str, value: dict[str, Any]) -> dict[str, Any]:
    """A copy of the value, which must be JSON, and neither too large nor too deep to be read again anywhere."""
    not_json = WorkflowRuleError(
        f"{what} is not a JSON object.",
        "Use only objects with text keys, arrays, texts, finite numbers, booleans and null.",
    )
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise not_json from error
    if size > JSON_BYTES:
        raise WorkflowRuleError(
            f"{what} takes {size} bytes as JSON.",
            f"Shorten it to at most {JSON_BYTES}: put large data into a Quilt package, and its name here.",
        )
    if _depth(value) > JSON_DEPTH:
        raise WorkflowRuleError(f"{what} is nested too deeply.", f"Use at most {JSON_DEPTH} levels.")
    copy: dict[str, Any] = json.loads(text)
    if copy != value:  # json.dumps made a key into text, or a tuple into a list
        raise not_json
    return copy


def _depth(value: Any) -> int:
    """How many levels of objects and arrays there are; level by level, as recursion has its own limit."""
    depth, level = 0, [value]
    while containers := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return depth

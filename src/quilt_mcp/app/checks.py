"""The lines of the checklist that `quilt-mcp doctor` prints."""

from typing import Any, Literal, TypedDict

State = Literal["ok", "failed", "skipped", "info"]
Body = dict[str, Any]
"""The body that the tool get_resource returns: JSON."""


class Check(TypedDict):
    """One line of the checklist."""

    name: str
    state: State
    detail: str
    fix: str | None
    """How to fix a failure; None otherwise."""


def make_check(name: str, state: State, detail: str, fix: str | None = None) -> Check:
    """Return a line."""
    return {"name": name, "state": state, "detail": detail, "fix": fix}


def fail(name: str, body: Body) -> Check:
    """Return the line of a failed read, with the first action that its error suggests."""
    detail = body["message"] + (f" ({body['details']})" if body["details"] else "")
    actions = [action for action in body["suggested_actions"] if "quilt-mcp doctor" not in action]
    return make_check(name, "failed", detail, next(iter(actions), "Report this problem with the lines above."))

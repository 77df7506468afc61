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


def check_database(name: str, body: Body) -> Check:
    """Return the line of a database that was read, with every action that an error suggests: one of them helps."""
    if body["success"]:
        return make_check(name, "ok", "can be read")
    return make_check(name, "failed", _describe(body), " ".join(body["suggested_actions"]))


def fail(name: str, body: Body) -> Check:
    """Return the line of a failed read, with the first action that its error suggests."""
    actions = [action for action in body["suggested_actions"] if "quilt-mcp doctor" not in action]
    return make_check(name, "failed", _describe(body), next(iter(actions), "Report this problem with the lines above."))


def _describe(body: Body) -> str:
    return f"{body['message']} ({body['details']})" if body["details"] else str(body["message"])

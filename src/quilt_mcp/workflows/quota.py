"""The quota of a signed-in caller: how many workflows, and how large."""

from typing import TYPE_CHECKING

from quilt_mcp.app import current_app, identity
from quilt_mcp.workflows.rules import WorkflowRuleError
from quilt_mcp.workflows.settings import WorkflowSettings

if TYPE_CHECKING:
    from quilt_mcp.workflows.store import WorkflowStore

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

"""Reads and writes the workflows of one owner in one transaction."""

from collections import Counter
from typing import Any, TypedDict, cast

from sqlalchemy import Connection, CursorResult, Executable, Table

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.tracing import calling
from quilt_mcp.workflows import statements
from quilt_mcp.workflows.model import LogEntry, Step, Workflow, WorkflowStatus
from quilt_mcp.workflows.tables import log, steps, workflows

LOG_ENTRIES = 100
"""The number of log entries that are stored for a workflow: the newest ones."""
UNLIMITED = 2**63 - 1

_TIMES = ("status", "started_at", "completed_at")


class Summary(TypedDict):
    """A workflow with numbers of steps instead of the steps."""

    id: str
    name: str
    status: WorkflowStatus
    created_at: str
    updated_at: str
    total_steps: int
    completed_steps: int
    skipped_steps: int


class WorkflowStore:
    """The workflows of one owner. No method reads or writes rows of another.

    Args:
        connection: of one transaction; None for a database that does not exist yet.
        owner: the key of the caller's identity.
    """

    def __init__(self, connection: Connection | None, owner: str) -> None:
        self._connection = connection
        self._owner = owner

    def load(self, workflow_id: str) -> Workflow | None:
        """Return the workflow with its steps and its log; None if it does not exist."""
        rows = self._select(statements.WORKFLOW, of_workflow=workflow_id)
        if not rows:
            return None
        return Workflow(
            **rows[0],
            steps=[Step(**row) for row in self._select(statements.STEPS, of_workflow=workflow_id)],
            execution_log=[LogEntry(**row) for row in self._select(statements.LOG, of_workflow=workflow_id)],
        )

    def newest(self, limit: int) -> list[Summary]:
        """Return the workflows, most recently updated first."""
        return cast("list[Summary]", self._select(statements.NEWEST, number=limit))

    def ids(self, limit: int = UNLIMITED) -> list[str]:
        """Return the ids of the workflows, most recently updated first; of all without a limit."""
        return [row["id"] for row in self._select(statements.IDS, number=limit)]

    def count_by_status(self) -> Counter[str]:
        """Return the number of workflows in each status."""
        return Counter({row["status"]: row["number"] for row in self._select(statements.COUNTS)})

    def count_bytes(self) -> int:
        """Return the size of all texts of the owner, in bytes of UTF-8."""
        parts = (statements.WORKFLOW_BYTES, statements.STEP_BYTES, statements.LOG_BYTES)
        return sum(int(self._select(part)[0]["number"]) for part in parts)

    def oldest(self, limit: int) -> list[str]:
        """Return the ids of the workflows that may not be needed any more: the completed ones, then the oldest."""
        return [row["id"] for row in self._select(statements.OLDEST, number=limit)]

    def delete(self, workflow_id: str) -> bool:
        """Delete a workflow with its steps and its log; return whether it existed."""
        key = {"of_workflow": workflow_id}
        self._execute(statements.DELETE_LOG, key)
        self._execute(statements.DELETE_STEPS, key)
        return bool(self._execute(statements.DELETE_WORKFLOW, key).rowcount)

    def save(self, workflow: Workflow, step: Step | None = None, entry: LogEntry | None = None) -> None:
        """Store the workflow's own columns, and the step and the log entry that are new or changed."""
        key = {"of_workflow": workflow.id}
        times = _pick(workflow, "updated_at", *_TIMES)
        if not self._execute(statements.UPDATE_WORKFLOW, key | times).rowcount:
            self._insert(statements.INSERT_WORKFLOW, _row(workflows, workflow))
        if step is not None:
            changes = _pick(step, *_TIMES, "error_message", "result")
            if not self._execute(statements.UPDATE_STEP, key | {"of_step": step.id} | changes).rowcount:
                self._insert(statements.INSERT_STEP, _row(steps, step) | {"workflow_id": workflow.id})
        if entry is not None:
            self._insert(statements.INSERT_LOG_ENTRY, _row(log, entry) | {"workflow_id": workflow.id})
            self._execute(statements.TRIM_LOG, key | {"number": LOG_ENTRIES})

    def _select(self, query: Executable, **values: str | int) -> list[JSONObject]:
        return [] if self._connection is None else [dict(row) for row in self._execute(query, values).mappings()]

    def _insert(self, statement: Executable, row: JSONObject) -> None:
        self._run(statement, row | {"owner": self._owner})

    def _execute(self, statement: Executable, values: JSONObject) -> CursorResult[Any]:
        return self._run(statement, values | {"of_owner": self._owner})

    def _run(self, statement: Executable, values: JSONObject) -> CursorResult[Any]:
        if self._connection is None:
            raise RuntimeError("This store is read-only.")
        with calling("sql", "workflows"):
            return cast("CursorResult[Any]", self._connection.execute(statement, values))


def _row(table: Table, item: Workflow | Step | LogEntry) -> JSONObject:
    return _pick(item, *statements.columns_of(table))


def _pick(item: Workflow | Step | LogEntry, *names: str) -> JSONObject:
    return {name: getattr(item, name) for name in names}

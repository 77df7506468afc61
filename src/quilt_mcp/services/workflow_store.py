"""Workflows, where they are kept: in a file of this machine, or in a PostgreSQL that several machines share.

Workflows, steps and log entries are rows of their own rather than one document for each workflow: the list of all
workflows is then one query over a few columns, and an update writes only the rows that it changes. Free-form JSON
(metadata, results) and the lists of dependencies are text in a column. Both databases take the same statements.

A store is one owner's: that of the caller whose request it is opened in. It reaches no other's rows.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Protocol

from quilt_mcp import identity, runtime_context
from quilt_mcp.services import workflow_file
from quilt_mcp.services import workflow_sql as sql
from quilt_mcp.services.workflow_model import LogEntry, Step, Workflow

LOG_ENTRIES = 100
"""How many log entries are kept of each workflow: the newest."""
EVERY = 2**63 - 1

_JSON_COLUMNS = {"dependencies", "metadata", "result"}


class Rows(Protocol):
    """What a statement gives."""

    def fetchall(self) -> list[Any]:
        """Every row: a mapping from the column's name."""


class Connection(Protocol):
    """One transaction."""

    def execute(self, statement: str, values: Mapping[str, Any], /) -> Rows:
        """Run a statement of `workflow_sql`."""


class WorkflowStore:
    """What one owner can ask of the database and write to it, inside one transaction."""

    def __init__(self, connection: Connection, owner: str) -> None:
        self._connection = connection
        self._owner = owner

    def load(self, workflow_id: str) -> Workflow | None:
        """The workflow with its steps and its log, if it exists."""
        rows = self._rows(sql.WORKFLOW, id=workflow_id)
        if not rows:
            return None
        return Workflow(
            **rows[0],
            steps=[Step(**row) for row in self._rows(sql.STEPS, id=workflow_id)],
            execution_log=[LogEntry(**row) for row in self._rows(sql.LOG, id=workflow_id)],
        )

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """The workflows updated last, without their steps, but with total_, completed_ and skipped_steps."""
        return self._rows(sql.NEWEST, limit=limit)

    def ids(self, limit: int = EVERY) -> list[str]:
        """The ids of the workflows updated last; of all without a limit."""
        return [row["id"] for row in self._rows(sql.IDS, limit=limit)]

    def count_by_status(self) -> Counter[str]:
        """How many workflows have each status."""
        return Counter({row["status"]: row["workflows"] for row in self._rows(sql.COUNTS)})

    def save(self, workflow: Workflow, step: Step | None = None, entry: LogEntry | None = None) -> None:
        """Store the workflow's own columns, and the step and the log entry that are new or changed."""
        self._write(sql.SAVE_WORKFLOW, _columns(workflow))
        if step is not None:
            self._write(sql.SAVE_STEP, _columns(step) | {"workflow_id": workflow.id})
        if entry is not None:
            self._write(sql.ADD_LOG_ENTRY, _columns(entry) | {"workflow_id": workflow.id})
            self._write(sql.TRIM_LOG, {"workflow_id": workflow.id, "kept": LOG_ENTRIES})

    def _rows(self, query: str, **values: str | int) -> list[dict[str, Any]]:
        rows = self._connection.execute(query, {**values, "owner": self._owner}).fetchall()
        return [{name: _decoded(name, row[name]) for name in row.keys()} for row in rows]  # noqa: SIM118 - a Row iterates over values

    def _write(self, statement: str, values: dict[str, Any]) -> None:
        self._connection.execute(statement, {**values, "owner": self._owner})


@contextmanager
def reading() -> Iterator[WorkflowStore]:
    """The caller's store to read from, as of one moment.

    Raises:
        NotSignedIn: as `identity.current`.
        Unavailable, ResourceExecutionError: as `workflow_file.reading`, or as `SharedWorkflows.reading`.
    """
    owner = identity.current().key
    with (runtime_context.shared_workflows() or workflow_file).reading() as connection:
        yield WorkflowStore(connection, owner)


@contextmanager
def writing() -> Iterator[WorkflowStore]:
    """The caller's store to read from and write to. Committed when the block ends, rolled back if it raises.

    Raises:
        NotSignedIn: as `identity.current`.
        Unavailable, ResourceExecutionError: as `workflow_file.writing`, or as `SharedWorkflows.writing`.
    """
    owner = identity.current().key
    with (runtime_context.shared_workflows() or workflow_file).writing() as connection:
        yield WorkflowStore(connection, owner)


def _columns(item: Workflow | Step | LogEntry) -> dict[str, Any]:
    values = asdict(item)
    return {name: _encoded(name, value) for name, value in values.items() if name not in {"steps", "execution_log"}}


def _encoded(name: str, value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if name in _JSON_COLUMNS and value is not None else value


def _decoded(name: str, value: Any) -> Any:
    return json.loads(value) if name in _JSON_COLUMNS and value is not None else value

"""Workflows on disk: one SQLite file, `workflows.sqlite3`, in the data directory.

Workflows, steps and log entries are rows of their own rather than one document for each workflow: the list of all
workflows is then one query over a few columns, and an update writes only the rows that it changes. Free-form JSON
(metadata, results) and the lists of dependencies are text in a column.

Several processes may use the file at once. Each use opens a connection of its own and is one transaction; a writer
takes the write lock before it reads, so that none overwrites what it has not seen. What is committed is on the disk.
The write-ahead log needs a local disk: the data directory should not lie on a network file system.
"""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from quilt_mcp import runtime_context
from quilt_mcp.services import workflow_sql as sql
from quilt_mcp.services.workflow_failures import named_failures, newer_schema
from quilt_mcp.services.workflow_model import LogEntry, Step, Workflow

FILE_NAME = "workflows.sqlite3"
BUSY_SECONDS = 5.0
"""How long a transaction waits for another process's."""
LOG_ENTRIES = 100
"""How many log entries are kept of each workflow: the newest."""

_JSON_COLUMNS = {"dependencies", "metadata", "result"}


class WorkflowStore:
    """What can be asked of the file and written to it, inside one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def load(self, workflow_id: str) -> Workflow | None:
        """The workflow with its steps and its log, if it exists."""
        rows = self._rows(sql.WORKFLOW, workflow_id)
        if not rows:
            return None
        return Workflow(
            **rows[0],
            steps=[Step(**row) for row in self._rows(sql.STEPS, workflow_id)],
            execution_log=[LogEntry(**row) for row in self._rows(sql.LOG, workflow_id)],
        )

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """The workflows updated last, without their steps, but with total_, completed_ and skipped_steps."""
        return self._rows(sql.NEWEST, limit)

    def ids(self, limit: int = -1) -> list[str]:
        """The ids of the workflows updated last; of all without a limit."""
        return [row["id"] for row in self._rows(sql.IDS, limit)]

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

    def _rows(self, query: str, *values: str | int) -> list[dict[str, Any]]:
        rows = self._connection.execute(query, values).fetchall()
        return [{name: _decoded(name, row[name]) for name in row.keys()} for row in rows]  # noqa: SIM118 - a Row iterates over values

    def _write(self, statement: str, values: dict[str, Any]) -> None:
        self._connection.execute(statement, values)


@contextmanager
def reading() -> Iterator[WorkflowStore]:
    """A store to read from, as of one moment. It is empty, and nothing is made on disk, before the first write.

    Raises:
        Unavailable: another process held the file for too long.
        ResourceExecutionError: the file cannot be read, is damaged, or is a newer version's.
    """
    with named_failures(), ExitStack() as connections:
        connection = _open_existing(connections)
        connection.execute("BEGIN")
        yield WorkflowStore(connection)


@contextmanager
def writing() -> Iterator[WorkflowStore]:
    """A store to read from and write to. Committed when the block ends, rolled back if it raises.

    Raises:
        Unavailable: another process held the file for too long.
        ResourceExecutionError: the file cannot be written, is damaged, is a newer version's, or the disk is full.
    """
    with named_failures(), _connected(_uri(_made_file())) as connection:
        _prefer_write_ahead_log(connection)
        connection.execute("BEGIN IMMEDIATE")
        if not _schema_version(connection):
            _create_schema(connection)
        yield WorkflowStore(connection)
        connection.execute("COMMIT")  # closing without it rolls back


def _path() -> Path:
    return runtime_context.settings().data_dir / FILE_NAME


def _uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=rw"  # rw, not rwc: SQLite shall not create it


def _made_file() -> Path:
    path = _path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its -wal and -shm files the same mode
    return path


@contextmanager
def _connected(database: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(database, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    with closing(connection):
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        yield connection


def _open_existing(connections: ExitStack) -> sqlite3.Connection:
    if (path := _path()).exists():
        connection = connections.enter_context(_connected(_uri(path)))
        if _schema_version(connection):
            return connection
    empty = connections.enter_context(_connected(":memory:"))
    _create_schema(empty)
    return empty


def _prefer_write_ahead_log(connection: sqlite3.Connection) -> None:
    # SQLite does not always wait for this lock. Writing is as safe without the log, the next writer switches to it, and
    # trouble that is more than a lock comes up again in the transaction.
    with suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")


def _schema_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > sql.SCHEMA_VERSION:
        raise newer_schema(version, sql.SCHEMA_VERSION)
    return version


def _create_schema(connection: sqlite3.Connection) -> None:
    for statement in sql.SCHEMA:
        connection.execute(statement)


def _columns(item: Workflow | Step | LogEntry) -> dict[str, Any]:
    values = asdict(item)
    return {name: _encoded(name, value) for name, value in values.items() if name not in {"steps", "execution_log"}}


def _encoded(name: str, value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if name in _JSON_COLUMNS and value is not None else value


def _decoded(name: str, value: Any) -> Any:
    return json.loads(value) if name in _JSON_COLUMNS and value is not None else value

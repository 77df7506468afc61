"""Reads and writes the workflows of one owner in one transaction."""

from collections import Counter
from typing import Any, TypedDict, cast

from sqlalchemy import (
    BindParameter,
    Connection,
    CursorResult,
    Delete,
    Executable,
    Integer,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.tracing import calling
from quilt_mcp.workflows.model import LogEntry, Step, Workflow, WorkflowStatus
from quilt_mcp.workflows.tables import log, steps, workflows

_OWNER: BindParameter[str] = bindparam("of_owner")
_WORKFLOW: BindParameter[str] = bindparam("of_workflow")
_KEYS = {"owner", "workflow_id", "position"}
"""The columns that are not part of a workflow, a step or a log entry."""
_STAMPS = ("created_at", "updated_at", "started_at", "completed_at", "timestamp")
"""Columns with short texts that a caller does not choose."""


def columns_of(table: Table) -> list[str]:
    """Return the names of the columns that are part of a workflow, a step or a log entry."""
    return [column.name for column in table.columns if column.name not in _KEYS]


def _select_items(table: Table) -> Select[tuple[object, ...]]:
    return select(*(table.c[name] for name in columns_of(table))).where(table.c.owner == _OWNER)


def _update(table: Table) -> Update:
    return update(table).where(table.c.owner == _OWNER)


class _Bytes(GenericFunction[int]):
    """The size of a text in bytes of UTF-8."""

    type = Integer()
    inherit_cache = True
    name = "octet_length"


@compiles(_Bytes, "sqlite")
def _count_bytes(element: _Bytes, compiler: SQLCompiler, **options: object) -> str:
    return f"length(CAST({compiler.process(element.clauses, **options)} AS BLOB))"  # octet_length needs SQLite 3.43


def _sum_sizes(table: Table) -> Select[int]:
    texts = [column for name, column in table.columns.items() if name not in {"owner", "position", *_STAMPS}]
    size = sum((func.coalesce(_Bytes(column), 0) for column in texts[1:]), func.coalesce(_Bytes(texts[0]), 0))
    return select(func.coalesce(func.sum(size), 0).label("number")).where(table.c.owner == _OWNER)


def _delete(table: Table) -> Delete:
    key = table.c.id if table is workflows else table.c.workflow_id
    return delete(table).where(table.c.owner == _OWNER, key == _WORKFLOW)


WORKFLOW = _select_items(workflows).where(workflows.c.id == _WORKFLOW)
STEPS = _select_items(steps).where(steps.c.workflow_id == _WORKFLOW).order_by(steps.c.position)
LOG = _select_items(log).where(log.c.workflow_id == _WORKFLOW).order_by(log.c.position)

IDS = (
    select(workflows.c.id)
    .where(workflows.c.owner == _OWNER)
    .order_by(workflows.c.updated_at.desc(), workflows.c.id)
    .limit(bindparam("number"))
)
COUNTS = (
    select(workflows.c.status, func.count().label("number"))
    .where(workflows.c.owner == _OWNER)
    .group_by(workflows.c.status)
)
OLDEST = (
    select(workflows.c.id)
    .where(workflows.c.owner == _OWNER)
    .order_by((workflows.c.status == "completed").desc(), workflows.c.updated_at, workflows.c.id)
    .limit(bindparam("number"))
)
"""The completed ones first."""
WORKFLOW_BYTES, STEP_BYTES, LOG_BYTES = _sum_sizes(workflows), _sum_sizes(steps), _sum_sizes(log)

_newest = IDS.with_only_columns(
    workflows.c.id, workflows.c.name, workflows.c.status, workflows.c.created_at, workflows.c.updated_at
).subquery()
NEWEST = (
    select(
        *_newest.c,
        func.count(steps.c.id).label("total_steps"),
        func.count().filter(steps.c.status == "completed").label("completed_steps"),
        func.count().filter(steps.c.status == "skipped").label("skipped_steps"),
    )
    .select_from(_newest)
    .outerjoin(steps, and_(steps.c.owner == _OWNER, steps.c.workflow_id == _newest.c.id))
    .group_by(*_newest.c)
    .order_by(_newest.c.updated_at.desc(), _newest.c.id)
)

# The parameters of these are also the columns to set.
INSERT_WORKFLOW, INSERT_STEP, INSERT_LOG_ENTRY = insert(workflows), insert(steps), insert(log)
UPDATE_WORKFLOW = _update(workflows).where(workflows.c.id == _WORKFLOW)
UPDATE_STEP = _update(steps).where(steps.c.workflow_id == _WORKFLOW, steps.c.id == bindparam("of_step"))
# Log entries refer to steps, and steps to workflows.
DELETE_LOG, DELETE_STEPS, DELETE_WORKFLOW = _delete(log), _delete(steps), _delete(workflows)

_of_log = and_(log.c.owner == _OWNER, log.c.workflow_id == _WORKFLOW)
TRIM_LOG = delete(log).where(
    _of_log,
    log.c.position
    <= select(log.c.position)
    .where(_of_log)
    .order_by(log.c.position.desc())
    .offset(bindparam("number"))
    .limit(1)
    .scalar_subquery(),
)


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
        rows = self._select(WORKFLOW, of_workflow=workflow_id)
        if not rows:
            return None
        return Workflow(
            **rows[0],
            steps=[Step(**row) for row in self._select(STEPS, of_workflow=workflow_id)],
            execution_log=[LogEntry(**row) for row in self._select(LOG, of_workflow=workflow_id)],
        )

    def newest(self, limit: int) -> list[Summary]:
        """Return the workflows, most recently updated first."""
        return cast("list[Summary]", self._select(NEWEST, number=limit))

    def ids(self, limit: int = UNLIMITED) -> list[str]:
        """Return the ids of the workflows, most recently updated first; of all without a limit."""
        return [row["id"] for row in self._select(IDS, number=limit)]

    def count_by_status(self) -> Counter[str]:
        """Return the number of workflows in each status."""
        return Counter({row["status"]: row["number"] for row in self._select(COUNTS)})

    def count_bytes(self) -> int:
        """Return the size of all texts of the owner, in bytes of UTF-8."""
        parts = (WORKFLOW_BYTES, STEP_BYTES, LOG_BYTES)
        return sum(int(self._select(part)[0]["number"]) for part in parts)

    def oldest(self, limit: int) -> list[str]:
        """Return the ids of the workflows that may not be needed any more: the completed ones, then the oldest."""
        return [row["id"] for row in self._select(OLDEST, number=limit)]

    def delete(self, workflow_id: str) -> bool:
        """Delete a workflow with its steps and its log; return whether it existed."""
        key = {"of_workflow": workflow_id}
        self._execute(DELETE_LOG, key)
        self._execute(DELETE_STEPS, key)
        return bool(self._execute(DELETE_WORKFLOW, key).rowcount)

    def save(self, workflow: Workflow, step: Step | None = None, entry: LogEntry | None = None) -> None:
        """Store the workflow's own columns, and the step and the log entry that are new or changed."""
        key = {"of_workflow": workflow.id}
        times = _pick(workflow, "updated_at", *_TIMES)
        if not self._execute(UPDATE_WORKFLOW, key | times).rowcount:
            self._insert(INSERT_WORKFLOW, _row(workflows, workflow))
        if step is not None:
            changes = _pick(step, *_TIMES, "error_message", "result")
            if not self._execute(UPDATE_STEP, key | {"of_step": step.id} | changes).rowcount:
                self._insert(INSERT_STEP, _row(steps, step) | {"workflow_id": workflow.id})
        if entry is not None:
            self._insert(INSERT_LOG_ENTRY, _row(log, entry) | {"workflow_id": workflow.id})
            self._execute(TRIM_LOG, key | {"number": LOG_ENTRIES})

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
    return _pick(item, *columns_of(table))


def _pick(item: Workflow | Step | LogEntry, *names: str) -> JSONObject:
    return {name: getattr(item, name) for name in names}

"""The tables of workflows, what reads and writes them, and the transactions of their database.

It is a file of this machine, or a PostgreSQL database that several machines share. Workflows, steps and log entries
have rows of their own, so the list of all workflows is one query over a few columns, and an update writes only the rows
that change. Each row belongs to an owner, the caller that created it: two owners can use the same id. `Workflows`
imports this on first use, because it imports SQLAlchemy.
"""

import json
import logging
import math
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, TypedDict, cast

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    Delete,
    Dialect,
    Executable,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    Update,
    and_,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateSchema
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

from quilt_mcp.app.database.engines import Migrations, Schema, Storage, make_file, missing_columns, translate
from quilt_mcp.app.database.failures import FOREIGN, LOCKED, NEWER, DatabaseFailures
from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.core.tracing import calling
from quilt_mcp.core.uris import is_value
from quilt_mcp.workflows.model import LogEntry, Step, Workflow, WorkflowStatus
from quilt_mcp.workflows.settings import FILE_NAME, WorkflowSettings

logger = logging.getLogger(__name__)

metadata = MetaData()

Key = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that is compared and sorted by its characters, regardless of the language of the database."""
Position = BigInteger().with_variant(Integer, "sqlite")


class JSONText(TypeDecorator[object]):
    """A JSON value as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:  # noqa: ARG002 - of SQLAlchemy
        return None if value is None else json.dumps(value, ensure_ascii=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> object:  # noqa: ARG002 - of SQLAlchemy
        return None if value is None else json.loads(value)


workflows = Table(
    "workflows",
    metadata,
    Column("owner", Key, primary_key=True),
    Column("id", Key, primary_key=True),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("metadata", JSONText, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("updated_at", Key, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", Text),
    Column("completed_at", Text),
)
Index("workflows_by_update", workflows.c.owner, workflows.c.updated_at.desc(), workflows.c.id)

steps = Table(
    "steps",
    metadata,
    Column("position", Position, Identity(always=True), primary_key=True),
    Column("owner", Key, nullable=False),
    Column("workflow_id", Key, nullable=False),
    Column("id", Key, nullable=False),
    Column("description", Text, nullable=False),
    Column("step_type", Text, nullable=False),
    Column("dependencies", JSONText, nullable=False),
    Column("metadata", JSONText, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", Text),
    Column("completed_at", Text),
    Column("error_message", Text),
    Column("result", JSONText),
    UniqueConstraint("owner", "workflow_id", "id"),
    ForeignKeyConstraint(["owner", "workflow_id"], ["workflows.owner", "workflows.id"]),
)

log = Table(
    "log",
    metadata,
    Column("position", Position, Identity(always=True), primary_key=True),
    Column("owner", Key, nullable=False),
    Column("workflow_id", Key, nullable=False),
    Column("step_id", Key, nullable=False),
    Column("timestamp", Text, nullable=False),
    Column("status_change", Text, nullable=False),
    Column("message", Text),
    ForeignKeyConstraint(["owner", "workflow_id", "step_id"], ["steps.owner", "steps.workflow_id", "steps.id"]),
    Index("log_of_workflow", "owner", "workflow_id", "position"),
)

_OWNER: BindParameter[str] = bindparam("of_owner")
_WORKFLOW: BindParameter[str] = bindparam("of_workflow")
_STAMPS = ("created_at", "updated_at", "started_at", "completed_at", "timestamp")
"""Columns with short texts that a caller does not choose."""


_ITEMS = {workflows.name: Workflow, steps.name: Step, log.name: LogEntry}


def columns_of(table: Table) -> list[str]:
    """Return the names of the columns that are part of a workflow, a step or a log entry."""
    return [name for name in _ITEMS[table.name].__annotations__ if name in table.c]


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


def _select_newest(*conditions: ColumnElement[bool]) -> Executable:
    newest = (
        IDS.with_only_columns(
            workflows.c.id, workflows.c.name, workflows.c.status, workflows.c.created_at, workflows.c.updated_at
        )
        .where(*conditions)
        .subquery()
    )
    return (
        select(
            *newest.c,
            func.count(steps.c.id).label("total_steps"),
            func.count().filter(steps.c.status == "completed").label("completed_steps"),
            func.count().filter(steps.c.status == "skipped").label("skipped_steps"),
        )
        .select_from(newest)
        .outerjoin(steps, and_(steps.c.owner == _OWNER, steps.c.workflow_id == newest.c.id))
        .group_by(*newest.c)
        .order_by(newest.c.updated_at.desc(), newest.c.id)
    )


_of_status = workflows.c.status == bindparam("of_status")
_after = or_(
    workflows.c.updated_at < bindparam("time"),
    and_(workflows.c.updated_at == bindparam("time"), workflows.c.id > bindparam("after")),
)
NEWEST, NEWEST_OF_STATUS = _select_newest(), _select_newest(_of_status)
NEXT, NEXT_OF_STATUS = _select_newest(_after), _select_newest(_of_status, _after)

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
    """The workflows of one owner. No method reads or writes rows of another."""

    def __init__(self, connection: Connection | None, owner: str) -> None:
        self._connection = connection
        self._owner = owner

    def load(self, workflow_id: str) -> Workflow | None:
        # no workflow has another ID, and PostgreSQL cannot read some of them
        rows = self._select(WORKFLOW, of_workflow=workflow_id) if is_value(workflow_id) else []
        if not rows:
            return None
        found = {
            **rows[0],
            "steps": self._select(STEPS, of_workflow=workflow_id),
            "execution_log": self._select(LOG, of_workflow=workflow_id),
        }
        return cast("Workflow", found)

    def newest(self, limit: int, *, status: str | None = None, after: tuple[str, str] | None = None) -> list[Summary]:
        """Return workflows, the latest update first: those of a status, and behind one with this time and ID."""
        values: dict[str, str | int] = {"number": limit} | ({} if status is None else {"of_status": status})
        if after is None:
            statement = NEWEST if status is None else NEWEST_OF_STATUS
        else:
            statement = NEXT if status is None else NEXT_OF_STATUS
            values |= {"time": after[0], "after": after[1]}
        return cast("list[Summary]", self._select(statement, **values))

    def ids(self, limit: int = UNLIMITED) -> list[str]:
        return [row["id"] for row in self._select(IDS, number=limit)]

    def count_by_status(self) -> Counter[str]:
        return Counter({row["status"]: row["number"] for row in self._select(COUNTS)})

    def count_bytes(self) -> int:
        """Return the size of all texts of the owner, in bytes of UTF-8."""
        parts = (WORKFLOW_BYTES, STEP_BYTES, LOG_BYTES)
        return sum(int(self._select(part)[0]["number"]) for part in parts)

    def oldest(self, limit: int) -> list[str]:
        """Return the ids of the workflows that may not be needed any more: the completed ones, then the oldest."""
        return [row["id"] for row in self._select(OLDEST, number=limit)]

    def delete(self, workflow_id: str) -> bool:
        if not is_value(workflow_id):
            return False
        key = {"of_workflow": workflow_id}
        self._execute(DELETE_LOG, key)
        self._execute(DELETE_STEPS, key)
        return bool(self._execute(DELETE_WORKFLOW, key).rowcount)

    def save(self, workflow: Workflow, step: Step | None = None, entry: LogEntry | None = None) -> None:
        """Store the workflow's own columns, and the step and the log entry that are new or changed."""
        key: JSONObject = {"of_workflow": workflow["id"]}
        times = _pick(workflow, "updated_at", *_TIMES)
        if not self._execute(UPDATE_WORKFLOW, key | times).rowcount:
            self._insert(INSERT_WORKFLOW, _row(workflows, workflow))
        if step is not None:
            changes = _pick(step, *_TIMES, "error_message", "result")
            if not self._execute(UPDATE_STEP, key | {"of_step": step["id"]} | changes).rowcount:
                self._insert(INSERT_STEP, _row(steps, step) | {"workflow_id": workflow["id"]})
        if entry is not None:
            self._insert(INSERT_LOG_ENTRY, _row(log, entry) | {"workflow_id": workflow["id"]})
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
    return {name: value for name, value in item.items() if name in names}


SCHEMA = "quilt_mcp_workflows"
"""The schema of the tables in PostgreSQL."""

FAILURES = DatabaseFailures(
    name="workflow database",
    setting="QUILT_MCP_WORKFLOWS_URL",
    file_name=FILE_NAME,
    check="If the error persists, check QUILT_MCP_WORKFLOWS_URL.",
    grant=f"Let the user of QUILT_MCP_WORKFLOWS_URL create the schema {SCHEMA}, or make it the schema's owner.",
)


# A change of the tables is a step of its own, with the next number. It then copies the tables of 0001 here.
MIGRATIONS = Migrations(version_table="workflows_schema_version", steps={"0001": metadata.create_all})
_COLUMNS = {table.name: set(table.columns.keys()) for table in metadata.sorted_tables}


def examine(connection: Connection) -> Schema:
    """Return what a connection sees. Changes nothing."""
    # Named, because the search path leaves out a schema that the user may not use.
    schema = SCHEMA if connection.dialect.name == "postgresql" else None
    inspector = inspect(connection)
    tables = inspector.get_table_names(schema)
    if found := MIGRATIONS.find_schema(connection, tables, schema):
        if found.state == "newer":
            raise FAILURES.make(NEWER, f"schema {found.revision}; this version supports up to {MIGRATIONS.newest}")
        return found
    if not set(tables) - {MIGRATIONS.version_table}:
        return Schema("empty")
    missing = missing_columns(inspector, _COLUMNS, schema)
    if workflows.name in tables and (mark := _read_mark(connection, tables)):
        if missing:
            raise FAILURES.make(NEWER, f"schema of the mark {mark}, without {', '.join(missing)}")
        return Schema("outdated")  # it has the tables of 0001
    raise FAILURES.make(FOREIGN, f"missing: {', '.join(missing) or 'the schema version'}")


def _read_mark(connection: Connection, tables: Collection[str]) -> int | None:
    """Return the number with which versions before the first migration marked their tables."""
    if connection.dialect.name == "sqlite":
        return connection.exec_driver_sql("PRAGMA user_version").scalar()
    if "schema_version" not in tables:
        return None
    return connection.exec_driver_sql(f"SELECT max(number) FROM {SCHEMA}.schema_version").scalar()  # noqa: S608 - a constant


BATCH = 100
"""The most that one transaction deletes, because other writers wait for it."""


def delete_expired(connection: Connection, days: int) -> int:
    """Delete at most one batch of workflows with their last change more than `days` ago; return how many."""
    until = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    expired = (
        select(workflows.c.owner, workflows.c.id)
        .where(workflows.c.updated_at < until)
        .order_by(workflows.c.updated_at, workflows.c.owner, workflows.c.id)
        .limit(BATCH)
    )
    number = 0
    # log entries refer to steps, and steps to workflows: so all three statements find the same workflows
    for table, key in ((log, log.c.workflow_id), (steps, steps.c.workflow_id), (workflows, workflows.c.id)):
        with calling("sql", "workflows"):
            number = connection.execute(delete(table).where(tuple_(table.c.owner, key).in_(expired))).rowcount
    return number


class WorkflowDatabase:
    """One database. Each use opens a connection and is one transaction.

    Args:
        settings: `workflows_url` or else `data_dir`, and `database_timeout_seconds`.
        queue_seconds: how long a writer of a file waits for the other writers of this process.
    """

    def __init__(self, settings: WorkflowSettings, *, queue_seconds: float) -> None:
        self._queue_seconds = queue_seconds
        self._turn = Lock()
        self._locked_at = -math.inf
        self._storage = Storage(
            settings.workflows_url,
            settings.data_dir / FILE_NAME,
            FAILURES,
            seconds=settings.database_timeout_seconds,
            keeps_connections=False,
            schema=SCHEMA,
        )

    @contextmanager
    def reading(self, owner: str) -> Iterator[WorkflowStore]:
        """Yield the owner's store, which reads one snapshot. It is empty before the first write, and creates nothing.

        Raises:
            Unavailable: the database cannot be reached, is too slow or too busy.
            ResourceExecutionError: it cannot be read, is damaged, or has tables of another program or a newer version.
        """
        with ExitStack() as connections:
            yield WorkflowStore(self._open_existing(connections), owner)

    @contextmanager
    def writing(self, owner: str) -> Iterator[WorkflowStore]:
        """Yield the owner's store to read and write. It commits when the block ends, and rolls back if it raises."""
        with self.changing() as connection:
            yield WorkflowStore(connection, owner)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Yield a connection to read and write the workflows of every owner, in one transaction, as `writing`."""
        file = self._storage.file
        with translate(FAILURES), self._next_turn():
            if file:
                make_file(file)
                with self._storage.transaction() as connection:
                    examine(connection)  # before the write-ahead log is turned on: a refused file stays as it is
            with self._storage.transaction(writes=True) as connection:
                if file is None:
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock(hashtextextended('{SCHEMA}', 0))")
                _migrate(connection)
                yield connection

    def close(self) -> None:
        self._storage.close()

    def _open_existing(self, connections: ExitStack) -> Connection | None:
        if self._storage.file and not self._storage.file.exists():
            return None
        with ExitStack() as first:
            connection = first.enter_context(self._storage.transaction())
            state = examine(connection).state
            if state != "outdated":
                connections.push(first.pop_all())
                return None if state == "empty" else connection
        with self.writing(""):  # which migrates
            pass
        return connections.enter_context(self._storage.transaction())

    @contextmanager
    def _next_turn(self) -> Iterator[None]:
        """Let threads write to a file in turn: SQLite lets them retry now and then, and some would never get theirs."""
        if self._storage.file is None:
            yield
            return
        asked = time.monotonic()
        if not self._turn.acquire(timeout=self._queue_seconds):
            raise Unavailable("Too many workflows are written at the same time.")
        try:
            if self._locked_at > asked:  # the writer before has waited for another program, as this one would
                raise FAILURES.make(LOCKED)
            yield
        except Unavailable as failure:
            if failure.message == FAILURES.make(LOCKED).message:
                self._locked_at = time.monotonic()
            raise
        finally:
            self._turn.release()


def _migrate(connection: Connection) -> None:
    """Create the tables, or migrate those of an earlier version, in the transaction of the connection."""
    schema = examine(connection)
    if schema.state == "current":
        return
    if connection.dialect.name == "postgresql" and not inspect(connection).has_schema(SCHEMA):
        connection.execute(CreateSchema(SCHEMA))
    MIGRATIONS.upgrade(connection)
    logger.info("workflow database migrated from %s to %s", schema.state, MIGRATIONS.newest)

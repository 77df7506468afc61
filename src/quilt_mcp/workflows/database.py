"""The workflow database: a file of this machine, or a PostgreSQL database that several machines share.

Only `Workflows` imports this, when it is first used, because it imports SQLAlchemy.
"""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, bindparam, delete, inspect, select, tuple_
from sqlalchemy.schema import CreateSchema

from quilt_mcp.app.database.engines import Storage, make_file, translate
from quilt_mcp.app.database.failures import DatabaseFailures
from quilt_mcp.app.database.schema import Migrations, Schema, missing_columns
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.core.tracing import calling
from quilt_mcp.workflows.settings import FILE_NAME, WorkflowSettings
from quilt_mcp.workflows.store import WorkflowStore
from quilt_mcp.workflows.tables import log, metadata, steps, workflows

SCHEMA = "quilt_mcp_workflows"
"""The schema of the tables in PostgreSQL."""

FAILURES = DatabaseFailures(
    name="workflow database",
    setting="QUILT_MCP_WORKFLOWS_URL",
    file_name=FILE_NAME,
    check="If the error persists, check QUILT_MCP_WORKFLOWS_URL.",
    grant=f"Let the user of QUILT_MCP_WORKFLOWS_URL create the schema {SCHEMA}, or make it the schema's owner.",
)


MIGRATIONS = Migrations(
    folder=Path(__file__).parent / "migrations",
    version_table="workflows_schema_version",
    revisions=("0001",),
)
_COLUMNS = {table.name: set(table.columns.keys()) for table in metadata.sorted_tables}


def examine(connection: Connection) -> Schema:
    """Return what a connection sees. Changes nothing.

    Raises:
        ResourceExecutionError: the tables are of a newer version or another program.
    """
    # Named, because the search path leaves out a schema that the user may not use.
    schema = SCHEMA if connection.dialect.name == "postgresql" else None
    inspector = inspect(connection)
    tables = inspector.get_table_names(schema)
    if found := MIGRATIONS.find_schema(connection, tables, schema):
        if found.state == "newer":
            raise FAILURES.make_newer(str(found.revision), MIGRATIONS.newest)
        return found
    if not set(tables) - {MIGRATIONS.version_table}:
        return Schema("empty")
    missing = missing_columns(inspector, _COLUMNS, schema)
    raise FAILURES.make_foreign(", ".join(missing) or "the schema version")


BATCH = 100
"""The most that one transaction deletes, because other writers wait for it."""

_EXPIRED = (
    select(workflows.c.owner, workflows.c.id)
    .where(workflows.c.updated_at < bindparam("until"))
    .order_by(workflows.c.updated_at, workflows.c.owner, workflows.c.id)
    .limit(BATCH)
)
# Log entries refer to steps, and steps to workflows: so all three statements find the same workflows.
_STATEMENTS = [
    *(delete(table).where(tuple_(table.c.owner, table.c.workflow_id).in_(_EXPIRED)) for table in (log, steps)),
    delete(workflows).where(tuple_(workflows.c.owner, workflows.c.id).in_(_EXPIRED)),
]


def delete_expired(connection: Connection, days: int) -> int:
    """Delete at most one batch of workflows with their last change more than `days` ago; return how many."""
    until = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with calling("sql", "workflows"):
        return [connection.execute(statement, {"until": until}).rowcount for statement in _STATEMENTS][-1]


logger = logging.getLogger(__name__)


class WorkflowDatabase:
    """One database. Each use opens a connection and is one transaction.

    Args:
        settings: `workflows_url` or else `data_dir`, and `database_timeout_seconds`.
        queue_seconds: how long a writer of a file waits for the other writers of this process.
    """

    def __init__(self, settings: WorkflowSettings, *, queue_seconds: float) -> None:
        self._queue_seconds = queue_seconds
        # SQLite lets waiting connections retry now and then. Without this lock, some would never get their turn.
        self._turn = Lock()
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
        """Yield the owner's store to read and write. It commits when the block ends, and rolls back if it raises.

        Raises:
            Unavailable, ResourceExecutionError: as `reading`; or the database cannot be written, or the disk is full.
        """
        with self.changing() as connection:
            yield WorkflowStore(connection, owner)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Yield a connection to read and write the workflows of every owner, in one transaction, as `writing`.

        Raises:
            Unavailable, ResourceExecutionError: as `reading`; or the database cannot be written, or the disk is full.
        """
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
        """Close every connection. The database can be used again."""
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
        if self._storage.file is None:
            yield
            return
        if not self._turn.acquire(timeout=self._queue_seconds):
            raise Unavailable("Too many workflows are written at the same time.")
        try:
            yield
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

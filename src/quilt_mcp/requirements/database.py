"""The requirements database: connections to read and to write, and its schema."""

import logging
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import Context
from threading import Lock

from sqlalchemy import Connection, create_engine, inspect, update
from sqlalchemy.exc import DBAPIError

from quilt_mcp.app.database.engines import Migrations, Schema, Storage, make_file, missing_columns, translate
from quilt_mcp.app.database.failures import FOREIGN, NEWER
from quilt_mcp.core.errors import ResourceExecutionError, Unavailable, find_failure
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.failures import FAILURES
from quilt_mcp.requirements.model import CHANGED, POSITION
from quilt_mcp.requirements.settings import FILE_NAME, RequirementsSettings

EARLIER = ("0001", "0002", "0003", "0004", "0005")
"""Numbers that nothing uses again. 0001 stands for two schemas, so the tables decide which one a database has."""
MIGRATIONS = Migrations(
    version_table="requirements_schema_version",
    steps={"0006": tables.create_tables, "0007": tables.add_positions, "0008": tables.add_changed_fields},
    others=dict.fromkeys(EARLIER, "0006"),
)
_ADDED = re.compile("import_sources|imported_values|_by_parent$|_by_position$|ix_acceptance_criteria_by_project")
"""The names of what the schema 0007 added."""
_ADDED_COLUMNS = {POSITION, CHANGED}
"""What the schemas 0007 and 0008 added to the tables of entities."""
MIGRATE = "Run `quilt-mcp requirements migrate` in a terminal, with the same QUILT_MCP_DATABASE_URL."
_LOCK = "SELECT pg_advisory_xact_lock(2026110401)"
"""The number is the same in every version, so that their processes migrate one after the other."""
MOST_NAMED = 3
CREATED_BY_USE = "Nothing: the first read or import creates the tables."
"""The next step for an SQLite file without tables, or without a file."""

_EXISTING = {
    table.name: set(table.columns.keys()) - {"project_id", *_ADDED_COLUMNS}
    for table in (
        *tables.BY_KIND.values(),
        tables.users,
        tables.requirement_types,
        tables.relationship_types,
        tables.requirement_relationships,
    )
}
"""The columns of the earlier requirements system, by table."""


def examine(connection: Connection) -> Schema:
    """Examine the tables with a new connection. Changes nothing."""
    inspector = inspect(connection)
    found = set(inspector.get_table_names())
    if schema := MIGRATIONS.find_schema(connection, found):
        if schema.revision not in MIGRATIONS.others:
            return schema
        missing = list_missing(connection)
        return schema._replace(
            state="unsupported" if missing else "outdated", problem=", ".join(missing[:MOST_NAMED]) or None
        )
    if not found & set(tables.metadata.tables):
        return Schema("empty")
    missing = missing_columns(inspector, _EXISTING)
    if missing or connection.dialect.name != "postgresql":
        return Schema("unknown", problem=", ".join(missing) or "a PostgreSQL database")
    return Schema("existing")


def list_missing(connection: Connection) -> list[str]:
    """Return what the tables lack of the schema 0006: columns, indexes and, in SQLite, the parts of the search."""
    inspector = inspect(connection)
    expected = {name: table for name, table in tables.metadata.tables.items() if not _ADDED.search(name)}
    columns = {name: set(table.columns.keys()) - _ADDED_COLUMNS for name, table in expected.items()}
    missing = missing_columns(inspector, columns)
    if connection.dialect.name == "sqlite":
        with closing(create_engine("sqlite://").connect()) as complete:
            tables.create_tables(complete)
            missing += _list_names(complete) - _list_names(connection)
    else:
        for name in {*expected} & {*inspector.get_table_names()}:
            existing = {one["name"] for one in inspector.get_indexes(name)}
            missing += [str(one.name) for one in expected[name].indexes if one.name not in existing]
    return sorted({one for one in missing if not _ADDED.search(one)})


def _list_names(connection: Connection) -> set[str]:
    return set(connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars())


def require_readable(schema: Schema) -> None:
    if schema.state in {"current", "existing"}:
        return
    if schema.state == "empty":
        raise ResourceExecutionError("The requirements database has no tables yet.", suggested_actions=[MIGRATE])
    if schema.state == "unknown":
        raise FAILURES.make(FOREIGN, schema.problem and f"missing: {schema.problem}")
    if schema.state in {"newer", "unsupported"}:
        lack = f", without {schema.problem}" if schema.problem else ""
        raise FAILURES.make(NEWER, f"schema {schema.revision}{lack}; this version supports {MIGRATIONS.newest}")
    raise ResourceExecutionError(
        "The requirements database was written by an older version of quilt-mcp.",
        details=f"schema {schema.revision}; this version needs {MIGRATIONS.newest}",
        suggested_actions=[MIGRATE],
    )


logger = logging.getLogger(__name__)

_REVISION = f"SELECT version_num FROM {MIGRATIONS.version_table}"  # noqa: S608 - a constant


def open_database(settings: RequirementsSettings, *, patient: bool = False) -> "Database":
    """Return the database of the settings. If `patient`, statements take as long as they need, as in an import."""
    file = settings.data_dir / FILE_NAME
    seconds = settings.database_timeout_seconds
    return Database(Storage(settings.database_url, file, FAILURES, seconds=seconds, patient=patient))


class Database:
    """A database for the threads of one app.

    An SQLite file is created and migrated on first use. PostgreSQL is only read and written, never migrated.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._schema: Schema | None = None  # as it was examined last
        self._is_examined = False
        self._has_opened = False
        self._opening = Lock()

    @property
    def dialect(self) -> str:
        return self.storage.dialect

    @property
    def is_existing(self) -> bool:
        """Whether it is a database of the earlier requirements system: read-only, without projects or search index."""
        if self._schema is None:
            raise RuntimeError("The database has not been opened yet.")
        return self._schema.state == "existing"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that reads one snapshot. The block should only use the database.

        Each read notices a file that was replaced or deleted, and tables that were migrated, since the read before.

        Raises:
            Unavailable: the database cannot be reached, is too slow or too busy.
            ResourceExecutionError: it refuses the login, has no tables, or tables of another program or version.
        """
        with ExitStack() as snapshot:
            connection = self._read_snapshot(snapshot)
            if connection is None:  # the tables have changed since they were examined
                snapshot.close()
                self._is_examined = False
                connection = self._read_snapshot(snapshot)
            if connection is None:
                raise Unavailable("The requirements database changed twice during a read.")
            try:
                yield connection
            except DBAPIError as error:
                if find_failure(error, FAILURES.rows) is None:  # a bug, or a table has changed since it was examined
                    self._is_examined = False
                    require_readable(self.schema())
                raise

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in one transaction. It commits when the block ends, and rolls back if the block raises.

        One block runs at a time, over all processes: each first increments the generation, and waits there for the one
        before. So what a block reads stays true until it commits, and a cache can notice that it is out of date.
        """
        with self.reading():  # which notices other tables than before
            pass
        if self.is_existing:
            raise ResourceExecutionError(
                "This database belongs to another requirements system. It is read-only.",
                suggested_actions=["Change it with the system that it belongs to."],
            )
        with self.storage.transaction(writes=True) as connection:
            connection.execute(update(tables.generation).values(number=tables.generation.c.number + 1))
            yield connection

    def schema(self) -> Schema:
        """Return what the database contains now. Creates and changes nothing; a file that does not exist is empty."""
        file = self.storage.file
        if file is not None and not self._has_opened and not file.exists():
            return Schema("empty")
        with self.storage.transaction() as connection:
            return examine(connection)

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """Yield a connection that changes the tables, in one transaction. Only one such transaction runs at a time."""
        self._is_examined = False  # a read that examines before the end compares the revision anyway
        if self.storage.file:
            with translate(FAILURES):
                make_file(self.storage.file)
        with self.storage.transaction(writes=True) as connection:
            if self.dialect == "postgresql":
                connection.exec_driver_sql(_LOCK)
            yield connection

    def upgrade(self) -> Schema:
        """Migrate to the newest revision, and return what was there before.

        Does nothing if the tables have that revision. A failure leaves everything as it was.
        """
        with self.migrating() as connection:
            before = examine(connection)  # in the transaction: another process can have migrated meanwhile
            if before.state not in {"empty", "outdated", "current"}:
                require_readable(before)
                raise ResourceExecutionError(
                    "This database belongs to another requirements system. quilt-mcp does not migrate it.",
                    suggested_actions=["Set QUILT_MCP_DATABASE_URL to an empty database."],
                )
            if before.revision != MIGRATIONS.newest:
                MIGRATIONS.upgrade(connection)
                logger.info("requirements database migrated from %s to %s", before.revision, MIGRATIONS.newest)
        return before

    def close(self) -> None:
        """Close every connection that is not in use. The database can be used again."""
        self._is_examined = self._has_opened = False
        self.storage.close()

    def _read_snapshot(self, snapshot: ExitStack) -> Connection | None:
        """Open a connection that reads one snapshot; None if its tables are not those that were examined."""
        schema = self._open()
        connection = snapshot.enter_context(self.storage.transaction())
        return connection if schema.state == "existing" or _read_revision(connection) == schema.revision else None

    def _open(self) -> Schema:
        with self._opening:
            if self._schema is None or not self._is_examined:
                self._schema = self._prepare()
                self._is_examined = self._has_opened = True
            return self._schema

    def _prepare(self) -> Schema:
        self._require_content()
        schema = self.schema()
        if self.dialect == "sqlite" and schema.state in {"empty", "outdated"}:
            # With many rows this can take longer than a read may. In a context without a caller, it continues when the
            # read has been cancelled, and the next reads wait for it.
            Context().run(self.upgrade)
            schema = self.schema()
        require_readable(schema)
        return schema

    def _require_content(self) -> None:
        """Check that a file that was opened has not become empty: a backup that is copied into it would be lost."""
        file = self.storage.file
        if file is None or not self._has_opened:
            return
        with suppress(FileNotFoundError):
            if file.stat().st_size == 0:
                raise Unavailable(
                    "The file of the requirements database is empty, and it was not before.",
                    suggested_actions=[
                        "If it is being restored, repeat the call after that.",
                        "If not, restore it, or start the server again. It then creates a new database.",
                    ],
                )


def _read_revision(connection: Connection) -> object:
    """Return the revision of the tables; None if there is none that can be read."""
    try:
        return connection.exec_driver_sql(_REVISION).scalar()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return None

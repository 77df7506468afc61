"""The requirements database: connections to read and to write, and its schema."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path

from sqlalchemy import Connection, Inspector, column, func, inspect, select, table, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from quilt_mcp.app.database.async_engines import begin_reading, create_engine, sqlite_file
from quilt_mcp.app.database.engines import make_file, translate
from quilt_mcp.app.database.schema import Migrations, Schema, missing_columns
from quilt_mcp.core.errors import ResourceExecutionError, Unavailable
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.failures import FAILURES
from quilt_mcp.requirements.settings import FILE_NAME, RequirementsSettings

MIGRATIONS = Migrations(
    folder=Path(__file__).parent / "migrations",
    version_table="requirements_schema_version",
    revisions=("0001",),
)
MIGRATE = "Run `quilt-mcp requirements migrate` in a terminal, with the same QUILT_MCP_DATABASE_URL."
CREATED_BY_USE = "Nothing: the first read or import creates the tables."
"""The next step for an SQLite file without tables, or without a file."""

_EXISTING = {
    table.name: set(table.columns.keys()) - {"project_id"}
    for table in (
        *tables.BY_KIND.values(),
        tables.users,
        tables.requirement_types,
        tables.relationship_types,
        tables.requirement_relationships,
    )
}
"""The columns of the earlier requirements system, by table."""
_RENAMED_FROM, _RENAMED = "last_modified", "updated_at"


def examine(connection: Connection) -> Schema:
    """Examine the tables with a new connection. Changes nothing."""
    inspector = inspect(connection)
    found = set(inspector.get_table_names())
    if schema := MIGRATIONS.find_schema(connection, found):
        return schema
    if not found & set(tables.metadata.tables):
        return Schema("empty")
    missing = missing_columns(inspector, _EXISTING)
    if _is_too_early(inspector, missing):
        return Schema("too_early", problem=_find_migration(connection, found))
    if missing or connection.dialect.name != "postgresql":
        return Schema("unknown", problem=", ".join(missing) or "a PostgreSQL database")
    return Schema("existing")


def _is_too_early(inspector: Inspector, missing: Collection[str]) -> bool:
    """Return whether the tables are older than migration 4 of the earlier system, which renamed a column of each."""
    lacking = {name.removesuffix(f".{_RENAMED}") for name in missing if name.endswith(f".{_RENAMED}")}
    return (
        len(lacking) == len(missing)
        and lacking >= {entities.name for entities in tables.BY_KIND.values()}
        and all(_RENAMED_FROM in {str(one["name"]) for one in inspector.get_columns(name)} for name in lacking)
    )


def _find_migration(connection: Connection, found: Collection[str]) -> str | None:
    """Return the migration of the earlier system that the tables have; None if the user may not read it."""
    name = "schema_migrations"
    if name not in found or not connection.scalar(select(func.has_table_privilege(name, "SELECT"))):
        return None
    version = connection.scalar(select(func.max(column("version"))).select_from(table(name)))
    return version and f"its migration is {version}"


def require_readable(schema: Schema) -> None:
    """Check that the tables can be read.

    Raises:
        ResourceExecutionError: there are none, or they are of another version or another program.
    """
    if schema.state in {"current", "existing"}:
        return
    if schema.state == "empty":
        raise ResourceExecutionError("The requirements database has no tables yet.", suggested_actions=[MIGRATE])
    if schema.state == "unknown":
        raise FAILURES.make_foreign(schema.problem)
    if schema.state == "too_early":
        raise ResourceExecutionError(
            "The requirements database belongs to the earlier requirements system, before its migration 4.",
            details=schema.problem,
            suggested_actions=[
                "Migrate it with that system to its migration 4 or later. quilt-mcp never changes its tables.",
                "Or set QUILT_MCP_DATABASE_URL to another database.",
            ],
        )
    if schema.state == "newer":
        raise FAILURES.make_newer(str(schema.revision), MIGRATIONS.newest)
    raise ResourceExecutionError(
        "The requirements database was written by an older version of quilt-mcp.",
        details=f"schema {schema.revision}; this version needs {MIGRATIONS.newest}",
        suggested_actions=[MIGRATE],
    )


_REVISION = f"SELECT version_num FROM {MIGRATIONS.version_table}"  # noqa: S608 - a constant
# In SQLite, every transaction reads one snapshot.
_SNAPSHOT = {"postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}}


def open_database(settings: RequirementsSettings, *, patient: bool = False) -> "Database":
    """Return the database of the settings. It connects when it is used.

    Args:
        settings: `database_url` or else `data_dir`, and `database_timeout_seconds`.
        patient: let statements take as long as they need, as an import does.

    Raises:
        ResourceExecutionError: the URL is not valid.
    """
    file = settings.data_dir / FILE_NAME
    seconds = settings.database_timeout_seconds
    return Database(create_engine(settings.database_url, file, FAILURES, seconds=seconds, patient=patient))


class Database:
    """A database for the event loop that first uses it; `close` it there.

    An SQLite file is created and migrated on first use. PostgreSQL is only read and written, never migrated.

    Attributes:
        engine: SQLAlchemy's engine, for events and the like. `reading` and `writing` give connections.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self._schema: Schema | None = None  # as it was examined last
        self._is_examined = False
        self._has_opened = False
        self._opening = asyncio.Lock()
        self._upgrading: asyncio.Task[Schema] | None = None

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @property
    def is_existing(self) -> bool:
        """Whether it is a database of the earlier requirements system: read-only, without projects or search index.

        Raises:
            RuntimeError: nothing has been read yet; use it inside `reading`.
        """
        if self._schema is None:
            raise RuntimeError("The database has not been opened yet.")
        return self._schema.state == "existing"

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Yield a connection that reads one snapshot. The block should only use the database.

        Each read notices a file that was replaced or deleted, and tables that were migrated, since the read before.

        Raises:
            Unavailable: the database cannot be reached, is too slow or too busy.
            ResourceExecutionError: it refuses the login, has no tables, or tables of another program or version.
        """
        async with AsyncExitStack() as snapshot:
            connection = await self._read_snapshot(snapshot)
            if connection is None:  # the tables have changed since they were examined, or the connection was closed
                await snapshot.aclose()
                self._is_examined = False
                connection = await self._read_snapshot(snapshot)
            if connection is None:
                raise Unavailable("The requirements database changed twice during a read, or closed two connections.")
            try:
                yield connection
            except DBAPIError:  # not a failure of the database: a bug, or a table has changed since it was examined
                self._is_examined = False
                require_readable(await self.schema())
                raise

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """Yield a connection in one transaction. It commits when the block ends, and rolls back if the block raises.

        One block runs at a time, over all processes: each first increments the generation, and waits there for the one
        before. So what a block reads stays true until it commits, and a cache can notice that it is out of date.

        Raises:
            Unavailable, ResourceExecutionError: as `reading`; or the database is read-only.
        """
        async with self.reading():  # which notices other tables than before
            pass
        if self.is_existing:
            raise ResourceExecutionError(
                "This database belongs to another requirements system. It is read-only.",
                suggested_actions=["Change it with the system that it belongs to."],
            )
        async with self._connect_open(writes=True) as connection, connection.begin():
            await connection.execute(update(tables.generation).values(number=tables.generation.c.number + 1))
            yield connection

    async def schema(self) -> Schema:
        """Return what the database contains now. Creates and changes nothing; a file that does not exist is empty.

        Raises:
            Unavailable, ResourceExecutionError: as `reading`.
        """
        file = sqlite_file(self.engine)
        if file is not None and not self._has_opened and not file.exists():
            return Schema("empty")
        async with self._connect_open() as connection:
            return await connection.run_sync(examine)

    @asynccontextmanager
    async def migrating(self) -> AsyncIterator[AsyncConnection]:
        """Yield a connection that changes the tables, in one transaction. Only one such transaction runs at a time."""
        self._is_examined = False
        if file := sqlite_file(self.engine):
            with translate(FAILURES):
                await asyncio.to_thread(make_file, file)
        async with self._connect_open(writes=True) as connection, connection.begin():
            if self.dialect == "postgresql":
                await connection.exec_driver_sql("SELECT pg_advisory_xact_lock(2026110401)")
            yield connection

    async def close(self) -> None:
        """Close every connection. The database can be used again. A migration that is not finished changes nothing."""
        if self._upgrading is not None:
            self._upgrading.cancel()
            await asyncio.wait([self._upgrading])
            self._upgrading = None
        self._is_examined = self._has_opened = False
        await self.engine.dispose()

    async def _read_snapshot(self, snapshot: AsyncExitStack) -> AsyncConnection | None:
        """Open a connection that reads one snapshot.

        Returns:
            None if its tables are not those that were examined, or if the database has closed the connection.
        """
        schema = await self._open()
        connection = await snapshot.enter_async_context(self._connect(**_SNAPSHOT.get(self.dialect, {})))
        if schema.state == "existing":
            is_usable = self.dialect == "sqlite" or await begin_reading(connection, "SELECT 1") == 1
        else:
            is_usable = await begin_reading(connection, _REVISION) == schema.revision
        return connection if is_usable else None

    async def _open(self) -> Schema:
        async with self._opening:
            if self._schema is None or not self._is_examined:
                self._schema = await self._prepare()
                self._is_examined = self._has_opened = True
            return self._schema

    async def _prepare(self) -> Schema:
        self._require_content()
        schema = await self.schema()
        if self.dialect == "sqlite" and schema.state in {"empty", "outdated"}:
            await self._upgrade()
            schema = await self.schema()
        require_readable(schema)
        return schema

    def _require_content(self) -> None:
        """Check that a file that was opened has not become empty: a backup that is copied into it would be lost.

        Raises:
            Unavailable: it is empty.
        """
        file = sqlite_file(self.engine)
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

    async def _upgrade(self) -> None:
        """Migrate an SQLite file.

        With many rows this can take longer than a read may. It continues when the read has been cancelled, and the next
        reads wait for it.
        """
        if self._upgrading is None or self._upgrading.done():
            upgrade = import_module("quilt_mcp.requirements.migrating").upgrade
            self._upgrading = asyncio.create_task(upgrade(self))
        await asyncio.shield(self._upgrading)

    @asynccontextmanager
    async def _connect_open(self, **options: object) -> AsyncIterator[AsyncConnection]:
        """Yield a connection, opened again if PostgreSQL has closed it. `_read_snapshot` does not need this check."""
        async with self._connect(**options) as connection:
            if self.dialect == "postgresql":
                await begin_reading(connection, "SELECT 1")
                await connection.rollback()  # if it was closed, the next statement opens another
            yield connection

    @asynccontextmanager
    async def _connect(self, **options: object) -> AsyncIterator[AsyncConnection]:
        with translate(FAILURES):
            async with self.engine.connect() as connection:
                if options:
                    await connection.execution_options(**options)
                yield connection


logger = logging.getLogger(__name__)

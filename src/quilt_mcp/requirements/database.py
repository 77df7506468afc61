"""The requirements database: connections to read and to write with, and failures in the contract's terms."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import Any

from sqlalchemy import update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from quilt_mcp.errors import ResourceExecutionError
from quilt_mcp.requirements import engines, failures, tables
from quilt_mcp.requirements.schema_state import Schema, examine, require_readable
from quilt_mcp.settings import Settings

# SQLite's transactions read as of one moment in any case
_SNAPSHOT = {"postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}}


def open_database(settings: Settings, *, patient: bool = False) -> "Database":
    """The database that the settings name. Connects on first use, and again whenever it has to.

    Args:
        settings: `database_url`, or else `data_dir`; and `database_timeout_seconds`.
        patient: let statements take as long as they need, as an import does.

    Raises:
        ResourceExecutionError: the URL is none, or the driver for it is not installed.
    """
    return Database(engines.create_engine(settings, patient=patient))


class Database:
    """A database in the event loop that first uses it; `close` it there.

    An SQLite file is made and brought up to date on first use. PostgreSQL is taken as it is, or refused.

    Attributes:
        engine: SQLAlchemy's engine, for counting statements and the like; `reading` and `writing` give connections.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        self._schema: Schema | None = None
        self._opening = asyncio.Lock()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @property
    def is_existing(self) -> bool:
        """Whether it is a database of the earlier requirements system: read-only, without projects or search index.

        Raises:
            RuntimeError: nothing has been read yet; ask inside `reading`.
        """
        if self._schema is None:
            raise RuntimeError("The database has not been opened yet.")
        return self._schema.state == "existing"

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read with, as of one moment. The block shall do nothing but ask the database.

        Raises:
            Unavailable: the database cannot be reached, is too slow or too busy.
            ResourceExecutionError: it refuses the sign-in, has no tables, is not ours or of another version.
        """
        await self._open()
        async with self._connected(**_SNAPSHOT.get(self.dialect, {})) as connection:
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A connection to write with, in one transaction: committed when the block ends, rolled back if it raises.

        One block at a time, over all processes: each first adds one to the generation, and waits there for the one
        before. So what a block reads stays true until it commits, and a cache sees that it is out of date.

        Raises:
            Unavailable, ResourceExecutionError: as `reading`; or the database is one that is only read.
        """
        await self._open()
        if self.is_existing:
            raise ResourceExecutionError(
                "This database belongs to another requirements system: it is only read.",
                suggested_actions=["Change it with the system that it belongs to."],
            )
        async with self._connected(writes=True) as connection, connection.begin():
            await connection.execute(update(tables.generation).values(number=tables.generation.c.number + 1))
            yield connection

    async def schema(self) -> Schema:
        """What the database holds now. Makes and changes nothing; a file that does not exist is empty.

        Raises:
            Unavailable, ResourceExecutionError: as `reading`.
        """
        file = engines.sqlite_file(self.engine)
        if file is not None and not file.exists():
            return Schema("empty")
        async with self._connected() as connection:
            return await connection.run_sync(examine)

    @asynccontextmanager
    async def migrating(self) -> AsyncIterator[AsyncConnection]:
        """A connection for changing the tables, in one transaction that no other such runs beside."""
        self._schema = None
        if file := engines.sqlite_file(self.engine):
            try:
                await asyncio.to_thread(engines.make_file, file)
            except OSError as error:
                raise failures.file_failure(error) from error
        async with self._connected(writes=True) as connection, connection.begin():
            if self.dialect == "postgresql":
                await connection.exec_driver_sql("SELECT pg_advisory_xact_lock(2026110401)")
            yield connection

    async def close(self) -> None:
        """Close every connection. The database may be used again."""
        await self.engine.dispose()

    async def _open(self) -> None:
        if self._schema is None:
            async with self._opening:
                if self._schema is None:
                    self._schema = await self._opened()

    async def _opened(self) -> Schema:
        schema = await self.schema()
        if self.dialect == "sqlite" and schema.state in {"empty", "outdated"}:
            await import_module("quilt_mcp.requirements.migrating").upgrade(self)
            schema = await self.schema()
        require_readable(schema)
        return schema

    @asynccontextmanager
    async def _connected(self, **options: Any) -> AsyncIterator[AsyncConnection]:
        with _named_failures():
            async with self.engine.connect() as connection:
                if options:
                    await connection.execution_options(**options)
                yield connection


@contextmanager
def _named_failures() -> Iterator[None]:
    """Turn what databases raise into ResourceFailures; bugs, and what a constraint refuses, stay what they are."""
    try:
        yield
    except DBAPIError as error:
        if failure := failures.sql_failure(error):
            raise failure from error
        raise
    except (PoolTimeoutError, TimeoutError) as error:
        raise failures.too_slow(error) from error
    except OSError as error:  # of a socket
        raise failures.unreachable(error) from error

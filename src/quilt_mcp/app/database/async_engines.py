"""Asynchronous engines, for databases that an event loop uses: the drivers are aiosqlite and asyncpg."""

from pathlib import Path
from typing import cast

from pydantic import SecretStr
from sqlalchemy import URL, AdaptedConnection, Connection, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from quilt_mcp.app.database.engines import APPLICATION, prepare_sqlite, sqlite_uri
from quilt_mcp.app.database.failures import DatabaseFailures
from quilt_mcp.app.database.file_changes import WatchedFile
from quilt_mcp.app.database.sqlite_connections import SQLiteConnection
from quilt_mcp.core.errors import ResourceExecutionError

_SQLITE, _POSTGRESQL = "sqlite+aiosqlite", "postgresql+asyncpg"
_DRIVERS = {
    "sqlite": _SQLITE,
    _SQLITE: _SQLITE,
    "postgres": _POSTGRESQL,
    "postgresql": _POSTGRESQL,
    _POSTGRESQL: _POSTGRESQL,
}
_CONNECTIONS, _MORE_CONNECTIONS = 5, 5


def create_engine(
    url: SecretStr | None, default: Path, failures: DatabaseFailures, *, seconds: float, patient: bool = False
) -> AsyncEngine:
    """Create an engine. It does not connect yet, and belongs to one event loop.

    A connection can have been closed since its last use. `begin_reading` notices that. A ping of SQLAlchemy's pool
    would cost three more round trips to PostgreSQL for each read.

    Args:
        url: of PostgreSQL or of an SQLite file.
        default: the SQLite file to use without a URL.
        failures: of this database.
        seconds: the limit for connecting, for a free connection, and for each statement.
        patient: let statements take as long as they need, as a migration does.

    Raises:
        ResourceExecutionError: the URL is not valid.
    """
    parsed = URL.create(_SQLITE, database=str(default.absolute())) if url is None else _parse(url, failures)
    if parsed.drivername == _SQLITE:
        return _sqlite_engine(Path(parsed.database or ""), failures, seconds)
    return _postgresql_engine(parsed, seconds, patient=patient)


def sqlite_file(engine: AsyncEngine) -> Path | None:
    """Return the file of an SQLite engine; None for PostgreSQL."""
    return Path(engine.url.database) if engine.url.drivername == _SQLITE and engine.url.database else None


async def begin_reading(connection: AsyncConnection, statement: str) -> object:
    """Begin a transaction, and return the value that a statement selects in it.

    In SQLite, this costs one call of the connection's thread. Each other statement costs several.

    Returns:
        None if the statement fails or selects nothing, or if PostgreSQL has closed the connection since its last use.
    """
    if connection.dialect.name != "sqlite":
        try:
            return await connection.scalar(text(statement))
        except ProgrammingError:
            return None
        except DBAPIError as error:
            if error.connection_invalidated:
                return None
            raise
    found: list[object] = []

    def begin(sync: Connection) -> None:
        driver = cast("AdaptedConnection", sync.connection.dbapi_connection)
        found.append(driver.run_async(lambda opened: opened.begin_reading(statement)))

    await connection.execution_options(begin=begin)
    await connection.begin()
    return found[0]


def _parse(secret: SecretStr, failures: DatabaseFailures) -> URL:
    try:
        url = make_url(secret.get_secret_value())
        driver = _DRIVERS.get(url.drivername)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        driver = None
    if driver is None or (driver == _SQLITE and url.database in {None, "", ":memory:"}):
        # from None: the error contains the URL, and the URL a password
        raise ResourceExecutionError(
            f"{failures.setting} is not a valid URL of a PostgreSQL database or an SQLite file.",
            suggested_actions=["Use the form postgresql://user:password@host:5432/name, or sqlite:////path/to/file."],
        ) from None
    return url.set(drivername=driver)


def _postgresql_engine(url: URL, seconds: float, *, patient: bool) -> AsyncEngine:
    milliseconds = "0" if patient else str(round(seconds * 1000))
    return create_async_engine(
        url,
        connect_args={
            "timeout": seconds,
            # The server ends a statement that is too slow. This is for a server that no longer responds.
            "command_timeout": None if patient else seconds + 1,
            "server_settings": {"application_name": APPLICATION, "statement_timeout": milliseconds},
        },
        pool_size=_CONNECTIONS,
        max_overflow=_MORE_CONNECTIONS,
        pool_timeout=seconds,
        hide_parameters=True,
    )


def _sqlite_engine(path: Path, failures: DatabaseFailures, seconds: float) -> AsyncEngine:
    watched = WatchedFile(path, failures)

    def connect() -> SQLiteConnection:
        return SQLiteConnection(sqlite_uri(path), seconds, watched.note_opening())

    engine = create_async_engine(
        URL.create(_SQLITE, database=str(path)),
        async_creator=connect,  # SQLAlchemy awaits its result
        pool_size=_CONNECTIONS,
        max_overflow=_MORE_CONNECTIONS,
        pool_timeout=seconds,
        hide_parameters=True,
    )
    prepare_sqlite(engine.sync_engine)
    watched.watch(engine.sync_engine)
    return engine

"""Engines: how SQLite and PostgreSQL are connected to, with which limits."""

import asyncio
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import aiosqlite
from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from quilt_mcp.errors import ResourceExecutionError
from quilt_mcp.requirements.failures import CHECK_URL
from quilt_mcp.settings import Settings

FILE_NAME = "requirements.sqlite3"
_SQLITE, _POSTGRESQL = "sqlite+aiosqlite", "postgresql+asyncpg"
_DRIVERS = {
    "sqlite": _SQLITE,
    _SQLITE: _SQLITE,
    "postgres": _POSTGRESQL,
    "postgresql": _POSTGRESQL,
    _POSTGRESQL: _POSTGRESQL,
}
PRAGMAS = ("foreign_keys = ON",)
"""What every SQLite connection is told first."""
_CONNECTIONS, _MORE_CONNECTIONS = 5, 5
_FETCHED_AT_ONCE = 64


def create_engine(settings: Settings, *, patient: bool = False) -> AsyncEngine:
    """An engine for the database that the settings name. Connects to nothing yet; belongs to one event loop.

    Args:
        settings: `database_url`, or else `data_dir`; and `database_timeout_seconds`.
        patient: let statements take as long as they need, as a migration does.

    Raises:
        ResourceExecutionError: the URL is none, or the driver for it is not installed.
    """
    url = _url(settings)
    if url.drivername == _SQLITE:
        return _sqlite_engine(Path(url.database or ""), settings.database_timeout_seconds)
    try:
        return _postgresql_engine(url, settings.database_timeout_seconds, patient=patient)
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise ResourceExecutionError(
            "PostgreSQL's driver is not installed.",
            suggested_actions=["Run `make install EXTRAS=postgres` in the source directory."],
        ) from error


def sqlite_file(engine: AsyncEngine) -> Path | None:
    """The file of an SQLite engine; None for PostgreSQL."""
    return Path(engine.url.database) if engine.url.drivername == _SQLITE and engine.url.database else None


def make_file(path: Path) -> None:
    """Make the file, empty, and its directory, for the user alone; leave what is there.

    Raises:
        OSError: it cannot be made or written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its -wal and -shm files the same mode
    with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.OperationalError):
        # Stays set in the file. SQLite does not always wait for this lock; the next opening sets it then, and trouble
        # that is more than a lock comes up again.
        connection.execute("PRAGMA journal_mode = WAL")


def _url(settings: Settings) -> URL:
    if settings.database_url is None:
        return URL.create(_SQLITE, database=str((settings.data_dir / FILE_NAME).absolute()))
    try:
        url = make_url(settings.database_url.get_secret_value())
        driver = _DRIVERS.get(url.drivername)
    except (ArgumentError, ValueError):  # the port is not a number
        driver = None
    if driver is None or (driver == _SQLITE and url.database in {None, "", ":memory:"}):
        # from None: what failed holds the URL, and the URL a password
        raise ResourceExecutionError(
            "QUILT_MCP_DATABASE_URL is no address of a PostgreSQL database or an SQLite file.",
            suggested_actions=["Write it as postgresql://user:password@host:5432/name.", CHECK_URL],
        ) from None
    return url.set(drivername=driver)


def _postgresql_engine(url: URL, seconds: float, *, patient: bool) -> AsyncEngine:
    milliseconds = "0" if patient else str(round(seconds * 1000))
    return create_async_engine(
        url,
        connect_args={
            "timeout": seconds,
            # the server ends a statement; this is for one whose answer never comes
            "command_timeout": None if patient else seconds + 1,
            "server_settings": {"application_name": "quilt-mcp", "statement_timeout": milliseconds},
        },
        pool_size=_CONNECTIONS,
        max_overflow=_MORE_CONNECTIONS,
        pool_timeout=seconds,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def _sqlite_engine(path: Path, seconds: float) -> AsyncEngine:
    def connect() -> "_Interruptible":
        return _Interruptible(path, seconds)

    engine = create_async_engine(
        URL.create(_SQLITE, database=str(path)),
        async_creator=connect,  # SQLAlchemy awaits what it gives
        pool_size=_CONNECTIONS,
        max_overflow=_MORE_CONNECTIONS,
        pool_timeout=seconds,
        hide_parameters=True,
    )
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


class _Interruptible(aiosqlite.Connection):
    """A connection whose statement ends when the task that waits for it is cancelled.

    aiosqlite runs it in a thread, which would go on with it, and SQLAlchemy would wait for the thread. `_execute` is
    private to aiosqlite; a test of cancellation holds that it is still the one through which everything passes.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(
            # rw, not rwc: only `make_file` makes files, with the right mode
            lambda: sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=seconds, check_same_thread=False),
            iter_chunk_size=_FETCHED_AT_ONCE,
        )
        self._thread.daemon = True  # as SQLAlchemy does with the connections that it makes itself

    async def _execute(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._execute(fn, *args, **kwargs)  # type: ignore[no-untyped-call]  # of aiosqlite
        except asyncio.CancelledError:
            if self._connection is not None:
                self._connection.interrupt()
            raise


def _prepare_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # Python's driver begins no transaction by itself: `_begin_sqlite` does
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    mode = "IMMEDIATE" if connection.get_execution_options().get("writes") else "DEFERRED"
    connection.exec_driver_sql(f"BEGIN {mode}")

"""SQLAlchemy engines for SQLite files and PostgreSQL, and how their exceptions become failures.

In SQLite, several processes can use a file at once: a reader sees the last commit, and a transaction of a connection
with the execution option `writes` takes the write lock first. A commit is on the disk when it returns. The write-ahead
log needs a local disk, so the data directory should not be on a network file system.
"""

import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer

from sqlalchemy import URL, Connection, Dialect, Engine, NullPool, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from quilt_mcp.app.database.failures import DatabaseFailures
from quilt_mcp.app.database.file_changes import discard_damaged
from quilt_mcp.core.errors import find_failure

SQLITE_PRAGMAS = ("foreign_keys = ON", "synchronous = FULL")
APPLICATION = "quilt-mcp"


@contextmanager
def translate(failures: DatabaseFailures) -> Iterator[None]:
    """Raise our failures for what a database raises. Bugs, and violated constraints, stay what they are."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        if failure := find_failure(error, failures.rows):
            raise failure from error
        raise


def make_file(path: Path) -> None:
    """Create an empty file, and its directory, for the user alone. Do nothing if they exist.

    Never opens an existing file: closing a descriptor drops all locks of the process on the file, also those of SQLite.
    Another process could then delete the write-ahead log in use.

    Raises:
        OSError: it cannot be created.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # SQLite gives its -wal and -shm files the same mode
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def sqlite_uri(path: Path) -> str:
    """Return the URI with which SQLite opens an existing file. Only `make_file` creates files, with the right mode."""
    return f"{path.absolute().as_uri()}?mode=rw"


def make_sqlite_engine(path: Path, seconds: float) -> Engine:
    """Create an engine for an SQLite file. Each connection is opened for one use.

    Args:
        path: the file.
        seconds: how long a transaction waits for one of another process.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=lambda: sqlite3.connect(sqlite_uri(path), uri=True, timeout=seconds, check_same_thread=False),
        poolclass=NullPool,
        hide_parameters=True,
    )
    prepare_sqlite(engine)
    return engine


def prepare_sqlite(engine: Engine) -> None:
    """Set up each connection of an engine for a file, and let SQLAlchemy begin the transactions."""
    discard_damaged(engine)
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)


def make_postgresql_engine(url: str, seconds: float, *, lifetime: float) -> Engine:
    """Create an engine for PostgreSQL with the driver psycopg. Each connection is opened for one use.

    Args:
        url: as libpq takes it.
        seconds: the limit for connecting.
        lifetime: how long one use may take. Then its socket is shut down, because a server that no longer answers does
            not enforce its own limits either.
    """

    def connect(dialect: Dialect, entry: ConnectionPoolEntry, *_: object) -> DBAPIConnection:
        connection = dialect.connect(
            url,
            connect_timeout=max(2, round(seconds)),  # libpq takes no less
            application_name=APPLICATION,
            prepare_threshold=None,  # behind a pooler, the next transaction can be on another connection
        )
        entry.info[_Deadline] = _Deadline(connection.fileno(), lifetime)
        return connection

    engine = create_engine("postgresql+psycopg://", poolclass=NullPool, hide_parameters=True)
    event.listen(engine, "do_connect", connect)
    event.listen(engine, "close", _stop_deadline)
    return engine


class _Deadline:
    """Shuts a socket down after some time, so that its readers and writers fail."""

    def __init__(self, number: int, seconds: float) -> None:
        # A handle of its own: the connection can be closed when the time is up, and its number can be in use again.
        self._handle = socket.socket(fileno=socket.dup(number))
        self._timer = Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()
        self._timer.join()
        self._handle.close()

    def _end(self) -> None:
        with suppress(OSError):  # the server has closed its end
            self._handle.shutdown(socket.SHUT_RDWR)
        self._handle.close()


def _stop_deadline(_: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    if deadline := entry.info.pop(_Deadline, None):
        deadline.stop()


def _set_up(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # Python's driver begins no transaction by itself: `_begin` does
    cursor = connection.cursor()
    for pragma in SQLITE_PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get("writes"):
        _prefer_write_ahead_log(connection)
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif (begin := connection.get_execution_options().get("begin")) is not None:
        begin(connection)
    else:
        connection.exec_driver_sql("BEGIN")


def _prefer_write_ahead_log(connection: Connection) -> None:
    # The mode stays set in the file. SQLite does not always wait for this lock. Writes are as safe without the log, the
    # next writer sets it, and a problem other than a lock occurs again in the transaction.
    cursor = connection.connection.cursor()
    with suppress(sqlite3.DatabaseError):
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.close()

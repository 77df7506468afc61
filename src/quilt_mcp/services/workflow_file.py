"""The file that workflows are kept in: `workflows.sqlite3` in the data directory, an SQLite database.

Several processes may use the file at once. Each use opens a connection of its own and is one transaction; a writer
takes the write lock before it reads, so that none overwrites what it has not seen. What is committed is on the disk.
The write-ahead log needs a local disk: the data directory should not lie on a network file system.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from quilt_mcp import runtime_context
from quilt_mcp.errors import Unavailable
from quilt_mcp.services import workflow_sql as sql
from quilt_mcp.services.workflow_failures import named_failures, newer_schema

FILE_NAME = "workflows.sqlite3"
BUSY_SECONDS = 5.0
"""How long a transaction waits for another process's."""
QUEUE_SECONDS = 25.0
"""How long a writer waits for the others of this process."""

_turn = threading.Lock()  # SQLite lets those who wait try again now and then, and the luckiest win: some never do


@contextmanager
def reading() -> Iterator[sqlite3.Connection]:
    """A connection to read from, as of one moment. Before the first write it is empty, and nothing is on disk.

    Raises:
        Unavailable: another process held the file for too long.
        ResourceExecutionError: the file cannot be read, is damaged, or is a newer version's.
    """
    with named_failures(), ExitStack() as connections:
        connection = _open_existing(connections)
        connection.execute("BEGIN")
        yield connection


@contextmanager
def writing() -> Iterator[sqlite3.Connection]:
    """A connection to read from and write to. Committed when the block ends, rolled back if it raises.

    Raises:
        Unavailable: another process held the file for too long, or too many of this one are waiting.
        ResourceExecutionError: the file cannot be written, is damaged, is a newer version's, or the disk is full.
    """
    with _in_turn(), named_failures(), _connected(_uri(_made_file())) as connection:
        _prefer_write_ahead_log(connection)
        connection.execute("BEGIN IMMEDIATE")
        _bring_up_to_date(connection)
        yield connection
        connection.execute("COMMIT")  # closing without it rolls back


@contextmanager
def empty() -> Iterator[sqlite3.Connection]:
    """A connection to a database of which nothing is kept, with the tables and without a row."""
    with _connected(":memory:") as connection:
        _bring_up_to_date(connection)
        yield connection


@contextmanager
def _in_turn() -> Iterator[None]:
    if not _turn.acquire(timeout=QUEUE_SECONDS):
        raise Unavailable("Too many workflows are being written at once.")
    try:
        yield
    finally:
        _turn.release()


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
        version = _schema_version(connection)
        if version and version < sql.SCHEMA_VERSION:
            connection.execute("BEGIN IMMEDIATE")
            _bring_up_to_date(connection)
            connection.execute("COMMIT")
        if version:
            return connection
    return connections.enter_context(empty())


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


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    version = _schema_version(connection)  # another process may have done it meanwhile
    if version < sql.SCHEMA_VERSION:
        for statement in sql.FROM_VERSION_1 if version else sql.SCHEMA:
            connection.execute(statement)

"""Connections of SQLAlchemy's asynchronous engines to SQLite files.

aiosqlite runs each call of a connection or cursor in a thread of the connection. Two switches between threads can take
longer than a small statement, so these connections need one call for a statement with few rows: SQLAlchemy asks for a
cursor, executes the statement, fetches its rows and closes the cursor.
"""

import asyncio
import sqlite3
from typing import Any

import aiosqlite

from quilt_mcp.app.database.file_changes import FileState

_FETCHED_AT_ONCE = 64
_FETCHED_FIRST = 256
"""More rows than a page has: the rows that a statement fetches when it is executed."""

Rows = list[Any]
"""A tuple for each, with the values of SQLite."""


class SQLiteConnection(aiosqlite.Connection):
    """A connection that interrupts its statement when the task that waits for it is cancelled.

    aiosqlite would run the statement to its end, and SQLAlchemy would wait for that. `_execute` is private to
    aiosqlite; a test of cancellation fails if statements no longer pass through it.

    Args:
        uri: of the file.
        seconds: how long a transaction waits for one of another process.
        file_state: as it was before the connection opened the file.

    Attributes:
        file_state: as given.
    """

    def __init__(self, uri: str, seconds: float, file_state: FileState | None) -> None:
        super().__init__(
            lambda: sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False),
            iter_chunk_size=_FETCHED_AT_ONCE,
        )
        self.file_state = file_state
        self._thread.daemon = True  # as SQLAlchemy does with the connections that it creates itself

    async def begin_reading(self, statement: str) -> object:
        """Begin a transaction, and return the value that the statement selects; None if it fails or selects nothing."""

        def run() -> object:
            try:
                self._conn.execute("BEGIN")
                row = self._conn.execute(statement).fetchone()
            except sqlite3.Error:
                return None
            return row and row[0]

        return await self._execute(run)

    def cursor(self) -> "_Cursor":  # type: ignore[override]  # as a context manager, it is what SQLAlchemy uses
        """Return a cursor."""
        return _Cursor(self, self._conn.cursor())

    async def _execute(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._execute(fn, *args, **kwargs)  # type: ignore[no-untyped-call]  # of aiosqlite
        except asyncio.CancelledError:
            if self._connection is not None:
                self._connection.interrupt()
            raise


class _Cursor(aiosqlite.Cursor):
    """A cursor that fetches the first rows of a statement when it executes it."""

    def __init__(self, connection: SQLiteConnection, cursor: sqlite3.Cursor) -> None:
        super().__init__(connection, cursor)
        self._first: Rows = []
        self._has_more = False

    async def execute(self, sql: str, parameters: Any = None) -> "_Cursor":
        """Execute a statement."""

        def run() -> Rows:
            self._cursor.execute(sql, parameters or ())
            return self._cursor.fetchmany(_FETCHED_FIRST)

        self._has_more = True  # until the thread says otherwise
        self._first = await self._execute(run)  # type: ignore[no-untyped-call]  # of aiosqlite
        self._has_more = len(self._first) == _FETCHED_FIRST
        return self

    async def fetchone(self) -> Any:
        """Return the next row; None if there is none."""
        rows = await self.fetchmany(1)
        return rows[0] if rows else None

    async def fetchmany(self, size: int | None = None) -> Rows:
        """Return the next rows, at most as many as given; none at the end."""
        wanted = self.arraysize if size is None else size
        rows, self._first = self._first[:wanted], self._first[wanted:]
        if self._has_more and len(rows) < wanted:
            rows += await super().fetchmany(wanted - len(rows))
        return rows

    async def fetchall(self) -> Rows:
        """Return all remaining rows."""
        rows, self._first = self._first, []
        if self._has_more:
            rows += await super().fetchall()
            self._has_more = False
        return rows

    async def close(self) -> None:
        """Close the cursor. A statement that has returned all rows is no longer active."""
        self._first = []
        if self._has_more:
            await super().close()

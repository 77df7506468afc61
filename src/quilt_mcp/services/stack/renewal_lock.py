"""The lock that lets one process of this machine renew the Quilt login at a time."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from quilt_mcp.core.errors import Unavailable

NAME = "quilt-mcp-renewal.lock"


@contextmanager
def hold_lock(directory: Path, seconds: float) -> Iterator[None]:
    """Hold the lock of a directory, which is exclusive among processes and threads.

    The lock is that of an empty SQLite database: SQLite locks files on every system, and the system releases the lock
    when the process ends. Where files cannot be locked, this does nothing, as quilt3 does.

    Args:
        directory: the lock's file is in it.
        seconds: how long to wait for another holder.

    Raises:
        Unavailable: another holder keeps the lock.
    """
    with ExitStack() as stack:
        if (connection := _lock(directory / NAME, seconds)) is not None:
            stack.enter_context(closing(connection))
        yield


def _lock(path: Path, seconds: float) -> sqlite3.Connection | None:
    """Return a connection that holds the lock until it is closed; None if the file cannot be locked."""
    with ExitStack() as on_failure:
        try:
            connection = on_failure.enter_context(closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)))
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                return None
            raise Unavailable("Another process is renewing the Quilt login.") from None
        on_failure.pop_all()
        return connection

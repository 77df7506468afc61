"""The lock of the process that renews the Quilt login."""

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
        try:
            opened = sqlite3.connect(directory / NAME, timeout=seconds, isolation_level=None)
            stack.enter_context(closing(opened)).execute("BEGIN EXCLUSIVE")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise Unavailable("Another process is renewing the Quilt login.") from None
        yield

"""Notices that an SQLite file was replaced, moved or damaged, or that its permissions changed, while it is open.

SQLite keeps a write-ahead log, or a rollback journal, beside a file and finds it by name. A connection that stays with
a file that has lost its name, and another that opens the file that has the name now, would share a log and mix the two
files. So a pool opens another file only if no log of the first lies beside it. Otherwise it refuses until the log is
removed, or until the first file is back. It deletes nothing, because other processes can use the file and its log.
"""

import os
import sqlite3
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Engine, ExceptionContext, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from quilt_mcp.app.database.failures import MOVED, REPLACED, DatabaseFailures

_WRONG_FILE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
_LOG, _JOURNAL = ("-wal", "-shm"), "-journal"
OPENED = "quilt_mcp.file"
"""The key of a pool entry's `info`."""


class FileState(NamedTuple):
    """The identity of a file and its permissions."""

    device: int
    inode: int
    mode: int
    owner: int


class WatchedFile:
    """The file that an engine has opened, until the engine is disposed of."""

    def __init__(self, path: Path, failures: DatabaseFailures) -> None:
        self._path, self._failures = path, failures
        self._opened: FileState | None = None
        self._place = ""  # where SQLite has put the logs of the connections: beside the file to which links lead
        self._logs: set[tuple[int, int]] = set()  # those of the file that a connection of the engine has open

    def note_opening(self) -> FileState | None:
        """Check the file before a connection opens it. Return its state, for the pool entry's `info`.

        Raises:
            ResourceExecutionError: it is not the file that the engine has opened before, and cannot be opened now.
        """
        self._opened = self._examine()
        self._place = os.path.realpath(self._path)
        return self._opened

    def watch(self, engine: Engine) -> None:
        event.listen(engine, "checkout", self._check)
        event.listen(engine, "close", self._note_closing)
        event.listen(engine, "engine_disposed", self._forget)

    def _check(self, _connection: DBAPIConnection, entry: ConnectionPoolEntry, _: object) -> None:
        now = self._opened = self._examine()
        if now is None or now == entry.info[OPENED]:
            self._logs.update(_find_logs(self._place, _LOG).values())
            return
        _share_permissions(self._path, now)
        # a connection remembers its file, and that it was read-only
        raise InvalidatePoolError("the file or its permissions have changed")

    def _note_closing(self, *_: object) -> None:
        with suppress(OSError):  # an error would keep the connection open
            now = _read_state(self._path)
            if now is None or self._opened is None or now[:2] != self._opened[:2]:
                return
        self._logs.clear()  # the log can be deleted now, and another process can create another

    def _forget(self, _: Engine) -> None:
        self._opened = None
        self._logs.clear()

    def _examine(self) -> FileState | None:
        now = _read_state(self._path)
        if self._opened is None:
            return now
        if now is None:
            raise self._failures.make(MOVED)
        if now[:2] != self._opened[:2]:
            self._require_other_log()
            self._logs.clear()
        return now

    def _require_other_log(self) -> None:
        """Check that the log beside a file that has replaced another is not the log of the other.

        An unknown log was created after the replacement, by a process that uses the new file.
        """
        found = _find_logs(os.path.realpath(self._path), (*_LOG, _JOURNAL))
        is_other = self._logs and _JOURNAL not in found and self._logs.isdisjoint(found.values())
        if found and not is_other:
            raise self._failures.make(REPLACED)


def _read_state(path: Path) -> FileState | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return FileState(found.st_dev, found.st_ino, found.st_mode, found.st_uid)


def _find_logs(place: str, suffixes: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return device and inode of each log of a file, by suffix."""
    found = {}
    for suffix in suffixes:
        with suppress(FileNotFoundError):
            state = os.stat(place + suffix)  # noqa: PTH116 - each read does this, and a Path takes twice as long
            found[suffix] = state.st_dev, state.st_ino
    return found


def _share_permissions(path: Path, state: FileState) -> None:
    """Give the log of the file its permissions, as SQLite does when it creates the log."""
    for suffix in _LOG:
        with suppress(OSError):
            path.with_name(path.name + suffix).chmod(stat.S_IMODE(state.mode))


def discard_connections(context: ExceptionContext) -> None:
    """Discard all connections of an engine after an error that says that something is wrong with the file."""
    code = getattr(context.original_exception, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _WRONG_FILE:
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = True

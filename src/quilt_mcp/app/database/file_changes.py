"""Notices that an SQLite file was replaced or moved, or that its permissions changed, since it was opened before.

SQLite keeps a write-ahead log, or a rollback journal, beside a file and finds it by name. A log that a process still
has for a file that was replaced would be mixed with the new file. So the new file is only opened without a log beside
it. No connection is kept, so the last one to a file removes its log. Nothing is deleted here, because other processes
can use the file and its log.
"""

import stat
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from quilt_mcp.app.database.failures import MOVED, REPLACED, DatabaseFailures

_LOGS = ("-wal", "-shm", "-journal")


class FileState(NamedTuple):
    """The identity of a file and its permissions."""

    device: int
    inode: int
    mode: int
    owner: int


class OpenedFile:
    """A file, each opening of which is noted."""

    def __init__(self, path: Path, failures: DatabaseFailures) -> None:
        self._path, self._failures = path, failures
        self._opened: FileState | None = None
        self._turn = Lock()

    def note_opening(self) -> None:
        """Check the file before a connection opens it.

        Raises:
            ResourceExecutionError: it is not the file that was opened before, and cannot be opened now.
        """
        with self._turn:  # a thread that opens a new file first gives it a log
            before, now = self._opened, _read_state(self._path)
            if before and now != before:
                if now is None:
                    raise self._failures.make(MOVED)
                logs = [self._path.resolve().with_name(self._path.resolve().name + suffix) for suffix in _LOGS]
                if now[:2] != before[:2] and any(log.exists() for log in logs):
                    raise self._failures.make(REPLACED)
                for log in logs:  # give it the permissions of the file, as SQLite does when it creates it
                    with suppress(OSError):
                        log.chmod(stat.S_IMODE(now.mode))
            self._opened = now


def _read_state(path: Path) -> FileState | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return FileState(found.st_dev, found.st_ino, found.st_mode, found.st_uid)

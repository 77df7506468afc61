"""What goes wrong with the workflow file, in the contract's terms; recognised by SQLite's and the system's codes."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from quilt_mcp.errors import ResourceExecutionError, ResourceFailure, Unavailable

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_NOT_ACCESSIBLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def named_failures() -> Iterator[None]:
    """Turn the failures of SQLite and of the file system into ResourceFailures; bugs of ours stay what they are."""
    try:
        yield
    except sqlite3.Error as error:
        # the low byte is the kind of failure; the codes above it refine it
        failure = _sqlite_failure(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF)
        if failure is None:
            raise
        failure.details = getattr(error, "sqlite_errorname", None)
        raise failure from error
    except OSError as error:
        failure = _disk_full() if error.errno in _DISK_FULL else _not_accessible()
        failure.details = errno.errorcode.get(error.errno or 0)
        raise failure from error


def newer_schema(found: int, known: int) -> ResourceExecutionError:
    """The file was written by a version of this server that does not exist yet for this one."""
    return ResourceExecutionError(
        "The workflows were stored by a newer version of quilt-mcp than this one.",
        details=f"schema version {found}; this version knows up to {known}",
        suggested_actions=[
            "Upgrade quilt-mcp on this machine.",
            "Or set QUILT_MCP_DATA_DIR to another directory, to start there without any workflows.",
        ],
    )


def _sqlite_failure(code: int) -> ResourceFailure | None:
    if code in _BUSY:
        return Unavailable(
            "Another process is writing workflows and did not finish in time.",
            suggested_actions=[
                "Try the same call again in a few seconds.",
                "If it stays, look for a quilt-mcp process that hangs, and end it.",
            ],
        )
    if code == sqlite3.SQLITE_FULL:
        return _disk_full()
    if code in _NOT_ACCESSIBLE:
        return _not_accessible()
    if code in _DAMAGED:
        return _damaged()
    if code == sqlite3.SQLITE_IOERR:
        return ResourceExecutionError(
            "The disk failed while the workflow file was in use.",
            suggested_actions=["Check the disk that holds the data directory and its free space, then try again."],
        )
    return None


def _damaged() -> ResourceExecutionError:
    return ResourceExecutionError(
        "The workflow file is damaged, or is no SQLite database.",
        suggested_actions=[
            "Restore workflows.sqlite3 in the data directory from a backup.",
            "Or move it away, with the files beside it that end in -wal and -shm, to start without any workflows.",
        ],
    )


def _disk_full() -> ResourceExecutionError:
    return ResourceExecutionError(
        "The disk is full: the workflows could not be stored. Nothing was changed.",
        suggested_actions=["Free some space on the disk that holds the data directory, then try again."],
    )


def _not_accessible() -> ResourceExecutionError:
    return ResourceExecutionError(
        "The workflow file cannot be opened or written.",
        suggested_actions=[
            "Make the data directory and workflows.sqlite3 in it readable and writable for the server's user.",
            "Or set QUILT_MCP_DATA_DIR to a directory that is, and start the server again.",
        ],
    )

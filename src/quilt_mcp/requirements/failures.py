"""What goes wrong with a database, in the contract's terms; recognised by class and code, never by text.

It takes SQLAlchemy's exceptions as they come and imports nothing of it. None of the messages repeats what a driver
said: it may hold addresses, names and values.
"""

import errno
import sqlite3
from typing import Any

from quilt_mcp.errors import ResourceExecutionError, ResourceFailure, Unavailable

CHECK_URL = "Check QUILT_MCP_DATABASE_URL: host, port, name of the database, user and password."
CHECK_STATUS = "Run `quilt-mcp requirements status` in a terminal to see what can be reached."

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_NOT_ACCESSIBLE = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
# The first two characters of an SQLSTATE are its class, appendix A of PostgreSQL's manual lists them.
_CONNECTION_LOST, _OVERLOADED, _STOPPED, _REFUSED_SIGN_IN, _RETRY = "08", "53", "57", "28", "40"
_TIMED_OUT, _DISK_FULL_STATE, _NO_DATABASE, _READ_ONLY, _NO_PRIVILEGE = "57014", "53100", "3D000", "25006", "42501"
_LOCKED = "55P03"


def sql_failure(error: Any) -> ResourceFailure | None:
    """The failure that a `sqlalchemy.exc.DBAPIError` stands for; None if it is a bug in a statement of ours."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return _with_details(_sqlite_failure(code & 0xFF), getattr(error.orig, "sqlite_errorname", None))
    state = getattr(error.orig, "sqlstate", None) or ""
    if failure := _postgres_failure(state):
        return _with_details(failure, f"SQLSTATE {state}")
    return unreachable() if error.connection_invalidated else None


def unreachable(error: object = None) -> Unavailable:
    """There is no connection to the database."""
    details = None if error is None else type(error).__name__
    return Unavailable(
        "The requirements database cannot be reached.",
        details=details,
        suggested_actions=["Try the same call again in a minute.", CHECK_STATUS],
    )


def too_slow(error: object = None) -> Unavailable:
    """The database did not answer in time."""
    return Unavailable(
        "The requirements database did not answer in time.",
        details=None if error is None else type(error).__name__,
        suggested_actions=[
            "Try the same call again in a minute.",
            "If it stays, raise QUILT_MCP_DATABASE_TIMEOUT_SECONDS, or ask who runs the database.",
        ],
    )


def file_failure(error: OSError) -> ResourceFailure:
    """The file of the embedded database cannot be made or opened."""
    failure = _disk_full() if error.errno in _DISK_FULL else _not_accessible()
    return _with_details(failure, errno.errorcode.get(error.errno or 0)) or failure


def _with_details(failure: ResourceFailure | None, details: str | None) -> ResourceFailure | None:
    if failure is not None:
        failure.details = details
    return failure


def _sqlite_failure(code: int) -> ResourceFailure | None:
    if code in _BUSY:
        return Unavailable(
            "Another process is writing to the requirements database and did not finish in time.",
            suggested_actions=["Try the same call again in a few seconds."],
        )
    if code in _NOT_ACCESSIBLE:
        return _not_accessible()
    if code in _DAMAGED:
        return ResourceExecutionError(
            "The file of the requirements database is damaged, or is no SQLite database.",
            suggested_actions=["Restore requirements.sqlite3 in the data directory from a backup.", CHECK_STATUS],
        )
    if code == sqlite3.SQLITE_INTERRUPT:
        return too_slow()
    if code == sqlite3.SQLITE_IOERR:
        return ResourceExecutionError(
            "The disk failed while the requirements database was in use.",
            suggested_actions=["Check the disk that holds the data directory and its free space, then try again."],
        )
    return _disk_full() if code == sqlite3.SQLITE_FULL else None


def _postgres_failure(state: str) -> ResourceFailure | None:
    if state == _TIMED_OUT:
        return too_slow()
    if state == _DISK_FULL_STATE:
        return _disk_full()
    if state == _NO_DATABASE or state[:2] == _REFUSED_SIGN_IN:
        return ResourceExecutionError(
            "The requirements database refuses the sign-in, or there is none of that name.",
            suggested_actions=[CHECK_URL],
        )
    if state in {_READ_ONLY, _NO_PRIVILEGE}:
        return ResourceExecutionError(
            "The user in QUILT_MCP_DATABASE_URL may not do this in the requirements database.",
            suggested_actions=["Grant the user SELECT, and for imports and migrations all rights, on its tables."],
        )
    if state[:2] in {_RETRY, _OVERLOADED} or state == _LOCKED:
        return Unavailable("The requirements database is busy.")
    return unreachable() if state[:2] in {_CONNECTION_LOST, _STOPPED} else None


def _not_accessible() -> ResourceExecutionError:
    return ResourceExecutionError(
        "The file of the requirements database cannot be opened or written.",
        suggested_actions=[
            "Give your user write access to the data directory and to requirements.sqlite3 in it.",
            "Or set QUILT_MCP_DATA_DIR to a directory that is writable.",
        ],
    )


def _disk_full() -> ResourceExecutionError:
    return ResourceExecutionError(
        "The disk that holds the requirements database is full.",
        suggested_actions=["Free some space on it, then try again."],
    )

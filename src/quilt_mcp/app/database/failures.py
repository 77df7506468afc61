"""The failures of a database, recognised by exception class and error code, never by text.

No message repeats what a driver reports, because that can contain addresses, names and values. Exception classes are
named, not imported, so a server starts without SQLAlchemy.
"""

import errno
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from quilt_mcp.core.errors import MakeFailure, ResourceExecutionError, ResourceFailure, Unavailable

if TYPE_CHECKING:
    from sqlalchemy.exc import DBAPIError

_RETRY_LATER = "Repeat the call in a minute."


class _Problem(NamedTuple):
    """What is wrong. Its texts name the database and its setting by the attributes of `DatabaseFailures`."""

    failure: type[ResourceExecutionError]
    message: str
    actions: tuple[str, ...] = ()


BUSY = _Problem(Unavailable, "The {name} is busy.")
DAMAGED = _Problem(
    ResourceExecutionError,
    "The file of the {name} is damaged, or is not an SQLite database.",
    (
        "Stop the server, restore {file_name} from a backup, delete its -wal and -shm files, restart.",
        "Or move it to another place, with its -wal and -shm files. The next write creates a new file.",
    ),
)
DISK_FAILED = _Problem(
    ResourceExecutionError,
    "The disk failed while the {name} was in use.",
    ("Check the disk of the data directory and its free space, then repeat the call.",),
)
DISK_FULL = _Problem(
    ResourceExecutionError,
    "The disk of the {name} is full. Nothing was changed.",
    ("Free some disk space, then repeat the call.",),
)
FAILED_INSIDE = _Problem(
    Unavailable,
    "The server of the {name} failed.",
    (_RETRY_LATER, "If the error persists, look for the cause in the server's log."),
)
FOREIGN = _Problem(
    ResourceExecutionError,
    "The {name} contains tables that quilt-mcp did not create. It was not changed.",
    (
        "Check that {setting} names the right database, or an empty one.",
        "If it is a file, check that {file_name} in the data directory was written by quilt-mcp.",
    ),
)
LOCKED = _Problem(
    Unavailable,
    "Another process is writing to the {name} and did not finish in time.",
    ("Repeat the call in a few seconds.", "If the error persists, look for a quilt-mcp process that hangs."),
)
MISCONFIGURED = _Problem(
    ResourceExecutionError,
    "The driver does not accept an option in {setting}.",
    ("Check the options in {setting}, and the environment variables that start with PG.",),
)
MOVED = _Problem(
    ResourceExecutionError,
    "The file of the {name} was moved or deleted while this server had it open.",
    (
        "Move {file_name} back to the data directory, then repeat the call.",
        "Or start the server again. It then creates a new file.",
    ),
)
NEWER = _Problem(
    ResourceExecutionError,
    "The {name} has a schema that this version of quilt-mcp does not know.",
    (
        "Upgrade quilt-mcp, if a newer version wrote it.",
        "If a version before the first release wrote it, export the data with that version.",
        "Or use another database: set {setting}.",
    ),
)
NO_LOGIN = _Problem(
    ResourceExecutionError,
    "The {name} does not exist, or refuses the login.",
    (
        "Check {setting}: host, port, database name, user and password.",
        "If they are right, the server can lack a free connection. " + _RETRY_LATER,
    ),
)
NOT_ACCESSIBLE = _Problem(
    ResourceExecutionError,
    "The file of the {name} cannot be opened or written.",
    (
        "Make the data directory and {file_name} in it readable and writable for your user.",
        "Or set QUILT_MCP_DATA_DIR to a writable directory, and start the server again.",
    ),
)
NOT_ALLOWED = _Problem(
    ResourceExecutionError, "The user in {setting} is not allowed to do this in the {name}.", ("{grant}",)
)
REPLACED = _Problem(
    Unavailable,
    "The file of the {name} was replaced, and a log lies beside it: it is in use, or the log is that of the old file.",
    (
        "Repeat the call. If it fails again, stop the other processes that use the file.",
        "If none uses it, delete the -wal, -shm and -journal files beside it.",
    ),
)
TOO_SLOW = _Problem(
    Unavailable,
    "The {name} did not respond in time.",
    (
        _RETRY_LATER,
        "If the error persists, increase QUILT_MCP_DATABASE_TIMEOUT_SECONDS, or ask the database's operator.",
    ),
)
UNREACHABLE = _Problem(Unavailable, "The {name} cannot be reached.", (_RETRY_LATER, "{check}"))

_BY_SQLITE_CODE: Mapping[int, _Problem] = {
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_LOCKED: LOCKED,
    sqlite3.SQLITE_CANTOPEN: NOT_ACCESSIBLE,
    sqlite3.SQLITE_READONLY: NOT_ACCESSIBLE,
    sqlite3.SQLITE_PERM: NOT_ACCESSIBLE,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_INTERRUPT: TOO_SLOW,
    sqlite3.SQLITE_IOERR: DISK_FAILED,
    sqlite3.SQLITE_IOERR_SHMSIZE: DISK_FULL,  # also a read needs room for the index of the log
    sqlite3.SQLITE_FULL: DISK_FULL,
}
_BY_SQLSTATE: Mapping[str, _Problem] = {
    "08": UNREACHABLE,  # connection exception
    "28": NO_LOGIN,  # invalid authorization
    "3D000": NO_LOGIN,  # unknown database
    "25006": NOT_ALLOWED,  # read-only transaction
    "25P03": TOO_SLOW,  # idle in transaction
    "25P04": TOO_SLOW,  # transaction timeout
    "42501": NOT_ALLOWED,  # insufficient privilege
    "40": BUSY,  # transaction rollback
    "53": BUSY,  # insufficient resources
    "53100": DISK_FULL,
    "55P03": LOCKED,  # lock not available
    "57": UNREACHABLE,  # operator intervention
    "57014": TOO_SLOW,  # query canceled
    "58": FAILED_INSIDE,  # system error
    "72": BUSY,  # snapshot too old
    "F0": FAILED_INSIDE,  # configuration file
    "HV": FAILED_INSIDE,  # foreign data wrapper
    "XX": FAILED_INSIDE,  # internal error
}
"""By code, and by class of codes: its first two characters. Appendix A of PostgreSQL's manual lists them."""


@dataclass(frozen=True, kw_only=True)
class DatabaseFailures:
    """Makes the failures of one database.

    Attributes:
        name: what messages call it, such as "workflow database".
        setting: the environment variable with its URL.
        file_name: the name of its SQLite file in the data directory.
        check: suggested if the PostgreSQL server cannot be reached.
        grant: suggested if the PostgreSQL user lacks a privilege.
    """

    name: str
    setting: str
    file_name: str
    check: str
    grant: str

    @property
    def rows(self) -> Mapping[str, MakeFailure]:
        return {
            "sqlalchemy.exc.DBAPIError": self._from_driver,
            "sqlalchemy.exc.TimeoutError": self._from_timeout,
            "builtins.TimeoutError": self._from_timeout,
            "builtins.OSError": self._from_system,
        }

    def make(self, problem: _Problem, details: str | None = None) -> ResourceFailure:
        names = asdict(self)
        actions = [action.format_map(names) for action in problem.actions]
        return problem.failure(problem.message.format_map(names), details=details, suggested_actions=actions)

    def _from_driver(self, error: "DBAPIError") -> ResourceFailure | None:
        """Return the failure for an error of a driver; None if a statement of ours is wrong."""
        code = getattr(error.orig, "sqlite_errorcode", None)
        if code is not None:
            # The low byte is the kind of failure, the others refine it.
            problem = _BY_SQLITE_CODE.get(code) or _BY_SQLITE_CODE.get(code & 0xFF)
            return problem and self.make(problem, getattr(error.orig, "sqlite_errorname", None))
        state = getattr(error.orig, "sqlstate", None) or ""
        if problem := _BY_SQLSTATE.get(state) or _BY_SQLSTATE.get(state[:2]):
            return self.make(problem, f"SQLSTATE {state}")
        # psycopg reports neither a code nor a reason for a connection that it could not open.
        is_connection = error.connection_invalidated or (not state and type(error).__name__ == "OperationalError")
        return self.make(UNREACHABLE) if is_connection else None

    def _from_timeout(self, error: Exception) -> ResourceFailure:
        return self.make(TOO_SLOW, type(error).__name__)

    def _from_system(self, error: OSError) -> ResourceFailure:
        """Return the failure for an error of a file, which names the file, or of a socket, which does not."""
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            problem = DISK_FULL
        else:
            problem = UNREACHABLE if error.filename is None else NOT_ACCESSIBLE
        return self.make(problem, errno.errorcode.get(error.errno or 0, type(error).__name__))

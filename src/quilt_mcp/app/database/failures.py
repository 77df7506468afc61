"""The failures of a database, recognised by exception class and error code, never by text.

No message repeats what a driver reports, because that can contain addresses, names and values. Exception classes are
named, not imported, so a server starts without SQLAlchemy.
"""

import errno
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quilt_mcp.core.errors import MakeFailure, ResourceExecutionError, ResourceFailure, Unavailable, find_failure

if TYPE_CHECKING:
    from sqlalchemy.exc import DBAPIError

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}

_RETRY_SOON = "Repeat the call in a few seconds."
_RETRY_LATER = "Repeat the call in a minute."


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
        """The functions that make failures, by exception class; for `core.errors.find_failure`."""
        return {
            "sqlalchemy.exc.DBAPIError": self._from_driver,
            "sqlalchemy.exc.TimeoutError": self._too_slow,
            "builtins.TimeoutError": self._too_slow,
            "builtins.OSError": self._from_system,
        }

    def make_newer(self, found: str, known: str) -> ResourceExecutionError:
        """Return the failure for a schema of another version: a newer one, or one before the first release."""
        return ResourceExecutionError(
            f"The {self.name} has a schema that this version of quilt-mcp does not know.",
            details=f"schema {found}; this version supports up to {known}",
            suggested_actions=[
                "Upgrade quilt-mcp, if a newer version wrote it.",
                "If a version before the first release wrote it, export the data with that version.",
                f"Or use another database: set {self.setting}.",
            ],
        )

    def make_foreign(self, problem: str | None) -> ResourceExecutionError:
        """Return the failure for a database with other tables than ours."""
        return ResourceExecutionError(
            f"The {self.name} contains tables that quilt-mcp did not create. It was not changed.",
            details=problem and f"missing: {problem}",
            suggested_actions=[
                f"Check that {self.setting} names the right database, or an empty one.",
                f"If it is a file, check that {self.file_name} in the data directory was written by quilt-mcp.",
            ],
        )

    def _from_driver(self, error: "DBAPIError") -> ResourceFailure | None:
        """Return the failure for an error of a driver; None if a statement of ours is wrong."""
        code = getattr(error.orig, "sqlite_errorcode", None)
        if code is not None:
            # The low byte is the kind of failure, the others refine it.
            make = self._by_sqlite_code.get(code & 0xFF)
            return _with_details(make, getattr(error.orig, "sqlite_errorname", None))
        state = getattr(error.orig, "sqlstate", None) or ""
        if make := self._by_sqlstate.get(state) or self._by_sqlstate.get(state[:2]):
            return _with_details(make, f"SQLSTATE {state}")
        if isinstance(driver := getattr(error.orig, "__cause__", None), Exception) and (
            failure := find_failure(driver, self._by_driver_class)
        ):
            return failure
        # psycopg reports neither a code nor a reason for a connection that it could not open.
        is_connection = error.connection_invalidated or (not state and type(error).__name__ == "OperationalError")
        return self._unreachable() if is_connection else None

    @property
    def _by_sqlite_code(self) -> dict[int, Callable[[], ResourceFailure]]:
        return {
            sqlite3.SQLITE_BUSY: self._locked,
            sqlite3.SQLITE_LOCKED: self._locked,
            sqlite3.SQLITE_CANTOPEN: self._not_accessible,
            sqlite3.SQLITE_READONLY: self._not_accessible,
            sqlite3.SQLITE_PERM: self._not_accessible,
            sqlite3.SQLITE_CORRUPT: self._damaged,
            sqlite3.SQLITE_NOTADB: self._damaged,
            sqlite3.SQLITE_INTERRUPT: self._too_slow,
            sqlite3.SQLITE_IOERR: self._disk_failed,
            sqlite3.SQLITE_FULL: self._disk_full,
        }

    @property
    def _by_sqlstate(self) -> dict[str, Callable[[], ResourceFailure]]:
        """By code, and by class of codes: its first two characters. Appendix A of PostgreSQL's manual lists them."""
        return {
            "08": self._unreachable,  # connection exception
            "28": self._no_login,  # invalid authorization
            "3D000": self._no_login,  # unknown database
            "25006": self._not_allowed,  # read-only transaction
            "25P03": self._too_slow,  # idle in transaction
            "25P04": self._too_slow,  # transaction timeout
            "42501": self._not_allowed,  # insufficient privilege
            "40": self._busy,  # transaction rollback
            "53": self._busy,  # insufficient resources
            "53100": self._disk_full,
            "55P03": self._locked,  # lock not available
            "57": self._unreachable,  # operator intervention
            "57014": self._too_slow,  # query canceled
            "58": self._failed_inside,  # system error
            "72": self._busy,  # snapshot too old
            "F0": self._failed_inside,  # configuration file
            "HV": self._failed_inside,  # foreign data wrapper
            "XX": self._failed_inside,  # internal error
        }

    @property
    def _by_driver_class(self) -> Mapping[str, MakeFailure]:
        """Of asyncpg, without a code, or with the code of another failure. SQLAlchemy keeps them as the cause."""
        return {
            "asyncpg.exceptions.InvalidCachedStatementError": self._changed,
            "asyncpg.exceptions._base.OutdatedSchemaCacheError": self._changed,
            "asyncpg.exceptions._base.ProtocolError": lambda _: self._unreachable(),
            "asyncpg.exceptions._base.TargetServerAttributeNotMatched": lambda _: self._unreachable(),
            "asyncpg.exceptions._base.ClientConfigurationError": self._misconfigured,
        }

    def _from_system(self, error: OSError) -> ResourceFailure:
        """Return the failure for an error of a file, which names the file, or of a socket, which does not."""
        if error.errno in _DISK_FULL:
            failure: ResourceFailure = self._disk_full()
        else:
            failure = self._unreachable() if error.filename is None else self._not_accessible()
        failure.details = errno.errorcode.get(error.errno or 0, type(error).__name__)
        return failure

    def make_moved(self) -> ResourceExecutionError:
        """Return the failure for an SQLite file that has no name any more, although it is open."""
        return ResourceExecutionError(
            f"The file of the {self.name} was moved or deleted while this server had it open.",
            suggested_actions=[
                f"Move {self.file_name} back to the data directory, then repeat the call.",
                "Or start the server again. It then creates a new file.",
            ],
        )

    def make_replaced(self) -> ResourceExecutionError:
        """Return the failure for an SQLite file that was replaced while it was open."""
        return ResourceExecutionError(
            f"The file of the {self.name} was replaced while this server had it open.",
            suggested_actions=[
                "Delete the -wal, -shm and -journal files of the old file, then repeat the call.",
                "If other processes can use the new file already, stop them and this server first.",
            ],
        )

    def _damaged(self) -> ResourceExecutionError:
        return ResourceExecutionError(
            f"The file of the {self.name} is damaged, or is not an SQLite database.",
            suggested_actions=[
                f"Stop the server, restore {self.file_name} from a backup, delete its -wal and -shm files, restart.",
                "Or move it to another place, with its -wal and -shm files. The next write creates a new file.",
            ],
        )

    def _disk_failed(self) -> ResourceExecutionError:
        return ResourceExecutionError(
            f"The disk failed while the {self.name} was in use.",
            suggested_actions=["Check the disk of the data directory and its free space, then repeat the call."],
        )

    def _no_login(self) -> ResourceExecutionError:
        return ResourceExecutionError(
            f"The {self.name} does not exist, or refuses the login.",
            suggested_actions=[f"Check {self.setting}: host, port, database name, user and password."],
        )

    def _not_allowed(self) -> ResourceExecutionError:
        return ResourceExecutionError(
            f"The user in {self.setting} is not allowed to do this in the {self.name}.",
            suggested_actions=[self.grant],
        )

    def _busy(self) -> Unavailable:
        return Unavailable(f"The {self.name} is busy.")

    def _locked(self) -> Unavailable:
        return Unavailable(
            f"Another process is writing to the {self.name} and did not finish in time.",
            suggested_actions=[_RETRY_SOON, "If the error persists, look for a quilt-mcp process that hangs."],
        )

    def _unreachable(self) -> Unavailable:
        return Unavailable(f"The {self.name} cannot be reached.", suggested_actions=[_RETRY_LATER, self.check])

    def _too_slow(self, error: Exception | None = None) -> Unavailable:
        return Unavailable(
            f"The {self.name} did not respond in time.",
            details=None if error is None else type(error).__name__,
            suggested_actions=[
                _RETRY_LATER,
                "If the error persists, increase QUILT_MCP_DATABASE_TIMEOUT_SECONDS, or ask the database's operator.",
            ],
        )

    def _failed_inside(self) -> Unavailable:
        return Unavailable(
            f"The server of the {self.name} failed.",
            suggested_actions=[_RETRY_LATER, "If the error persists, look for the cause in the server's log."],
        )

    def _changed(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"The schema of the {self.name} changed while this server was connected.",
            details=type(error).__name__,
            suggested_actions=[_RETRY_SOON],
        )

    def _misconfigured(self, error: Exception) -> ResourceExecutionError:
        return ResourceExecutionError(
            f"The driver does not accept an option in {self.setting}.",
            details=type(error).__name__,
            suggested_actions=[
                f"Check the options in {self.setting}, and the environment variables that start with PG."
            ],
        )

    def _disk_full(self) -> ResourceExecutionError:
        return ResourceExecutionError(
            f"The disk of the {self.name} is full. Nothing was changed.",
            suggested_actions=["Free some disk space, then repeat the call."],
        )

    def _not_accessible(self) -> ResourceExecutionError:
        return ResourceExecutionError(
            f"The file of the {self.name} cannot be opened or written.",
            suggested_actions=[
                f"Make the data directory and {self.file_name} in it readable and writable for your user.",
                "Or set QUILT_MCP_DATA_DIR to a writable directory, and start the server again.",
            ],
        )


def _with_details(make: Callable[[], ResourceFailure] | None, details: str | None) -> ResourceFailure | None:
    if make is None:
        return None
    failure = make()
    failure.details = details
    return failure

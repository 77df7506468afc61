"""Every exception of SQLAlchemy and of the database drivers becomes our failure, or is listed with the reason.

The drivers raise while SQLAlchemy opens a connection, so that SQLAlchemy itself wraps and translates what they raise.
"""

import sqlite3
from collections.abc import Iterator
from typing import NoReturn

import psycopg
import pytest
import sqlalchemy.exc
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError

from quilt_mcp.core.errors import ResourceFailure, find_failure
from quilt_mcp.requirements.failures import FAILURES

NOT_USED = ("sqlalchemy.orm",)


def _are_ours(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), "our statements are wrong")


NOT_MAPPED_CLASSES = {
    **_are_ours("""
        AmbiguousForeignKeysError ArgumentError AwaitRequired CircularDependencyError CompileError
        ConstraintColumnNotFoundError AmbiguousColumnError DuplicateColumnError IdentifierError
        InvalidRequestError MissingGreenlet MultipleResultsFound NoForeignKeysError NoInspectionAvailable
        NoReferenceError NoReferencedColumnError NoReferencedTableError NoResultFound NoSuchColumnError
        NoSuchTableError ObjectNotExecutableError PendingRollbackError ResourceClosedError StatementError
        UnboundExecutionError UnreflectableTableError UnsupportedCompilationError
    """),
    "DisconnectionError": "only handlers of pool events raise it, and we have none",
    "IllegalStateChangeError": "only sessions raise it, and we have none",
    "InvalidatePoolError": "only handlers of pool events raise it, and we have none",
    "NoDBAPILoaded": "only the dialect without a driver raises it",
    "NoSuchModuleError": "the settings accept only the drivers that we name",
    "SQLAlchemyError": "only its subclasses are raised",
}
"""Of SQLAlchemy: those that are bugs of ours."""
NOT_MAPPED_DRIVER_CLASSES = {
    "Error": "only its subclasses are raised",
    "InterfaceError": "a connection is used by two threads, or after it was closed",
    **_are_ours("DataError NotSupportedError OutOfOrderTransactionNesting ProgrammingError"),
    "DatabaseError": "only its subclasses are raised",
    "IntegrityError": "the callers of writes handle it",
    "InternalError": "only its subclasses are raised",
}
"""Of psycopg, without a state."""
NOT_MAPPED_STATES = {
    **_are_ours("03 0A 0B 0F 20 21 22 24 25 26 2B 2D 34 3B 3F 42"),
    "02": "no data is no error",
    "09": "our tables have no such triggers",
    "0L": "we grant nothing",
    "0P": "we set no role",
    "0Z": "our tables have no functions",
    "10": "we use no XML",
    "23": "the callers of writes handle violated constraints",
    "27": "our tables have no such triggers",
    "2F": "our tables have no functions",
    "38": "our tables have no functions",
    "39": "our tables have no functions",
    "44": "our tables have no views with a check",
    "54": "our statements are small",
    "55": "we change no database and no enum while it is in use",
    "P0": "our tables have no functions",
}
"""Of PostgreSQL, by the class of the state: its first two characters."""
NOT_MAPPED_CODES = {
    **_are_ours("SQLITE_ERROR SQLITE_TOOBIG SQLITE_MISMATCH SQLITE_MISUSE SQLITE_RANGE"),
    "SQLITE_INTERNAL": "a bug of SQLite",
    "SQLITE_ABORT": "no callback of ours aborts",
    "SQLITE_NOMEM": "a MemoryError in Python",
    "SQLITE_NOTFOUND": "SQLite does not return it from statements",
    "SQLITE_PROTOCOL": "SQLite repeats a race for the write-ahead log for 10 seconds",
    "SQLITE_EMPTY": "SQLite does not use it",
    "SQLITE_SCHEMA": "SQLite prepares the statement again",
    "SQLITE_CONSTRAINT": "the callers of writes handle it",
    "SQLITE_NOLFS": "every system that we support has large files",
    "SQLITE_AUTH": "we set no authorizer",
    "SQLITE_FORMAT": "SQLite does not use it",
}
"""Of SQLite, by the primary code."""


def descend(cls: type[Exception]) -> Iterator[type[Exception]]:
    yield cls
    for child in cls.__subclasses__():
        yield from descend(child)


def list_classes(*bases: type[Exception]) -> list[type[Exception]]:
    """Return the classes of libraries, without those that other tests define."""
    found = {cls for base in bases for cls in descend(base) if not cls.__module__.startswith(("tests.", "quilt_mcp."))}
    return sorted(found, key=lambda cls: (cls.__module__, cls.__qualname__))


def wrap(url: str, error: Exception) -> SQLAlchemyError:
    """Return what SQLAlchemy raises if a driver raises this."""

    def connect() -> NoReturn:
        raise error

    with pytest.raises(SQLAlchemyError) as raised, create_engine(url, creator=connect).connect():
        pass
    return raised.value


def find(error: Exception) -> ResourceFailure | None:
    return find_failure(error, FAILURES.rows)


def test_each_exception_of_sqlalchemy_is_mapped_or_listed() -> None:
    classes = [cls for cls in list_classes(SQLAlchemyError) if not cls.__module__.startswith(NOT_USED)]
    assert len(classes) > 40
    mapped = {
        cls.__name__ for cls in classes if issubclass(cls, sqlalchemy.exc.DBAPIError | sqlalchemy.exc.TimeoutError)
    }
    assert not mapped & NOT_MAPPED_CLASSES.keys()
    assert {cls.__name__ for cls in classes} - mapped == NOT_MAPPED_CLASSES.keys()


def test_each_exception_of_psycopg_is_mapped_or_listed() -> None:
    classes = list_classes(psycopg.Error)
    assert len(classes) > 250
    silent = {cls for cls in classes if find(wrap("postgresql+psycopg://", cls("x"))) is None}
    check_listed(silent, "sqlstate")


def check_listed(silent: set[type[Exception]], state: str) -> None:
    states = {str(getattr(cls, state))[:2] for cls in silent if getattr(cls, state, None)}
    assert states <= NOT_MAPPED_STATES.keys()
    names = {cls.__name__ for cls in silent if not getattr(cls, state, None)}
    assert names <= NOT_MAPPED_DRIVER_CLASSES.keys()


def test_each_code_of_sqlite_is_mapped_or_listed() -> None:
    codes = {
        name: code
        for name, code in vars(sqlite3).items()
        if name.startswith("SQLITE_") and name.upper() in PRIMARY and isinstance(code, int)
    }
    silent = set()
    for name, code in codes.items():
        error = sqlite3.OperationalError("x")
        error.sqlite_errorcode, error.sqlite_errorname = code, name
        if find(wrap("sqlite://", error)) is None:
            silent.add(name)
    assert silent == NOT_MAPPED_CODES.keys()


@pytest.mark.parametrize(("name", "message"), [("SQLITE_IOERR_SHMSIZE", "is full"), ("SQLITE_IOERR_READ", "failed")])
def test_a_read_that_finds_no_room_on_the_disk_says_so(name: str, message: str) -> None:
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, name), name
    failure = find(wrap("sqlite://", error))
    assert failure
    assert message in failure.message
    assert "disk" in failure.suggested_actions[0]


PRIMARY = frozenset(
    """
    SQLITE_ERROR SQLITE_INTERNAL SQLITE_PERM SQLITE_ABORT SQLITE_BUSY SQLITE_LOCKED SQLITE_NOMEM SQLITE_READONLY
    SQLITE_INTERRUPT SQLITE_IOERR SQLITE_CORRUPT SQLITE_NOTFOUND SQLITE_FULL SQLITE_CANTOPEN SQLITE_PROTOCOL
    SQLITE_EMPTY SQLITE_SCHEMA SQLITE_TOOBIG SQLITE_CONSTRAINT SQLITE_MISMATCH SQLITE_MISUSE SQLITE_NOLFS SQLITE_AUTH
    SQLITE_FORMAT SQLITE_RANGE SQLITE_NOTADB
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)
"""The codes that SQLite documents as primary result codes, without those that are no errors."""


def test_each_reason_is_needed() -> None:
    classes = list_classes(psycopg.Error)
    states = {str(getattr(cls, "sqlstate", None))[:2] for cls in classes}
    assert NOT_MAPPED_STATES.keys() <= states
    assert NOT_MAPPED_DRIVER_CLASSES.keys() <= {cls.__name__ for cls in classes}

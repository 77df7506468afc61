"""SQLite files and PostgreSQL databases, each use of which is one transaction, for threads.

In SQLite, several processes can use a file at once: a reader sees the last commit, and a transaction that writes takes
the write lock first. A commit is on the disk when it returns. The write-ahead log needs a local disk, so the data
directory should not be on a network file system.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr
from sqlalchemy import URL, Connection, Dialect, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from quilt_mcp.app.database.failures import DatabaseFailures
from quilt_mcp.app.database.file_changes import OPENED, WatchedFile, discard_damaged
from quilt_mcp.app.database.postgresql import make_cancel, prepare_postgresql
from quilt_mcp.app.pools import interruptible
from quilt_mcp.core.errors import ResourceExecutionError, find_failure

_SQLITE_PRAGMAS = ("foreign_keys = ON", "synchronous = FULL")
_SQLITE, _POSTGRESQL = "sqlite", "postgresql+psycopg"
_DRIVERS = {"sqlite": _SQLITE, "postgres": _POSTGRESQL, "postgresql": _POSTGRESQL, _POSTGRESQL: _POSTGRESQL}
_CONNECTIONS, _MORE_CONNECTIONS = 5, 5
_READ = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A writer must read what the writer before it has committed, not a snapshot from before its own turn.
_WRITE = "ISOLATION LEVEL READ COMMITTED READ WRITE"


@contextmanager
def translate(failures: DatabaseFailures) -> Iterator[None]:
    """Raise our failures for what a database raises. Bugs, and violated constraints, stay what they are."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        if failure := find_failure(error, failures.rows):
            raise failure from error
        raise


def make_file(path: Path) -> None:
    """Create an empty file, and its directory, for the user alone. Do nothing if they exist.

    Never opens an existing file: closing a descriptor drops all locks of the process on the file, also those of SQLite.
    Another process could then delete the write-ahead log in use.

    Raises:
        OSError: it cannot be created.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # SQLite gives its -wal and -shm files the same mode
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


class Storage:
    """The connections to one database. Nothing connects before the first transaction.

    Args:
        url: of PostgreSQL or of an SQLite file.
        default: the SQLite file to use without a URL.
        failures: of this database.
        seconds: the limit for connecting, for a free connection, and for each statement.
        patient: let statements take as long as they need, as a migration does.
        keeps_connections: keep connections open for the next use. A kept connection to a file notices that the file was
            replaced or moved.
        schema: where PostgreSQL has the tables, if it is not on the search path.

    Attributes:
        engine: SQLAlchemy's engine, for events and the like. `transaction` gives connections.
        file: of SQLite; None for PostgreSQL.

    Raises:
        ResourceExecutionError: the URL is not valid.
    """

    def __init__(
        self,
        url: SecretStr | None,
        default: Path,
        failures: DatabaseFailures,
        *,
        seconds: float,
        patient: bool = False,
        keeps_connections: bool = True,
        schema: str | None = None,
    ) -> None:
        parsed = URL.create(_SQLITE, database=str(default.absolute())) if url is None else _parse(url, failures)
        self.failures = failures
        self.file = Path(parsed.database or "") if parsed.drivername == _SQLITE else None
        self._local = "".join(f"; SET LOCAL {one}" for one in _list_limits(schema, None if patient else seconds))
        pool: dict[str, Any] = {"poolclass": NullPool}
        if keeps_connections:
            pool = {"pool_size": _CONNECTIONS, "max_overflow": _MORE_CONNECTIONS, "pool_timeout": seconds}
        self.engine = create_engine(parsed, hide_parameters=True, **pool)
        if self.file:
            watched = WatchedFile(self.file, failures) if keeps_connections else None
            _prepare_sqlite(self.engine, self.file, seconds, watched)
        else:
            prepare_postgresql(self.engine, failures, seconds, patient=patient)

    @property
    def dialect(self) -> str:
        return self.engine.dialect.name

    @contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        """Yield a connection in one transaction: of a snapshot to read, or to write.

        It commits when the block ends, and rolls back if the block raises. A statement ends early if the caller no
        longer waits for this thread.

        Raises:
            ResourceFailure: the database cannot be used; see `DatabaseFailures`.
        """
        with translate(self.failures), self.engine.connect() as connection:
            connection.execution_options(writes=writes)
            self._begin(connection, _WRITE if writes else _READ)
            with self._interruptible(connection):
                yield connection
                connection.commit()

    def close(self) -> None:
        self.engine.dispose()

    def _begin(self, connection: Connection, mode: str) -> None:
        connection.begin()
        if self.file:
            return
        begin = f"SET TRANSACTION {mode}{self._local}"
        try:
            connection.exec_driver_sql(begin)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            connection.rollback()  # PostgreSQL has closed the connection since its last use; the pool opens another
            connection.begin()
            connection.exec_driver_sql(begin)

    @contextmanager
    def _interruptible(self, connection: Connection) -> Iterator[None]:
        driver: Any = connection.connection.driver_connection
        is_interrupted: Callable[[], bool] = bool
        try:
            with interruptible(driver.interrupt if self.file else make_cancel(driver)) as is_interrupted:
                yield
        finally:
            if is_interrupted() and not self.file:
                connection.invalidate()  # the server could cancel the next statement on it


def _parse(secret: SecretStr, failures: DatabaseFailures) -> URL:
    try:
        url = make_url(secret.get_secret_value())
        driver = _DRIVERS.get(url.drivername)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        driver = None
    if driver is None or (driver == _SQLITE and url.database in {None, "", ":memory:"}):
        # from None: the error contains the URL, and the URL a password
        raise ResourceExecutionError(
            f"{failures.setting} is not a valid URL of a PostgreSQL database or an SQLite file.",
            suggested_actions=["Use the form postgresql://user:password@host:5432/name, or sqlite:////path/to/file."],
        ) from None
    return url.set(drivername=driver)


def _list_limits(schema: str | None, seconds: float | None) -> list[str]:
    """Return the settings of each transaction: behind a pooler, the next one can be on another connection."""
    milliseconds = 0 if seconds is None else round(seconds * 1000)
    limits = [f"statement_timeout = {milliseconds}", f"lock_timeout = {milliseconds}"]
    return limits + ([f"search_path = {schema}"] if schema else [])


def _prepare_sqlite(engine: Engine, path: Path, seconds: float, watched: WatchedFile | None) -> None:
    # only `make_file` creates files, with the right mode
    uri = f"{path.absolute().as_uri()}?mode=rw"

    def connect(_: Dialect, entry: ConnectionPoolEntry, *__: object) -> DBAPIConnection:
        entry.info[OPENED] = watched and watched.note_opening()
        connection = sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False, isolation_level=None)
        for pragma in _SQLITE_PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return cast("DBAPIConnection", connection)

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "begin", _begin_sqlite)
    discard_damaged(engine)
    if watched:
        watched.watch(engine)


def _begin_sqlite(connection: Connection) -> None:
    if not connection.get_execution_options().get("writes"):
        connection.exec_driver_sql("BEGIN")
        return
    # The mode stays set in the file. SQLite does not always wait for this lock. Writes are as safe without the log, the
    # next writer sets it, and a problem other than a lock occurs again in the transaction.
    cursor = connection.connection.cursor()
    with suppress(sqlite3.DatabaseError):
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.close()
    connection.exec_driver_sql("BEGIN IMMEDIATE")

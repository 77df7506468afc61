"""SQLite files and PostgreSQL databases, each use of which is one transaction, for threads.

In SQLite, several processes can use a file at once: a reader sees the last commit, and a transaction that writes takes
the write lock first. A commit is on the disk when it returns. The write-ahead log needs a local disk, so the data
directory should not be on a network file system.
"""

import os
import socket
import sqlite3
import stat
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Literal, NamedTuple, cast

from pydantic import SecretStr
from sqlalchemy import (
    URL,
    Column,
    Connection,
    Dialect,
    Engine,
    ExceptionContext,
    Inspector,
    MetaData,
    NullPool,
    PrimaryKeyConstraint,
    String,
    Table,
    create_engine,
    delete,
    event,
    insert,
    make_url,
    select,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from quilt_mcp.app.database.failures import (
    MISCONFIGURED,
    MOVED,
    NO_LOGIN,
    REPLACED,
    TOO_SLOW,
    UNREACHABLE,
    DatabaseFailures,
)
from quilt_mcp.app.pools import interruptible
from quilt_mcp.core.errors import ResourceExecutionError, find_failure

State = Literal["empty", "current", "outdated", "newer", "unsupported", "existing", "unknown"]


class Schema(NamedTuple):
    """The state of the tables in a database.

    Attributes:
        state: `current`, `outdated`, `newer` and `unsupported` are ours, by their revision. `unsupported` ones are too
            old to be migrated. `existing` is an earlier system's, which can be read as it is; `unknown` is something
            else.
        revision: the revision, for tables of ours.
        problem: for unknown tables, what is missing.
    """

    state: State
    revision: str | None = None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Migrations:
    """The migrations of one domain.

    Attributes:
        version_table: has the revision. Each domain has its own.
        steps: for each revision, the newest last, what makes it from the one before. A number is never used again.
        others: earlier numbers, and the revision that each stands for if the tables are complete.
    """

    version_table: str
    steps: Mapping[str, Callable[[Connection], None]]
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def newest(self) -> str:
        return list(self.steps)[-1]

    def upgrade(self, connection: Connection) -> None:
        """Migrate to the newest revision, in the transaction of the connection."""
        number = Column("version_num", String(32), nullable=False)
        key = PrimaryKeyConstraint(number, name=f"{self.version_table}_pkc")
        versions = Table(self.version_table, MetaData(), number, key)
        versions.create(connection, checkfirst=True)
        found, revisions = connection.scalar(select(number)), list(self.steps)
        current = self.others.get(found, found) if found else None
        done = revisions.index(current) + 1 if current else 0
        for revision in revisions[done:]:
            self.steps[revision](connection)
        connection.execute(delete(versions))  # the table has one row: the newest revision
        connection.execute(insert(versions).values(version_num=self.newest))

    def find_schema(self, connection: Connection, tables: Collection[str], schema: str | None = None) -> Schema | None:
        """Return the schema by the version table; None if it does not exist or is empty."""
        if self.version_table not in tables:
            return None
        query = f"SELECT version_num FROM {f'{schema}.' if schema else ''}{self.version_table}"  # noqa: S608 - constants
        revision: str | None = connection.exec_driver_sql(query).scalar()
        if revision is None:
            return None
        if revision == self.newest:
            return Schema("current", revision)
        return Schema("outdated" if revision in self.steps else "newer", revision)


def missing_columns(
    inspector: Inspector, expected: Mapping[str, Collection[str]], schema: str | None = None
) -> list[str]:
    """Return the expected columns that do not exist, as `table.column`."""
    missing = []
    found = set(inspector.get_table_names(schema))
    for table, columns in expected.items():
        existing = {str(column["name"]) for column in inspector.get_columns(table, schema)} if table in found else set()
        missing += [f"{table}.{column}" for column in sorted(set(columns) - existing)]
    return missing


_OPTIONS: dict[str, object] = {
    "application_name": "quilt-mcp",
    "client_encoding": "UTF8",  # a role or PGCLIENTENCODING can name one without most characters
    "autocommit": True,  # the driver would begin a transaction with a call of its own, before that of `Storage`
    "prepare_threshold": None,  # behind a pooler, the next transaction can be on another connection
}
_CANCEL_SECONDS = 2.0
Driver = Any
"""psycopg, or a connection of it."""
_GRACE = 1.0
"""How much later than its own limit a server may end a statement, in seconds. After that it does not answer."""


def prepare_postgresql(engine: Engine, failures: DatabaseFailures, seconds: float, *, patient: bool) -> None:
    """Set up each connection of an engine of the dialect postgresql+psycopg.

    A connection with a statement that takes much longer than `seconds` is closed, because a server that no longer
    answers does not enforce its own limit either. If `patient`, statements take as long as they need.
    """
    driver: Driver = engine.dialect.loaded_dbapi
    connection_class = driver.Connection if patient else _limit_silence(driver, seconds + _GRACE)

    def connect(_: Dialect, __: ConnectionPoolEntry, arguments: list[str], options: dict[str, object]) -> Driver:
        options["connect_timeout"] = max(2, round(seconds))  # libpq takes no less
        try:
            return connection_class.connect(*arguments, **(_OPTIONS | options))
        except driver.ProgrammingError:  # of libpq, which reads the options
            raise failures.make(MISCONFIGURED) from None
        except driver.errors.ConnectionTimeout as error:
            raise failures.make(TOO_SLOW, type(error).__name__) from None
        except driver.OperationalError:
            # What psycopg says is only a text, with the address. So the server is asked whether it answers at all.
            known = {name: value for name, value in options.items() if name != "context"}  # of psycopg alone
            address = driver.conninfo.make_conninfo(*arguments, **known)
            answer = driver.pq.Ping(driver.pq.PGconn.ping(address.encode())).name
            if answer != "OK":
                problem = MISCONFIGURED if answer == "NO_ATTEMPT" else UNREACHABLE
                raise failures.make(problem, answer) from None
            try:  # it can have started only now
                return connection_class.connect(*arguments, **(_OPTIONS | options))
            except driver.OperationalError:
                raise failures.make(NO_LOGIN, answer) from None

    def explain(context: ExceptionContext) -> None:
        if isinstance(context.original_exception, driver.errors.ConnectionTimeout):
            raise TimeoutError from context.original_exception

    as_text = driver.types.string.TextLoader  # SQLAlchemy would make a text of each UUID object again
    event.listen(engine, "do_connect", connect)
    event.listen(engine, "connect", lambda made, _: made.adapters.register_loader("uuid", as_text))
    event.listen(engine, "handle_error", explain)


def _limit_silence(driver: Driver, seconds: float) -> Driver:
    """Return a class of connections that close themselves if the server does not answer a statement in time."""

    class LimitedConnection(driver.Connection):  # type: ignore[misc]  # psycopg is imported with the first database
        def wait(self, steps: Generator[object, object, object], *limits: float, **more: float) -> object:
            return super().wait(self._limit(steps), *limits, **more)

        def _limit(self, steps: Generator[object, object, object]) -> Generator[object, object, object]:
            """Pass on what the driver waits for. It also looks here now and then while it waits."""
            until = time.monotonic() + seconds
            try:
                wanted = next(steps)
                while True:
                    ready = yield wanted
                    if time.monotonic() > until:
                        self.close()
                        raise driver.errors.ConnectionTimeout
                    wanted = steps.send(ready)
            except StopIteration as end:
                return end.value

    return LimitedConnection


def make_cancel(connection: Driver) -> Callable[[], None]:
    """Return the function that cancels what a connection of the driver is doing, and closes it. It does not wait."""

    def cancel() -> None:
        with suppress(OSError, connection.Error):
            connection.cancel_safe(timeout=_CANCEL_SECONDS)
        # Shut the socket down, so that its reader fails. Do nothing if the connection is closed.
        with suppress(OSError, connection.Error), socket.socket(fileno=os.dup(connection.fileno())) as handle:
            handle.shutdown(socket.SHUT_RDWR)

    return Thread(target=cancel, name="cancel", daemon=True).start


_SQLITE_PRAGMAS = ("foreign_keys = ON", "synchronous = FULL")
_SQLITE, _POSTGRESQL = "sqlite", "postgresql+psycopg"
_DRIVERS = {"sqlite": _SQLITE, "postgres": _POSTGRESQL, "postgresql": _POSTGRESQL, _POSTGRESQL: _POSTGRESQL}
_CONNECTIONS, _MORE_CONNECTIONS = 5, 5
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A writer must read what the writer before it has committed, not a snapshot from before its own turn.
_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"


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
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        # SQLite gives its -wal and -shm files the same mode
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


_LOGS = ("-wal", "-shm", "-journal")


class FileState(NamedTuple):
    """The identity of a file and its permissions."""

    device: int
    inode: int
    mode: int
    owner: int


class OpenedFile:
    """An SQLite file. Each opening is noted, to see that the file was replaced or moved, or has other permissions.

    SQLite keeps a write-ahead log, or a rollback journal, beside a file and finds it by name. A log that a process
    still has for a file that was replaced would be mixed with the new file. So the new file is only opened without a
    log beside it. No connection is kept, so the last one to a file removes its log. Nothing is deleted here, because
    other processes can use the file and its log.
    """

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


class Storage:
    """The connections to one database. Nothing connects before the first transaction.

    Args:
        url: of PostgreSQL or of an SQLite file.
        default: the SQLite file to use without a URL.
        failures: of this database.
        seconds: the limit for connecting, for a free connection, and for each statement.
        patient: let statements take as long as they need, as a migration does.
        keeps_connections: keep connections to PostgreSQL open for the next use. Those to a file are never kept.
        schema: where PostgreSQL has the tables, if it is not on the search path.

    Attributes:
        engine: SQLAlchemy's, for events. Only `transaction` gives connections: its own begin no transaction.
        file: of SQLite; None for PostgreSQL.
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
        if keeps_connections and not self.file:
            pool = {"pool_size": _CONNECTIONS, "max_overflow": _MORE_CONNECTIONS, "pool_timeout": seconds}
        self.engine = create_engine(parsed, hide_parameters=True, **pool)
        self._is_closed = False
        if self.file:
            _prepare_sqlite(self.engine, self.file, seconds, failures)
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
        pool = self.engine.pool
        try:
            with translate(self.failures), self.engine.connect() as connection:
                self._begin(connection, writes=writes)
                with self._interruptible(connection):
                    yield connection
                    connection.commit()
        finally:
            if self._is_closed:  # nothing else closes the connections that come back
                pool.dispose()

    def close(self) -> None:
        """Close every connection that is not in use. From now on, a connection is closed after its use."""
        self._is_closed = True
        self.engine.dispose()

    def _begin(self, connection: Connection, *, writes: bool) -> None:
        connection.begin()
        if self.file:
            _begin_sqlite(connection, writes=writes)
            return
        begin = f"{_WRITE if writes else _READ}{self._local}"
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
    # of two equal limits, that of the statement ends first, and nobody learns that another process holds the lock
    limits = [f"statement_timeout = {milliseconds}", f"lock_timeout = {milliseconds * 9 // 10}"]
    # psycopg reads times only in this style, and in another zone the year 9999 can be the year 10000
    return [*limits, "datestyle = ISO", "timezone = 'UTC'", *([f"search_path = {schema}"] if schema else [])]


def _prepare_sqlite(engine: Engine, path: Path, seconds: float, failures: DatabaseFailures) -> None:
    # only `make_file` creates files, with the right mode
    uri, file = f"{path.absolute().as_uri()}?mode=rw", OpenedFile(path, failures)

    def connect(*_: object) -> DBAPIConnection:
        file.note_opening()
        connection = sqlite3.connect(uri, uri=True, timeout=seconds, check_same_thread=False, isolation_level=None)
        try:
            for pragma in _SQLITE_PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:  # of a damaged file
            connection.close()
            raise
        return cast("DBAPIConnection", connection)

    event.listen(engine, "do_connect", connect)


def _begin_sqlite(connection: Connection, *, writes: bool) -> None:
    if not writes:
        connection.exec_driver_sql("BEGIN")
        return
    cursor = connection.connection.cursor()
    # The first writer sets the mode of the file. It can fail, because SQLite does not always wait for this lock: writes
    # are as safe without the log, and the next writer sets it. Any other problem occurs again in the transaction.
    with suppress(sqlite3.DatabaseError):
        cursor.execute("PRAGMA journal_mode = WAL")
    cursor.close()
    connection.exec_driver_sql("BEGIN IMMEDIATE")

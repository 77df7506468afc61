"""Connections to PostgreSQL with the driver psycopg: their limits, and how a statement is cancelled.

The driver is optional, so it is used through SQLAlchemy's dialect.
"""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, ExceptionContext, event
from sqlalchemy.pool import ConnectionPoolEntry

from quilt_mcp.app.database.failures import MISCONFIGURED, NO_LOGIN, TOO_SLOW, UNREACHABLE, DatabaseFailures

_OPTIONS: dict[str, object] = {
    "application_name": "quilt-mcp",
    "prepare_threshold": None,  # behind a pooler, the next transaction can be on another connection
}
_CANCEL_SECONDS = 2.0
Driver = Any
"""psycopg, or a connection of it."""
_GRACE = 1.0
"""How much later than its own limit a server may end a statement, in seconds. After that it does not answer."""
_IDLE_TURNS = 60


def prepare_postgresql(engine: Engine, failures: DatabaseFailures, seconds: float, *, patient: bool) -> None:
    """Set up each connection of an engine.

    Args:
        engine: of the dialect postgresql+psycopg.
        failures: of the database.
        seconds: the limit for connecting. A connection with a statement that takes much longer is closed, because a
            server that no longer answers does not enforce its own limit either.
        patient: let statements take as long as they need.
    """

    def connect(dialect: Dialect, _: ConnectionPoolEntry, arguments: list[str], options: dict[str, object]) -> Driver:
        options["connect_timeout"] = max(2, round(seconds))  # libpq takes no less
        driver: Driver = dialect.loaded_dbapi
        try:
            connection = driver.connect(*arguments, **(_OPTIONS | options))
        except driver.ProgrammingError:  # of libpq, which reads the options
            raise failures.make(MISCONFIGURED) from None
        except driver.errors.ConnectionTimeout as error:
            raise failures.make(TOO_SLOW, type(error).__name__) from None
        except driver.OperationalError:
            # What psycopg says is only a text, with the address. So the server is asked whether it answers at all.
            known = {name: value for name, value in options.items() if name != "context"}  # of psycopg alone
            address = driver.conninfo.make_conninfo(*arguments, **known)
            answer = driver.pq.Ping(driver.pq.PGconn.ping(address.encode())).name
            problem = {"OK": NO_LOGIN, "NO_ATTEMPT": MISCONFIGURED}.get(answer, UNREACHABLE)
            raise failures.make(problem, answer) from None
        if limit:
            limit.begin(connection)  # SQLAlchemy's first statements have no events
        return connection

    limit = None if patient else SilenceLimit(seconds + _GRACE)
    event.listen(engine, "do_connect", connect)
    if limit:
        limit.watch(engine)


def make_cancel(connection: Driver) -> Callable[[], None]:
    """Return the function that cancels what a connection of the driver is doing, and closes it. It does not wait."""

    def cancel() -> None:
        with suppress(OSError, connection.Error):
            connection.cancel_safe(timeout=_CANCEL_SECONDS)
        _shut_down(connection)

    return Thread(target=cancel, name="cancel", daemon=True).start


def _shut_down(connection: Driver) -> None:
    """Shut the socket of a connection down, so that its reader fails. Do nothing if it is closed."""
    with suppress(OSError, connection.Error), socket.socket(fileno=os.dup(connection.fileno())) as handle:
        handle.shutdown(socket.SHUT_RDWR)


class SilenceLimit:
    """Shuts the sockets down on which a server has not answered in time.

    Args:
        seconds: the limit for one statement, commit or rollback.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[Driver, float] = {}
        self._silent: set[Driver] = set()
        self._lock = Lock()
        self._watcher: Thread | None = None

    def watch(self, engine: Engine) -> None:
        """Watch each connection of an engine while it waits for the server."""
        for name in ("before_cursor_execute", "commit", "rollback"):
            event.listen(engine, name, self._begin)
        event.listen(engine, "after_cursor_execute", self._end)
        event.listen(engine, "checkin", lambda connection, _: self._forget(connection))
        event.listen(engine, "handle_error", self._explain)

    def begin(self, driver: object) -> None:
        """Watch a connection of the driver, until its next statement ends."""
        with self._lock:
            self._until[driver] = time.monotonic() + self._seconds
            if self._watcher is None:
                self._watcher = Thread(target=self._run, name="silence", daemon=True)
                self._watcher.start()

    def _begin(self, connection: Connection, *_: object) -> None:
        if not connection.invalidated:
            self.begin(connection.connection.dbapi_connection)

    def _end(self, connection: Connection, *_: object) -> None:
        if not connection.invalidated:
            self._forget(connection.connection.dbapi_connection)

    def _forget(self, driver: object) -> None:
        with self._lock:
            self._until.pop(driver, None)
            self._silent.discard(driver)

    def _explain(self, context: ExceptionContext) -> None:
        """Raise a TimeoutError instead of what the driver says about a socket that was shut down."""
        if context.connection is None or context.connection.invalidated:
            return
        driver = context.connection.connection.dbapi_connection
        with self._lock:
            is_silent = driver in self._silent
        self._forget(driver)
        if is_silent:
            raise TimeoutError from context.original_exception

    def _run(self) -> None:
        """Look at the waiting connections now and then. End after some time without any."""
        turns = 0
        while turns < _IDLE_TURNS:
            time.sleep(self._seconds / 8)
            with self._lock:
                turns = 0 if self._until else turns + 1
                now = time.monotonic()
                for driver in [one for one, until in self._until.items() if until <= now]:
                    del self._until[driver]
                    self._silent.add(driver)
                    _shut_down(driver)
                if turns == _IDLE_TURNS:
                    self._watcher = None

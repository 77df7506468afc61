"""Workflows in a PostgreSQL that several machines share: in a schema of its own, made with the first write.

Imported by `runtime_context.py` only, because it imports psycopg. Each use opens a connection of its own and is one
transaction; one writer at a time reads and writes, so that none overwrites what it has not seen.
"""

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from threading import Timer
from typing import Any

import psycopg
from psycopg.rows import dict_row

from quilt_mcp.errors import ResourceExecutionError, Unavailable
from quilt_mcp.services import workflow_file
from quilt_mcp.services.workflow_failures import newer_schema
from quilt_mcp.services.workflow_store import Connection, Rows
from quilt_mcp.trace import calling

SCHEMA_VERSION = 1
SCHEMA = "quilt_mcp_workflows"
TABLES = b"""
    CREATE SCHEMA IF NOT EXISTS quilt_mcp_workflows;
    CREATE TABLE schema_version (number INTEGER NOT NULL);
    INSERT INTO schema_version VALUES (1);
    CREATE TABLE workflows (
        owner TEXT COLLATE "C", id TEXT COLLATE "C", name TEXT NOT NULL, description TEXT NOT NULL,
        metadata TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT COLLATE "C" NOT NULL,
        status TEXT NOT NULL, started_at TEXT, completed_at TEXT,
        PRIMARY KEY (owner, id));
    CREATE INDEX workflows_by_update ON workflows (owner, updated_at DESC, id);
    CREATE TABLE steps (
        position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        owner TEXT COLLATE "C", workflow_id TEXT COLLATE "C", id TEXT COLLATE "C",
        description TEXT NOT NULL, step_type TEXT NOT NULL, dependencies TEXT NOT NULL, metadata TEXT NOT NULL,
        created_at TEXT NOT NULL,
        status TEXT NOT NULL, started_at TEXT, completed_at TEXT, error_message TEXT, result TEXT,
        UNIQUE (owner, workflow_id, id),
        FOREIGN KEY (owner, workflow_id) REFERENCES workflows (owner, id));
    CREATE TABLE log (
        position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        owner TEXT COLLATE "C", workflow_id TEXT COLLATE "C", step_id TEXT COLLATE "C",
        timestamp TEXT NOT NULL, status_change TEXT NOT NULL, message TEXT,
        FOREIGN KEY (owner, workflow_id, step_id) REFERENCES steps (owner, workflow_id, id));
    CREATE INDEX log_of_workflow ON log (owner, workflow_id, position)"""
HAS_TABLES = b"SELECT to_regclass('quilt_mcp_workflows.schema_version') IS NOT NULL AS it"
MARGIN_SECONDS = 2.0
_PARAMETER = re.compile(r":(\w+)")


class SharedWorkflows:
    """The database at a URL.

    Args:
        url: such as postgresql://user:password@host/name.
        seconds: the limit for connecting, for each statement, and for waiting for another writer; a transaction has
            twice that, and a margin.
    """

    def __init__(self, url: str, seconds: float) -> None:
        self._url = url
        self._seconds = seconds

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read from, as of one moment. Before the first write it is empty, and nothing is made.

        Raises:
            Unavailable: the database cannot be reached, refuses the sign-in or is too slow.
            ResourceExecutionError: it does not allow it, or holds a newer version's workflows.
        """
        with self._transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            if _has_tables(connection):
                yield _Connection(connection)
                return
        with workflow_file.empty() as nothing:
            yield nothing

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A connection to read from and write to. Committed when the block ends, rolled back if it raises.

        Raises:
            Unavailable, ResourceExecutionError: as `reading`.
        """
        # What one writer reads must be what the one before has committed: not a snapshot from before its own turn.
        with self._transaction("ISOLATION LEVEL READ COMMITTED READ WRITE") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [SCHEMA])
            if not _has_tables(connection):
                connection.execute(TABLES)
            yield _Connection(connection)

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        milliseconds = round(self._seconds * 1000)
        # The server's own limits come first where it still answers, for they tell what was slow: a writer may wait for
        # another as long as one statement may take, and then have one that is slow.
        at_most = 2 * self._seconds + MARGIN_SECONDS
        with (
            _named_failures(),
            closing(self._connect()) as connection,
            _cut_off_after(at_most, connection),  # its commit too, with which the connection's own block ends
            connection,
        ):
            limits = f"SET LOCAL statement_timeout = {milliseconds}; SET LOCAL lock_timeout = {milliseconds}"
            connection.execute(f"SET TRANSACTION {mode}; SET LOCAL search_path = {SCHEMA}; {limits}".encode())
            yield connection

    def _connect(self) -> psycopg.Connection[dict[str, Any]]:
        return psycopg.connect(
            self._url,
            row_factory=dict_row,
            connect_timeout=max(2, round(self._seconds)),  # libpq takes no less
            application_name="quilt-mcp",
            prepare_threshold=None,  # behind a pooler, the next transaction may be on another connection
        )


@contextmanager
def _cut_off_after(seconds: float, connection: psycopg.Connection[dict[str, Any]]) -> Iterator[None]:
    """Let what waits for the server fail after so long: one that falls silent enforces no limit of its own."""
    # a handle of our own: the connection's may be closed, and its number another's, when the time is up
    with socket.socket(fileno=socket.dup(connection.fileno())) as handle:
        clock = Timer(seconds, _shut_down, [handle])
        clock.daemon = True
        clock.start()
        try:
            yield
        finally:
            clock.cancel()
            clock.join()


def _shut_down(handle: socket.socket) -> None:
    with suppress(OSError):  # the server has closed its end
        handle.shutdown(socket.SHUT_RDWR)


class _Connection:
    def __init__(self, connection: psycopg.Connection[dict[str, Any]]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Mapping[str, Any], /) -> Rows:
        with calling("sql", "workflows"):
            return self._connection.execute(_for_psycopg(statement), values)


@cache
def _for_psycopg(statement: str) -> bytes:
    return _PARAMETER.sub(r"%(\1)s", statement).encode()


def _has_tables(connection: psycopg.Connection[dict[str, Any]]) -> bool:
    found = connection.execute(HAS_TABLES).fetchone()
    if not (found and found["it"]):
        return False
    version = connection.execute("SELECT number FROM schema_version").fetchone()
    if version and version["number"] > SCHEMA_VERSION:
        raise newer_schema(version["number"], SCHEMA_VERSION)
    return True


@contextmanager
def _named_failures() -> Iterator[None]:
    """Turn what the database refuses into ResourceFailures; bugs of ours stay what they are."""
    try:
        yield
    except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled) as error:
        raise Unavailable("The workflow database is too slow, or another writer is.", details=error.sqlstate) from error
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction) as error:
        raise ResourceExecutionError(
            "The workflow database does not allow this.",
            details=error.sqlstate,
            suggested_actions=[f"Let the user of QUILT_MCP_WORKFLOWS_URL make the schema {SCHEMA}, or own it."],
        ) from error
    except psycopg.OperationalError as error:
        # its text may hold the address and the user
        raise Unavailable(
            "The workflow database cannot be reached, or refuses the sign-in.",
            details=error.sqlstate,
            suggested_actions=["Try the same call again in a minute.", "If it stays, check QUILT_MCP_WORKFLOWS_URL."],
        ) from error

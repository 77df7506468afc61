"""The tool athena_query: runs one statement in Athena that changes nothing, and returns its first rows.

A query costs by the bytes that it scans. So it is stopped when it has scanned more than the operator allows, and when
its caller leaves. The tool waits for a short time only. `QueryWatch` then looks after the query until it ends.
"""

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from quilt_mcp.app import current_app
from quilt_mcp.app.pools import interruptible
from quilt_mcp.core.cursors import DEFAULT_LIMIT
from quilt_mcp.core.errors import InvalidArguments, ResourceExecutionError, ResourceFailure, Unauthorized
from quilt_mcp.core.tracing import ReadIsOver
from quilt_mcp.services.athena_history import describe_query
from quilt_mcp.services.athena_read_service import find_own_workgroup
from quilt_mcp.services.athena_results import (
    INVALID,
    Place,
    QueryResultsAnswer,
    read_execution,
    read_results,
    write_without_rows,
)
from quilt_mcp.services.athena_sql import Statement, TableName, read_statement
from quilt_mcp.services.athena_workgroups import is_spark, make_unknown_workgroup
from quilt_mcp.services.auth_metadata import fetch_stack_prefix, make_tabulator_catalog
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.aws_failures import find_code
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import QueryRefused
from quilt_mcp.services.tabulator_service import read_table_names

if TYPE_CHECKING:
    from types_boto3_athena import type_defs as athena

    from quilt_mcp.services.stack.aws import AWSClients
    from quilt_mcp.services.stack.caller import Caller

WAIT_SECONDS = 20.0
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)
"""The seconds between two looks at a query; the last is repeated."""
WATCH_SECONDS = 5.0
"""The seconds between two looks at all queries that the tool no longer waits for."""
MOST_FAILURES = 10
"""How often AWS may fail to describe a query, one time after the other, before it is no longer looked after."""
CLOSE_SECONDS = 10.0
ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
OF_SQL = re.compile(r"line \d{1,6}:\d{1,6}: [^\x00-\x1f]{1,300}")
"""What Athena says about a statement that it does not accept."""
CHOOSE = "Read athena://workgroups, and pass `workgroup`."

logger = logging.getLogger(__name__)

SQL = Annotated[str, Field(description="One SELECT, SHOW, DESCRIBE or EXPLAIN.")]
_Name = str | SkipJsonSchema[None]
DatabaseName = Annotated[_Name, Field(description="For tables without one; the bucket for tabulator's.")]
WorkgroupName = Annotated[_Name, Field(description="Default: as athena://workgroups recommends.")]
CatalogName = Annotated[_Name, Field(description="Default: by tables.")]


class QueryAnswer(QueryResultsAnswer):
    """The state of a query that was run, and its first rows.

    Attributes:
        workgroup_reason: why it ran in this workgroup.
        scan_limit_bytes: it is stopped if it scans more bytes.
    """

    workgroup_reason: str
    scan_limit_bytes: int


class _Request(NamedTuple):
    """What Athena is asked.

    Attributes:
        aws: the caller's clients.
        given: the parameters of StartQueryExecution.
        workgroup_reason: why it is this workgroup.
        scan_limit_bytes: the lower of the limits of this server and of the workgroup.
    """

    aws: "AWSClients"
    given: Mapping[str, object]
    workgroup_reason: str
    scan_limit_bytes: int


def athena_query(
    sql: SQL, database: DatabaseName = None, workgroup: WorkgroupName = None, data_catalog: CatalogName = None
) -> QueryAnswer:
    """Run one SQL query in Athena and return its first 50 rows. It costs by the bytes that it scans.

    Statements that change something are refused. Tables: see athena://databases and tabulator://buckets. If `status`
    is RUNNING after 20 seconds, read `uri` later.
    """
    request = _prepare(read_statement(sql), database, workgroup, data_catalog)
    left = threading.Event()
    with interruptible(left.set):
        execution_id = _start(request)
        try:
            execution, is_too_large = _wait(request, execution_id, left)
            is_running = execution.get("Status", {}).get("State") not in ENDED
            if is_running and not is_too_large:
                current_app().part(QueryWatch).add(request.aws, execution_id, request.scan_limit_bytes)
        except ReadIsOver:
            stop_query(request.aws, execution_id)
            raise
        except ResourceFailure:
            current_app().part(QueryWatch).add(request.aws, execution_id, request.scan_limit_bytes)
            raise
    answer = _explain_stop(execution, request) if is_too_large else None
    return {
        **(answer or read_results(request.aws, execution, Place(), DEFAULT_LIMIT)),
        "workgroup_reason": request.workgroup_reason,
        "scan_limit_bytes": request.scan_limit_bytes,
    }


def _prepare(statement: Statement, database: str | None, workgroup: str | None, catalog: str | None) -> _Request:
    """Choose the workgroup and the catalog.

    Raises:
        InvalidArguments: no query can run there.
        ResourceFailure: they cannot be read.
    """
    caller = current_caller()
    standing = caller.fetch_standing() if caller.login.signed_in else None
    aws = caller.open_aws(standing) if standing else caller.aws
    if workgroup is None:
        found = find_own_workgroup(caller, aws, standing)
        if found.name is None:
            raise InvalidArguments(
                "Which workgroup your queries use is unknown.", details=found.reason, suggested_actions=[CHOOSE]
            )
        workgroup, reason, configuration = found.name, found.reason, found.configuration
    else:
        reason, configuration = "It was given.", _read_workgroup(aws, workgroup)
    _check_workgroup(workgroup, configuration)
    if catalog is None:
        catalog, database = _find_catalog(caller, statement, database)
    context = {"Catalog": catalog, "Database": database}
    given: dict[str, object] = {"QueryString": statement.sql, "WorkGroup": workgroup}
    if present := {key: value for key, value in context.items() if value is not None}:
        given["QueryExecutionContext"] = present
    limits = (
        current_app().settings_as(QuiltSettings).athena_scan_bytes,
        configuration.get("BytesScannedCutoffPerQuery"),
    )
    return _Request(aws, given, reason, min(one for one in limits if one))


def _read_workgroup(aws: "AWSClients", name: str) -> "athena.WorkGroupConfigurationOutputTypeDef":
    """Return the configuration of a workgroup; an empty one if AWS does not let the caller see it.

    Raises:
        NotFound: there is no such workgroup.
        InvalidArguments: it is disabled.
    """
    try:
        found: athena.WorkGroupTypeDef = aws.call("athena", "get_work_group", WorkGroup=name)["WorkGroup"]
    except Unauthorized:
        return {}  # who may not describe it may still be allowed to use it
    except ResourceExecutionError as failure:
        if find_code(failure) != INVALID:
            raise
        raise make_unknown_workgroup(name, failure) from failure
    if found.get("State") == "DISABLED":
        raise InvalidArguments(
            f"The workgroup {name!a} is disabled.",
            suggested_actions=[CHOOSE, "Ask a Quilt administrator to enable it."],
        )
    return found.get("Configuration", {})


def _check_workgroup(name: str, configuration: "athena.WorkGroupConfigurationOutputTypeDef") -> None:
    """Check that a query can run in a workgroup, as far as its configuration is known.

    Raises:
        InvalidArguments: none can.
    """
    if not configuration:
        return
    engine = configuration.get("EngineVersion", {})
    if is_spark(engine.get("EffectiveEngineVersion")) or is_spark(engine.get("SelectedEngineVersion")):
        raise InvalidArguments(
            f"The workgroup {name!a} runs Spark, in which no SQL of Athena runs.", suggested_actions=[CHOOSE]
        )
    is_managed = configuration.get("ManagedQueryResultsConfiguration", {}).get("Enabled", False)
    if not is_managed and not configuration.get("ResultConfiguration", {}).get("OutputLocation"):
        raise InvalidArguments(
            f"The workgroup {name!a} has no place for results.",
            suggested_actions=[CHOOSE, "Ask an administrator to set an output location or managed results for it."],
        )


def _find_catalog(caller: "Caller", statement: Statement, database: str | None) -> tuple[str | None, str | None]:
    """Return the data catalog and the database of tables that name none: tabulator's if its tables are named.

    Raises:
        InvalidArguments: tables of tabulator and others are named, or tables of several buckets.
    """
    unplaced = [one for one in statement.tables if not one.catalog]
    if not unplaced or not caller.login.signed_in:
        return None, database
    try:
        tables = read_table_names(caller)
    except QueryRefused:  # an old stack, which does not list them, or one that fails
        return None, database
    found = [_find_buckets(one, database, tables) for one in unplaced]
    if not any(found):
        return None, database
    prefix = fetch_stack_prefix(caller)
    tabulator = make_tabulator_catalog(prefix) if prefix else "the data catalog of tabulator"
    buckets = {one for places in found for one in places}
    named = [
        f'"{tabulator}"."{bucket}"."{one.name}"'
        for one, places in zip(unplaced, found, strict=True)
        for bucket in places
    ]
    if prefix is None or not all(found) or (len(buckets) > 1 and not all(one.database for one in unplaced)):
        raise InvalidArguments(
            "Some tables belong to tabulator, and it is not clear which of all.",
            details=", ".join(named),
            suggested_actions=[
                "Name each table with its data catalog and its database, as in `details`.",
                "Or pass `database`, and `data_catalog` if it is not tabulator's.",
            ],
        )
    return tabulator, database or (min(buckets) if len(buckets) == 1 else None)


def _find_buckets(table: TableName, database: str | None, tables: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the buckets that have a table of tabulator with this name."""
    place = table.database or database
    names = [bucket for bucket, known in tables.items() if table.name in known]
    return names if place is None else [one for one in names if one == place]


def _start(request: _Request) -> str:
    """Start the query.

    Raises:
        InvalidArguments: Athena does not accept it.
        ResourceFailure: as `AWSClients.call`.
    """
    try:
        started: athena.StartQueryExecutionOutputTypeDef
        started = request.aws.call("athena", "start_query_execution", **request.given)
    except ResourceExecutionError as failure:
        if find_code(failure) != INVALID:
            raise
        message = getattr(failure.__cause__, "response", {}).get("Error", {}).get("Message", "")
        said = OF_SQL.search(str(message))
        raise InvalidArguments(
            "Athena does not accept the query.",
            details=said[0] if said else failure.details,
            suggested_actions=["Check the statement, and the names of `workgroup`, `data_catalog` and `database`."],
        ) from failure
    return started["QueryExecutionId"]


def _wait(request: _Request, execution_id: str, left: threading.Event) -> "tuple[athena.QueryExecutionTypeDef, bool]":
    """Wait until a query ends, or the time is over. Return its state, and whether it was stopped.

    Raises:
        ReadIsOver: the caller has left.
        ResourceFailure: as `AWSClients.call`.
    """
    watch, looks = current_app().part(QueryWatch), 0
    until = time.monotonic() + watch.wait_seconds
    while True:
        if left.is_set():
            raise ReadIsOver
        execution = read_execution(request.aws, execution_id)
        if is_over_limit(execution, request.scan_limit_bytes):
            stop_query(request.aws, execution_id)
            return execution, True
        if execution.get("Status", {}).get("State") in ENDED or time.monotonic() >= until:
            return execution, False
        left.wait(watch.pauses[min(looks, len(watch.pauses) - 1)])
        looks += 1


def is_over_limit(execution: "athena.QueryExecutionTypeDef", limit: int) -> bool:
    """Return whether a query runs and has scanned more than a limit."""
    is_running = execution.get("Status", {}).get("State") not in ENDED
    return is_running and execution.get("Statistics", {}).get("DataScannedInBytes", 0) > limit


def stop_query(aws: "AWSClients", execution_id: str) -> None:
    """Stop a query. A failure is logged: nobody waits for it.

    The read that started the query can be over, so this is not part of it.
    """
    try:
        Context().run(partial(aws.call, "athena", "stop_query_execution", QueryExecutionId=execution_id))
    except ResourceFailure as failure:
        logger.warning("query %s was not stopped: %s (%s)", execution_id, failure.error, failure.details)


def _explain_stop(execution: "athena.QueryExecutionTypeDef", request: _Request) -> QueryResultsAnswer:
    scanned = execution.get("Statistics", {}).get("DataScannedInBytes", 0)
    return write_without_rows(
        {**describe_query(execution), "status": "CANCELLED"},
        f"This server stopped the query: it had scanned {scanned:,} bytes, and the limit is "
        f"{request.scan_limit_bytes:,} bytes.",
        "Scan less: name the columns, and put the partition keys into WHERE. LIMIT alone does not help.",
        "Or ask the operator of this server to raise QUILT_MCP_ATHENA_SCAN_BYTES.",
    )


class _Watched(NamedTuple):
    aws: "AWSClients"
    limit: int
    failures: int = 0


class QueryWatch:
    """Stops the queries of one app that scan too much after the tool has answered, and all when the app closes.

    It has a thread while it watches something.

    Args:
        settings: not used.
        wait_seconds: how long the tool waits for a query.
        pauses: as PAUSES.
        watch_seconds: as WATCH_SECONDS.
    """

    def __init__(
        self,
        settings: object = None,
        *,
        wait_seconds: float = WAIT_SECONDS,
        pauses: Sequence[float] = PAUSES,
        watch_seconds: float = WATCH_SECONDS,
    ) -> None:
        del settings
        self.wait_seconds, self.pauses, self._seconds = wait_seconds, pauses, watch_seconds
        self._watched: dict[str, _Watched] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, aws: "AWSClients", execution_id: str, limit: int) -> None:
        """Watch a query until it ends."""
        with self._lock:
            self._watched[execution_id] = _Watched(aws, limit)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="athena-queries", daemon=True)
                self._thread.start()

    @property
    def watched(self) -> list[str]:
        """The ids of the queries."""
        with self._lock:
            return [*self._watched]

    async def close(self) -> None:
        """Stop what still runs: nothing would limit it any more."""
        import anyio.to_thread  # noqa: PLC0415 - with the event loop

        self._closed.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            await anyio.to_thread.run_sync(partial(thread.join, CLOSE_SECONDS))

    def _work(self) -> None:
        while not self._closed.wait(self._seconds):
            for execution_id in self.watched:
                self._look_at(execution_id)
            with self._lock:
                if not self._watched:
                    self._thread = None
                    return
        for execution_id, one in self._watched.items():
            stop_query(one.aws, execution_id)

    def _look_at(self, execution_id: str) -> None:
        """Look at a query: stop it if it has scanned too much, and forget it if it has ended."""
        one = self._watched[execution_id]
        try:
            execution = read_execution(one.aws, execution_id)
        except ResourceFailure as failure:
            changed = one._replace(failures=one.failures + 1) if one.failures < MOST_FAILURES else None
            if changed is None:
                logger.warning("query %s is no longer watched: %s (%s)", execution_id, failure.error, failure.details)
        else:
            is_running = execution.get("Status", {}).get("State") not in ENDED
            changed = one._replace(failures=0) if is_running else None
            if is_over_limit(execution, one.limit):
                stop_query(one.aws, execution_id)
                changed = None
        with self._lock:
            if changed is None:
                del self._watched[execution_id]
            else:
                self._watched[execution_id] = changed

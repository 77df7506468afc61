"""athena://query/history: past queries of all workgroups, within Athena's quotas."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, NotRequired, TypeVar, get_args
from urllib.parse import quote

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.core.answers import iso
from quilt_mcp.core.cuts import cut_text, fit_beside
from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.core.parameters import parse_choice
from quilt_mcp.services.athena_quotas import LISTS, ask_each, share_read
from quilt_mcp.services.athena_workgroups import (
    WORKGROUPS_SHARE,
    is_spark,
    list_enabled_workgroups,
    make_unknown_workgroup,
)
from quilt_mcp.services.parallel_calls import NOT_IN_TIME
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.aws_failures import find_code
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import RefusedByAWS

if TYPE_CHECKING:
    from types_boto3_athena import type_defs as athena

    from quilt_mcp.services.stack.aws import AWSClients

PAGE = 50  # the maximum for ListQueryExecutions and for BatchGetQueryExecution
NEWEST = 50
MAX_QUERY_TEXT = 4000
NOTE = "AWS does not tell who submitted a query. Its workgroup can be that of one role."
NEVER = datetime.min.replace(tzinfo=UTC)
Order = Literal["newest", "scanned", "slowest"]
ORDERS: tuple[Order, ...] = get_args(Order)
Status = Literal["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]
STATUSES: tuple[Status, ...] = get_args(Status)
T = TypeVar("T", bound=str)


class QueryRow(TypedDict):
    """One query execution.

    Attributes:
        uri: the URI of its results.
        query_execution_id: its id.
        query: the SQL text, cut at 4000 characters; null if AWS did not say.
        query_truncated: true if the text was cut; absent if not.
        status: QUEUED, RUNNING, SUCCEEDED, FAILED or CANCELLED; null if unknown.
        submitted_at: ISO 8601 in UTC; null if unknown.
        completed_at: ISO 8601 in UTC; null if it still runs.
        execution_time_ms: time in the engine, in milliseconds; null if unknown.
        queue_time_ms: time in the queue before the engine started, in milliseconds; null if unknown.
        total_time_ms: all of its time, in milliseconds; null if unknown.
        data_scanned_bytes: amount of data read, in bytes; null if unknown.
        output_location: the S3 URI of the result; null if unknown, or if Athena stores the result itself.
        workgroup: its workgroup; null if unknown.
        data_catalog: the data catalog in which it ran; null if unknown.
        database: the database in which it ran; null if unknown.
        error: why it failed or was cancelled, cut at 4000 characters; null otherwise.
        error_truncated: true if it was cut; absent if not.
    """

    uri: str
    query_execution_id: str
    query: str | None
    query_truncated: NotRequired[Literal[True]]
    status: str | None
    submitted_at: str | None
    completed_at: str | None
    execution_time_ms: int | None
    queue_time_ms: int | None
    total_time_ms: int | None
    data_scanned_bytes: int | None
    output_location: str | None
    workgroup: str | None
    data_catalog: str | None
    database: str | None
    error: str | None
    error_truncated: NotRequired[Literal[True]]


class UnavailableWorkgroup(TypedDict):
    """A workgroup that is missing from the history, and the reason."""

    name: str
    """Its name."""
    reason: str
    """Why it could not be read."""


class HistoryAnswer(TypedDict):
    """The answer of athena://query/history.

    Attributes:
        query_history: the queries, of those that were read, with the status and the workgroup that were asked for.
        order: the order of the list: newest, scanned or slowest. The last two sort the newest queries that were read.
        status: the status that was asked for; null for any.
        workgroup: the workgroup that was asked for; null for all.
        note: what AWS does not tell about queries.
        count: the number of queries with these values, of which the list has all but those that are left out.
        left_out: the number of queries at the end of the list that are left out, because the list ends at about 40,000
            characters. Select by status or workgroup to see them.
        max_results: the maximum of `count`.
        workgroups: the workgroups that were read. Those of Spark have no queries, and are left out.
        workgroups_unavailable: the workgroups with queries that could not be read.
        unprocessed: the number of queries that Athena listed but did not describe.
        region: the AWS region.
        workgroups_total: the number of enabled workgroups; null if not all of them were listed: only 1,000 are
            read, and only as many as the time allows.
        workgroups_covered: the number of workgroups that were read.
        is_complete: whether these are the newest queries of all enabled workgroups except those that AWS does not let
            you read. False if other workgroups or queries are missing.
    """

    query_history: list[QueryRow]
    order: Order
    status: Status | None
    workgroup: str | None
    note: str
    count: int
    left_out: int
    max_results: int
    workgroups: list[str]
    workgroups_unavailable: list[UnavailableWorkgroup]
    unprocessed: int
    region: str
    workgroups_total: int | None
    workgroups_covered: int
    is_complete: bool


class _Listed(NamedTuple):
    """The newest queries of a workgroup, as far as they were listed.

    Attributes:
        workgroup: its name.
        ids: their ids; less than PAGE.
        token: the token of the next page; empty if there is none.
    """

    workgroup: str
    ids: tuple[str, ...] = ()
    token: str = ""


class _Newest(NamedTuple):
    """The newest queries of a workgroup.

    Attributes:
        executions: the queries that Athena described.
        unprocessed: the number of queries that it listed, but did not describe.
        failure: why they could not be read; None if they could.
    """

    executions: "Sequence[athena.QueryExecutionTypeDef]" = ()
    unprocessed: int = 0
    failure: ResourceFailure | None = None


def athena_query_history(
    order: str | None = None, status: str | None = None, workgroup: str | None = None
) -> HistoryAnswer:
    """The 50 newest queries in your workgroups.

    The newest query comes first; `?order=scanned` and `?order=slowest` sort the 50 newest of each workgroup by bytes
    and by total time. `?status=FAILED` and `?workgroup=NAME` select. AWS does not tell who submitted a query. Athena
    limits the rate of calls, so in an account with many workgroups the time is not enough for all of them: Quilt's come
    first, `workgroups_unavailable` gives the reason for each workgroup with unreadable queries, and `is_complete` is
    then false. `unprocessed` is the number of queries that Athena listed but did not describe. Query text is cut at
    4000 characters. Athena keeps queries for 45 days. `uri` of a query reads its results.
    """
    asked = _Asked(
        parse_choice("order", order, ORDERS) or "newest", parse_choice("status", status, STATUSES), workgroup
    )
    return _write_history(asked, share_read(_read_history, (current_caller().aws, workgroup)))


def list_orders(_: str) -> list[str]:
    return [*ORDERS]


def list_statuses(_: str) -> list[str]:
    return [*STATUSES]


def list_executions(prefix: str) -> list[str]:
    """List the ids of queries with a prefix, those with rows first; empty for callers who are not signed in."""
    caller = current_caller()
    if not caller.login.signed_in:
        return []
    queries = [
        one for found in share_read(_read_history, (caller.aws, None)).found.values() for one in found.executions
    ]
    queries.sort(key=_time_of, reverse=True)
    queries.sort(key=lambda one: (one.get("Status", {}).get("State") != "SUCCEEDED", one.get("StatementType") != "DML"))
    return [one["QueryExecutionId"] for one in queries if one["QueryExecutionId"].startswith(prefix)]


class _Asked(NamedTuple):
    order: Order
    status: Status | None
    workgroup: str | None


class _Found(NamedTuple):
    """What was read.

    Attributes:
        names: the workgroups with queries.
        found: the newest queries of each that was reached in time.
        is_listed: whether all workgroups were listed.
        region: the AWS region.
    """

    names: list[str]
    found: dict[str, _Newest]
    is_listed: bool
    region: str


def _read_history(asked: "tuple[AWSClients, str | None]") -> _Found:
    """Read the newest queries of one workgroup, or of all.

    Raises:
        NotFound: there is no such workgroup.
        ResourceFailure: no workgroup was read, for other reasons than refusals.
    """
    aws, workgroup = asked
    seconds, started = current_app().settings_as(QuiltSettings).probe_seconds, time.monotonic()
    if workgroup is None:
        listed = list_enabled_workgroups(aws, until=started + WORKGROUPS_SHARE * seconds)
        engines = {one["Name"]: one.get("EngineVersion", {}).get("EffectiveEngineVersion") for one in listed.enabled}
        names = [name for name, engine in engines.items() if not is_spark(engine)]
        return _Found(names, _read_newest(aws, names, until=started + seconds), listed.is_complete, aws.region)
    found = _read_newest(aws, [workgroup], until=started + seconds)
    failure = found[workgroup].failure if workgroup in found else None
    if failure is not None and find_code(failure) == "InvalidRequestException":
        raise make_unknown_workgroup(workgroup, failure) from failure
    if failure is not None:
        raise failure
    return _Found([workgroup], found, is_listed=True, region=aws.region)


def _write_history(asked: _Asked, read: _Found) -> HistoryAnswer:
    failed: dict[str, ResourceFailure | None] = {name: one.failure for name, one in read.found.items() if one.failure}
    failed |= {name: None for name in read.names if name not in read.found}
    covered = [name for name in read.names if name not in failed]
    if not covered:
        _raise_unless_refused(failed)
    executions = [execution for one in read.found.values() for execution in one.executions]
    executions.sort(key=_time_of, reverse=True)
    executions.sort(key=SORT[asked.order])
    rows = [describe_query(one) for one in executions]
    selected = [row for row in rows if asked.status in {None, row["status"]}][:NEWEST]
    unprocessed = sum(one.unprocessed for one in read.found.values())
    unavailable: list[UnavailableWorkgroup]
    unavailable = [{"name": name, "reason": str(failed[name] or NOT_IN_TIME)} for name in read.names if name in failed]
    history = fit_beside(selected, [covered, unavailable])
    return {
        "query_history": history,
        "order": asked.order,
        "status": asked.status,
        "workgroup": asked.workgroup,
        "note": NOTE,
        "count": len(selected),
        "left_out": len(selected) - len(history),
        "max_results": NEWEST,
        "workgroups": covered,
        "workgroups_unavailable": unavailable,
        "unprocessed": unprocessed,
        "region": read.region,
        "workgroups_total": len(read.names) if read.is_listed else None,
        "workgroups_covered": len(covered),
        "is_complete": read.is_listed
        and not unprocessed
        and all(isinstance(one, RefusedByAWS) for one in failed.values()),
    }


def _time_of(execution: "athena.QueryExecutionTypeDef") -> tuple[datetime, str]:
    return execution.get("Status", {}).get("SubmissionDateTime", NEVER), execution["QueryExecutionId"]


SORT: "Mapping[Order, Callable[[athena.QueryExecutionTypeDef], int]]" = {
    "newest": lambda _: 0,
    "scanned": lambda one: -one.get("Statistics", {}).get("DataScannedInBytes", -1),
    "slowest": lambda one: -one.get("Statistics", {}).get("TotalExecutionTimeInMillis", -1),
}
"""For each order, the key by which queries are sorted that are sorted by time already. Those with an unknown value are
the last."""


def _raise_unless_refused(failed: Mapping[str, ResourceFailure | None]) -> None:
    """Raise why no workgroup was read, unless the caller may use none of them: then the history is empty."""
    others = [one for one in failed.values() if not isinstance(one, RefusedByAWS)]
    if others:
        raise next(filter(None, others), None) or Unavailable(
            "No workgroup was reached in time, so the queries are not known.",
            details=f"{len(failed)} workgroups: {NOT_IN_TIME}",
            suggested_actions=[
                "Repeat the call in a minute. Athena limits the calls of all users of the AWS account together.",
                "If this happens often, ask the operator of this server to raise QUILT_MCP_PROBE_SECONDS.",
            ],
        )


def _read_newest(aws: "AWSClients", names: Sequence[str], *, until: float) -> dict[str, _Newest]:
    """Read the newest queries of each workgroup. Those that were not reached in time are missing.

    Each page of a list and the description after the last one are one turn: Athena allows more descriptions than lists.
    """
    found: dict[str, _Newest] = {}
    waiting = [_Listed(name) for name in names]
    while waiting:
        pages = ask_each(partial(_read_page, aws), waiting, until=until, quota=LISTS)
        waiting = [page for page in pages.values() if isinstance(page, _Listed)]
        for before, page in pages.items():
            if not isinstance(page, _Listed):
                found[before.workgroup] = _Newest(failure=page) if isinstance(page, ResourceFailure) else page
    return found


def _read_page(aws: "AWSClients", before: _Listed) -> _Listed | _Newest:
    """Add a page to the queries of a workgroup, because it can be short, although there are more. Describe all."""
    given = {"NextToken": before.token} if before.token else {}
    page: athena.ListQueryExecutionsOutputTypeDef = aws.call(
        "athena", "list_query_executions", WorkGroup=before.workgroup, MaxResults=PAGE, **given
    )
    ids, token = (*before.ids, *page.get("QueryExecutionIds", []))[:PAGE], page.get("NextToken", "")
    if len(ids) == PAGE or not token:
        return _describe(aws, ids) if ids else _Newest()
    if token == before.token:
        raise ResourceExecutionError("AWS returned the same page twice.", details="athena.list_query_executions")
    return _Listed(before.workgroup, ids, token)


def _describe(aws: "AWSClients", ids: Sequence[str]) -> _Newest:
    answer: athena.BatchGetQueryExecutionOutputTypeDef
    try:
        answer = aws.call("athena", "batch_get_query_execution", QueryExecutionIds=list(ids))
    except ResourceFailure as failure:
        return _Newest(unprocessed=0 if isinstance(failure, RefusedByAWS) else len(ids), failure=failure)
    return _Newest(answer.get("QueryExecutions", []), len(answer.get("UnprocessedQueryExecutionIds", [])))


def describe_query(execution: "athena.QueryExecutionTypeDef") -> QueryRow:
    status, statistics = execution.get("Status", {}), execution.get("Statistics", {})
    context, state = execution.get("QueryExecutionContext", {}), status.get("State")
    said = status.get("StateChangeReason") or status.get("AthenaError", {}).get("ErrorMessage")
    reason, is_reason_cut = cut_text(said or "", MAX_QUERY_TEXT)
    query, is_cut = cut_text(execution.get("Query", ""), MAX_QUERY_TEXT)
    is_failed = bool(said) and state in {"FAILED", "CANCELLED"}
    row: QueryRow = {
        "uri": make_results_uri(execution["QueryExecutionId"]),
        "query_execution_id": execution["QueryExecutionId"],
        "query": query if "Query" in execution else None,
        "status": state,
        "submitted_at": iso(status.get("SubmissionDateTime")),
        "completed_at": iso(status.get("CompletionDateTime")),
        "execution_time_ms": statistics.get("EngineExecutionTimeInMillis"),
        "queue_time_ms": statistics.get("QueryQueueTimeInMillis"),
        "total_time_ms": statistics.get("TotalExecutionTimeInMillis"),
        "data_scanned_bytes": statistics.get("DataScannedInBytes"),
        "output_location": execution.get("ResultConfiguration", {}).get("OutputLocation"),
        "workgroup": execution.get("WorkGroup"),
        "data_catalog": context.get("Catalog"),
        "database": context.get("Database"),
        "error": reason if is_failed else None,
    }
    if is_cut:
        row["query_truncated"] = True
    if is_reason_cut and is_failed:
        row["error_truncated"] = True
    return row


def make_results_uri(execution_id: str) -> str:
    return f"athena://query/{quote(execution_id, safe='')}/results"

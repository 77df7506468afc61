"""athena://query/history: past queries of all workgroups, within Athena's quotas."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import TypedDict

from quilt_mcp.app import current_app
from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.services.athena_quotas import LISTS, ask_each, share_read
from quilt_mcp.services.athena_workgroups import WORKGROUPS_SHARE, list_enabled_workgroups
from quilt_mcp.services.parallel_calls import NOT_IN_TIME
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.failures import RefusedByAWS

if TYPE_CHECKING:
    from types_boto3_athena import type_defs as athena

    from quilt_mcp.services.stack.aws import AWSClients

PAGE = 50  # the maximum for ListQueryExecutions and for BatchGetQueryExecution
NEWEST = 50
MAX_QUERY_TEXT = 4000
NEVER = datetime.min.replace(tzinfo=UTC)


class QueryRow(TypedDict):
    """One query execution.

    Attributes:
        query_execution_id: its id.
        query: the SQL text, cut at 4000 characters.
        query_truncated: whether the text was cut.
        status: QUEUED, RUNNING, SUCCEEDED, FAILED or CANCELLED; null if unknown.
        submission_time: ISO 8601 in UTC; null if unknown.
        completion_time: ISO 8601 in UTC; null if it still runs.
        execution_time_ms: time in the engine, in milliseconds; null if unknown.
        data_scanned_bytes: amount of data read, in bytes; null if unknown.
        result_location: the S3 URI of the result; null if unknown.
        work_group: its workgroup; null if unknown.
        database: the database in which it ran; null if unknown.
        error_message: why it failed or was cancelled, cut at 4000 characters; null otherwise.
        error_message_truncated: whether it was cut.
    """

    query_execution_id: str
    query: str
    query_truncated: bool
    status: str | None
    submission_time: str | None
    completion_time: str | None
    execution_time_ms: int | None
    data_scanned_bytes: int | None
    result_location: str | None
    work_group: str | None
    database: str | None
    error_message: str | None
    error_message_truncated: bool


class UnavailableWorkgroup(TypedDict):
    """A workgroup that is missing from the history, and the reason."""

    name: str
    """Its name."""
    reason: str
    """Why it could not be read."""


class HistoryAnswer(TypedDict):
    """The answer of athena://query/history.

    Attributes:
        query_history: the queries, newest first.
        count: the number of queries in the list.
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
    count: int
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


def athena_query_history() -> HistoryAnswer:
    """The 50 newest queries in your workgroups.

    The newest query comes first. Athena limits the rate of calls, so in an account with many workgroups the time is not
    enough for all of them: Quilt's come first, `workgroups_unavailable` gives the reason for each workgroup with
    unreadable queries, and `is_complete` is then false. `unprocessed` is the number of queries that Athena listed but
    did not describe. Query text is cut at 4000 characters. Athena keeps queries for 45 days.
    """
    return share_read(_read_history, current_caller().aws)


def _read_history(aws: "AWSClients") -> HistoryAnswer:
    seconds, started = current_app().settings_as(QuiltSettings).probe_seconds, time.monotonic()
    listed = list_enabled_workgroups(aws, until=started + WORKGROUPS_SHARE * seconds)
    engines = {one["Name"]: one.get("EngineVersion", {}).get("EffectiveEngineVersion", "") for one in listed.enabled}
    names = [name for name, engine in engines.items() if "spark" not in engine.lower()]
    found = _read_newest(aws, names, until=started + seconds)
    failed: dict[str, ResourceFailure | None] = {name: one.failure for name, one in found.items() if one.failure}
    failed |= {name: None for name in names if name not in found}
    covered = [name for name in names if name not in failed]
    if not covered:
        _raise_unless_refused(failed)
    executions = [execution for one in found.values() for execution in one.executions]
    executions.sort(key=lambda one: (one.get("Status", {}).get("SubmissionDateTime", NEVER), one["QueryExecutionId"]))
    history = [_query_row(one) for one in reversed(executions[-NEWEST:])]
    unprocessed = sum(one.unprocessed for one in found.values())
    return {
        "query_history": history,
        "count": len(history),
        "max_results": NEWEST,
        "workgroups": covered,
        "workgroups_unavailable": [
            {"name": name, "reason": str(failed[name] or NOT_IN_TIME)} for name in names if name in failed
        ],
        "unprocessed": unprocessed,
        "region": aws.region,
        "workgroups_total": len(names) if listed.is_complete else None,
        "workgroups_covered": len(covered),
        "is_complete": listed.is_complete
        and not unprocessed
        and all(isinstance(one, RefusedByAWS) for one in failed.values()),
    }


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


def _query_row(execution: "athena.QueryExecutionTypeDef") -> QueryRow:
    status, statistics = execution.get("Status", {}), execution.get("Statistics", {})
    query, state = execution.get("Query", ""), status.get("State")
    said = status.get("StateChangeReason") or status.get("AthenaError", {}).get("ErrorMessage")
    reason = said if state in {"FAILED", "CANCELLED"} else None
    return {
        "query_execution_id": execution["QueryExecutionId"],
        "query": query[:MAX_QUERY_TEXT],
        "query_truncated": len(query) > MAX_QUERY_TEXT,
        "status": state,
        "submission_time": iso(status.get("SubmissionDateTime")),
        "completion_time": iso(status.get("CompletionDateTime")),
        "execution_time_ms": statistics.get("EngineExecutionTimeInMillis"),
        "data_scanned_bytes": statistics.get("DataScannedInBytes"),
        "result_location": execution.get("ResultConfiguration", {}).get("OutputLocation"),
        "work_group": execution.get("WorkGroup"),
        "database": execution.get("QueryExecutionContext", {}).get("Database"),
        "error_message": None if reason is None else reason[:MAX_QUERY_TEXT],
        "error_message_truncated": reason is not None and len(reason) > MAX_QUERY_TEXT,
    }

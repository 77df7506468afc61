"""athena://query/history: past queries of all workgroups."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from quilt_mcp.app import current_app
from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.services.athena_answers import HistoryAnswer, QueryRow
from quilt_mcp.services.athena_calls import DESCRIPTIONS, LISTS, ask_each, share_read
from quilt_mcp.services.athena_responses import AWSQueryExecution, AWSQueryExecutions, AWSQueryIds
from quilt_mcp.services.athena_workgroups import WORKGROUPS_SHARE, is_of_spark, list_enabled_workgroups
from quilt_mcp.services.fan_out import NOT_IN_TIME
from quilt_mcp.services.settings import QuiltSettings
from quilt_mcp.services.stack.callers import current_caller
from quilt_mcp.services.stack.errors import RefusedByAWS

if TYPE_CHECKING:
    from quilt_mcp.services.stack.aws_clients import AWSClients

PAGE = 50  # the maximum for ListQueryExecutions and for BatchGetQueryExecution
NEWEST = 50
MAX_QUERY_TEXT = 4000
LISTING_SHARE = 0.85  # of the time: Athena allows 20 descriptions per second, but only 5 lists
NEVER = datetime.min.replace(tzinfo=UTC)

Batch = tuple[tuple[str, str], ...]
"""Pairs of a workgroup and the id of a query."""


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


@dataclass
class _Described:
    """The queries of a batch that Athena described.

    Attributes:
        executions: the queries.
        unprocessed: the number of queries that Athena did not describe.
        failures: why the queries of a workgroup are missing; None if there was no time.
    """

    executions: list[AWSQueryExecution] = field(default_factory=list)
    unprocessed: int = 0
    failures: dict[str, ResourceFailure | None] = field(default_factory=dict)

    def add(self, other: "_Described") -> None:
        """Add the queries of another batch."""
        self.executions += other.executions
        self.unprocessed += other.unprocessed
        self.failures |= other.failures


def athena_query_history() -> HistoryAnswer:
    """The 50 newest Athena queries in workgroups that you may use.

    The newest query comes first. Athena limits the rate of calls, so in an account with many workgroups the time is not
    enough for all of them: Quilt's come first, `workgroups_unavailable` gives the reason for each workgroup with
    unreadable queries, and `is_complete` is then false. `unprocessed` is the number of queries that Athena listed but
    did not describe. Query text is cut at 4000 characters. Athena keeps queries for 45 days.
    """
    return share_read(_read_history, current_caller().aws)


def _read_history(aws: "AWSClients") -> HistoryAnswer:
    seconds, started = current_app().settings_as(QuiltSettings).probe_seconds, time.monotonic()
    listed = list_enabled_workgroups(aws, until=started + WORKGROUPS_SHARE * seconds)
    names = [one["Name"] for one in listed.enabled if not is_of_spark(one)]
    found = _list_newest(aws, names, until=started + LISTING_SHARE * seconds)
    ids = {name: answer.ids for name, answer in found.items() if isinstance(answer, _Listed)}
    described = _describe_all(aws, ids, until=started + seconds)
    for answer in found.values():
        if isinstance(answer, _Described):
            described.add(answer)
    failed = _find_failures(names, found) | described.failures
    covered = [name for name in names if name not in failed]
    if not covered:
        _raise_unless_refused(failed)
    described.executions.sort(key=_get_age_key)
    history = [_query_row(one) for one in reversed(described.executions[-NEWEST:])]
    return {
        "query_history": history,
        "count": len(history),
        "max_results": NEWEST,
        "workgroups": covered,
        "workgroups_unavailable": [
            {"name": name, "reason": str(failed[name] or NOT_IN_TIME)} for name in names if name in failed
        ],
        "unprocessed": described.unprocessed,
        "region": aws.region,
        "workgroups_total": len(names) if listed.is_complete else None,
        "workgroups_covered": len(covered),
        "is_complete": listed.is_complete
        and not described.unprocessed
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


def _find_failures(
    names: Sequence[str], found: Mapping[str, _Listed | _Described | ResourceFailure]
) -> dict[str, ResourceFailure | None]:
    """Return the failure of each workgroup that was not listed; None if there was no time for it."""
    answers = {name: found.get(name) for name in names}
    return {name: answer for name, answer in answers.items() if answer is None or isinstance(answer, ResourceFailure)}


def _list_newest(
    aws: "AWSClients", names: Sequence[str], *, until: float
) -> dict[str, _Listed | _Described | ResourceFailure]:
    """List the newest queries of each workgroup, page by page: a page can be short, although there are more."""
    found: dict[str, _Listed | _Described | ResourceFailure] = {}
    waiting = [_Listed(name) for name in names]
    while waiting:
        pages = ask_each(partial(_read_page, aws), waiting, until=until, quota=LISTS)
        found |= {before.workgroup: page for before, page in pages.items()}
        waiting = [page for page in pages.values() if isinstance(page, _Listed) and page.token]
        for page in waiting:
            del found[page.workgroup]
    return found


def _read_page(aws: "AWSClients", before: _Listed) -> _Listed | _Described:
    """Add a page to the newest queries of a workgroup. If they then fill a batch, describe them at once."""
    given = {"NextToken": before.token} if before.token else {}
    page: AWSQueryIds = aws.call(
        "athena", "list_query_executions", WorkGroup=before.workgroup, MaxResults=PAGE, **given
    )
    ids, token = (*before.ids, *page.get("QueryExecutionIds", []))[:PAGE], page.get("NextToken", "")
    if len(ids) == PAGE:
        return _describe(aws, tuple((before.workgroup, one) for one in ids))
    if token and token == before.token:
        raise ResourceExecutionError("AWS returned the same page twice.", details="athena.list_query_executions")
    return _Listed(before.workgroup, ids, token)


def _describe_all(aws: "AWSClients", ids: Mapping[str, Sequence[str]], *, until: float) -> _Described:
    """Describe queries in full batches, which can contain queries of several workgroups."""
    pairs = [(name, one) for name, of_workgroup in ids.items() for one in of_workgroup]
    batches: list[Batch] = [tuple(pairs[at : at + PAGE]) for at in range(0, len(pairs), PAGE)]
    ask = partial(ask_each, partial(_describe, aws), until=until, quota=DESCRIPTIONS)
    answers, whole = ask(batches), _Described()
    parts = [part for batch in batches for part in _split(batch, answers.get(batch))]
    answers |= ask([part for part in parts if part not in answers and part not in batches])
    for part in parts:
        answer = answers.get(part)
        if isinstance(answer, _Described):
            whole.add(answer)
        else:
            unprocessed = 0 if isinstance(answer, RefusedByAWS) else len(part)
            whole.add(_Described([], unprocessed, {name: answer for name, _ in part}))
    return whole


def _split(batch: Batch, answer: _Described | ResourceFailure | None) -> list[Batch]:
    """Return the parts of a batch for each workgroup if AWS refused it: one workgroup can be the reason."""
    if not isinstance(answer, RefusedByAWS):
        return [batch]
    return [tuple(part) for _, part in groupby(batch, key=lambda pair: pair[0])]


def _describe(aws: "AWSClients", batch: Batch) -> _Described:
    answer: AWSQueryExecutions = aws.call(
        "athena", "batch_get_query_execution", QueryExecutionIds=[one for _, one in batch]
    )
    return _Described(answer.get("QueryExecutions", []), len(answer.get("UnprocessedQueryExecutionIds", [])))


def _get_age_key(execution: AWSQueryExecution) -> tuple[datetime, str]:
    return execution.get("Status", {}).get("SubmissionDateTime", NEVER), execution["QueryExecutionId"]


def _query_row(execution: AWSQueryExecution) -> QueryRow:
    status, statistics = execution.get("Status", {}), execution.get("Statistics", {})
    query, reason = execution.get("Query", ""), status.get("StateChangeReason")
    return {
        "query_execution_id": execution["QueryExecutionId"],
        "query": query[:MAX_QUERY_TEXT],
        "query_truncated": len(query) > MAX_QUERY_TEXT,
        "status": status.get("State"),
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

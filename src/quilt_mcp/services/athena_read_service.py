"""athena://: databases, workgroups and past queries, by metadata calls only; nothing here runs a query."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from quilt_mcp import runtime_context
from quilt_mcp.errors import RefusedByAWS, ResourceFailure
from quilt_mcp.services.fan_out import fan_out
from quilt_mcp.services.timestamps import iso

if TYPE_CHECKING:
    from quilt_mcp.aws_clients import AWSClients

DATA_CATALOG = "AwsDataCatalog"
PAGE = 50  # the most that Athena gives in a page, and takes in a BatchGetQueryExecution
NEWEST = 50
MAX_QUERY_TEXT = 4000
NEVER = datetime.min.replace(tzinfo=UTC)
NOT_IN_TIME = "not reached in time"


def athena_databases_list() -> dict[str, Any]:
    """The databases of the Glue data catalog: name, description, location, creation time and parameters.

    Where Glue refuses the caller, Athena's own list is given: `source` is then "athena", and the location and creation
    time, which Athena does not tell, are null.
    """
    aws = runtime_context.caller().aws
    try:
        source, found = "glue", list(aws.pages("glue", "get_databases", "DatabaseList", MaxResults=100))
    except RefusedByAWS:
        pages = aws.pages("athena", "list_databases", "DatabaseList", CatalogName=DATA_CATALOG, MaxResults=PAGE)
        source, found = "athena", list(pages)
    rows = sorted(map(_database_row, found), key=lambda row: row["name"])
    return {
        "databases": rows,
        "data_catalog_name": DATA_CATALOG,
        "count": len(rows),
        "source": source,
        "region": aws.region,
    }


def _database_row(database: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": database["Name"],
        "description": database.get("Description", ""),
        "location_uri": database.get("LocationUri"),
        "create_time": iso(database.get("CreateTime")),
        "parameters": database.get("Parameters", {}),
    }


def athena_workgroups_list() -> dict[str, Any]:
    """The enabled Athena workgroups: where their results go and whether their settings are enforced.

    Quilt's own workgroups come first. Where a workgroup refuses its details, `details_available` is false and what
    only they tell is null.
    """
    aws = runtime_context.caller().aws
    listed = _enabled_workgroups(aws)
    seconds = runtime_context.settings().probe_seconds
    details = fan_out(partial(_workgroup_details, aws), [one["Name"] for one in listed], seconds=seconds)
    rows = [_workgroup_row(one, details.get(one["Name"])) for one in listed]
    return {"workgroups": rows, "region": aws.region, "count": len(rows)}


def _enabled_workgroups(aws: "AWSClients") -> list[dict[str, Any]]:
    groups = aws.pages("athena", "list_work_groups", "WorkGroups", MaxResults=PAGE)
    enabled = [one for one in groups if one.get("State", "ENABLED") == "ENABLED"]
    return sorted(enabled, key=lambda one: ("quilt" not in one["Name"].lower(), one["Name"]))


def _workgroup_details(aws: "AWSClients", name: str) -> dict[str, Any] | None:
    try:
        answer = aws.call("athena", "get_work_group", WorkGroup=name)
    except ResourceFailure:
        return None  # it is in the row: one workgroup does not fail the list
    details: dict[str, Any] | None = answer.get("WorkGroup")
    return details


def _workgroup_row(listed: dict[str, Any], details: dict[str, Any] | None) -> dict[str, Any]:
    configuration = (details or {}).get("Configuration", {})
    return {
        "name": listed["Name"],
        "description": listed.get("Description", ""),
        "creation_time": iso(listed.get("CreationTime")),
        "output_location": configuration.get("ResultConfiguration", {}).get("OutputLocation"),
        "enforce_workgroup_config": configuration.get("EnforceWorkGroupConfiguration"),
        "details_available": details is not None,
    }


def athena_query_history() -> dict[str, Any]:
    """The 50 newest Athena queries over all workgroups that you may use, the newest first.

    `workgroups_unavailable` tells for each workgroup that could not be asked why, and `unprocessed` counts queries
    that Athena listed but did not describe. Query text is cut at 4000 characters; Athena keeps 45 days.
    """
    aws = runtime_context.caller().aws
    names = [one["Name"] for one in _enabled_workgroups(aws)]
    seconds = runtime_context.settings().probe_seconds
    answers = fan_out(partial(_newest_queries, aws), names, seconds=seconds)
    readable = {name: answer for name in names if isinstance(answer := answers.get(name), dict)}
    refused = {name: answers.get(name) for name in names if name not in readable}
    _raise_if_all_failed(readable, refused)
    executions = [one for answer in readable.values() for one in answer["QueryExecutions"]]
    executions.sort(key=lambda one: (one.get("Status", {}).get("SubmissionDateTime", NEVER), one["QueryExecutionId"]))
    history = [_query_row(one) for one in reversed(executions[-NEWEST:])]
    return {
        "query_history": history,
        "count": len(history),
        "max_results": NEWEST,
        "workgroups": list(readable),
        "workgroups_unavailable": [
            {"name": name, "reason": str(failure or NOT_IN_TIME)} for name, failure in refused.items()
        ],
        "unprocessed": sum(len(one["UnprocessedQueryExecutionIds"]) for one in readable.values()),
        "region": aws.region,
    }


def _raise_if_all_failed(readable: Mapping[str, Any], refused: Mapping[str, Any]) -> None:
    """A history of nothing is an answer if all workgroups refuse the caller; if all are down, it is a failure."""
    failures = [one for one in refused.values() if isinstance(one, ResourceFailure)]
    if not readable and failures and not any(isinstance(one, RefusedByAWS) for one in failures):
        raise failures[0]


def _newest_queries(aws: "AWSClients", workgroup: str) -> dict[str, Any] | ResourceFailure:
    try:
        listed = aws.call("athena", "list_query_executions", WorkGroup=workgroup, MaxResults=PAGE)
        ids = listed.get("QueryExecutionIds", [])[:PAGE]
        answer = aws.call("athena", "batch_get_query_execution", QueryExecutionIds=ids) if ids else {}
    except ResourceFailure as failure:
        return failure  # it is named in the answer: one workgroup does not fail the history
    return {"QueryExecutions": [], "UnprocessedQueryExecutionIds": []} | answer


def _query_row(execution: dict[str, Any]) -> dict[str, Any]:
    status, statistics = execution.get("Status", {}), execution.get("Statistics", {})
    query = execution.get("Query", "")
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
        "error_message": status.get("StateChangeReason"),
    }

"""Athena.

| asked                           | moto                            | AWS, and here                             |
|---------------------------------|---------------------------------|-------------------------------------------|
| BatchGetQueryExecution          | not there                       | up to 50; unknown ids told as unprocessed |
| ListQueryExecutions             | oldest first, one page          | newest first, pages of up to 50           |
| the same, no workgroup named    | all workgroups                  | only `primary`                            |
| a query's status, statistics    | succeeded, no time, no bytes    | as it ended; no end while it runs         |
| what does not exist             | nothing, or breaks              | InvalidRequestException                   |
| ListWorkGroups, GetWorkGroup    | created at the time of the call | created once; pages of up to 50           |
| ListDataCatalogs                | empty at first                  | AwsDataCatalog is always there            |
| ListDatabases of AwsDataCatalog | a list of its own               | Glue's databases                          |
| any action                      | needs rights on `*`             | needs rights on a workgroup or catalog    |
"""

import json
from typing import Any

from moto.athena.models import Execution, WorkGroup
from moto.athena.responses import AthenaResponse
from moto.core.exceptions import JsonRESTError
from moto.glue.models import glue_backends

from quilt_mcp.demo.records import Query

MAX_PAGE = 50
GLUE_CATALOG = "AwsDataCatalog"
ON_NO_WORK_GROUP = {"ListWorkGroups", "ListDataCatalogs", "GetDataCatalog"}
DDL = ("ALTER", "CREATE", "DESCRIBE", "DROP", "MSCK", "SHOW")


class DatedWorkGroup(WorkGroup):
    """A workgroup that knows when it was created, in seconds since 1970."""

    created = 0.0


class RecordedExecution(Execution):
    """A query that was submitted at some time, in seconds since 1970, and went as its record says."""

    def __init__(self, record: Query, work_group: WorkGroup, submitted: float, results: str) -> None:
        context: Any = {"Catalog": GLUE_CATALOG, "Database": record.database}  # moto's annotation, str, is wrong
        super().__init__(record.sql, context, {}, work_group, None)
        self.id = record.id
        self.config = {"OutputLocation": f"{results}{record.id}.csv"}
        self.record = record
        self.start_time = submitted

    def outcome(self) -> dict[str, Any]:
        """Its `Status` and `Statistics`."""
        status: dict[str, Any] = {"State": self.record.state, "SubmissionDateTime": self.start_time}
        if self.record.failure:
            status["StateChangeReason"] = self.record.failure
        statistics = {"DataScannedInBytes": self.record.scanned_bytes}
        if self.record.seconds is not None:
            status["CompletionDateTime"] = self.start_time + self.record.seconds
            for name in ("EngineExecutionTimeInMillis", "TotalExecutionTimeInMillis"):
                statistics[name] = self.record.seconds * 1000
        return {"Status": status, "Statistics": statistics}


class AthenaAnswers(AthenaResponse):
    """Athena, as AWS answers."""

    def list_work_groups(self) -> str:
        """Answer ListWorkGroups."""
        return self._page("WorkGroups", [self._dated(group) for group in self.athena_backend.list_work_groups()])

    def get_work_group(self) -> str:
        """Answer GetWorkGroup."""
        group = self.athena_backend.get_work_group(self._existing_work_group()) or {}
        return json.dumps({"WorkGroup": self._dated(group)})

    def list_query_executions(self) -> str:
        """Answer ListQueryExecutions."""
        executions = self.athena_backend.list_query_executions(self._existing_work_group()).values()
        newest_first = sorted(executions, key=lambda execution: execution.start_time, reverse=True)
        return self._page("QueryExecutionIds", [execution.id for execution in newest_first])

    def get_query_execution(self) -> str:
        """Answer GetQueryExecution."""
        query_id = self._get_param("QueryExecutionId")
        if query_id not in self.athena_backend.executions:
            raise _invalid(f"QueryExecution {query_id} was not found")
        return json.dumps({"QueryExecution": self._describe(query_id)})

    def batch_get_query_execution(self) -> str:
        """Answer BatchGetQueryExecution."""
        asked = self._get_param("QueryExecutionIds")
        if len(asked) > MAX_PAGE:
            raise _invalid(f"More than {MAX_PAGE} QueryExecutionIds")
        known = [query_id for query_id in asked if query_id in self.athena_backend.executions]
        unknown = {"ErrorCode": "INVALID_QUERY_EXECUTION_ID", "ErrorMessage": "QueryExecution was not found"}
        return json.dumps(
            {
                "QueryExecutions": [self._describe(query_id) for query_id in known],
                "UnprocessedQueryExecutionIds": [
                    {"QueryExecutionId": query_id, **unknown} for query_id in asked if query_id not in known
                ],
            }
        )

    def list_data_catalogs(self) -> str:
        """Answer ListDataCatalogs."""
        others = self.athena_backend.list_data_catalogs()
        return self._page("DataCatalogsSummary", [{"CatalogName": GLUE_CATALOG, "Type": "GLUE"}, *others])

    def get_data_catalog(self) -> str:
        """Answer GetDataCatalog."""
        name = self._get_param("Name")
        of_glue = {"Name": GLUE_CATALOG, "Type": "GLUE"}
        catalog = of_glue if name == GLUE_CATALOG else self.athena_backend.get_data_catalog(name)
        if catalog is None:
            raise _invalid(f"DataCatalog {name} was not found")
        return json.dumps({"DataCatalog": catalog})

    def list_databases(self) -> str:
        """Answer ListDatabases."""
        if self._get_param("CatalogName") != GLUE_CATALOG:
            return super().list_databases()
        databases = glue_backends[self.current_account][self.region].get_databases()
        told = ("Description", "Parameters")
        described = [
            {"Name": database.name, **{key: database.input[key] for key in told if database.input.get(key)}}
            for database in sorted(databases, key=lambda database: database.name)
        ]
        return self._page("DatabaseList", described)

    def _determine_resource(self) -> str:
        if catalog := self._get_param("CatalogName"):
            return self._arn("datacatalog", catalog)
        if self._get_action() in ON_NO_WORK_GROUP:
            return "*"
        query_id, *_ = self._get_param("QueryExecutionIds") or [self._get_param("QueryExecutionId")]
        execution = self.athena_backend.executions.get(query_id)
        if execution and execution.workgroup:
            return self._arn("workgroup", execution.workgroup.name)
        return self._arn("workgroup", self._get_param("WorkGroup") or "primary")

    def _arn(self, kind: str, name: str) -> str:
        return f"arn:aws:athena:{self.region}:{self.current_account}:{kind}/{name}"

    def _existing_work_group(self) -> str:
        name: str = self._get_param("WorkGroup") or "primary"
        if name not in self.athena_backend.work_groups:
            raise _invalid(f"WorkGroup {name} is not found.")
        return name

    def _dated(self, group: dict[str, Any]) -> dict[str, Any]:
        known = self.athena_backend.work_groups[group["Name"]]
        return {**group, "CreationTime": known.created} if isinstance(known, DatedWorkGroup) else group

    def _describe(self, query_id: str) -> dict[str, Any]:
        execution = self.athena_backend.executions[query_id]
        result: dict[str, Any] = {
            "QueryExecutionId": query_id,
            "Query": execution.query,
            "StatementType": "DDL" if execution.query.upper().startswith(DDL) else "DML",
            "QueryExecutionContext": execution.context,
            "ResultConfiguration": execution.config,
            "WorkGroup": execution.workgroup.name if execution.workgroup else "primary",
        }
        if isinstance(execution, RecordedExecution):
            return {**result, **execution.outcome()}
        times = {"SubmissionDateTime": execution.start_time, "CompletionDateTime": execution.end_time}
        return {**result, "Status": {"State": execution.status, **times}}

    def _page(self, key: str, items: list[Any]) -> str:
        start, size = int(self._get_param("NextToken") or 0), int(self._get_param("MaxResults") or MAX_PAGE)
        if size > MAX_PAGE:
            raise _invalid(f"MaxResults is more than {MAX_PAGE}")
        end = start + size
        return json.dumps({key: items[start:end], **({"NextToken": str(end)} if end < len(items) else {})})


def _invalid(message: str) -> JsonRESTError:
    return JsonRESTError("InvalidRequestException", message)

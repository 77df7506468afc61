"""Athena and Glue.

| request                         | moto                            | AWS, and here                             |
|---------------------------------|---------------------------------|-------------------------------------------|
| BatchGetQueryExecution          | missing                         | up to 50; unknown ids are unprocessed     |
| ListQueryExecutions             | oldest first, one page          | newest first, pages of up to 50           |
| the same, without a workgroup   | all workgroups                  | only `primary`                            |
| a query's status, statistics    | succeeded, no time, no bytes    | as recorded; no end while it runs         |
| unknown names and ids           | empty, or an exception          | InvalidRequestException                   |
| ListWorkGroups, GetWorkGroup    | created at the time of the call | created once; pages of up to 50           |
| any action                      | needs rights on `*`             | needs rights on a workgroup or catalog    |
| many calls                      | answered                        | with quotas in Behaviour: Rate exceeded   |

| request            | moto                | AWS, and here                                                      |
|--------------------|---------------------|--------------------------------------------------------------------|
| any action of Glue | needs rights on `*` | needs rights on the data catalog, on the database and on the table |
| Glue's lists       | one page            | pages of up to 100                                                 |

AWS lists the resource types of each action in its service authorization reference. A list needs rights on all that
it can return, here `database/*` or `table/<database>/*`. Unknown: whether a policy that names only some tables is
enough for it.
"""

import json
from collections.abc import Sequence
from typing import Any

from moto.athena.models import Execution, WorkGroup
from moto.athena.responses import AthenaResponse
from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.glue.responses import GlueResponse

from quilt_mcp.demo.moto_gaps.refusals import Behaving, Sender
from quilt_mcp.demo.records import Query

JSON = dict[str, object]
MAX_GLUE_PAGE = 100


class GlueAnswers(Behaving, GlueResponse):
    """Glue, with the responses of AWS."""

    def get_databases(self) -> ActionResult:
        return self._page("DatabaseList", [one.as_dict() for one in self.glue_backend.get_databases()])

    def get_tables(self) -> ActionResult:
        expression = self.parameters.get("Expression")
        tables = self.glue_backend.get_tables(self.parameters["DatabaseName"], expression)
        return self._page("TableList", [one.as_dict() for one in tables])

    def _determine_resource(self) -> str:
        return self._list_arns()[0]

    def _authenticate_and_authorize_normal_action(self, resource: str = "*") -> None:
        super()._authenticate_and_authorize_normal_action(resource)
        sender = Sender.of_request(self.current_account, self.headers)
        for arn in self._list_arns()[1:]:
            if refusal := sender.explain_refusal(f"glue:{self._get_action()}", arn):
                raise JsonRESTError("AccessDeniedException", refusal)

    def _list_arns(self) -> list[str]:
        """Return the resources that the action needs rights on: the data catalog first."""
        start, action = f"arn:aws:glue:{self.region}:{self.current_account}", self._get_action()
        database = self.parameters.get("DatabaseName") or self.parameters.get("Name")
        databases = {"GetDatabases": "*", "GetDatabase": database, "GetTables": database, "GetTable": database}
        tables = {"GetTables": "*", "GetTable": self.parameters.get("Name")}
        return [
            f"{start}:catalog",
            *([f"{start}:database/{databases[action]}"] if action in databases else []),
            *([f"{start}:table/{database}/{tables[action]}"] if action in tables else []),
        ]

    def _page(self, key: str, items: Sequence[JSON]) -> ActionResult:
        size = int(self.parameters.get("MaxResults") or MAX_GLUE_PAGE)
        start = int(self.parameters.get("NextToken") or 0)
        if size > MAX_GLUE_PAGE:
            raise JsonRESTError("InvalidInputException", f"MaxResults is more than {MAX_GLUE_PAGE}")
        end = start + size
        page: JSON = {key: sorted(items, key=lambda item: str(item["Name"]))[start:end]}
        token = self.behaviour.make_page_token(end, len(items))
        return ActionResult(page if token is None else {**page, "NextToken": token})


MAX_PAGE = 50


class DatedWorkGroup(WorkGroup):
    """A workgroup with its creation time, in seconds since 1970."""

    created = 0.0


class RecordedExecution(Execution):
    """A query with its submission time, in seconds since 1970, and the outcome in its record."""

    def __init__(self, record: Query, work_group: WorkGroup, submitted: float, results: str) -> None:
        context: Any = {"Catalog": "AwsDataCatalog", "Database": record.database}  # moto annotates it as str
        super().__init__(record.sql, context, {}, work_group, None)
        self.id, self.group = record.id, work_group.name
        self.config = {"OutputLocation": f"{results}{record.id}.csv"}
        self.record = record
        self.start_time = submitted

    def describe(self) -> JSON:
        status: JSON = {"State": self.record.state, "SubmissionDateTime": self.start_time}
        if self.record.failure:
            status["StateChangeReason"] = self.record.failure
        statistics = {"DataScannedInBytes": self.record.scanned_bytes}
        if self.record.seconds is not None:
            status["CompletionDateTime"] = self.start_time + self.record.seconds
            for name in ("EngineExecutionTimeInMillis", "TotalExecutionTimeInMillis"):
                statistics[name] = self.record.seconds * 1000
        return {
            "QueryExecutionId": self.id,
            "Query": self.query,
            "QueryExecutionContext": self.context,
            "ResultConfiguration": self.config,
            "WorkGroup": self.group,
            "Status": status,
            "Statistics": statistics,
        }


class AthenaAnswers(Behaving, AthenaResponse):
    """Athena, with the responses of AWS."""

    def list_work_groups(self) -> str:
        return self._page("WorkGroups", [self._add_date(group) for group in self.athena_backend.list_work_groups()])

    def get_work_group(self) -> str:
        group = self.athena_backend.get_work_group(self._require_work_group()) or {}
        return json.dumps({"WorkGroup": self._add_date(group)})

    def list_query_executions(self) -> str:
        executions = self.athena_backend.list_query_executions(self._require_work_group()).values()
        newest_first = sorted(executions, key=lambda execution: execution.start_time, reverse=True)
        return self._page("QueryExecutionIds", [execution.id for execution in newest_first])

    def batch_get_query_execution(self) -> str:
        ids = self._get_param("QueryExecutionIds")
        if len(ids) > MAX_PAGE:
            raise _invalid_request(f"More than {MAX_PAGE} QueryExecutionIds")
        executions = [one for one in self.athena_backend.executions.values() if isinstance(one, RecordedExecution)]
        known = {one.id: one.describe() for one in executions if one.id in ids}
        unknown = {"ErrorCode": "INVALID_QUERY_EXECUTION_ID", "ErrorMessage": "QueryExecution was not found"}
        return json.dumps(
            {
                "QueryExecutions": [known[query_id] for query_id in ids if query_id in known],
                "UnprocessedQueryExecutionIds": [
                    {"QueryExecutionId": query_id, **unknown} for query_id in ids if query_id not in known
                ],
            }
        )

    def get_data_catalog(self) -> str:
        return json.dumps({"DataCatalog": self._require_catalog(self._get_param("Name"))})

    def list_databases(self) -> str:
        catalog = self._get_param("CatalogName")
        self._require_catalog(catalog)
        databases = self.athena_backend.databases.values()
        names = sorted(one.name for one in databases if one.catalog_name == catalog)
        return self._page("DatabaseList", [{"Name": name} for name in names])

    def _authenticate_and_authorize_normal_action(self, resource: str = "*") -> None:
        if not self.behaviour.admits(self._get_action()):
            raise JsonRESTError("ThrottlingException", "Rate exceeded")
        super()._authenticate_and_authorize_normal_action(resource)

    def _determine_resource(self) -> str:
        """Return the resource on which the action needs rights: a catalog, or a workgroup, such as that of a query."""
        if self._get_action() == "ListWorkGroups":
            return "*"
        if catalog := self._get_param("CatalogName") or self._get_param("Name"):  # of GetDataCatalog
            return self._arn("datacatalog", catalog)
        query_id, *_ = self._get_param("QueryExecutionIds") or [""]
        execution = self.athena_backend.executions.get(query_id)
        if execution and execution.workgroup:
            return self._arn("workgroup", execution.workgroup.name)
        return self._arn("workgroup", self._get_param("WorkGroup") or "primary")

    def _arn(self, kind: str, name: str) -> str:
        return f"arn:aws:athena:{self.region}:{self.current_account}:{kind}/{name}"

    def _require_work_group(self) -> str:
        name: str = self._get_param("WorkGroup") or "primary"
        if name not in self.athena_backend.work_groups:
            raise _invalid_request(f"WorkGroup {name} is not found.")
        return name

    def _require_catalog(self, name: str) -> JSON:
        if catalog := self.athena_backend.get_data_catalog(name):
            return dict(catalog)
        raise _invalid_request(f"DataCatalog {name} was not found")

    def _add_date(self, group: JSON) -> JSON:
        known = self.athena_backend.work_groups[str(group["Name"])]
        return {**group, "CreationTime": known.created} if isinstance(known, DatedWorkGroup) else group

    def _page(self, key: str, items: Sequence[object]) -> str:
        start, size = int(self._get_param("NextToken") or 0), int(self._get_param("MaxResults") or MAX_PAGE)
        if size > MAX_PAGE:
            raise _invalid_request(f"MaxResults is more than {MAX_PAGE}")
        end = start + size
        token = self.behaviour.make_page_token(end, len(items))
        return json.dumps({key: items[start:end], **({} if token is None else {"NextToken": token})})


def _invalid_request(message: str) -> JsonRESTError:
    return JsonRESTError("InvalidRequestException", message)

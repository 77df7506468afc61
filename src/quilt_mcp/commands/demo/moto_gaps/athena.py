"""Athena and Glue.

| request                         | moto                            | AWS, and here                             |
|---------------------------------|---------------------------------|-------------------------------------------|
| BatchGetQueryExecution          | missing                         | up to 50; unknown ids are unprocessed     |
| ListQueryExecutions             | oldest first, one page          | newest first, pages of up to 50           |
| the same, without a workgroup   | all workgroups                  | only `primary`                            |
| a query's status, statistics    | succeeded, no time, no bytes    | as recorded; no end while it runs         |
| unknown names and ids           | empty, or an exception          | InvalidRequestException                   |
| ListWorkGroups, GetWorkGroup    | created at the time of the call | created once; pages of up to 50           |
| ListDataCatalogs                | empty at first                  | always contains AwsDataCatalog            |
| ListDatabases of AwsDataCatalog | a separate list                 | Glue's databases, with Glue's rights      |
| any action                      | needs rights on `*`             | needs rights on a workgroup or catalog    |
| many calls                      | answered                        | with quotas in Behaviour: Rate exceeded   |

If Glue refuses something, Athena's error is MetadataException, with Glue's message and code as its
text. The form is taken from logs in metabase#74092 and dbeaver#18786.

| request            | moto                | AWS, and here                                                      |
|--------------------|---------------------|--------------------------------------------------------------------|
| any action of Glue | needs rights on `*` | needs rights on the data catalog, on the database and on the table |
| Glue's lists       | one page            | pages of up to 100                                                 |

AWS lists the resource types of each action in its service authorization reference. A list needs rights on all that
it can return, here `database/*` or `table/<database>/*`. Unknown: whether a policy that names only some tables is
enough for it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moto.athena.models import Execution, WorkGroup
from moto.athena.responses import AthenaResponse
from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.glue.models import GlueBackend, glue_backends
from moto.glue.responses import GlueResponse

from quilt_mcp.commands.demo.moto_gaps.refusals import REQUEST_ID, Behaving, Sender
from quilt_mcp.commands.demo.records import Query

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
        if refusal := _find_refusal(sender, self._get_action(), self._list_arns()[1:]):
            raise JsonRESTError("AccessDeniedException", refusal)

    def _list_arns(self) -> list[str]:
        return _list_arns(self.region, self.current_account, self._get_action(), self.parameters)

    def _page(self, key: str, items: Sequence[JSON]) -> ActionResult:
        size = int(self.parameters.get("MaxResults") or MAX_GLUE_PAGE)
        start = int(self.parameters.get("NextToken") or 0)
        if size > MAX_GLUE_PAGE:
            raise JsonRESTError("InvalidInputException", f"MaxResults is more than {MAX_GLUE_PAGE}")
        end = start + size
        page: JSON = {key: sorted(items, key=lambda item: str(item["Name"]))[start:end]}
        token = self.behaviour.make_page_token(end, len(items))
        return ActionResult(page if token is None else {**page, "NextToken": token})


def _list_arns(region: str, account: str, action: str, parameters: Mapping[str, object]) -> list[str]:
    """Return the resources that an action needs rights on: the data catalog first."""
    start = f"arn:aws:glue:{region}:{account}"
    database = parameters.get("DatabaseName") or parameters.get("Name")
    databases = {"GetDatabases": "*", "GetDatabase": database, "GetTables": database, "GetTable": database}
    tables = {"GetTables": "*", "GetTable": parameters.get("Name")}
    return [
        f"{start}:catalog",
        *([f"{start}:database/{databases[action]}"] if action in databases else []),
        *([f"{start}:table/{database}/{tables[action]}"] if action in tables else []),
    ]


def _find_refusal(sender: Sender, action: str, arns: Sequence[str]) -> str | None:
    refusals = (sender.explain_refusal(f"glue:{action}", arn) for arn in arns)
    return next((refusal for refusal in refusals if refusal), None)


MAX_PAGE = 50
GLUE_CATALOG = "AwsDataCatalog"
ON_EVERYTHING = {"ListWorkGroups", "ListDataCatalogs"}

DDL = ("ALTER", "CREATE", "DESCRIBE", "DROP", "MSCK", "SHOW")


class DatedWorkGroup(WorkGroup):
    """A workgroup with its creation time, in seconds since 1970."""

    created = 0.0


class RecordedExecution(Execution):
    """A query with its submission time, in seconds since 1970, and the outcome in its record."""

    def __init__(self, record: Query, work_group: WorkGroup, submitted: float, results: str) -> None:
        context: Any = {"Catalog": GLUE_CATALOG, "Database": record.database}  # moto annotates it as str
        super().__init__(record.sql, context, {}, work_group, None)
        self.id = record.id
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
        return {"Status": status, "Statistics": statistics}


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

    def get_query_execution(self) -> str:
        query_id = self._get_param("QueryExecutionId")
        if query_id not in self.athena_backend.executions:
            raise _invalid_request(f"QueryExecution {query_id} was not found")
        return json.dumps({"QueryExecution": self._describe(query_id)})

    def batch_get_query_execution(self) -> str:
        ids = self._get_param("QueryExecutionIds")
        if len(ids) > MAX_PAGE:
            raise _invalid_request(f"More than {MAX_PAGE} QueryExecutionIds")
        known = [query_id for query_id in ids if query_id in self.athena_backend.executions]
        unknown = {"ErrorCode": "INVALID_QUERY_EXECUTION_ID", "ErrorMessage": "QueryExecution was not found"}
        return json.dumps(
            {
                "QueryExecutions": [self._describe(query_id) for query_id in known],
                "UnprocessedQueryExecutionIds": [
                    {"QueryExecutionId": query_id, **unknown} for query_id in ids if query_id not in known
                ],
            }
        )

    def list_data_catalogs(self) -> str:
        others = self.athena_backend.list_data_catalogs()
        return self._page("DataCatalogsSummary", [{"CatalogName": GLUE_CATALOG, "Type": "GLUE"}, *others])

    def get_data_catalog(self) -> str:
        return json.dumps({"DataCatalog": self._require_catalog(self._get_param("Name"))})

    def list_databases(self) -> str:
        catalog = self._get_param("CatalogName")
        self._require_catalog(catalog)
        if catalog != GLUE_CATALOG:
            databases = self.athena_backend.databases.values()
            names = sorted(one.name for one in databases if one.catalog_name == catalog)
            return self._page("DatabaseList", [{"Name": name} for name in names])
        self._require_glue("GetDatabases")
        kept = ("Description", "Parameters")
        described = [
            {"Name": database.name, **{key: database.input[key] for key in kept if database.input.get(key)}}
            for database in sorted(self._glue.get_databases(), key=lambda database: database.name)
        ]
        return self._page("DatabaseList", described)

    @property
    def _glue(self) -> GlueBackend:
        return glue_backends[self.current_account][self.region]

    def _require_glue(self, action: str, **parameters: str) -> None:
        sender = Sender.of_request(self.current_account, self.headers)
        arns = _list_arns(self.region, self.current_account, action, parameters)
        if refusal := _find_refusal(sender, action, arns):
            raise _metadata_error(refusal, "AccessDeniedException")

    def _authenticate_and_authorize_normal_action(self, resource: str = "*") -> None:
        if not self.behaviour.admits(self._get_action()):
            raise JsonRESTError("ThrottlingException", "Rate exceeded")
        super()._authenticate_and_authorize_normal_action(resource)

    def _determine_resource(self) -> str:
        if self._get_action() in ON_EVERYTHING:
            return "*"
        if catalog := self._get_param("CatalogName") or self._get_param("Name"):
            return self._arn("datacatalog", catalog)
        query_id, *_ = self._get_param("QueryExecutionIds") or [self._get_param("QueryExecutionId")]
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
        if name == GLUE_CATALOG:
            return {"Name": GLUE_CATALOG, "Type": "GLUE"}
        if catalog := self.athena_backend.get_data_catalog(name):
            return dict(catalog)
        raise _invalid_request(f"DataCatalog {name} was not found")

    def _add_date(self, group: JSON) -> JSON:
        known = self.athena_backend.work_groups[str(group["Name"])]
        return {**group, "CreationTime": known.created} if isinstance(known, DatedWorkGroup) else group

    def _describe(self, query_id: str) -> JSON:
        execution = self.athena_backend.executions[query_id]
        result: JSON = {
            "QueryExecutionId": query_id,
            "Query": execution.query,
            "StatementType": "DDL" if execution.query.upper().startswith(DDL) else "DML",
            "QueryExecutionContext": execution.context,
            "ResultConfiguration": execution.config,
            "WorkGroup": execution.workgroup.name if execution.workgroup else "primary",
        }
        if isinstance(execution, RecordedExecution):
            return {**result, **execution.describe()}
        times = {"SubmissionDateTime": execution.start_time, "CompletionDateTime": execution.end_time}
        return {**result, "Status": {"State": execution.status, **times}}

    def _page(self, key: str, items: Sequence[object]) -> str:
        start, size = int(self._get_param("NextToken") or 0), int(self._get_param("MaxResults") or MAX_PAGE)
        if size > MAX_PAGE:
            raise _invalid_request(f"MaxResults is more than {MAX_PAGE}")
        end = start + size
        token = self.behaviour.make_page_token(end, len(items))
        return json.dumps({key: items[start:end], **({} if token is None else {"NextToken": token})})


def _metadata_error(message: str, code: str) -> JsonRESTError:
    origin = (
        f"(Service: AmazonDataCatalog; Status Code: 400; Error Code: {code}; Request ID: {REQUEST_ID}; Proxy: null)"
    )
    return JsonRESTError("MetadataException", f"{message} {origin}")


def _invalid_request(message: str) -> JsonRESTError:
    return JsonRESTError("InvalidRequestException", message)

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
| StartQueryExecution             | any text, in any workgroup      | checks sizes, workgroup and output        |
| the same token twice            | two queries                     | one                                       |
| a new query                     | has succeeded at once           | QUEUED, RUNNING, then its end             |
| its rows                        | none, or those of a queue       | those of the demo's tables, with pages    |
| the same, before it succeeded   | none                            | InvalidRequestException                   |
| tables that the sender may not  | not checked                     | the query fails                           |
| StopQueryExecution              | always CANCELLED                | only if it has not ended                  |

A new query ends after some calls of GetQueryExecution, as `Behaviour.run_query` says: the clocks of worlds stand still.
Not here: the objects in S3 with the results.

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
from datetime import UTC, datetime
from typing import Any, ClassVar

from moto.athena.models import Execution, WorkGroup
from moto.athena.responses import AthenaResponse
from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.glue.models import glue_backends
from moto.glue.responses import GlueResponse

# Private, as in the package.
from moto.moto_api._internal import mock_random

from quilt_mcp.demo.moto_gaps.refusals import Behaving, Behaviour, Sender
from quilt_mcp.demo.query_engine import QueryEngine, Result, ResultColumn
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
GLUE = "AwsDataCatalog"
ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED"})
QUEUED_MS = 140
LARGEST_QUERY = 262_144
SHORTEST_TOKEN, LONGEST_TOKEN = 32, 128
LARGEST_RESULTS_PAGE = 1000
KINDS: dict[str, tuple[str, str | None]] = {
    "SELECT": ("DML", "SELECT"),
    "WITH": ("DML", "SELECT"),
    "EXPLAIN": ("UTILITY", "EXPLAIN"),
    "SHOW": ("UTILITY", None),
    "DESCRIBE": ("UTILITY", None),
}
"""The type of a statement and its subtype, by its first word."""
PLAN = ResultColumn("Query Plan", "varchar")


class DatedWorkGroup(WorkGroup):
    """A workgroup with its creation time, in seconds since 1970."""

    created = 0.0


class RecordedExecution(Execution):
    """A query with its submission time, in seconds since 1970, and the outcome in its record."""

    def __init__(self, record: Query, work_group: WorkGroup, submitted: float, results: str) -> None:
        context: Any = {"Catalog": record.catalog, "Database": record.database}  # moto annotates it as str
        super().__init__(record.sql, context, {}, work_group, None)
        self.id, self.group = record.id, work_group.name
        extension = "csv" if _find_kind(record.sql)[0] == "DML" else "txt"
        self.config = {"OutputLocation": f"{results}{record.id}.{extension}"}
        self.record = record
        self.start_time = submitted

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def failure(self) -> str | None:
        return self.record.failure

    @property
    def scanned_bytes(self) -> int:
        return self.record.scanned_bytes

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def advance(self) -> None:
        """Go on to the next state. What a record says is past."""

    def describe(self) -> JSON:
        status: JSON = {"State": self.state, "SubmissionDateTime": self.start_time}
        if self.failure:
            status["StateChangeReason"] = self.failure
        statistics = {"DataScannedInBytes": self.scanned_bytes}
        if self.has_ended:
            engine = 1000 * (self.record.seconds or 0)
            status["CompletionDateTime"] = self.start_time + (self.record.seconds or 0)
            statistics["EngineExecutionTimeInMillis"] = engine
            statistics["QueryQueueTimeInMillis"] = QUEUED_MS
            statistics["TotalExecutionTimeInMillis"] = engine + QUEUED_MS
        kind, sub_kind = _find_kind(self.query)
        sub = {} if sub_kind is None else {"SubstatementType": sub_kind}
        return {
            "StatementType": kind,
            **sub,
            "QueryExecutionId": self.id,
            "Query": self.query,
            "QueryExecutionContext": self.context,
            "ResultConfiguration": self.config,
            "WorkGroup": self.group,
            "Status": status,
            "Statistics": statistics,
        }


class NewExecution(RecordedExecution):
    """A query that was started in the world. Each call of GetQueryExecution lets it advance."""

    def __init__(self, record: Query, work_group: WorkGroup, results: str, behaviour: Behaviour, end: Result) -> None:
        super().__init__(record, work_group, datetime.now(UTC).timestamp(), results)
        self._steps = iter(behaviour.run_query(record.sql))
        self.end = end
        self._now, self._scanned = next(self._steps, self._find_end())
        self._stopped: str | None = None

    @property
    def state(self) -> str:
        return self._now

    @property
    def failure(self) -> str | None:
        return self._stopped or (self.end.failure if self.has_ended else None)

    @property
    def scanned_bytes(self) -> int:
        return self._scanned

    def advance(self) -> None:
        if self.has_ended:
            return
        self._now, self._scanned = next(self._steps, self._find_end())
        limit = self.workgroup.configuration.get("BytesScannedCutoffPerQuery") if self.workgroup else None
        if limit is not None and self._scanned > int(limit):
            self.stop("Query cancelled! : Bytes scanned limit was exceeded")

    def stop(self, reason: str) -> None:
        if not self.has_ended:
            self._now, self._stopped = "CANCELLED", reason

    def _find_end(self) -> tuple[str, int]:
        return ("FAILED", 0) if self.end.failure else ("SUCCEEDED", self.end.scanned_bytes)


class AthenaAnswers(Behaving, AthenaResponse):
    """Athena, with the responses of AWS. `fill_gaps` replaces the engine for a time."""

    engine: ClassVar[QueryEngine] = QueryEngine()

    def start_query_execution(self) -> str:
        sql, token = str(self._get_param("QueryString") or ""), self._get_param("ClientRequestToken") or ""
        if not 1 <= len(sql.encode()) <= LARGEST_QUERY:
            raise _invalid_request(f"QueryString must have 1 to {LARGEST_QUERY} bytes")
        if token and not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN:
            raise _invalid_request(f"ClientRequestToken must have {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters")
        context = self._get_param("QueryExecutionContext") or {}
        given = self._get_param("ResultConfiguration") or {}
        group = self.athena_backend.work_groups[self._require_work_group()]
        results = self._require_place(group, given.get("OutputLocation"))
        if token in (known := self._started):
            return json.dumps({"QueryExecutionId": known[token]})
        catalog, database = context.get("Catalog") or GLUE, context.get("Database") or "default"
        if catalog.lower() != GLUE.lower():
            self._require_catalog(catalog)
        end = self._run(sql, database, catalog)
        record = Query(str(mock_random.uuid4()), group.name, database, sql, 0, 1, end.scanned_bytes, catalog=catalog)
        self.athena_backend.executions[record.id] = NewExecution(record, group, results, self.behaviour, end)
        if token:
            known[token] = record.id
        return json.dumps({"QueryExecutionId": record.id})

    def get_query_execution(self) -> str:
        execution = self._require_execution()
        execution.advance()
        return json.dumps({"QueryExecution": execution.describe()})

    def stop_query_execution(self) -> str:
        execution = self._require_execution()
        if isinstance(execution, NewExecution):
            execution.stop("Query cancelled by user")
        return json.dumps({})

    def get_query_results(self) -> str:
        execution, token = self._require_execution(), self._get_param("NextToken") or ""
        size = int(self._get_param("MaxResults") or LARGEST_RESULTS_PAGE)
        if not 1 <= size <= LARGEST_RESULTS_PAGE:
            raise _invalid_request(f"MaxResults must be from 1 to {LARGEST_RESULTS_PAGE}")
        if execution.state != "SUCCEEDED":
            raise _invalid_request(f"Query has not yet finished. Current state: {execution.state}")
        if execution.id in self.behaviour.lost_results:
            raise _invalid_request("Could not find results")
        bucket = execution.config["OutputLocation"].removeprefix("s3://")
        self._require_right("s3:GetObject", f"arn:aws:s3:::{bucket}")
        start = token.removeprefix(f"{self.behaviour.pad_token}at-{execution.id}-") if token else "0"
        if not start.isdecimal():
            raise _invalid_request("The pagination token is not valid.")
        if isinstance(execution, NewExecution):
            result = execution.end
        else:
            result = self.engine.run(execution.query, execution.record.database, execution.record.catalog)
        has_header = execution.describe()["StatementType"] == "DML" or result.columns[:1] == [PLAN]
        lines = [[one.name for one in result.columns], *result.rows] if has_header else [*result.rows]
        end = int(start) + size
        rows = [
            {"Data": [{} if one is None else {"VarCharValue": one} for one in row]} for row in lines[int(start) : end]
        ]
        page: JSON = {
            "UpdateCount": 0,
            "ResultSet": {"Rows": rows, "ResultSetMetadata": {"ColumnInfo": [*map(_describe_column, result.columns)]}},
        }
        next_token = self.behaviour.make_page_token(end, len(lines))
        if next_token:
            next_token = f"{self.behaviour.pad_token}at-{execution.id}-{next_token}"
        return json.dumps(page if next_token is None else {**page, "NextToken": next_token})

    @property
    def _started(self) -> dict[str, str]:
        """The ids of queries by the tokens of the requests that started them."""
        started: dict[str, str] = vars(self.athena_backend).setdefault("started", {})
        return started

    def _run(self, sql: str, database: str, catalog: str) -> Result:
        """Return how a query will end. It fails if its sender may not read a table, or the data of one."""
        end = self.engine.run(sql, database, catalog)
        sender = Sender.of_request(self.current_account, self.headers)
        start = f"arn:aws:glue:{self.region}:{self.current_account}"
        for table_catalog, base, table in end.tables:
            if table_catalog.lower() != GLUE.lower():
                continue
            arns = (f"{start}:catalog", f"{start}:database/{base}", f"{start}:table/{base}/{table}")
            refusals = [sender.explain_refusal("glue:GetTable", arn) for arn in arns]
            stored = glue_backends[self.current_account][self.region].get_table(base, table).as_dict()
            place = stored.get("StorageDescriptor", {}).get("Location", "").removeprefix("s3://")
            if place:
                refusals.append(sender.explain_refusal("s3:GetObject", f"arn:aws:s3:::{place.rstrip('/')}/data"))
            if refusal := next(filter(None, refusals), None):
                return Result(failure=f"PERMISSION_DENIED: {refusal}")
        return end

    def _require_place(self, group: WorkGroup, given: str | None) -> str:
        """Return where the results are stored: the place of the workgroup if it is enforced or none is given."""
        if self.athena_backend.work_groups[group.name].state != "ENABLED":
            raise _invalid_request(f"WorkGroup {group.name} is disabled.")
        if "spark" in str(group.configuration.get("EngineVersion")).lower():
            raise _invalid_request("The engine version of the workgroup does not run this request.")
        own = (group.configuration.get("ResultConfiguration") or {}).get("OutputLocation")
        place = own if own and (group.configuration.get("EnforceWorkGroupConfiguration") or not given) else given
        if not place:
            raise _invalid_request(
                "No output location provided. An output location is required either through the Workgroup result "
                "configuration setting or as an API input."
            )
        return str(place)

    def _require_execution(self) -> RecordedExecution:
        given = self._get_param("QueryExecutionId")
        execution = self.athena_backend.executions.get(given)
        if isinstance(execution, RecordedExecution):
            return execution
        raise _invalid_request(f"QueryExecution {given} was not found")

    def _require_right(self, action: str, arn: str) -> None:
        if refusal := Sender.of_request(self.current_account, self.headers).explain_refusal(action, arn):
            raise JsonRESTError("AccessDeniedException", refusal)

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
        if catalog := self.athena_backend.get_data_catalog(name):
            return dict(catalog)
        raise _invalid_request(f"DataCatalog {name} was not found")

    def _add_date(self, group: JSON) -> JSON:
        known = self.athena_backend.work_groups[str(group["Name"])]
        engine = {} if "Configuration" in group else {"EngineVersion": known.configuration["EngineVersion"]}
        return {**group, **engine, "CreationTime": known.created} if isinstance(known, DatedWorkGroup) else group

    def _page(self, key: str, items: Sequence[object]) -> str:
        start, size = int(self._get_param("NextToken") or 0), int(self._get_param("MaxResults") or MAX_PAGE)
        if size > MAX_PAGE:
            raise _invalid_request(f"MaxResults is more than {MAX_PAGE}")
        end = start + size
        token = self.behaviour.make_page_token(end, len(items))
        return json.dumps({key: items[start:end], **({} if token is None else {"NextToken": token})})


def _find_kind(sql: str) -> tuple[str, str | None]:
    return KINDS.get(sql.split(None, 1)[0].upper(), ("DDL", None))


def _describe_column(column: ResultColumn) -> JSON:
    return {
        "CatalogName": "hive",
        "SchemaName": "",
        "TableName": "",
        "Name": column.name,
        "Label": column.name,
        "Type": column.type,
        "Precision": 0,
        "Scale": 0,
        "Nullable": "UNKNOWN",
        "CaseSensitive": column.type in {"varchar", "string"},
    }


def _invalid_request(message: str) -> JsonRESTError:
    return JsonRESTError("InvalidRequestException", message)

"""Situations of AWS and of a stack that the demo worlds do not have: what a user reads in each, on both surfaces."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import botocore
import botocore.exceptions as failures
import pytest
from botocore.awsrequest import AWSResponse
from fastmcp import Client

from quilt_mcp.commands.demo.http_server import Answer
from quilt_mcp.commands.demo.world import World
from quilt_mcp.server import create_server
from tests.contract.surfaces import ask
from tests.support import apps
from tests.support.quilt_fakes import Raw

RAW, EU, RESULTS = "acme-raw-sequencing", "acme-imaging-eu", "acme-analysis-results"
DISCOVER, ACCESS = "permissions://discover", f"permissions://buckets/{RAW}/access"
DATABASES, TABLES, TABLE = "athena://databases", "athena://databases/d/tables", "athena://databases/d/tables/t"
WORKGROUPS, HISTORY = "athena://workgroups", "athena://query/history"
ROW = f"data.bucket_permissions[{RAW}]"
PAGE = "<!doctype html><title>Blocked</title>"
OWN, OTHERS = "QuiltUserAthena-acme-DataPlatform", "QuiltUserAthena-acme-NonManagedRoleWorkgroup"
NOT_AWS = "AWS did not return a valid response."


class has(str):  # noqa: N801 - reads like a word in the table
    """A text that the value contains."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str(self) in str(other)


@dataclass(frozen=True)
class Reply:
    """A response: a dict is sent as the JSON of AWS, a text as it is. `only` is a part of the addresses it is for."""

    status: int = 200
    body: dict[str, Any] | str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    only: str = ""

    def make(self, url: str) -> AWSResponse:
        """Return the response in the form of botocore."""
        is_json = isinstance(self.body, dict)
        kind = "application/x-amz-json-1.1" if is_json else "text/html" if self.body == PAGE else "application/xml"
        text = json.dumps(self.body) if is_json else str(self.body)
        return AWSResponse(url, self.status, {"content-type": kind, **self.headers}, Raw(text.encode()))


def s3_error(code: str, status: int = 403, only: str = "") -> Reply:
    return Reply(status, f"<Error><Code>{code}</Code><Message>No.</Message></Error>", only=only)


def json_error(code: str, status: int = 400) -> Reply:
    return Reply(status, {"__type": code, "message": "No."})


def head(only: str = "", **headers: str) -> Reply:
    sent = {f"x-amz-{name.replace('_', '-')}": value for name, value in headers.items()}
    return Reply(200, "", {"content-length": "4", "etag": '"0"', **sent}, only)


def table(**given: Any) -> Reply:
    return Reply(body={"Table": {"Name": "t", "DatabaseName": "d", **given}})


def work_groups(*groups: dict[str, Any]) -> Reply:
    return Reply(body={"WorkGroups": list(groups)})


def work_group(**configuration: Any) -> Reply:
    return Reply(body={"WorkGroup": {"Name": "x", "Configuration": configuration}})


def query(**status: Any) -> dict[str, Reply]:
    """One workgroup with one query."""
    execution = {"QueryExecutionId": "q", "Status": {"State": "FAILED", **status}}
    return {
        "athena.ListWorkGroups": work_groups({"Name": "w", "State": "ENABLED"}),
        "athena.ListQueryExecutions": Reply(body={"QueryExecutionIds": ["q"]}),
        "athena.BatchGetQueryExecution": Reply(body={"QueryExecutions": [execution]}),
    }


def identity(arn: str) -> Reply:
    result = f"<Arn>{arn}</Arn><UserId>A</UserId><Account>1</Account>"
    return Reply(body=f"<R><GetCallerIdentityResult>{result}</GetCallerIdentityResult></R>")


@dataclass(frozen=True)
class Situation:
    """What is read, what AWS and the stack respond, and some values of the answer by their paths."""

    uri: str
    expected: Mapping[str, object]
    aws: Mapping[str, Reply | Exception] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    stack: Callable[[World], None] = lambda _: None


def fail(*fields: str) -> Callable[[World], None]:
    """Let fields of the stack's API fail."""

    def begin(world: World) -> None:
        world.stack.endpoint = replace(world.stack.endpoint, failing_fields=set(fields))

    return begin


def force(answer: Answer) -> Callable[[World], None]:
    """Let the stack answer every query so."""
    return lambda world: world.stack.forced.update({"/graphql": answer})


PROBING = {"QUILT_MCP_PROBE_WRITES": "true"}
LISTING = "s3.ListObjectsV2"
ENCRYPTED = {"server_side_encryption": "aws:kms", "server_side_encryption_aws_kms_key_id": "key"}
COLUMNS = [
    {"Name": "id", "Type": "bigint", "Parameters": {"iceberg.field.current": "true"}},
    {"Name": "old", "Type": "string", "Parameters": {"iceberg.field.current": "false"}},
]
LINK = {"Name": "d", "TargetDatabase": {"CatalogId": "210987654321", "DatabaseName": "shared"}}
VIEWS = [{"Dialect": "SPARK", "ViewOriginalText": "SELECT 2"}, {"Dialect": "ATHENA", "ViewOriginalText": "SELECT 1"}]
ENABLED = {"Name": OTHERS, "State": "ENABLED"}
REFUSED = {"error": "Unauthorized", "details": has("refused by AWS")}
BLOCKED = {"error": "ResourceExecutionError", "message": NOT_AWS, "transient": False}

SITUATIONS = {
    # buckets that cannot be used, although the stack states a right
    "deleted": Situation(
        DISCOVER,
        {f"{ROW}.can_write": False, f"{ROW}.error_message": "S3 has no such bucket."},
        {LISTING: s3_error("NoSuchBucket", 404, RAW)},
    ),
    "deleted, one bucket": Situation(
        ACCESS,
        {"error": "NotFound", "details": has("The Quilt stack lists it")},
        {LISTING: s3_error("NoSuchBucket", 404, RAW)},
    ),
    "deleted, with the write probe": Situation(
        DISCOVER, {f"{ROW}.can_write": False}, {LISTING: s3_error("NoSuchBucket", 404, RAW)}, PROBING
    ),
    "disabled": Situation(
        DISCOVER,
        {f"{ROW}.can_write": None, f"{ROW}.write": "unverified"},
        {LISTING: s3_error("AllAccessDisabled", only=RAW)},
    ),
    "unpaid account": Situation(DISCOVER, {f"{ROW}.can_write": None}, {LISTING: s3_error("AccountProblem", only=RAW)}),
    "wrong clock": Situation(
        DISCOVER,
        {f"{ROW}.can_write": None, f"{ROW}.list_evidence": has("clock")},
        {LISTING: s3_error("RequestTimeTooSkewed", only=RAW)},
    ),
    "busy": Situation(
        DISCOVER, {f"{ROW}.can_write": True, f"{ROW}.write": "stated"}, {LISTING: s3_error("SlowDown", 503, RAW)}
    ),
    "too slow": Situation(
        DISCOVER, {f"{ROW}.can_write": True}, {LISTING: failures.ReadTimeoutError(endpoint_url=f"https://{RAW}.s3")}
    ),
    "opt-in region": Situation(
        f"permissions://buckets/{EU}/access",
        {
            "error": "ResourceExecutionError",
            "message": has("does not accept the AWS credentials in the region"),
            "transient": False,
        },
        {LISTING: s3_error("InvalidToken", 400, EU)},
    ),
    "opt-in region, all buckets": Situation(
        DISCOVER,
        {f"{ROW}.can_read": True, f"data.bucket_permissions[{EU}].can_write": None},
        {LISTING: s3_error("InvalidToken", 400, EU)},
    ),
    "requester pays": Situation(
        ACCESS, {"data.can_list": False, "data.can_write": None}, {LISTING: s3_error("AccessDenied", only=RAW)}
    ),
    "session policy of the registry": Situation(
        DISCOVER,
        {f"{ROW}.can_write": None, f"{ROW}.write_evidence": has("READ_WRITE; but S3 refused")},
        {"s3.HeadObject": Reply(403, only=RAW)},
    ),
    "SCP denies the list": Situation(
        DISCOVER,
        {f"{ROW}.permission_level": "no_access", f"{ROW}.can_write": None},
        {LISTING: s3_error("AccessDenied", only=RAW)},
    ),
    # objects that cannot be read
    "archived": Situation(
        ACCESS,
        {"data.can_read": None, "data.permission_level": "unknown", "data.read_evidence": has("archived")},
        {"s3.HeadObject": head(storage_class="DEEP_ARCHIVE")},
    ),
    "restored": Situation(
        ACCESS,
        {"data.can_read": True},
        {
            "s3.HeadObject": head(
                storage_class="GLACIER", restore='ongoing-request="false", expiry-date="Fri, 21 Dec 2035 00:00:00 GMT"'
            )
        },
    ),
    "being restored": Situation(
        ACCESS,
        {"data.can_read": None},
        {"s3.HeadObject": head(storage_class="GLACIER", restore='ongoing-request="true"')},
    ),
    "archive tier": Situation(
        ACCESS,
        {"data.can_read": None},
        {"s3.HeadObject": head(storage_class="INTELLIGENT_TIERING", archive_status="DEEP_ARCHIVE_ACCESS")},
    ),
    "instant retrieval": Situation(
        ACCESS, {"data.can_read": True}, {"s3.HeadObject": head(storage_class="GLACIER_IR")}
    ),
    "KMS key of another account": Situation(
        ACCESS, {"data.can_read": None, "data.read_evidence": has("unproven")}, {"s3.HeadObject": head(**ENCRYPTED)}
    ),
    "key of the owner": Situation(
        ACCESS, {"data.can_read": None, "data.read_evidence": has("gave no reason")}, {"s3.HeadObject": Reply(400)}
    ),
    "all deleted since": Situation(
        ACCESS, {"data.can_read": None, "data.read_evidence": has("deleted since")}, {"s3.HeadObject": Reply(404)}
    ),
    "Object Lock": Situation(
        ACCESS,
        {"data.can_write": None, "data.write_evidence": has("does not accept the request in this form")},
        {"s3.PutObject": s3_error("InvalidRequest", 400)},
        PROBING,
    ),
    "access point alias": Situation(
        "permissions://buckets/runs-a1b2c3d4e5-s3alias/access",
        {"data.in_stack": False, "data.can_list": True},
        {LISTING: Reply(body="<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")},
    ),
    # which buckets are recommended
    "query results": Situation(
        "permissions://recommendations",
        {
            "data.recommendations.primary_recommendations.0.bucket_name": RESULTS,
            "data.recommendations.primary_recommendations.1.bucket_name": RAW,
            "data.recommendations.alternative_options.0.bucket_name": "acme-athena-results",
        },
    ),
    "account not listed": Situation(
        DISCOVER,
        {"data.sources.s3": has("not read"), "data.sources.registry": "read"},
        {"s3.ListBuckets": s3_error("AccessDenied")},
    ),
    # what is not AWS
    "web filter, Athena": Situation(WORKGROUPS, BLOCKED, {"athena.ListWorkGroups": Reply(403, PAGE)}),
    "web filter, Glue 401": Situation(DATABASES, BLOCKED, {"glue.GetDatabases": Reply(401, PAGE)}),
    "web filter, Glue 404": Situation(TABLES, BLOCKED, {"glue.GetTables": Reply(404, PAGE)}),
    "web filter, S3": Situation(ACCESS, BLOCKED, {LISTING: Reply(403, PAGE)}),
    "captive portal": Situation(
        DATABASES, {"message": NOT_AWS, "transient": True}, {"glue.GetDatabases": Reply(200, PAGE)}
    ),
    "balancer": Situation(
        DATABASES,
        {"message": "AWS could not process the request.", "transient": True},
        {"glue.GetDatabases": Reply(502, PAGE)},
    ),
    "wrong authority": Situation(
        DATABASES,
        {"transient": False, "suggested_actions.0": has("AWS_CA_BUNDLE"), "details": has("glue.us-east-1")},
        {"glue.GetDatabases": failures.SSLError(endpoint_url="https://glue.us-east-1.amazonaws.com", error="x")},
    ),
    "proxy wants a password": Situation(
        DATABASES,
        {"transient": False, "suggested_actions.0": has("HTTPS_PROXY")},
        {"glue.GetDatabases": failures.ProxyConnectionError(proxy_url="http://p", error="407")},
    ),
    "no IPv6 address": Situation(
        DATABASES,
        {"transient": True, "details": has("glue.us-east-1.api.aws")},
        {"glue.GetDatabases": failures.EndpointConnectionError(endpoint_url="https://glue.us-east-1.api.aws")},
    ),
    "LocalStack": Situation(
        DISCOVER,
        {"data.user_identity.aws_endpoint": "localhost"},
        {"sts.GetCallerIdentity": identity("arn:aws:iam::000000000000:root")},
        {"AWS_ENDPOINT_URL_STS": "http://localhost:4566"},
    ),
    "GovCloud": Situation(
        DISCOVER,
        {"data.user_identity.role_name": "Quilt-DataPlatform", f"{ROW}.can_write": None},
        {"sts.GetCallerIdentity": identity("arn:aws-us-gov:sts::1:assumed-role/Quilt-DataPlatform/amara_osei")},
    ),
    "expired SSO": Situation(
        DATABASES,
        {"error": "Unauthorized", "message": "No usable AWS credentials were found."},
        {"glue.GetDatabases": failures.UnauthorizedSSOTokenError()},
    ),
    "STS disabled in the region": Situation(
        DISCOVER,
        {"error": "ResourceExecutionError", "details": has("RegionDisabledException")},
        {"sts.GetCallerIdentity": Reply(403, "<R><Error><Code>RegionDisabledException</Code></Error></R>")},
    ),
    # the data catalog
    "Lake Formation": Situation(
        TABLES,
        {**REFUSED, "suggested_actions.1": has("Lake Formation")},
        {"glue.GetTables": json_error("AccessDeniedException")},
    ),
    "resource link": Situation(
        TABLES,
        {"error": "NotFound", "message": has("is a link to 210987654321/shared")},
        {"glue.GetTables": json_error("EntityNotFoundException"), "glue.GetDatabase": Reply(body={"Database": LINK})},
    ),
    "resource link to a table": Situation(
        TABLE,
        {"data.link_target": "1/d2/t2", "data.columns": None},
        {"glue.GetTable": table(TargetTable={"CatalogId": "1", "DatabaseName": "d2", "Name": "t2"})},
    ),
    "list with a link": Situation(
        DATABASES,
        {"data.databases.0.link_target": "210987654321/shared"},
        {"glue.GetDatabases": Reply(body={"DatabaseList": [LINK]})},
    ),
    "S3 Tables": Situation(
        DATABASES,
        {"data.databases.0.federated_source": "aws:s3tables"},
        {
            "glue.GetDatabases": Reply(
                body={"DatabaseList": [{"Name": "d", "FederatedDatabase": {"ConnectionName": "aws:s3tables"}}]}
            )
        },
    ),
    "federated source fails": Situation(
        TABLES,
        {"transient": False, "message": has("external source")},
        {"glue.GetTables": json_error("FederationSourceException")},
    ),
    "dropped column": Situation(
        TABLE,
        {
            "data.column_count": 1,
            "data.columns.0.name": "id",
            "data.partition_keys": None,
            "data.table_format": "iceberg",
        },
        {
            "glue.GetTable": table(
                StorageDescriptor={"Columns": COLUMNS}, PartitionKeys=[], Parameters={"table_type": "ICEBERG"}
            )
        },
    ),
    "Quilt's Iceberg table": Situation(
        "athena://databases/q/tables/acme-raw_package_tag",
        {"data.sql_name": '"q"."acme-raw_package_tag"', "data.partition_keys": None},
        {
            "glue.GetTable": Reply(
                body={"Table": {"Name": "acme-raw_package_tag", "Parameters": {"table_type": "ICEBERG"}}}
            )
        },
    ),
    "several dialects": Situation(
        TABLE,
        {"data.view_sql": "SELECT 1"},
        {"glue.GetTable": table(TableType="VIRTUAL_VIEW", ViewDefinition={"Representations": VIEWS})},
    ),
    "nothing but a name": Situation(
        TABLE, {"data.columns": None, "data.type": None, "data.partition_keys": []}, {"glue.GetTable": table()}
    ),
    "long parameter": Situation(
        DATABASES,
        {"data.databases.0.parameters.k": "x" * 1000, "data.databases.0.parameters_truncated": True},
        {"glue.GetDatabases": Reply(body={"DatabaseList": [{"Name": "d", "Parameters": {"k": "x" * 5000}}]})},
    ),
    # Athena
    "own workgroup disabled": Situation(
        WORKGROUPS,
        {
            "data.recommended.workgroup": None,
            "data.recommended.workgroup_reason": has("is disabled"),
            "data.recommended.disabled.0": OWN,
        },
        {
            "athena.ListWorkGroups": work_groups({"Name": OWN, "State": "DISABLED"}, ENABLED),
            "athena.GetWorkGroup": work_group(),
        },
    ),
    "another workgroup disabled": Situation(
        WORKGROUPS,
        {"data.recommended.workgroup": None, "data.recommended.workgroup_reason": has("Disabled: ")},
        {
            "athena.ListWorkGroups": work_groups({"Name": f"{OWN}2", "State": "DISABLED"}, ENABLED),
            "athena.GetWorkGroup": work_group(),
        },
    ),
    "managed results": Situation(
        WORKGROUPS,
        {"data.workgroups.0.output_location": None, "data.workgroups.0.managed_results": True},
        {
            "athena.ListWorkGroups": work_groups(ENABLED),
            "athena.GetWorkGroup": work_group(ManagedQueryResultsConfiguration={"Enabled": True}),
        },
    ),
    "details refused": Situation(
        WORKGROUPS,
        {"data.workgroups.0.managed_results": None, "data.workgroups.0.details_error": has("not allowed")},
        {"athena.ListWorkGroups": work_groups(ENABLED), "athena.GetWorkGroup": json_error("AccessDeniedException")},
    ),
    "Spark": Situation(
        HISTORY,
        {"data.is_complete": True, "data.workgroups.0": "w", "data.count": 1},
        {
            **query(),
            "athena.ListWorkGroups": work_groups(
                {"Name": "w"}, {"Name": "n", "EngineVersion": {"EffectiveEngineVersion": "PySpark engine version 3"}}
            ),
        },
    ),
    "long error": Situation(
        HISTORY,
        {"data.query_history.0.error_message": "e" * 4000, "data.query_history.0.error_message_truncated": True},
        query(StateChangeReason="e" * 9000),
    ),
    "query without times": Situation(
        HISTORY, {"data.query_history.0.submission_time": None, "data.query_history.0.error_message": None}, query()
    ),
    # the stack
    "firewall": Situation(
        "auth://status",
        {"data.status": "unknown", "data.details": has("without JSON")},
        stack=force(Answer(HTTPStatus.FORBIDDEN, PAGE.encode(), (("Content-Type", "text/html"),))),
    ),
    "refusal": Situation(
        "auth://status", {"data.status": "refused"}, stack=force(Answer(HTTPStatus.FORBIDDEN, {"message": "no"}))
    ),
    "one list fails": Situation(
        DISCOVER, {"data.sources.registry": "read", f"{ROW}.named_by.0": "registry"}, stack=fail("Query.bucketConfigs")
    ),
    "tables fail": Situation(
        "tabulator://buckets",
        {"data.source": "athena", "data.source_note": has("could not read the data")},
        stack=fail("BucketConfig.tabulatorTables"),
    ),
    "a page of buckets": Situation(
        f"{DISCOVER}?limit=2",
        {"data.count": 7, "data.bucket_permissions.1.named_by.0": "registry", "data.next_cursor": has("")},
    ),
    "a page of users": Situation(
        "admin://users?limit=5", {"data.count": 24, "data.users.4.name": has(""), "data.next_cursor": has("W")}
    ),
    "one bucket of the roles": Situation(
        f"admin://roles?bucket={EU}", {"data.roles.1.permissions.0.bucket": EU, "data.roles.1.permission_count": 1}
    ),
}


@contextmanager
def answering(replies: Mapping[str, Reply | Exception]) -> Iterator[None]:
    """Let these operations of AWS respond so. The demo's account responds to the others."""

    def answer(request: Any, event_name: str, **_: Any) -> AWSResponse | None:
        reply = replies.get(event_name.partition(".")[2])
        if isinstance(reply, Exception):
            raise reply
        return reply.make(request.url) if reply and reply.only in request.url else None

    def register(session: Any) -> None:
        session.get_component("event_emitter").register_first("before-send", answer)  # before the fake account

    botocore.register_initializer(register)
    try:
        yield
    finally:
        botocore.unregister_initializer(register)


def pick(value: Any, path: str) -> Any:
    """Return the part of an answer at a path, such as `data.rows[name].0.key`. Shared evidence is inserted."""
    for part in path.replace("[", ".[").split(".") if "[" not in path else split_names(path):
        if part.startswith("["):
            [value] = [one for one in value if one["name"] == part[1:-1]]
        else:
            value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def split_names(path: str) -> list[str]:
    """Split a path with a name in brackets, which can contain dots."""
    before, _, rest = path.partition("[")
    name, _, after = rest.partition("]")
    return [*before.split("."), f"[{name}]", *filter(None, after.split("."))]


@pytest.mark.parametrize("name", SITUATIONS)
async def test_a_situation_is_described_as_it_is(
    name: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    situation = SITUATIONS[name]
    for variable, value in situation.env.items():
        monkeypatch.setenv(variable, value)
    situation.stack(fresh_world)
    apps.use_environment()
    with answering(situation.aws):
        async with Client(create_server()) as client:
            body = (await ask(client, situation.uri)).body
    shared = (body.get("data") or {}).get("shared_evidence", {})
    found = {path: pick(body, path) for path in situation.expected}
    assert {path: shared.get(str(one), one) for path, one in found.items()} == situation.expected


async def test_a_token_that_one_region_refuses_ends_no_session(fresh_world: World) -> None:
    with answering({LISTING: s3_error("InvalidToken", 400, EU)}):
        async with Client(create_server()) as client:
            for _ in range(3):
                await ask(client, f"permissions://buckets/{EU}/access")
    fetched = [call for call in fresh_world.stack.calls if call.path.endswith("get_credentials")]
    assert len(fetched) == 1


def test_there_are_as_many_situations_as_were_asked_for() -> None:
    assert len(SITUATIONS) >= 51

"""Situations of AWS and of a stack that the demo worlds do not have: what a user reads in each, on both surfaces."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import botocore
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError
from botocore.loaders import Loader
from fastmcp import Client

from quilt_mcp.demo.world import World
from quilt_mcp.server import QuiltServer, create_server
from tests.contract.surfaces import AnyClient, ask
from tests.support.quilt_fakes import Raw
from tests.support.samples import choose_every
from tests.support.worlds import in_world

RAW, EU = "acme-raw-sequencing", "acme-imaging-eu"
DISCOVER, ACCESS, EU_ACCESS = "permissions://discover", *(f"permissions://buckets/{one}/access" for one in (RAW, EU))
DATABASES, TABLES, TABLE = "athena://databases", "athena://databases/d/tables", "athena://databases/d/tables/t"
WORKGROUPS, HISTORY = "athena://workgroups", "athena://query/history"
ROW = f"data.bucket_permissions[{RAW}]"
PAGE = "<!doctype html><title>Blocked</title>"
OWN, OTHERS = "QuiltUserAthena-acme-DataPlatform", "QuiltUserAthena-acme-NonManagedRoleWorkgroup"


class has(str):  # noqa: N801 - reads like a word in the table
    """A text that the value contains."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str(self) in str(other)


@dataclass(frozen=True)
class Reply:
    """A response: a dict is sent as the JSON of AWS, a text as it is. `only` is a part of the addresses it is for."""

    body: dict[str, Any] | str
    status: int = 200
    only: str = ""

    def make(self, url: str) -> AWSResponse:
        """Return the response in the form of botocore."""
        is_json = isinstance(self.body, dict)
        kind = "application/x-amz-json-1.1" if is_json else "text/html" if self.body == PAGE else "application/xml"
        text = json.dumps(self.body) if is_json else str(self.body)
        return AWSResponse(url, self.status, {"content-type": kind}, Raw(text.encode()))


Replies = Mapping[str, Reply | Exception]


def list_refused(code: str, status: int, only: str) -> Replies:
    return {"s3.ListObjectsV2": s3_error(code, status, only)}


def s3_error(code: str, status: int, only: str = "") -> Reply:
    return Reply(f"<Error><Code>{code}</Code><Message>No.</Message></Error>", status, only)


def identity(arn: str) -> Replies:
    result = f"<Arn>{arn}</Arn><UserId>A</UserId><Account>1</Account>"
    return {"sts.GetCallerIdentity": Reply(f"<R><GetCallerIdentityResult>{result}</GetCallerIdentityResult></R>")}


def databases(**given: Any) -> Replies:
    return {"glue.GetDatabases": Reply({"DatabaseList": [{"Name": "d", **given}]})}


def table(**given: Any) -> Replies:
    return {"glue.GetTable": Reply({"Table": {"Name": "t", "DatabaseName": "d", **given}})}


def workgroups(*groups: dict[str, Any], **configuration: Any) -> Replies:
    return {
        "athena.ListWorkGroups": Reply({"WorkGroups": list(groups)}),
        "athena.GetWorkGroup": Reply({"WorkGroup": {"Name": "x", "Configuration": configuration}}),
    }


def query(*others: dict[str, Any], **status: Any) -> Replies:
    """One workgroup with one query, and other workgroups."""
    execution = {"QueryExecutionId": "q", "Status": {"State": "FAILED", **status}}
    return {
        "athena.ListWorkGroups": Reply({"WorkGroups": [{"Name": "w"}, *others]}),
        "athena.ListQueryExecutions": Reply({"QueryExecutionIds": ["q"]}),
        "athena.BatchGetQueryExecution": Reply({"QueryExecutions": [execution]}),
    }


@dataclass(frozen=True)
class Situation:
    """What is read, some values of the answer by their paths, what AWS responds, and which fields the stack refuses."""

    uri: str
    expected: Mapping[str, object]
    aws: Replies = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    failing: str | None = None


PROBING = {"QUILT_MCP_PROBE_WRITES": "true"}
COLUMNS = [
    {"Name": name, "Type": "bigint", "Parameters": {"iceberg.field.current": current}}
    for name, current in (("id", "true"), ("old", "false"))
]
ICEBERG = {"table_type": "ICEBERG"}
LINK = {"Name": "d", "TargetDatabase": {"CatalogId": "210987654321", "DatabaseName": "shared"}}
OTHER_TABLE = {"CatalogId": "1", "DatabaseName": "d2", "Name": "t2"}
MISSING = Reply({"__type": "EntityNotFoundException", "message": "No."}, 400)
VIEWS = [{"Dialect": "SPARK", "ViewOriginalText": "SELECT 2"}, {"Dialect": "ATHENA", "ViewOriginalText": "SELECT 1"}]
ENABLED = {"Name": OTHERS, "State": "ENABLED"}
SPARK = {"Name": "n", "EngineVersion": {"EffectiveEngineVersion": "PySpark engine version 3"}}
PARTITIONS = [one["outputs"] for one in Loader().load_data("partitions")["partitions"]]
SUFFIXES = sorted({one[kind] for one in PARTITIONS for kind in ("dnsSuffix", "dualStackDnsSuffix")})
NO_OBJECTS = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
NO_CREDENTIALS = "does not accept the AWS credentials in the region"

SITUATIONS = {
    # buckets
    "deleted": Situation(
        ACCESS,
        {"error": "NotFound", "details": has("The Quilt stack lists it")},
        list_refused("NoSuchBucket", 404, RAW),
    ),
    "too slow": Situation(
        DISCOVER, {f"{ROW}.can_write": True}, {"s3.ListObjectsV2": ReadTimeoutError(endpoint_url=f"https://{RAW}.s3")}
    ),
    "opt-in region": Situation(
        EU_ACCESS,
        {"error": "ResourceExecutionError", "message": has(NO_CREDENTIALS), "transient": False},
        list_refused("InvalidToken", 400, EU),
    ),
    "opt-in region, all buckets": Situation(
        DISCOVER,
        {f"{ROW}.can_read": True, f"data.bucket_permissions[{EU}].can_write": None},
        list_refused("InvalidToken", 400, EU),
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
        {"s3.ListObjectsV2": Reply(NO_OBJECTS)},
    ),
    "an empty page that is not the last": Situation(
        DISCOVER,
        {f"{ROW}.can_list": True, f"{ROW}.can_read": None, f"{ROW}.read_evidence": has("the list contains no key")},
        {"s3.ListObjectsV2": Reply(NO_OBJECTS.replace("false", "true"))},
    ),
    # where AWS is
    "web filter": Situation(
        WORKGROUPS,
        {"message": "AWS did not return a valid response.", "transient": False},
        {"athena.ListWorkGroups": Reply(PAGE, 403)},
    ),
    "LocalStack": Situation(
        DISCOVER,
        {"data.user_identity.aws_endpoint": {"sts": "localhost"}},
        identity("arn:aws:iam::000000000000:root"),
        {"AWS_ENDPOINT_URL_STS": "http://localhost:4566"},
    ),
    "GovCloud": Situation(
        DISCOVER,
        {"data.user_identity.role_name": "Quilt-DataPlatform", f"{ROW}.can_write": None},
        identity("arn:aws-us-gov:sts::1:assumed-role/Quilt-DataPlatform/amara_osei"),
    ),
    **{
        f"AWS under {suffix}": Situation(
            DISCOVER,
            {"data.user_identity.aws_endpoint": None},
            identity("arn:aws:iam::1:root"),
            {"AWS_ENDPOINT_URL_STS": f"https://sts.x-1.{suffix}"},
        )
        for suffix in SUFFIXES
    },
    # the data catalog
    "resource link": Situation(
        TABLES,
        {"error": "NotFound", "message": has("is a link to 210987654321/shared")},
        {"glue.GetTables": MISSING, "glue.GetDatabase": Reply({"Database": LINK})},
    ),
    "resource link to a table": Situation(
        TABLE,
        {"data.link_target": "1/d2/t2", "data.columns": None, "data.partition_keys": None},
        table(TargetTable=OTHER_TABLE),
    ),
    "list with a link": Situation(
        DATABASES, {"data.databases.0.link_target": "210987654321/shared"}, databases(**LINK)
    ),
    "S3 Tables": Situation(
        DATABASES,
        {"data.databases.0.federated_source": "aws:s3tables"},
        databases(FederatedDatabase={"ConnectionName": "aws:s3tables"}),
    ),
    "dropped column": Situation(
        TABLE,
        {
            "data.column_count": 1,
            "data.columns.0.name": "id",
            "data.partition_keys": None,
            "data.table_format": "iceberg",
        },
        table(StorageDescriptor={"Columns": COLUMNS}, PartitionKeys=[], Parameters=ICEBERG),
    ),
    "Quilt's Iceberg table": Situation(
        "athena://databases/q/tables/acme-raw_package_tag",
        {"data.sql_name": '"q"."acme-raw_package_tag"', "data.partition_keys": None},
        table(Name="acme-raw_package_tag", Parameters=ICEBERG),
    ),
    "several dialects": Situation(
        TABLE,
        {"data.view_sql": "SELECT 1"},
        table(TableType="VIRTUAL_VIEW", ViewDefinition={"Representations": VIEWS}),
    ),
    "nothing but a name": Situation(
        TABLE, {"data.columns": None, "data.type": None, "data.partition_keys": []}, table()
    ),
    # No list of Athena or Glue but the databases of Glue is required in the service models.
    "an empty list is left out": Situation(
        TABLES, {"data.tables": [], "data.count": 0, "data.count_is_exact": True}, {"glue.GetTables": Reply({})}
    ),
    "long parameter": Situation(
        DATABASES,
        {"data.databases.0.parameters.k": "x" * 1000, "data.databases.0.parameters_truncated": True},
        databases(Parameters={"k": "x" * 5000}),
    ),
    # Athena
    "own workgroup disabled": Situation(
        WORKGROUPS,
        {
            "data.recommended.workgroup": None,
            "data.recommended.workgroup_reason": has("is disabled"),
            "data.recommended.disabled.0": OWN,
        },
        workgroups({"Name": OWN, "State": "DISABLED"}, ENABLED),
    ),
    "another workgroup disabled": Situation(
        WORKGROUPS,
        {"data.recommended.workgroup": None, "data.recommended.workgroup_reason": has("Disabled: ")},
        workgroups({"Name": f"{OWN}2", "State": "DISABLED"}, ENABLED),
    ),
    "managed results": Situation(
        WORKGROUPS,
        {"data.workgroups.0.output_location": None, "data.workgroups.0.managed_results": True},
        workgroups(ENABLED, ManagedQueryResultsConfiguration={"Enabled": True}),
    ),
    "Spark": Situation(HISTORY, {"data.is_complete": True, "data.workgroups.0": "w", "data.count": 1}, query(SPARK)),
    "long error": Situation(
        HISTORY,
        {"data.query_history.0.error": "e" * 4000, "data.query_history.0.error_truncated": True},
        query(StateChangeReason="e" * 9000),
    ),
    "an error without a reason": Situation(
        HISTORY, {"data.query_history.0.error": "No space."}, query(AthenaError={"ErrorMessage": "No space."})
    ),
    "a state with a reason that is no failure": Situation(
        HISTORY, {"data.query_history.0.error": None}, query(State="RUNNING", StateChangeReason="Resources.")
    ),
    "query without times": Situation(
        HISTORY, {"data.query_history.0.submitted_at": None, "data.query_history.0.error": None}, query()
    ),
    # the stack
    "one list fails": Situation(
        DISCOVER,
        {"data.sources.registry": "read", f"{ROW}.named_by.0": "registry"},
        failing="Query.bucketConfigs",
    ),
    "tables fail": Situation(
        "tabulator://buckets",
        {"data.source": "athena", "data.source_note": has("could not read the data")},
        failing="BucketConfig.tabulatorTables",
    ),
    "a page of buckets": Situation(
        f"{DISCOVER}?limit=2",
        {"data.count": 7, "data.bucket_permissions.1.named_by.0": "registry", "data.next_cursor": has("")},
    ),
    "a page of users": Situation(
        "admin://users?limit=5", {"data.count": 24, "data.users.4.name": has(""), "data.next_cursor": has("W")}
    ),
    "one bucket of the roles": Situation(
        f"admin://roles?bucket={EU}", {"data.roles.0.permissions.0.bucket": EU, "data.roles.0.permission_count": 1}
    ),
}


@contextmanager
def answering(replies: Replies) -> Iterator[None]:
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
    """Return the part of an answer at a path, such as `data.rows[name].key`. Names in brackets have no dots."""
    for part in path.replace("[", ".[").split("."):
        if part.startswith("["):
            [value] = [one for one in value if one["name"] == part[1:-1]]
        else:
            value = value[int(part)] if isinstance(value, list) else value[part]
    return value


@in_world("admin")
@pytest.mark.parametrize("name", choose_every(2, SITUATIONS))
async def test_a_situation_is_described_as_it_is(
    name: str, world: World, server: QuiltServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    situation = SITUATIONS[name]
    for variable, value in situation.env.items():
        monkeypatch.setenv(variable, value)
    if situation.failing:
        endpoint = replace(world.stack.endpoint, failing_fields={situation.failing})
        monkeypatch.setattr(world.stack, "endpoint", endpoint)
    with answering(situation.aws):
        async with Client(create_server() if situation.env else server) as client:
            body = (await ask(client, situation.uri)).body
    shared = (body.get("data") or {}).get("shared_evidence", {})
    found = {path: pick(body, path) for path in situation.expected}
    assert {path: shared.get(str(one), one) for path, one in found.items()} == situation.expected


@in_world("admin")
async def test_a_token_that_one_region_refuses_ends_no_session(world: World, client: AnyClient) -> None:
    world.stack.calls.clear()
    with answering(list_refused("InvalidToken", 400, EU)):
        for _ in range(3):
            assert not (await ask(client, EU_ACCESS)).body["success"]
    assert [call.path for call in world.stack.calls].count("/api/auth/get_credentials") == 1

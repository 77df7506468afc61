"""Every response of the fakes of AWS agrees with botocore's service model, in all worlds and for all resources."""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import pytest
import quilt3
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import ClientError

from quilt_mcp.app import App
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.demo.data_lake import RESEARCHER
from quilt_mcp.server import create_manager
from tests.contract.cases import RESOURCES
from tests.support.aws_operations import UnknownOperationError, find_operations
from tests.support.aws_validation import SERVICES, Validation, find_faults, validate_aws
from tests.support.settings import Settings
from tests.support.worlds import enter_stopped
from tests.worlds import failing_aws
from tests.worlds.aws_worlds import AWS_WORLDS
from tests.worlds.failing_aws import Error

FAILING = ("aws_denied", "aws_expired", "aws_throttled", "aws_broken")
SIZES = ("member", "empty")
TOUCHING = ("auth://", "athena://", "permissions://", "quilt://buckets", "tabulator://")
URIS = [row.example_uri for row in RESOURCES if row.example_uri.startswith(TOUCHING)]
RAW, RESULTS = "acme-raw-sequencing", "acme-analysis-results"
CATALOG, DATABASE = "quilt-acme-tabulator", "acme_sequencing"
ONE_TRY = Config(retries={"mode": "standard", "total_max_attempts": 1})
QUERY = "0d9f4b52-6c1e-4f0a-9a37-2b8f5e10c001"

MEASURED = datetime(2026, 1, 10, tzinfo=UTC)


def ask_metric(name: str, kind: str, **more: object) -> dict[str, object]:
    """Return the parameters of GetMetricData for a metric of a bucket."""
    dimensions = [{"Name": "BucketName", "Value": RESULTS}, {"Name": "StorageType", "Value": kind}]
    metric = {"Namespace": "AWS/S3", "MetricName": name, "Dimensions": dimensions}
    stat = {"Metric": metric, "Period": 86_400, "Stat": "Average"}
    query = {"Id": "m1", "MetricStat": stat} | more
    return {"MetricDataQueries": [query], "StartTime": MEASURED, "EndTime": MEASURED + timedelta(days=2)}


DIRECT: dict[str, list[dict[str, object]]] = {
    "sts:GetCallerIdentity": [{}],
    "s3:ListBuckets": [{}, {"MaxBuckets": 2}],
    "s3:ListObjectsV2": [{"Bucket": RAW, "MaxKeys": 3, "Delimiter": "/"}, {"Bucket": "acme-nowhere"}],
    "s3:HeadBucket": [{"Bucket": RAW}, {"Bucket": "acme-finance-archive"}, {"Bucket": "acme-nowhere"}],
    "s3:HeadObject": [
        {"Bucket": RAW, "Key": "README.md"},
        {"Bucket": RAW, "Key": "README.md", "ChecksumMode": "ENABLED"},
        {"Bucket": RAW, "Key": "missing"},
        {"Bucket": "acme-imaging-eu", "Key": "README.md"},
    ],
    "s3:ListObjectVersions": [{"Bucket": RESULTS}, {"Bucket": "acme-finance-archive"}],
    "s3:GetObject": [
        {"Bucket": RAW, "Key": "README.md"},
        {"Bucket": RAW, "Key": "README.md", "Range": "bytes=0-3"},
        {"Bucket": RAW, "Key": "missing"},
        {"Bucket": RESULTS, "Key": "rnaseq/liver/README.md", "VersionId": "0" * 32},
    ],
    "s3:PutObject": [{"Bucket": RAW, "Key": key, "Body": b"", "IfMatch": '"0"'} for key in ("README.md", "missing")],
    "cloudwatch:GetMetricData": [
        ask_metric("BucketSizeBytes", "StandardStorage"),
        ask_metric("NumberOfObjects", "AllStorageTypes"),
        ask_metric("BucketSizeBytes", "OneZoneIAStorage"),
        ask_metric("BucketSizeBytes", "StandardStorage", Id="Not valid"),
    ],
    "glue:GetDatabases": [{}, {"MaxResults": 1}],
    "glue:GetDatabase": [{"Name": DATABASE}, {"Name": "nowhere"}],
    "glue:GetTables": [{"DatabaseName": DATABASE}, {"DatabaseName": "nowhere"}],
    "glue:GetTable": [
        {"DatabaseName": DATABASE, "Name": name} for name in ("run_metrics", "runs_below_q30", "missing")
    ],
    "athena:ListWorkGroups": [{}, {"MaxResults": 1}],
    "athena:GetWorkGroup": [{"WorkGroup": name} for name in ("primary", "nowhere")],
    "athena:ListQueryExecutions": [{}, {"WorkGroup": "nowhere"}],
    "athena:BatchGetQueryExecution": [{"QueryExecutionIds": [QUERY, "missing"]}],
    "athena:GetQueryExecution": [{"QueryExecutionId": QUERY}, {"QueryExecutionId": "missing"}],
    "athena:GetQueryResults": [
        {"QueryExecutionId": QUERY},
        {"QueryExecutionId": QUERY, "MaxResults": 2},
        {"QueryExecutionId": QUERY, "NextToken": "x"},
        {"QueryExecutionId": "missing"},
    ],
    "athena:StartQueryExecution": [
        {"QueryString": "SELECT 1", "WorkGroup": RESEARCHER},
        {"QueryString": "SELECT 1", "WorkGroup": "primary"},
        {"QueryString": "SELECT 1", "WorkGroup": "nowhere"},
    ],
    "athena:StopQueryExecution": [{"QueryExecutionId": QUERY}, {"QueryExecutionId": "missing"}],
    "athena:ListDataCatalogs": [{}, {"MaxResults": 50}],
    "athena:GetDataCatalog": [{"Name": CATALOG}, {"Name": "nowhere"}],
    "athena:ListDatabases": [{"CatalogName": CATALOG}],
}
"""For each operation, the parameters of calls. Most of them are answered in one world and refused in another."""


@pytest.fixture
def validation() -> Iterator[Validation]:
    with validate_aws() as validation:
        yield validation


def call_everything() -> None:
    session = quilt3.get_boto3_session()
    clients = {service: session.client(service, config=ONE_TRY) for service in SERVICES}
    for name, calls in DIRECT.items():
        service, operation = name.split(":")
        call = getattr(clients[service], xform_name(operation))
        for parameters in calls:
            with suppress(ClientError):
                call(**parameters)


def call_as_stranger() -> None:
    stranger = boto3.Session("AKIAI44QH8DHBEXAMPLE", "made-up", region_name="us-east-1")
    for service, operation in (("sts", "get_caller_identity"), ("s3", "list_buckets"), ("athena", "list_work_groups")):
        with suppress(ClientError):
            getattr(stranger.client(service, config=ONE_TRY), operation)()


@pytest.mark.parametrize(
    "world",
    [
        *("admin", "custom_role"),
        *(pytest.param(one, marks=pytest.mark.soak) for one in (*SIZES, *FAILING, *AWS_WORLDS) if one != "custom_role"),
    ],
)
async def test_all_responses_agree_with_the_service_model(world: str, validation: Validation) -> None:
    with enter_stopped(world):
        manager = create_manager(App(Settings()))
        for uri in URIS:
            with suppress(ResourceFailure):
                await manager.get_resource(uri)
        read = validation.answered + validation.refused
        assert "sts:GetCallerIdentity" in read
        assert read.keys() <= DIRECT.keys()
        call_everything()
        call_as_stranger()
    faults = validation.faults
    if world == "empty_next_token":  # the model of Athena gives a token one character or more: the world breaks it
        faults = {fault for fault in faults if "NextToken is ''" not in fault}
    assert faults == set()
    if world == "admin":
        assert DIRECT.keys() - validation.answered.keys() == {"s3:PutObject", "cloudwatch:GetMetricData"}
        assert validation.refused["s3:PutObject"]  # no call in this project must store anything
    if world == "custom_role":
        assert validation.answered["cloudwatch:GetMetricData"] > validation.refused["cloudwatch:GetMetricData"] > 0


def test_every_operation_that_the_services_call_is_validated() -> None:
    called = {f"{service}:{operation.name}" for service, operation in find_operations()}
    assert {"s3:ListObjectsV2", "s3:HeadObject", "athena:GetWorkGroup", "glue:GetDatabases"} <= called
    assert called - DIRECT.keys() == set()


OTHER_CALLS = (
    *("caller.aws.call('s3', 'get_bucket_acl', Bucket=name)", "partial(aws.call, 's3', 'get_bucket_acl')"),
    *("aws.list_items('glue', 'get_partitions', 'Partitions')", "aws.call(service, operation)"),
    *("aws.call('s3', operation)", "aws.list_items(*names)", "aws.call('s3', 'make_coffee')"),
)


@pytest.mark.parametrize("call", OTHER_CALLS)
def test_a_call_of_another_operation_is_found(call: str, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(f"def read():\n    return {call}\n", encoding="utf-8")
    try:
        found = {f"{service}:{operation.name}" for service, operation in find_operations(tmp_path)}
    except UnknownOperationError:
        return
    assert found - DIRECT.keys()


def answer(status: int, body: object, **headers: str) -> dict[str, Any]:
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return {"status_code": status, "body": encoded, "headers": headers}


S3_ERROR = b"<Error><Code>NoSuchKey</Code><Message>m</Message></Error>"
OBJECTS = b"<ListBucketResult><Contents><Key>k</Key>%s</Contents></ListBucketResult>"


def coded(status: int, code: str, **more: str) -> dict[str, Any]:
    return answer(status, {"__type": code} | more)


def with_group(**fields: str) -> dict[str, Any]:
    return answer(200, {"WorkGroups": [{"Name": "a"} | fields]})


M, FAULTY = {"message": "m"}, "ThrottlingException"
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("glue:GetDatabases", answer(200, {}), "GetDatabases.DatabaseList is missing"),
    ("glue:GetDatabases", answer(200, {"DatabaseList": [{}]}), "GetDatabases.DatabaseList[0].Name is missing"),
    ("glue:GetTable", answer(200, {"Tabel": {}}), "GetTable.Tabel is not in the model"),
    ("glue:GetDatabases", coded(200, FAULTY, **M), "GetDatabases.__type is not in the model"),
    ("glue:GetTables", coded(500, FAULTY, **M), "ThrottlingException has the status 500"),
    ("glue:GetTables", coded(400, FAULTY), "ThrottlingException has no message"),
    ("athena:ListWorkGroups", answer(200, {"NextToken": None}), "ListWorkGroups.NextToken is None, not a string"),
    ("athena:ListWorkGroups", with_group(State="ON"), "[0].State is 'ON', not one of ENABLED, DISABLED"),
    ("athena:ListWorkGroups", with_group(CreationTime="2024-01-01"), "CreationTime is '2024-01-01', not a timestamp"),
    ("athena:ListWorkGroups", coded(400, "Oops", **M), "the code Oops is not documented"),
    ("athena:GetWorkGroup", coded(400, "EntityNotFoundException", **M), "not documented"),
    ("s3:ListObjectsV2", answer(200, OBJECTS % b"<Size>big</Size>"), "Size is 'big', not a long"),
    ("s3:ListObjectsV2", answer(200, OBJECTS % b"<Colour/>"), "Colour is not in the model"),
    ("s3:ListObjectsV2", answer(200, OBJECTS % b"<StorageClass>BIG</StorageClass>"), "is 'BIG', not one of"),
    ("s3:ListObjectsV2", answer(200, OBJECTS % b"<LastModified>today</LastModified>"), "is 'today', not a timestamp"),
    ("s3:HeadObject", answer(200, b"", **{"x-amz-colour": "red"}), "the header x-amz-colour is not in the model"),
    ("s3:HeadObject", answer(200, b"", **{"Last-Modified": "today"}), "is 'today', not a http date"),
    ("s3:HeadObject", answer(403, b"<Error/>"), "has a body"),
    ("s3:GetObject", answer(304, b"Not Modified"), "has a body"),
    ("s3:HeadBucket", answer(418, b""), "the status 418 is not documented"),
    ("s3:GetObject", answer(400, S3_ERROR), "has the status 400"),
    ("sts:GetCallerIdentity", answer(200, b"<GetCallerIdentityResponse/>"), "there is no result"),
]


@pytest.mark.parametrize(("name", "response", "fault"), WRONG)
def test_a_wrong_response_is_found(name: str, response: dict[str, Any], fault: str) -> None:
    service, operation = name.split(":")
    assert [found for found in find_faults(service, operation, response) if fault in found]


def test_a_wrong_code_of_the_failing_endpoint_is_found(validation: Validation) -> None:
    errors = {**failing_aws.ERRORS["broken"], "athena": Error("InternalErrorException", failing_aws.EXPIRED.status)}
    with patch.dict(failing_aws.ERRORS, {"broken": errors}), enter_stopped("aws_broken"), suppress(ClientError):
        quilt3.get_boto3_session().client("athena").list_work_groups()
    assert validation.faults == {"athena:ListWorkGroups: the code InternalErrorException is not documented"}

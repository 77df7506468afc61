"""quilt://buckets/{bucket}: parts that fail alone, values of CloudWatch, and buckets of every size."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest
from moto.iam.models import iam_backends
from moto.s3.models import s3_backends

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.demo.account import ACCOUNT_ID
from quilt_mcp.demo.aws import make_document, make_statement, split_iam_name
from quilt_mcp.demo.graphql import Endpoint
from quilt_mcp.demo.world import World
from quilt_mcp.services.bucket_overview import OPERATIONS
from quilt_mcp.services.bucket_size import STORAGE_TYPES
from tests.services.test_situations import Reply, answering, s3_error
from tests.support.python_caller import read, read_error
from tests.support.quilt_fakes import NOT_UNDERSTOOD, answer_queries, refuse
from tests.support.raw_server import make_response, raw_server

RAW = "acme-raw-sequencing"
README = "README.md"


async def show(bucket: str) -> JSONObject:
    return await read(f"quilt://buckets/{bucket}")


def allow_metrics(world: World, role: str = "DataPlatform") -> None:
    """Give a role the right to read metrics, as an administrator of AWS can."""
    _, name = split_iam_name(world.company, world.company.find_role(role))
    document = make_document(make_statement(["cloudwatch:GetMetricData"], ["*"]))
    iam_backends[ACCOUNT_ID]["aws"].put_role_policy(name, "metrics", document)


def put(bucket: str, key: str, content: bytes) -> None:
    s3_backends[ACCOUNT_ID]["aws"].put_object(bucket, key, content)


async def test_a_bucket_without_objects_has_no_size_and_no_folders(fresh_world: World) -> None:
    allow_metrics(fresh_world)
    s3_backends[ACCOUNT_ID]["aws"].get_bucket(RAW).keys.clear()
    found = await show(RAW)
    assert found["size"] is None
    assert "has no objects" in found["size_error"]
    assert (found["folders"], found.get("folders_truncated"), found["folders_error"]) == ([], None, None)
    assert (found["readme"], found["readme_error"]) == (None, "The bucket has no README.md at its root.")


def series(*values: tuple[int, float], status: str = "Complete", number: int = 0) -> dict[str, object]:
    """Return a result of GetMetricData: values by the day of January 2026."""
    days = [datetime(2026, 1, day, tzinfo=UTC).timestamp() for day, _ in values]
    return {
        "Id": f"m{number}",
        "Label": "x",
        "Timestamps": days,
        "Values": [value for _, value in values],
        "StatusCode": status,
    }


OBJECTS = len(STORAGE_TYPES)
"""The number of the query for the number of objects."""


RESULTS_OF_CLOUDWATCH: list[tuple[Mapping[int, dict[str, object]], tuple[object, ...], str | None]] = [
    ({0: series((2, 5.0), (3, 7.0)), OBJECTS: series((3, 2.0), number=OBJECTS)}, (7, 2, "2026-01-03T00:00:00Z"), None),
    # The bucket has lost the storage type 1 since: only values of the same day are added.
    (
        {0: series((3, 7.0)), 1: series((2, 9.0), number=1), OBJECTS: series((3, 2.0), number=OBJECTS)},
        (7, 2, ...),
        None,
    ),
    ({0: series((3, 0.0)), OBJECTS: series((3, 0.0), number=OBJECTS)}, (0, 0, ...), None),
    ({0: series((3, 9e15))}, (9_000_000_000_000_000, None, ...), "no number of objects of this day"),
    ({OBJECTS: series((3, 2.0), number=OBJECTS)}, (None, 2, ...), "no size of this day"),
    ({0: series((3, 7.0), status="InternalError")}, (None, None, None), "did not send all values"),
    ({0: series((3, 7.0), status="Forbidden")}, (None, None, None), "did not send all values"),
]


@pytest.mark.parametrize(("given", "expected", "reason"), RESULTS_OF_CLOUDWATCH)
async def test_only_complete_values_of_the_newest_day_are_added(
    given: Mapping[int, dict[str, object]], expected: tuple[object, ...], reason: str | None, fresh_world: World
) -> None:
    rows = [given.get(number, series(number=number)) for number in range(OBJECTS + 1)]
    with answering({"cloudwatch.GetMetricData": Reply({"MetricDataResults": rows})}):
        found = await show(RAW)
    shown = [found[name] for name in ("size", "object_count", "measured_at")]
    assert [value for value, wanted in zip(shown, expected, strict=True) if wanted is not ...] == [
        wanted for wanted in expected if wanted is not ...
    ]
    assert found["size_error"] is None if reason is None else reason in found["size_error"]


async def test_a_replaced_cloudwatch_is_named(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [series((3, 7.0), number=number) for number in range(OBJECTS + 1)]
    body = json.dumps({"MetricDataResults": rows}).encode()
    with raw_server(
        lambda _: [make_response("200 OK", body, "Content-Type: application/x-amz-json-1.0")]
    ) as cloudwatch:
        monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", cloudwatch.url)
        found = await show(RAW)
    assert found["aws_endpoint"] == {"cloudwatch": "127.0.0.1"}
    assert found["size"] == 7 * OBJECTS


@pytest.mark.parametrize(
    ("content", "shown", "is_cut"),
    [
        (b"", "", False),
        (b"\xef\xbb\xbf# Title\r\n", "# Title\r\n", False),
        (b"x" * 4000, "x" * 4000, False),
        (b"x" * 4001, "x" * 4000, True),
        ("🧬".encode() * 4000, "🧬" * 4000, False),
        ("🧬".encode() * 5000, "🧬" * 4000, True),
        (b"abc" + "🧬".encode() * 5000, "abc" + "🧬" * 3997, True),
        (b"# Data\n" * 1_500_000, ("# Data\n" * 572)[:4000], True),  # 10 MB
    ],
    ids=["empty", "mark", "4000", "4001", "wide", "wide and cut", "cut in a character", "10 MB"],
)
async def test_a_readme_is_cut_at_4000_characters(
    content: bytes,
    shown: str,
    is_cut: bool,  # noqa: FBT001 - a column of the table
    fresh_world: World,
) -> None:
    put(RAW, README, content)
    found = await show(RAW)
    assert (found["readme"], found.get("readme_truncated"), found["readme_error"]) == (shown, is_cut or None, None)


@pytest.mark.parametrize(
    "content", ["Größe".encode("latin-1"), "x".encode("utf-16"), b"\x89PNG\r\n\x1a\n", b"cut \xf0\x9f\xa7"]
)
async def test_a_readme_in_another_encoding_is_not_shown(content: bytes, fresh_world: World) -> None:
    put(RAW, README, content)
    found = await show(RAW)
    assert (found["readme"], found.get("readme_truncated")) == (None, None)
    assert found["readme_error"] == "README.md is no text in UTF-8."
    assert found["folders"]


async def test_of_many_folders_the_first_hundred_are_shown(fresh_world: World) -> None:
    for number in range(1200):
        put(RAW, f"plate-{number:04}/a.csv", b"x")
    found = await show(RAW)
    assert (len(found["folders"]), found.get("folders_truncated")) == (100, True)
    uri = f"quilt://buckets/{RAW}/objects?prefix=plate-0096%2F"
    assert found["folders"][-1] == {"name": "plate-0096", "kind": "folder", "size": None, "uri": uri}
    assert found["readme"]


@pytest.mark.parametrize(("operation", "part"), [("GetObject", "readme"), ("ListObjectsV2", "folders")])
async def test_a_throttled_call_hides_no_other_part(operation: str, part: str, fresh_world: World) -> None:
    allow_metrics(fresh_world)
    with answering({f"s3.{operation}": s3_error("SlowDown", HTTPStatus.SERVICE_UNAVAILABLE)}):
        found = await show(RAW)
    assert found[part] is None
    assert found[f"{part}_error"].startswith("AWS is throttling requests.")
    other = {"readme": "folders", "folders": "readme"}[part]
    assert found[other]
    assert found["size"]


async def test_a_stack_that_knows_none_of_the_queries_is_named(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_queries(monkeypatch, dict.fromkeys(OPERATIONS, NOT_UNDERSTOOD))
    error = await read_error(f"quilt://buckets/{RAW}")
    assert error.message == "The Quilt stack does not know this query for a bucket."
    assert "March 2022" in error.suggested_actions[0]


PARTS: list[tuple[str, dict[str, object], dict[str, str]]] = [
    ("Query.packages", {"package_count": None}, {"package_count_error": "packages"}),
    ("PackageList.total", {"package_count": None}, {"package_count_error": "packages.total"}),
    ("Query.bucketAccessCounts", {"access_counts": None}, {"access_counts_error": "counts"}),
    ("BucketAccessCounts.byExt", {"access_counts": None}, {"access_counts_error": "counts.by_extension"}),
    (
        "BucketConfig.lastIndexed",
        {"last_indexed_at": None, "title": "Raw sequencing runs"},
        {"last_indexed_at_error": "config"},
    ),
    ("BucketConfig.associatedRoles", {"access_source": "collaborators"}, {}),
    ("Query.bucket", {"access_source": "roles"}, {}),
    (
        "BucketConfig.title",
        {"title": "Raw sequencing runs", "last_indexed_at": None},
        {"last_indexed_at_error": "config.title"},
    ),
    ("Query.bucketConfig", {"access_source": "collaborators", "title": "Raw sequencing runs"}, {}),
    (
        "BucketConfig.description",
        {"description": "Runs of all instruments, as they were measured", "last_indexed_at": "2025-05-28T04:00:00Z"},
        {},
    ),
]


@pytest.mark.parametrize(("failing", "expected", "reasons"), PARTS, ids=[row[0] for row in PARTS])
async def test_a_part_that_the_stack_cannot_read_hides_no_other_part(
    failing: str, expected: dict[str, object], reasons: dict[str, str], fresh_world: World
) -> None:
    fresh_world.stack.endpoint = Endpoint(failing_fields=[failing])
    found = await show(RAW)
    assert {name: found[name] for name in expected} == expected
    for name, text in reasons.items():
        assert f"GraphQL error at {text}" in found[name]
    assert (found["readme"], found["name"]) == ("# Raw sequencing runs\n", RAW)


async def test_an_unknown_time_of_the_index_hides_no_title(fresh_world: World) -> None:
    """The role does not include this bucket, so only its configuration has the title."""
    fresh_world.stack.endpoint = Endpoint(failing_fields=["BucketConfig.lastIndexed"])
    found = await show("acme-clinical-trials")
    assert (found["title"], found["last_indexed_at"]) == ("Clinical trials", None)
    assert "GraphQL error at config.last_indexed_at" in found["last_indexed_at_error"]


async def test_a_storage_type_that_cloudwatch_leaves_out_makes_the_size_unknown(fresh_world: World) -> None:
    rows = [series((3, 7.0), number=number) for number in range(OBJECTS)]
    with answering({"cloudwatch.GetMetricData": Reply({"MetricDataResults": rows})}):
        found = await show(RAW)
    assert (found["size"], found["size_error"]) == (None, "CloudWatch did not send all values. Repeat the call.")


async def test_an_error_without_a_place_concerns_only_what_is_missing(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = {"name": RAW, "title": "Raw", "description": None, "tags": None, "relevance": 0}
    config = {**titles, "last_indexed_at": "2025-05-28T04:00:00+00:00"}
    data = {"config": config, "bucket": None, "access": None, "packages": {"total": 1}, "counts": None}
    answer_queries(monkeypatch, {"bucketOverview": {"data": data, "errors": [{"message": "Unauthorized"}]}})
    found = await show(RAW)
    assert (found["title"], found["package_count"], found["package_count_error"]) == ("Raw", 1, None)
    assert (found["last_indexed_at"], found["last_indexed_at_error"]) == ("2025-05-28T04:00:00Z", None)
    assert "GraphQL error at stack" in found["access_counts_error"]
    assert "GraphQL error at stack" in found["access_error"]


async def test_if_the_stack_names_no_users_the_reason_is_said(fresh_world: World) -> None:
    fresh_world.stack.endpoint = Endpoint(failing_fields=["BucketConfig.associatedRoles", "Bucket.collaborators"])
    found = await show(RAW)
    assert [found[name] for name in ("readers", "reader_count", "writers", "writer_count", "access_source")] == [
        None
    ] * 5
    assert "GraphQL error at access.roles" in found["access_error"]
    assert "administrators only" in found["access_error"]
    assert (found["last_indexed_at"], found["title"]) == ("2025-05-28T04:00:00Z", "Raw sequencing runs")


async def test_if_the_stack_cannot_read_the_bucket_nothing_is_claimed(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_world.stack.endpoint = Endpoint(failing_fields=["Query.bucket", "Query.bucketConfig"])
    assert (await read_error(f"quilt://buckets/{RAW}")).message == "The Quilt stack could not read the data."
    answer_queries(monkeypatch, {"bucketOverview": refuse(["config"])})
    assert (await read_error(f"quilt://buckets/{RAW}")).error == "ResourceExecutionError"


async def test_many_users_are_cut_and_counted(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    level = ("READ", "READ_WRITE")
    people = [{"collaborator": {"username": f"user{at:04}"}, "permissionLevel": level[at % 2]} for at in range(5000)]
    titles = {"name": RAW, "title": "Raw", "description": None, "tags": None, "relevance": 0}
    data: dict[str, Any] = {
        "config": {**titles, "last_indexed_at": None},
        "bucket": {**titles, "collaborators": people},
        "access": None,
        "packages": {"total": 3_000_000_000},
        "counts": None,
    }
    answer_queries(monkeypatch, {"bucketOverview": {"data": data}})
    found = await show(RAW)
    assert (len(found["readers"]), found["reader_count"]) == (100, 5000)
    assert (found["writers"][0], found["writer_count"]) == ("user0001", 2500)
    assert (found["package_count"], found["last_indexed_at"], found["last_indexed_at_error"]) == (
        3_000_000_000,
        None,
        None,
    )

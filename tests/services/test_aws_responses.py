"""Responses with status 200 that do not come from AWS, such as the page of a proxy, are failures, not empty answers."""

import json
from http import HTTPStatus
from itertools import product
from typing import Any

import pytest
from botocore.credentials import RefreshableCredentials

from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.world import World
from tests.support.python_caller import read, read_error
from tests.support.silent_server import SilentServer

NOT_FROM_AWS = "AWS did not return a valid response."
PAGE = b"<!doctype html><title>Blocked by policy</title><p>Ask the help desk."
LATIN = "<p>Gesperrt für Sie".encode("latin-1")
BODIES: tuple[Any, ...] = (PAGE, b"", {"error": 1}, LATIN, [], None)
FOR_S3 = {
    (HTTPStatus.OK, PAGE): "AWS could not process the request.",  # botocore reads it as a failure of S3
    (HTTPStatus.OK, b""): NOT_FROM_AWS,
    (HTTPStatus.OK, b"<html><p>Blocked</p></html>"): NOT_FROM_AWS,
    (HTTPStatus.FOUND, b""): NOT_FROM_AWS,  # a page to sign in
}
MISSING = {"__type": "EntityNotFoundException"}
URIS = [
    "athena://databases",
    "athena://workgroups",
    "athena://query/history",
    "athena://databases/acme_sequencing/tables",
    "athena://databases/acme_sequencing/tables/run_metrics",
    "permissions://discover",
    "permissions://recommendations",
    "permissions://buckets/acme-raw-sequencing/access",
    "metadata://workflows/acme-raw-sequencing",
]


async def test_a_response_that_is_not_from_aws_is_a_failure(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    body: object = None
    with SilentServer(lambda _: Answer(HTTPStatus.OK, body)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        for body, uri in product(BODIES, URIS):
            error = await read_error(uri)
            found = (uri, body, error.message, error.transient, error.suggested_actions[0])
            assert found == (uri, body, NOT_FROM_AWS, True, "Repeat the call.")


async def test_a_bug_on_the_way_to_aws_is_not_taken_for_its_response(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RefreshableCredentials, "create_from_metadata", lambda **_: int("bug"))
    assert (await read_error("athena://databases")).message == "Internal server error."


async def test_a_bucket_is_unknown_if_something_else_answers_instead_of_s3(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SilentServer(lambda _: Answer(status, body)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)
        for (status, body), message in FOR_S3.items():
            answer = await read("permissions://discover")
            assert answer["sources"] == {"registry": "read", "s3": f"not read: {message}"}, (status, body)
            assert {one["error"] for one in answer["bucket_permissions"]} == {message}, (status, body)
            assert {one["can_list"] for one in answer["bucket_permissions"]} == {None}, body


async def test_the_details_of_a_data_catalog_are_not_assumed(
    fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = {"WorkGroups": [{"Name": "primary"}]}

    def respond(request: Any) -> Answer:
        is_list = request.target == "AmazonAthena.ListWorkGroups"
        return Answer(HTTPStatus.OK, groups if is_list else PAGE)

    with SilentServer(respond) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_ATHENA", proxy.url)
        answer = await read("athena://workgroups")
    assert answer["workgroups"][0]["details_error"] == NOT_FROM_AWS
    assert answer["recommended"]["tabulator_data_catalog_exists"] is None


NAMED, OTHER, TAG = "quilt-acme-icebergdatabase", "quilt-northwind-icebergdatabase", "acme-analysis-results_package_tag"
EMPTY: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("account", "expected"),
    [
        ({NAMED: [EMPTY, EMPTY, (TAG,)]}, NAMED),
        ({NAMED: [EMPTY, EMPTY], OTHER: [("northwind-data_package_tag",)]}, None),
        ({"a-iceberg": None, OTHER: [(TAG,)]}, OTHER),
        ({NAMED: None}, None),
    ],
)
async def test_the_database_of_packages_is_that_of_the_stack(
    account: dict[str, list[tuple[str, ...]] | None],
    expected: str | None,
    fresh_world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Glue filters the tables of a page after it has read them, so pages before the first table can be empty."""

    def respond(request: Any) -> Answer:
        asked, operation = json.loads(request.body), request.target.partition(".")[2]
        if operation == "GetDatabases":
            return answer({"DatabaseList": [{"Name": name} for name in account]})
        if (pages := account[asked["DatabaseName"]]) is None:
            return answer({"__type": "AccessDeniedException"}, HTTPStatus.BAD_REQUEST)
        if operation == "GetTable":
            has_table = any(asked["Name"] in page for page in pages)
            return answer({"Table": {"Name": asked["Name"]}}) if has_table else answer(MISSING, HTTPStatus.BAD_REQUEST)
        at = int(asked.get("NextToken", 0))
        more = {"NextToken": str(at + 1)} if at + 1 < len(pages) else {}
        return answer({"TableList": [{"Name": name} for name in pages[at]]} | more)

    with SilentServer(respond) as aws:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", aws.url)
        found = (await read("athena://workgroups"))["recommended"]
    assert found["iceberg_database"] == expected
    assert ("not allowed" in found["iceberg_reason"]) is (None in account.values() and expected is None)
    assert (f"the stack's: {NAMED}, {OTHER}." in found["iceberg_reason"]) is (account.keys() == {NAMED, OTHER})


def answer(body: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(status, body, (("Content-Type", "application/x-amz-json-1.1"),))

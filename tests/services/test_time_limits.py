"""Time limits: each request to a system that accepts it and does not respond ends by its own limit."""

import asyncio
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import botocore.endpoint
import pytest
import quilt3.session
import quilt3.util
from fastmcp import Client

from quilt_mcp.demo.http_server import Answer, Request
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from quilt_mcp.tools.resource_access import get_resource
from tests.contract.surfaces import ask
from tests.support import apps
from tests.support.raw_server import raw_server
from tests.support.settings import Settings
from tests.support.silent_server import SilentServer
from tests.support.waiting import SECONDS, threads_reading, until

AWS_LATE, STACK_LATE = "AWS did not respond in time.", "The Quilt stack did not respond in time."
ATTEMPTS = 2  # of botocore, for each operation
ATHENA_ATTEMPTS = 3

Answers = Callable[[Request], Answer | None]


async def read(uri: str) -> dict[str, Any]:
    """Read a resource with the settings of the environment."""
    apps.use_settings(Settings())
    async with asyncio.timeout(SECONDS):
        return (await get_resource(uri)).body()


def check_late(body: dict[str, Any], message: str) -> None:
    assert (body.get("error"), body.get("message")) == ("ResourceExecutionError", message)
    assert body["transient"] is True
    assert body["suggested_actions"][0] == "Repeat the call in a minute."


async def check_requests(server: SilentServer, expected: list[str]) -> None:
    """Check what the server received. On a busy machine a request can arrive after its client has given up."""
    await until(lambda: len(server.asked) >= len(expected))
    assert server.asked == expected


@pytest.fixture(autouse=True)
def short_timeout(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "0.3")  # who is asked is silent


@pytest.fixture
def _repeat_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let botocore's clients repeat a call without the pause that depends on the number of the attempt."""
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda _: None))


ONE_KEY = b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>data/1</Key></Contents></ListBucketResult>"


def move_stack(url: str, **changes: Any) -> None:
    """Change the login to a stack at another address, with these changes to its tokens."""
    config = dict(quilt3.util.load_config()) | {"navigator_url": url, "registryUrl": url}
    quilt3.util.write_yaml(config, quilt3.util.CONFIG_PATH)
    [tokens] = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8")).values()
    quilt3.session.AUTH_PATH.write_text(json.dumps({url: tokens | changes}), encoding="utf-8")


async def test_a_query_to_the_stack_has_a_time_limit() -> None:
    with SilentServer() as stack:
        move_stack(stack.url)
        for body in await asyncio.gather(read("admin://users"), read("tabulator://buckets")):
            check_late(body, STACK_LATE)
        await check_requests(stack, ["POST /graphql"] * 2)


async def test_renewing_the_token_has_a_time_limit() -> None:
    with SilentServer() as stack:
        move_stack(stack.url, expires_at=0)
        check_late(await read("admin://users"), STACK_LATE)
        await check_requests(stack, ["POST /api/token"])


def respond_except(path: str) -> Answers:
    """Return the responses of a stack that knows the caller. It does not respond on one path."""
    me = {"name": "ann", "email": "ann@acme.example", "is_admin": False, "role": {"name": "R"}, "roles": []}
    return lambda request: None if request.path == path else Answer(HTTPStatus.OK, {"data": {"me": me}})


@pytest.mark.soak
async def test_fetching_aws_credentials_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "6")  # enough for the queries before
    with SilentServer(respond_except("/api/auth/get_credentials")) as stack:
        move_stack(stack.url)
        check_late(await read("athena://databases"), STACK_LATE)
        await check_requests(stack, ["POST /graphql", "GET /api/auth/get_credentials"])


async def test_resources_that_do_not_need_the_stack_return_data_if_it_is_silent() -> None:
    with SilentServer() as stack:
        move_stack(stack.url)
        uris = ("auth://status", "auth://catalog/info", "permissions://discover")
        status, info, discovered = await asyncio.gather(*(read(uri) for uri in uris))
        assert status["data"]["status"] == "unreachable"
        assert info["data"]["config_json"] == f"unavailable: {STACK_LATE}"
        check_late(discovered, STACK_LATE)
        await until(lambda: len(stack.asked) >= len(uris))
        assert Counter(stack.asked) == {"POST /graphql": 2, "GET /config.json": 1}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("service", "uri", "call"),
    [
        ("STS", "permissions://discover", "POST /"),
        ("GLUE", "athena://databases", "AWSGlue.GetDatabases"),
        ("ATHENA", "athena://workgroups", "AmazonAthena.ListWorkGroups"),
        ("ATHENA", "athena://query/history", "AmazonAthena.ListWorkGroups"),
    ],
)
async def test_a_call_to_aws_has_a_time_limit(
    service: str, uri: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SilentServer() as aws:
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", aws.url)
        check_late(await read(uri), AWS_LATE)
        await check_requests(aws, [call] * (ATHENA_ATTEMPTS if service == "ATHENA" else ATTEMPTS))


@pytest.mark.soak
async def test_buckets_of_the_stack_are_unknown_if_s3_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    with SilentServer() as s3:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
        data = (await read("permissions://discover"))["data"]
        assert data["sources"] == {"registry": "read", "s3": f"not read: {AWS_LATE}"}
        errors = {row["name"]: (row["permission_level"], row["error"]) for row in data["bucket_permissions"]}
        assert set(errors.values()) == {("unknown", AWS_LATE)}
        calls = ["GET /", *(f"GET /{name}" for name in errors)]
        assert Counter(s3.asked) == dict.fromkeys(calls, ATTEMPTS)


def respond_for_workgroups(silent: str) -> Answers:
    """Return Athena's responses for two workgroups. One of them does not respond."""

    def answer(request: Request) -> Answer | None:
        if request.target == "AmazonAthena.ListWorkGroups":
            return Answer(HTTPStatus.OK, {"WorkGroups": [{"Name": "quick"}, {"Name": silent}]})
        is_silent = json.loads(request.body)["WorkGroup"] == silent
        return None if is_silent else Answer(HTTPStatus.OK, {"WorkGroup": {}, "QueryExecutionIds": []})

    return answer


@pytest.mark.soak
@pytest.mark.parametrize(("limit", "reason"), [("READ_TIMEOUT", AWS_LATE), ("PROBE", "not reached in time")])
async def test_a_silent_workgroup_affects_its_own_row_only(
    limit: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "6")
    monkeypatch.setenv(f"QUILT_MCP_{limit}_SECONDS", "2")  # enough for the other workgroup
    with SilentServer(respond_for_workgroups("silent")) as athena:
        monkeypatch.setenv("AWS_ENDPOINT_URL_ATHENA", athena.url)
        rows = (await read("athena://workgroups"))["data"]["workgroups"]
        assert {row["name"]: row["details_available"] for row in rows} == {"quick": True, "silent": False}
        history = (await read("athena://query/history"))["data"]
        assert history["workgroups"] == ["quick"]
        assert history["workgroups_unavailable"] == [{"name": "silent", "reason": reason}]


async def test_the_deadline_ends_a_read_on_both_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "10")
    monkeypatch.setenv("QUILT_MCP_PROBE_SECONDS", "0.1")  # the stack is silent
    monkeypatch.setenv("QUILT_MCP_DEADLINE_SECONDS", "0.2")  # the same
    with SilentServer() as stack:
        move_stack(stack.url)
        async with asyncio.timeout(SECONDS), Client(create_server()) as client:
            answer = await ask(client, "admin://config/sso")
        check_late(answer.body, "admin://config/sso did not respond within 0.2 seconds.")


async def test_a_cancelled_read_requests_no_more_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = itertools.count()

    def answer(_: Request) -> Answer:
        return Answer(HTTPStatus.OK, {"DatabaseList": [], "NextToken": str(next(tokens))})

    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "60")
    with SilentServer(answer) as glue:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", glue.url)
        reading = asyncio.create_task(read("athena://databases"))
        await until(lambda: len(glue.asked) > 2)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await until(lambda: threads_reading() == [])


@pytest.mark.usefixtures("_repeat_at_once")
async def test_a_throttled_call_is_retried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "60")
    throttled = Answer(HTTPStatus.BAD_REQUEST, {"__type": "ThrottlingException", "message": "Rate exceeded"})
    with SilentServer(lambda _: throttled) as glue:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", glue.url)
        check_late(await read("athena://databases"), "AWS is throttling requests.")
        await check_requests(glue, ["AWSGlue.GetDatabases"] * ATTEMPTS)


@pytest.mark.soak  # waits two seconds for botocore
@pytest.mark.usefixtures("_repeat_at_once")
async def test_a_throttled_call_to_athena_ends_while_the_clock_of_the_machine_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """botocore's adaptive retry mode would wait for it."""
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "60")
    throttled = Answer(HTTPStatus.BAD_REQUEST, {"__type": "ThrottlingException", "message": "Rate exceeded"})
    with SilentServer(lambda _: throttled) as athena:
        monkeypatch.setenv("AWS_ENDPOINT_URL_ATHENA", athena.url)
        check_late(await read("athena://workgroups"), "AWS is throttling requests.")
        await check_requests(athena, ["AmazonAthena.ListWorkGroups"] * ATHENA_ATTEMPTS)


@pytest.mark.parametrize("status", [HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE])
async def test_a_request_to_a_failing_stack_is_not_repeated(
    status: HTTPStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "60")
    with SilentServer(lambda _: Answer(status, {})) as stack:
        move_stack(stack.url)
        check_late(await read("admin://users"), "The Quilt stack could not process the request.")
        await check_requests(stack, ["POST /graphql"])


def drip(over: threading.Event) -> Iterator[bytes]:
    """Start to respond, then send one byte at a time."""
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
    while not over.wait(0.05):
        yield b"x"


async def test_a_body_that_arrives_one_byte_at_a_time_is_limited_as_a_whole() -> None:
    over = threading.Event()
    with raw_server(lambda _: drip(over)) as stack:
        move_stack(stack.url)
        check_late(await read("admin://users"), STACK_LATE)
        await until(lambda: threads_reading() == [])
        over.set()

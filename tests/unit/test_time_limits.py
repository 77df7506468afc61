"""Nothing waits for ever: each call to a system that accepts it and never answers ends by its own limit."""

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Self

import pytest
import quilt3.session
import quilt3.util
from fastmcp import Client

from quilt_mcp import runtime_context
from quilt_mcp.demo.http_server import Answer, Request
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings
from quilt_mcp.tools.resource_access import get_resource
from tests.contract.surfaces import ask
from tests.silent_server import SilentServer
from tests.waiting import SECONDS, threads_reading, until

AWS_LATE, STACK_LATE = "AWS did not answer in time.", "The Quilt stack did not answer in time."
ATTEMPTS = 2  # at an operation of AWS, by botocore's own retries

Answers = Callable[[Request], Answer | None]


async def read(uri: str) -> dict[str, Any]:
    """The answer under the environment's settings."""
    runtime_context.use_settings(Settings())
    async with asyncio.timeout(SECONDS):
        return (await get_resource(uri)).body()


def check_late(body: dict[str, Any], message: str) -> None:
    assert (body.get("error"), body.get("message")) == ("ResourceExecutionError", message)
    assert body["transient"] is True
    assert "again in" in body["suggested_actions"][0]


@pytest.fixture(autouse=True)
def impatient(fresh_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "0.2")


def move_stack(url: str, **changes: Any) -> None:
    """Let the sign-in be one to a stack at another address, with these changes to its tokens."""
    config = dict(quilt3.util.load_config()) | {"navigator_url": url, "registryUrl": url}
    quilt3.util.write_yaml(config, quilt3.util.CONFIG_PATH)
    [tokens] = json.loads(quilt3.session.AUTH_PATH.read_text(encoding="utf-8")).values()
    quilt3.session.AUTH_PATH.write_text(json.dumps({url: tokens | changes}), encoding="utf-8")


@pytest.mark.parametrize("uri", ["admin://users", "tabulator://buckets"])
async def test_a_query_to_the_registry_is_limited(uri: str) -> None:
    with SilentServer() as stack:
        move_stack(stack.url)
        check_late(await read(uri), STACK_LATE)
        assert stack.asked == ["POST /graphql"]


async def test_the_renewal_of_the_token_is_limited() -> None:
    with SilentServer() as stack:
        move_stack(stack.url, expires_at=0)
        check_late(await read("admin://users"), STACK_LATE)
        assert stack.asked == ["POST /api/token"]


async def test_the_fetching_of_aws_credentials_is_limited() -> None:
    with SilentServer() as stack:
        move_stack(stack.url)
        quilt3.session.CREDENTIALS_PATH.unlink()
        check_late(await read("athena://databases"), STACK_LATE)
        assert stack.asked == ["GET /api/auth/get_credentials"]


async def test_what_does_not_need_the_stack_is_answered_though_it_is_silent() -> None:
    with SilentServer() as stack:
        move_stack(stack.url)
        assert (await read("auth://status"))["data"]["status"] == "unreachable"
        assert (await read("auth://catalog/info"))["data"]["config_json"] == f"unavailable: {STACK_LATE}"
        sources = (await read("permissions://discover"))["data"]["sources"]
        assert sources == {"registry": f"not read: {STACK_LATE}", "s3": "read"}
        assert stack.asked == ["POST /graphql", "GET /config.json", "POST /graphql"]


@pytest.mark.parametrize(
    ("service", "uri", "call"),
    [
        ("STS", "permissions://discover", "POST /"),
        ("GLUE", "athena://databases", "AWSGlue.GetDatabases"),
        ("ATHENA", "athena://workgroups", "AmazonAthena.ListWorkGroups"),
        ("ATHENA", "athena://query/history", "AmazonAthena.ListWorkGroups"),
    ],
)
async def test_a_call_to_aws_is_limited(service: str, uri: str, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with SilentServer() as aws:
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", aws.url)
        check_late(await read(uri), AWS_LATE)
        assert aws.asked == [call] * ATTEMPTS


async def test_a_silent_s3_leaves_the_buckets_of_the_registry_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    with SilentServer() as s3:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
        data = (await read("permissions://discover"))["data"]
        assert data["sources"] == {"registry": "read", "s3": f"not read: {AWS_LATE}"}
        errors = {row["name"]: (row["permission_level"], row["error_message"]) for row in data["bucket_permissions"]}
        assert set(errors.values()) == {("unknown", AWS_LATE)}
        calls = ["GET /", *(f"HEAD /{name}" for name in errors)]
        assert Counter(s3.asked) == dict.fromkeys(calls, ATTEMPTS)


async def test_a_silent_bucket_costs_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> Answer | None:
        _, bucket, *key = request.path.split("/")
        silent = {"acme-imaging-eu": True, "acme-raw-sequencing": bool(key)}  # as a whole; its objects only
        return None if silent.get(bucket, not bucket) else Answer(HTTPStatus.NOT_FOUND if key else HTTPStatus.OK, b"")

    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "1")  # the others have to answer in it
    with SilentServer(answer) as s3:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.url)
        rows = (await read("permissions://discover"))["data"]["bucket_permissions"]
        late = {row["name"] for row in rows if row["error_message"] == AWS_LATE}
        assert late == {row["name"] for row in rows if row["permission_level"] == "unknown"}
        assert late == {"acme-imaging-eu", "acme-raw-sequencing"}
        assert len(rows) > len(late)


def workgroups(silent: str) -> Answers:
    """Athena with two workgroups, one of which answers nothing."""

    def answer(request: Request) -> Answer | None:
        if request.target == "AmazonAthena.ListWorkGroups":
            return Answer(HTTPStatus.OK, {"WorkGroups": [{"Name": "quick"}, {"Name": silent}]})
        return None if json.loads(request.body)["WorkGroup"] == silent else Answer(HTTPStatus.OK, {"WorkGroup": {}})

    return answer


@pytest.mark.parametrize(("limit", "reason"), [("READ_TIMEOUT", AWS_LATE), ("PROBE", "not reached in time")])
async def test_a_silent_workgroup_costs_its_own_row(limit: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "3")
    monkeypatch.setenv(f"QUILT_MCP_{limit}_SECONDS", "1")  # the other has to answer in it
    with SilentServer(workgroups("silent")) as athena:
        monkeypatch.setenv("AWS_ENDPOINT_URL_ATHENA", athena.url)
        rows = (await read("athena://workgroups"))["data"]["workgroups"]
        assert {row["name"]: row["details_available"] for row in rows} == {"quick": True, "silent": False}
        history = (await read("athena://query/history"))["data"]
        assert history["workgroups"] == ["quick"]
        assert history["workgroups_unavailable"] == [{"name": "silent", "reason": reason}]


async def test_the_deadline_ends_a_read_on_both_surfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_READ_TIMEOUT_SECONDS", "10")
    monkeypatch.setenv("QUILT_MCP_PROBE_SECONDS", "0.1")
    monkeypatch.setenv("QUILT_MCP_DEADLINE_SECONDS", "0.2")
    with SilentServer() as stack:
        move_stack(stack.url)
        async with asyncio.timeout(SECONDS), Client(create_server()) as client:
            answer = await ask(client, "admin://users")
        check_late(answer.body, "admin://users gave no answer within 0.2 seconds.")


async def test_a_read_that_was_given_up_asks_for_no_further_page(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Answer(HTTPStatus.OK, {"DatabaseList": [], "NextToken": "more"})
    with SilentServer(lambda _: endless) as glue:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", glue.url)
        reading = asyncio.create_task(read("athena://databases"))
        await until(lambda: len(glue.asked) > 2)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await until(lambda: threads_reading() == [])


async def test_a_throttled_call_is_repeated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    throttled = Answer(HTTPStatus.BAD_REQUEST, {"__type": "ThrottlingException", "message": "Rate exceeded"})
    with SilentServer(lambda _: throttled) as glue:
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", glue.url)
        check_late(await read("athena://databases"), "AWS is limiting the rate of calls.")
        assert glue.asked == ["AWSGlue.GetDatabases"] * ATTEMPTS


@pytest.mark.parametrize("status", [HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE])
async def test_a_stack_that_fails_is_not_asked_again(status: HTTPStatus) -> None:
    with SilentServer(lambda _: Answer(status, {})) as stack:
        move_stack(stack.url)
        check_late(await read("admin://users"), "The Quilt stack failed to answer.")
        assert stack.asked == ["POST /graphql"]


class DrippingServer:
    """Begins to answer every request, and sends a byte of the answer from time to time, for as long as it runs."""

    def __init__(self, start: bytes) -> None:
        self.connections: list[socket.socket] = []
        self._start, self._end = start, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._drip, args=(connection,), daemon=True))
                self._threads[-1].start()

    def _drip(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(self._start)
            while not self._end.wait(0.05):
                connection.sendall(b"x")


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"", STACK_LATE),
        (b"HTTP/1.1 200 OK\r\n", STACK_LATE),
        # requests calls it a failed connection where it had begun to read the body
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", "The Quilt stack cannot be reached."),
    ],
    ids=["status line", "header", "body"],
)
async def test_an_answer_that_comes_a_byte_at_a_time_is_limited_as_a_whole(start: bytes, message: str) -> None:
    with DrippingServer(start) as stack:
        move_stack(stack.url)
        check_late(await read("admin://users"), message)
        await until(lambda: threads_reading() == [])

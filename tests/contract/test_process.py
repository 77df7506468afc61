"""`quilt-mcp serve` as a process: its stdout and stderr, and its exit during a read."""

import json
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from quilt_mcp.demo.http_server import Answer, Request
from tests.support.server_process import StdioServerProcess, serve_stdio
from tests.support.silent_server import SilentServer
from tests.support.waiting import until

READ = re.compile(r"surface=(\w+) uri=(\S+) outcome=(\w+)")
WAITING = "permissions://discover"  # a read with many calls, each in its own thread
IDENTITY = (
    b"<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/a</Arn>"
    b"<UserId>A</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
)


def only_sts(request: Request) -> Answer | None:
    is_sts = (request.method, request.path) == ("POST", "/")
    return Answer(HTTPStatus.OK, IDENTITY) if is_sts else None


@pytest.fixture
def silent_aws() -> Iterator[SilentServer]:
    """Start an AWS server where only STS answers."""
    with SilentServer(only_sts) as aws:
        yield aws


@asynccontextmanager
async def reading(aws: SilentServer, home: Path, *, deadline: int) -> AsyncIterator[tuple[StdioServerProcess, int]]:
    """Start a server with a read in progress. Yield the server and the id of the request.

    Its calls time out after ten minutes. There is no Quilt sign-in, so it waits only for AWS.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home),
        "AWS_ENDPOINT_URL": aws.url,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "made-up",
        "AWS_DEFAULT_REGION": "us-east-1",
        "QUILT_MCP_READ_TIMEOUT_SECONDS": "600",
        "QUILT_MCP_PROBE_SECONDS": str(deadline / 5),
        "QUILT_MCP_DEADLINE_SECONDS": str(deadline),
    }
    async with serve_stdio(environment=environment) as server:
        await server.ask("resources/read", uri="auth://status")  # slow imports happen here, outside of the deadline
        await server.wait_for_log("surface=")
        number = await server.send("resources/read", uri=WAITING)
        await until(lambda: aws.asked == ["POST /", "GET /"])
        yield server, number


@pytest.mark.soak
async def test_sigterm_ends_the_server_during_a_read(silent_aws: SilentServer, tmp_path: Path) -> None:
    async with reading(silent_aws, tmp_path, deadline=600) as (server, _):
        server.send_signal(signal.SIGTERM)
        status, stdout, log = await server.end()
    assert (status, stdout) == (128 + signal.SIGTERM, "")
    assert "Traceback" not in log


@pytest.mark.soak
async def test_the_server_answers_the_pending_read_after_stdin_is_closed_and_ends(
    silent_aws: SilentServer, tmp_path: Path
) -> None:
    async with reading(silent_aws, tmp_path, deadline=10) as (server, number):
        server.stdin.close()
        status, stdout, log = await server.end()
    answer = json.loads(stdout)
    sources = json.loads(answer["result"]["contents"][0]["text"])["sources"]
    assert (status, answer["id"], sources["s3"]) == (0, number, "not read: not reached in time")
    assert READ.findall(log) == [("resource", WAITING, "ok")]


@pytest.mark.soak
async def test_the_server_ends_when_the_client_dies_during_a_read(silent_aws: SilentServer, tmp_path: Path) -> None:
    async with reading(silent_aws, tmp_path, deadline=10) as (server, _):
        server.stdin.close()
        server.close_stdout()
        status, _, log = await server.end()
    assert status == 0
    assert "Traceback" not in log


@pytest.mark.soak
async def test_a_cancelled_read_ends_at_once_and_the_next_is_answered(silent_aws: SilentServer, tmp_path: Path) -> None:
    async with reading(silent_aws, tmp_path, deadline=600) as (server, number):
        await server.notify("notifications/cancelled", requestId=number)
        log = await server.wait_for_log("surface=")
        assert READ.findall(log) == [("resource", WAITING, "cancelled")]
        next_one = await server.ask("tools/call", name="get_resource", arguments={"uri": "metadata://templates"})
        assert next_one["result"]["structuredContent"]["success"]
        server.stdin.close()
        status, stdout, _ = await server.end()
    assert (status, stdout) == (0, "")

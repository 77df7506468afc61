"""SIGTERM and SIGHUP over HTTP: what runs is finished, with any number of processes."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ctypes import c_bool
from functools import partial
from http import HTTPStatus
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest
from starlette.types import Message, Receive, Scope, Send

from quilt_mcp.commands.demo.http_server import Answer, Request
from quilt_mcp.commands.install import executable
from quilt_mcp.http.connections import Connection, ConnectionLimits
from quilt_mcp.http.layers import FinishRequests
from quilt_mcp.settings import HTTPSettings
from tests.http.load import Load, during
from tests.http.test_limits import connected
from tests.http.test_nginx import HOST, NGINX, PUBLIC, proxying
from tests.http.web import READ_QUICK, request, shop
from tests.support.server_process import HTTPServerProcess, serve_http
from tests.support.silent_server import SilentServer
from tests.support.waiting import SECONDS, until, until_awaited

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
WAITING = request("resources/read", uri="athena://databases")
QUICK = request("resources/read", uri="metadata://templates")
FOREVER = "600"
READS = 6
BOTH = pytest.mark.parametrize("workers", [(), ("--workers", "1"), ("--workers", "2")], ids=["none", "one", "two"])


class SlowAWS(SilentServer):
    """Denies each request to AWS, after the gate is open."""

    def __init__(self) -> None:
        self.gate = Event()
        super().__init__(self._deny)

    def _deny(self, _: Request) -> Answer:
        self.gate.wait(SECONDS)
        return Answer(400, {"__type": "AccessDeniedException", "Message": "no"})


@asynccontextmanager
async def serving(
    aws: SilentServer, directory: Path, *arguments: str, **environment: str
) -> AsyncIterator[tuple[HTTPServerProcess, httpx2.AsyncClient]]:
    given = {
        "AWS_ENDPOINT_URL": aws.url,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "made-up",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
        "QUILT_MCP_READ_TIMEOUT_SECONDS": FOREVER,
    }
    async with (
        serve_http(directory, *arguments, **given | environment) as server,
        httpx2.AsyncClient(base_url=url_of(server), trust_env=False, timeout=SECONDS) as client,
    ):
        yield server, client


def url_of(server: HTTPServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}"


async def is_refusing(server: HTTPServerProcess) -> bool:
    """Whether the server refuses new connections. One that was accepted at the last moment is closed."""
    try:
        async with connected(url_of(server)) as (reader, _):
            async with asyncio.timeout(0.1):
                await reader.read()
            return False
    except ConnectionRefusedError:
        return True
    except (ConnectionError, TimeoutError):
        return False


@pytest.mark.soak
@BOTH
async def test_reads_in_progress_are_answered_after_sigterm(workers: tuple[str, ...], tmp_path: Path) -> None:
    with SlowAWS() as aws:
        async with serving(aws, tmp_path, *workers) as (server, client):
            reading = [asyncio.create_task(client.post(**WAITING)) for _ in range(READS)]
            await until(lambda: len(aws.asked) >= READS)
            server.process.send_signal(signal.SIGTERM)
            await until_awaited(partial(is_refusing, server))
            assert server.process.returncode is None
            aws.gate.set()
            answers = await asyncio.gather(*reading)
            async with asyncio.timeout(SECONDS):
                assert await server.process.wait() == 0
            assert "Traceback" not in server.log
    assert {answer.status_code for answer in answers} == {HTTPStatus.OK}
    assert {answer.headers["connection"] for answer in answers} == {"close"}
    assert {answer.json()["error"]["data"]["error"] for answer in answers} == {"Unauthorized"}


@pytest.mark.soak
@BOTH
async def test_ready_is_503_and_requests_are_still_answered_during_the_pause(
    workers: tuple[str, ...], tmp_path: Path
) -> None:
    with SilentServer() as aws:
        async with serving(aws, tmp_path, *workers, QUILT_MCP_DRAIN_SECONDS=FOREVER) as (server, client):
            assert (await client.post(**QUICK)).status_code == HTTPStatus.OK
            server.process.send_signal(signal.SIGTERM)

            async def is_leaving() -> bool:
                return bool((await client.get("/ready")).json()["status"] == "shutting down")

            await until_awaited(is_leaving)
            ready, read = await client.get("/ready"), await client.post(**QUICK)
            assert ready.status_code == HTTPStatus.SERVICE_UNAVAILABLE
            assert (read.status_code, read.headers["connection"]) == (HTTPStatus.OK, "close")
            assert (await client.get("/health")).status_code == HTTPStatus.OK
            assert await server.stop(signal.SIGTERM) == 128 + signal.SIGTERM  # the second one ends it immediately
            assert "Traceback" not in server.log


@pytest.mark.soak
async def test_a_read_that_does_not_end_is_given_up(tmp_path: Path) -> None:
    with SilentServer() as aws:
        limits = {"QUILT_MCP_DEADLINE_SECONDS": "10", "QUILT_MCP_PROBE_SECONDS": "2"}
        async with serving(aws, tmp_path, **limits) as (server, client):
            reading = asyncio.create_task(client.post(**WAITING))
            await until(lambda: aws.asked)
            assert await server.stop(signal.SIGTERM) == 0
            assert (await reading).json()["error"]["data"]["transient"] is True
            assert "Traceback" not in server.log


async def test_a_request_that_is_cancelled_gets_503() -> None:
    sent: list[Message] = []

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    task = asyncio.create_task(FinishRequests(wait, c_bool(1))({"type": "http"}, receive, send))
    await asyncio.sleep(0)
    task.cancel()
    await task
    assert sent[0]["status"] == HTTPStatus.SERVICE_UNAVAILABLE
    assert (b"connection", b"close") in sent[0]["headers"]


@pytest.mark.soak
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
async def test_no_request_is_lost_behind_nginx_when_a_server_ends(tmp_path: Path) -> None:
    """As in a deployment: nginx and its clients go to the other server."""
    async with (
        serve_http(tmp_path, **PUBLIC) as first,
        serve_http(tmp_path, **PUBLIC) as second,
        proxying(tmp_path, first.port, second.port) as (port, tls),
    ):
        load = Load(port, repeats=False, host=HOST, tls=tls)
        await during(load, 16, 1000, 200, lambda: first.process.send_signal(signal.SIGTERM))
        assert (load.answered, load.broken, load.wrong) == (1000, 0, {})
        async with asyncio.timeout(SECONDS):
            assert await first.process.wait() == 0
        assert first.log.count(" surface=") > 0
        assert second.log.count(" surface=") > 0
        assert "Traceback" not in first.log


async def test_requests_that_are_on_their_way_are_answered() -> None:
    """The client sends on an idle connection at the moment in which the server shuts down."""
    connections: list[Any] = []

    class Watched(Connection):
        limits = ConnectionLimits(linger_seconds=SECONDS)

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connections.append(self)
            super().connection_made(transport)

    async with shop(protocol=Watched) as (client, _):
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
        connections[0].shutdown()
        for _ in range(5):  # so that a timer that is due has ended
            await asyncio.sleep(0)
        answer = await client.post(**READ_QUICK)
        assert answer.status_code == HTTPStatus.OK
        assert len(connections) == 1
        await until(connections[0].transport.is_closing)


async def test_streams_do_not_delay_the_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    connections: list[Any] = []

    class Watched(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connections.append(self)
            super().connection_made(transport)

    async with (
        shop(HTTPSettings(), transport="sse", protocol=Watched) as (client, _),
        client.stream("GET", "/sse") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == "event: endpoint"
        connections[0].shutdown()
        with pytest.raises(httpx2.RemoteProtocolError):
            _ = [line async for line in lines]
    assert [record for record in caplog.records if record.exc_info] == []


def token(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


@pytest.mark.soak
async def test_sighup_replaces_a_single_worker(tmp_path: Path) -> None:
    """Reads in progress continue. Invalid settings change nothing."""
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"old": {"client_id": "ann"}}))
    with SlowAWS() as aws:
        given = {"QUILT_MCP_STATIC_TOKENS": str(tokens)}
        async with serving(aws, tmp_path, "--workers", "1", **given) as (server, client):

            async def status(name: str) -> int:
                return (await client.post(**QUICK | {"headers": QUICK["headers"] | token(name)})).status_code

            async def is_valid(name: str) -> bool:
                return await status(name) == HTTPStatus.OK

            assert (await status("old"), await status("new")) == (HTTPStatus.OK, HTTPStatus.UNAUTHORIZED)
            waiting = WAITING | {"headers": WAITING["headers"] | token("old")}
            reading = asyncio.create_task(client.post(**waiting))
            await until(lambda: server.log.count(" surface=") == 1)
            tokens.write_text(json.dumps({"new": {"client_id": "ann"}}))
            server.process.send_signal(signal.SIGHUP)
            await until_awaited(lambda: is_valid("new"))
            aws.gate.set()
            assert (await reading).status_code == HTTPStatus.OK
            assert await status("old") == HTTPStatus.UNAUTHORIZED

            tokens.write_text("{the secret")
            server.process.send_signal(signal.SIGHUP)
            await until(lambda: "this worker cannot start: QUILT_MCP_STATIC_TOKENS" in server.log)
            assert "the secret" not in server.log
            assert await status("new") == HTTPStatus.OK
            assert await server.stop(signal.SIGTERM) == 0
            assert "Traceback" not in server.log


@pytest.mark.soak
async def test_sighup_without_workers_is_explained(tmp_path: Path) -> None:
    async with serve_http(tmp_path) as server:
        server.process.send_signal(signal.SIGHUP)
        await until(lambda: "SIGHUP is ignored: start the server with --workers 1" in server.log)
        assert await server.stop(signal.SIGTERM) == 0


@pytest.mark.soak
async def test_sighup_during_the_start_is_ignored(tmp_path: Path) -> None:
    """`systemctl reload` directly after the start ended the process."""
    command = [executable(), "serve", "--transport", "http", "--port", "0"]
    starting = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, cwd=tmp_path)
    assert starting.stderr
    blocked = Path(f"/proc/{starting.pid}/status")
    await until(lambda: int(re.findall(r"SigIgn:\s*([0-9a-f]+)", blocked.read_text())[0], 16) & 1)  # SIGHUP is 1
    starting.send_signal(signal.SIGHUP)
    async with asyncio.timeout(SECONDS):
        while b"Starting MCP server" not in await starting.stderr.readline():
            pass
        starting.terminate()
        await starting.communicate()
    assert starting.returncode == 0

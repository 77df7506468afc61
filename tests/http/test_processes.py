"""`quilt-mcp serve` over HTTP as processes: signals, workers, metrics of several processes, and the long run."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext
from ctypes import c_bool
from datetime import datetime
from functools import partial
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from statistics import median
from threading import Event
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import uvicorn
from fastmcp import Client
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.install import executable
from quilt_mcp.demo.http_server import Answer, Request
from quilt_mcp.http.layers import FinishRequests
from quilt_mcp.http.server import (
    SPARE_SECONDS,
    ConnectionLimits,
    Shutdown,
    WebServer,
    Worker,
    configure_uvicorn,
    listen,
)
from quilt_mcp.settings import HTTPSettings
from tests.http.load import Load, during
from tests.http.web import READ, READ_QUICK, connected, new_client, request, shop, watching, with_headers
from tests.support.processes import is_running
from tests.support.server_process import HTTPServerProcess, serve_http, temporary_files
from tests.support.silent_server import SilentServer
from tests.support.waiting import SECONDS, until, until_awaited

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sends signals, and finds the workers in /proc")
WAITING = request("resources/read", uri="athena://databases")
FOREVER = "600"
READS, CONNECTIONS, REQUESTS = 6, 16, 2000
BOTH = pytest.mark.parametrize("workers", [(), ("--workers", "1"), ("--workers", "2")], ids=["none", "one", "two"])
COUNT = re.compile(r'^quilt_mcp_reads_total{outcome="ok",surface="\w+",uri="metadata://templates"} (.*)$', re.MULTILINE)


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
    directory: Path, *arguments: str, aws: SilentServer | None = None, **environment: str
) -> AsyncIterator[tuple[HTTPServerProcess, httpx2.AsyncClient]]:
    """A server that can wait for AWS, and its client. Its log has no traceback at the end."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "made-up", "NO_PROXY": "127.0.0.1"}
    place = {"AWS_ENDPOINT_URL": aws.url, "AWS_DEFAULT_REGION": "us-east-1"} if aws else {}
    given = keys | place | {"QUILT_MCP_READ_TIMEOUT_SECONDS": FOREVER, "TMPDIR": str(directory)} | environment
    async with serve_http(directory, *arguments, **given) as server, new_client(url_of(server)) as client:
        yield server, client
    assert "Traceback" not in server.log


def url_of(server: HTTPServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}"


async def ended(process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(SECONDS):
        return await process.wait()


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


def are_renewed(server: HTTPServerProcess, *before: int) -> bool:
    return len(server.workers) == 2 and not {*before} & {*server.workers}


@pytest.mark.soak
@BOTH
async def test_reads_in_progress_are_answered_after_sigterm(workers: tuple[str, ...], tmp_path: Path) -> None:
    with SlowAWS() as aws:
        async with serving(tmp_path, *workers, aws=aws) as (server, client):
            reading = [asyncio.create_task(client.post(**WAITING)) for _ in range(READS)]
            await until(lambda: len(aws.asked) >= READS)
            server.process.send_signal(signal.SIGTERM)
            await until_awaited(partial(is_refusing, server))
            assert server.process.returncode is None
            aws.gate.set()
            answers = await asyncio.gather(*reading)
            assert await ended(server.process) == 0
    assert {answer.status_code for answer in answers} == {HTTPStatus.OK}
    assert {answer.headers["connection"] for answer in answers} == {"close"}
    assert {answer.json()["error"]["data"]["error"] for answer in answers} == {"Unauthorized"}


@pytest.mark.soak
@BOTH
async def test_ready_is_503_and_requests_are_still_answered_during_the_pause(
    workers: tuple[str, ...], tmp_path: Path
) -> None:
    async with serving(tmp_path, *workers, QUILT_MCP_DRAIN_SECONDS=FOREVER) as (server, client):
        assert (await client.post(**READ)).status_code == HTTPStatus.OK
        server.process.send_signal(signal.SIGTERM)

        async def is_leaving() -> bool:
            return bool((await client.get("/ready")).json()["status"] == "shutting down")

        await until_awaited(is_leaving)
        ready, read = await client.get("/ready"), await client.post(**READ)
        assert ready.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        assert (read.status_code, read.headers["connection"]) == (HTTPStatus.OK, "close")
        assert (await client.get("/health")).status_code == HTTPStatus.OK
        assert await server.stop(signal.SIGTERM) == 128 + signal.SIGTERM  # the second one ends it immediately


@pytest.mark.soak
@pytest.mark.parametrize(("number", "seconds", "status"), [(signal.SIGTERM, "10", 0), (signal.SIGINT, FOREVER, 130)])
async def test_a_read_that_does_not_end_is_given_up(
    number: signal.Signals, seconds: str, status: int, tmp_path: Path
) -> None:
    limits = {"QUILT_MCP_DEADLINE_SECONDS": seconds, "QUILT_MCP_PROBE_SECONDS": "2"}
    with SilentServer() as aws:
        async with serving(tmp_path, aws=aws, **limits) as (server, client):
            reading = asyncio.create_task(client.post(**WAITING))
            await until(lambda: aws.asked)
            assert await server.stop(number) == status
            [answer] = await asyncio.gather(reading, return_exceptions=True)
    if number == signal.SIGTERM:
        assert isinstance(answer, httpx2.Response)
        assert answer.json()["error"]["data"]["transient"] is True


@pytest.mark.soak
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_demo_over_http_serves_only_requests_to_this_host(transport: str, tmp_path: Path) -> None:
    async with serve_http(tmp_path, "--demo", transport=transport) as server:
        async with Client(server.url) as client:
            result = await client.call_tool("get_resource", {"uri": "auth://status"})
            assert (result.structured_content or {})["data"]["status"] == "authenticated"
        async with new_client(url_of(server)) as web:
            foreign = await web.post(server.url, headers={"Host": "attacker.example.com"})
        assert foreign.status_code == HTTPStatus.MISDIRECTED_REQUEST
        assert await server.stop(signal.SIGINT) == 130
    assert ("Traceback" in server.log, server.output) == (False, "")


def test_a_port_or_host_that_cannot_be_used_gives_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        hosts = {
            "127.0.0.1": "Address already in use",
            "a..b": "not a valid host name",
            "a" * 64: "not a valid host name",
        }
        for host, reason in hosts.items():
            assert main(["serve", "--transport", "http", "--host", host, "--port", str(port)]) == 1
            captured = capsys.readouterr()
            assert (captured.out, "Traceback" in captured.err) == ("", False)
            assert captured.err.splitlines()[-1].endswith(f"cannot listen on {host} port {port}: {reason}.")


async def test_a_request_that_is_cancelled_gets_503() -> None:
    sent: list[Message] = []

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    task = asyncio.create_task(
        FinishRequests(wait, c_bool(1), "/")({"type": "http", "path": "", "headers": []}, receive, send)
    )
    await asyncio.sleep(0)
    task.cancel()
    await task
    assert sent[0]["status"] == HTTPStatus.SERVICE_UNAVAILABLE
    assert (b"connection", b"close") in sent[0]["headers"]


def test_requests_have_time_to_finish_with_a_deadline_of_less_than_a_second() -> None:
    config = configure_uvicorn(PlainTextResponse(""), HTTPSettings(), seconds_to_finish=0.5)
    assert config.timeout_graceful_shutdown == 1


@pytest.mark.parametrize(("seconds", "status"), [(SPARE_SECONDS, None), (-SPARE_SECONDS - 1, 0)])
def test_a_server_that_does_not_end_in_its_time_is_ended(seconds: float, status: int | None) -> None:
    web = uvicorn.Server(configure_uvicorn(PlainTextResponse(""), HTTPSettings(), seconds_to_finish=seconds))
    leaving = c_bool()
    shutdown = Shutdown(web, leaving, pause=0)
    shutdown.check()
    shutdown.handle_signal(signal.SIGTERM, None)
    assert leaving.value
    with nullcontext() if status is None else pytest.raises(SystemExit) as ended:
        shutdown.check()
    assert ended is None or ended.value.code == status
    with pytest.raises(SystemExit, match="143"):  # the second signal
        shutdown.handle_signal(signal.SIGTERM, None)


async def test_requests_that_are_on_their_way_are_answered() -> None:
    """The client sends on an idle connection at the moment in which the server shuts down."""
    connections: list[Any] = []
    protocol = watching(connections, limits=ConnectionLimits(linger_seconds=SECONDS))
    async with shop(protocol=protocol) as (client, _):
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
        [connection] = connections
        connection.shutdown()
        for _ in range(5):  # so that a timer that is due has ended
            await asyncio.sleep(0)
        answer = await client.post(**READ_QUICK)
        assert (answer.status_code, {*connections} <= {connection}) == (HTTPStatus.OK, True)
        await until(connection.transport.is_closing)


@pytest.mark.parametrize("turns", range(2, 6))  # the event loop accepts the connection in the second
async def test_a_connection_that_is_being_accepted_is_answered(turns: int) -> None:
    app = Starlette(routes=[Route("/", PlainTextResponse("yes"))])
    web = WebServer(configure_uvicorn(app, HTTPSettings(), seconds_to_finish=SECONDS))
    web.config.load()
    web.lifespan = web.config.lifespan_class(web.config)
    with listen("127.0.0.1", 0) as listener:
        await web.startup([listener])
        with socket.create_connection(listener.getsockname(), SECONDS) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n")
            for _ in range(turns):
                await asyncio.sleep(0)
            await web.shutdown([listener])
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")


async def test_streams_do_not_delay_the_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    connections: list[Any] = []
    protocol = watching(connections)
    async with (
        shop(HTTPSettings(), transport="sse", protocol=protocol) as (client, _),
        client.stream("GET", "/sse") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == "event: endpoint"
        connections[0].shutdown()
        with pytest.raises(httpx2.RemoteProtocolError):
            _ = [line async for line in lines]
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.soak
async def test_sighup_without_workers_is_explained_and_ignored_during_the_start(tmp_path: Path) -> None:
    """`systemctl reload` directly after the start ended the process."""
    command = [executable(), "serve", "--transport", "http", "--port", "0"]
    starting = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE, cwd=tmp_path)
    assert starting.stderr
    blocked = Path(f"/proc/{starting.pid}/status")
    await until(lambda: int(re.findall(r"SigIgn:\s*([0-9a-f]+)", blocked.read_text())[0], 16) & 1)  # SIGHUP is 1
    starting.send_signal(signal.SIGHUP)
    async with asyncio.timeout(SECONDS):
        for text in (b"Starting MCP server", b"SIGHUP is ignored: start the server with --workers 1"):
            while text not in await starting.stderr.readline():
                pass
            starting.send_signal(signal.SIGHUP)
        starting.terminate()
        await starting.communicate()
    assert starting.returncode == 0


@pytest.mark.soak
@pytest.mark.parametrize("count", [1, 2])
async def test_sighup_replaces_the_workers(count: int, tmp_path: Path) -> None:
    """The new ones read the files of secrets, reads in progress continue, and invalid settings change nothing."""
    file, given = tmp_path / "metrics", ("--workers", str(count))
    file.write_text("zq-old")
    with SlowAWS() as aws:
        async with serving(tmp_path, *given, aws=aws, QUILT_MCP_METRICS_TOKEN_FILE=str(file)) as (server, client):

            async def metrics() -> list[int]:
                async with new_client(client.base_url) as one:
                    sent = [{"Authorization": f"Bearer {token}"} for token in ("zq-old", "zq-new")]
                    return [(await one.get("/metrics", headers=headers)).status_code for headers in sent]

            async def is_new() -> bool:
                return await metrics() == [401, 200]

            assert await metrics() == [200, 401]
            reading = asyncio.create_task(client.post(**WAITING))
            await until(lambda: aws.asked)
            before = server.workers
            file.write_text("zq-new")
            server.process.send_signal(signal.SIGHUP)
            await until_awaited(is_new)
            aws.gate.set()
            assert (await reading).status_code == HTTPStatus.OK
            await until(lambda: len(server.workers) == count and not {*before} & {*server.workers})
            assert await is_new()
            before = server.workers
            file.write_text("")
            server.process.send_signal(signal.SIGHUP)
            await until(lambda: "the reload is not complete" in server.log)
            assert {*before} <= {*server.workers}
            assert await is_new()
            async with new_client(client.base_url) as one:
                text = (await one.get("/metrics", headers={"Authorization": "Bearer zq-new"})).text
                ready = (await one.get("/ready?verbose")).json()
            assert f"quilt_mcp_outdated_workers {count}.0" in text
            assert ready["outdated_workers"] == count
            families = text_string_to_metric_families(text)
            [times] = [one for one in families if one.name == "quilt_mcp_settings_read_timestamp_seconds"]
            read_at = [int(one.value) for one in times.samples]
            assert len(read_at) == count
            assert datetime.fromisoformat(ready["settings_read_at"]).timestamp() in read_at
            file.write_text("zq-last")  # without another signal
            await until(lambda: len(server.workers) == count and not {*before} & {*server.workers})
            assert await metrics() == [401, 401]
            assert await server.stop(signal.SIGTERM) == 0
    reason = f"this worker cannot start: Invalid settings: QUILT_MCP_METRICS_TOKEN_FILE: the file {file} is empty"
    assert (reason in server.log, "zq-" in server.log) == (True, False)


@pytest.mark.parametrize("seconds", [SECONDS, 0])
def test_a_worker_need_not_answer_health_checks_while_it_starts(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow machine, replacements were killed again and again in their start."""
    config = configure_uvicorn(PlainTextResponse(""), HTTPSettings(), seconds_to_finish=1)
    worker = Worker(config, [], start_seconds=seconds)
    monkeypatch.setattr(worker, "process", SimpleNamespace(is_alive=lambda: True))
    assert worker.is_alive(timeout=0) == (seconds > 0)
    monkeypatch.setattr(worker, "process", SimpleNamespace(is_alive=lambda: False))
    assert not worker.is_alive(timeout=0)


@pytest.mark.soak
@pytest.mark.parametrize("then", [signal.SIGKILL, signal.SIGCONT])
async def test_a_removed_token_is_valid_nowhere_after_a_worker_stopped_in_its_start(
    then: signal.Signals, tmp_path: Path
) -> None:
    file = tmp_path / "tokens"
    file.write_text('{"zq-old": {"client_id": "ann"}}')
    async with serving(tmp_path, "--workers", "2", QUILT_MCP_STATIC_TOKENS_FILE=str(file)) as (server, client):

        async def statuses(token: str) -> set[int]:
            """The answers of some connections, which any worker can accept."""
            found = set()
            for _ in range(12):
                async with new_client(client.base_url) as one:
                    found.add((await one.post(**with_headers(READ, Authorization=f"Bearer {token}"))).status_code)
            return found

        assert await statuses("zq-old") == {HTTPStatus.OK}
        before = server.workers
        file.write_text('{"zq-new": {"client_id": "ann"}}')
        server.process.send_signal(signal.SIGHUP)
        await until(lambda: len({*server.workers} & {*before}) == 1 and len(server.workers) == 3)
        [starting] = [pid for pid in server.workers if pid == max(server.workers)]
        os.kill(starting, signal.SIGSTOP)
        assert HTTPStatus.OK in await statuses("zq-old") | await statuses("zq-new")
        os.kill(starting, then)
        await until(partial(are_renewed, server, *before))
        assert (await statuses("zq-new"), await statuses("zq-old")) == ({HTTPStatus.OK}, {HTTPStatus.UNAUTHORIZED})
        await until(lambda: "the reload is complete" in server.log)
    assert ("the reload is not complete: 1 of 2 workers" in server.log) == (then == signal.SIGKILL)


@pytest.mark.soak
async def test_no_read_is_lost_or_uncounted_when_a_worker_is_killed_or_all_are_replaced(tmp_path: Path) -> None:
    """Each worker reports the sums. A killed one leaves its counters and no gauge. A new one takes both."""
    async with serving(tmp_path, "--workers", "2") as (server, _):

        async def count() -> float:
            async with new_client(url_of(server)) as one:
                shown = (await one.get("/metrics")).text
            assert "process_virtual_memory_bytes" not in shown  # of one process only
            return sum(map(float, COUNT.findall(shown)))

        def files(pattern: str = "*.db") -> list[Path]:
            return list(tmp_path.rglob(pattern))

        before = server.workers
        load = Load(server.port)
        await during(load, CONNECTIONS, REQUESTS, REQUESTS // 4, lambda: os.kill(before[0], signal.SIGKILL))
        assert (load.answered, load.wrong) == (REQUESTS, {})
        assert load.broken <= CONNECTIONS
        await until(partial(are_renewed, server, before[0]))
        assert before[1] in server.workers
        assert f"Child process [{before[0]}] died" in server.log
        assert REQUESTS <= (counted := await count()) <= REQUESTS + load.broken
        assert len(files("gauge_livesum_*.db")) <= len(before)

        before = server.workers
        load = Load(server.port)
        await during(load, CONNECTIONS, REQUESTS, 10, lambda: server.process.send_signal(signal.SIGHUP))
        assert (load.answered, load.wrong) == (REQUESTS, {})
        await until(partial(are_renewed, server, *before))

        assert counted + REQUESTS <= await count() <= counted + REQUESTS + load.broken
        assert {path.stem.rpartition("_")[2] for path in files()} <= {"0", "1", "2"}
        assert sum(path.stat().st_size for path in files()) < 2 * 1024 * 1024

        load, before = Load(server.port), server.workers
        await load.run(CONNECTIONS, 200)
        assert (load.answered, load.broken, len(before)) == (200, 0, 2)
        assert await server.stop(signal.SIGTERM) == 0
        assert not any(is_running(pid) for pid in before)
        assert temporary_files(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.soak)]
)
async def test_workers_end_with_their_parent(number: signal.Signals, status: int, tmp_path: Path) -> None:
    async with serve_http(tmp_path, "--workers", "1") as server:
        workers = server.workers
        assert await server.stop(number) == status
        await until(lambda: not any(is_running(pid) for pid in workers))


WARM_UP, ROUNDS = 3, 5  # by then, garbage collections have reached a steady state
GROWTH = 0.03


def memory(pids: Iterable[int]) -> int:
    status = [Path(f"/proc/{pid}/status").read_text(encoding="ascii") for pid in pids]
    return sum(int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0]) for text in status)


@pytest.mark.soak
@pytest.mark.alone
async def test_many_requests_cause_no_error_and_no_memory_leak(tmp_path: Path) -> None:
    used = []
    async with serving(tmp_path, "--workers", "2") as (server, _):
        workers = server.workers
        for _ in range(WARM_UP + ROUNDS):
            load, started = Load(server.port), time.perf_counter()
            await load.run(200, 20_000)
            assert (load.answered, load.broken, load.wrong) == (20_000, 0, {})
            used.append(memory(workers))
            rate = 20_000 / (time.perf_counter() - started)
            sys.stdout.write(f"200 connections: {rate:.0f} requests a second, {used[-1]} KiB\n")
        assert server.workers == workers
    growth = median(later - earlier for earlier, later in pairwise(used[WARM_UP - 1 :]))  # the heap can grow once
    assert growth <= used[WARM_UP - 1] * GROWTH / ROUNDS


LOADED = """
import sys
from ctypes import c_bool, c_int
from quilt_mcp.commands import http_server
from quilt_mcp.server import find_domains
http_server.exit_with_parent = lambda: None
wanted = {name for domain in find_domains() for name in domain.modules}
before = wanted & sys.modules.keys()
http_server.create_worker_application("127.0.0.1", c_bool(), c_int())
print(len(wanted), len(before), len(wanted - sys.modules.keys()))
"""


def test_a_worker_has_loaded_what_its_reads_need(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=os.environ | home, capture_output=True, text=True, check=True
    )
    count, before, missing = map(int, done.stdout.split())
    assert count >= 4
    assert (before, missing) == (0, 0)

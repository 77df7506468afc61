"""Limits on what one client can cost: bodies, headers, time and connections."""

import asyncio
import json
import socket
from asyncio import Protocol
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from uvicorn.server import ServerState

from quilt_mcp.http.connections import Connection, ConnectionLimits, JoinedWrites
from quilt_mcp.http.layers import BodyTimeout
from quilt_mcp.http.server import WebServer, configure_uvicorn
from quilt_mcp.settings import HTTPSettings
from tests.http.web import ANN, CALL_QUICK, READ_QUICK, READ_SLOW, TOKENS, serving, shop
from tests.support.toys import QUICK
from tests.support.waiting import SECONDS, until

SHORT = 0.05
"""A time limit in seconds. Tests wait for its effect, never for the time."""
SMALL = HTTPSettings(max_request_bytes=4096)
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def with_limits(**limits: float) -> type[Protocol]:
    """The protocol with other limits."""
    return type("WithLimits", (Connection,), {"limits": replace(ConnectionLimits(), **limits)})


@asynccontextmanager
async def connected(url: object) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    address = str(url).removeprefix("http://").rstrip("/").split(":")
    reader, writer = await asyncio.open_connection(*address)
    try:
        async with asyncio.timeout(SECONDS):
            yield reader, writer
    finally:
        writer.close()


async def write_headers(writer: asyncio.StreamWriter, lines: int) -> None:
    for _ in range(lines):
        writer.write(b"X-Filler: " + b"x" * 10_000 + b"\r\n")
        await writer.drain()


async def chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(0, size, 1024):
        yield b" " * 1024


@pytest.mark.parametrize("way", ["declared", "in chunks"])
async def test_a_body_over_the_limit_gets_413(way: str) -> None:
    async with shop(SMALL) as (client, _):
        body = b" " * 100_000 if way == "declared" else chunks(100_000)
        answer = await client.post("/mcp", content=body, headers=READ_QUICK["headers"])
        assert answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK


async def test_the_body_limit_is_inclusive() -> None:
    body = json.dumps(READ_QUICK["json"]).encode().ljust(4096)
    async with shop(SMALL) as (client, _):
        for more, status in ((b"", HTTPStatus.OK), (b" ", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)):
            answer = await client.post("/mcp", content=body + more, headers=READ_QUICK["headers"])
            assert answer.status_code == status


@pytest.mark.parametrize("sign_in", [True, False], ids=["refused", "read"])
async def test_endless_trailers_close_the_connection(sign_in: bool, caplog: pytest.LogCaptureFixture) -> None:  # noqa: FBT001 - a parameter
    """A parser that passes trailers on as headers keeps 60 MB of them in 1.3 GB of memory."""
    settings = HTTPSettings(static_tokens=SecretStr(TOKENS)) if sign_in else HTTPSettings()
    async with shop(settings) as (client, _), connected(client.base_url) as (_, writer):
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\na=1\r\n0\r\n")
        with pytest.raises(ConnectionError):
            await write_headers(writer, 10_000)  # of 100 MB
        assert (await client.get("/health", headers=ANN)).status_code == HTTPStatus.OK
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /health?" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
    ids=["two hosts", "no host", "a target of 100 KB", "two lengths"],
)
async def test_invalid_heads_get_400(head: bytes) -> None:
    """As RFC 9112 requires in 3.2 and 6.3. A head is also refused if all of it arrives at once."""
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(head)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")


async def test_trailers_are_not_headers() -> None:
    """As RFC 9110 requires in 6.5.1. A trailer could name another method, or the token of another user."""
    body = json.dumps(READ_QUICK["json"]).encode()
    fields = "".join(f"{name}: {value}\r\n" for name, value in READ_QUICK["headers"].items()).encode()
    chunked = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nMcp-Method: tools/call\r\n\r\n" % (len(body), body)
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEAD + fields + chunked)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


CALLER: ContextVar[str] = ContextVar("caller", default="nobody")


async def test_a_request_inherits_nothing_of_an_earlier_one_on_its_connection() -> None:
    """While a long body is read, asyncio can run the callbacks of the connection in the context of the request."""

    async def identify(request: Request) -> PlainTextResponse:
        found = CALLER.get()
        if request.method == "POST":
            CALLER.set("ann")
            await request.body()
        return PlainTextResponse(found)

    app = Starlette(routes=[Route("/", identify, methods=["GET", "POST"])])
    config = configure_uvicorn(app, HTTPSettings(), seconds_to_finish=1)
    async with (
        serving(lambda when_ready: WebServer(config, when_ready=when_ready)) as url,
        httpx2.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client,
    ):
        for _ in range(3):
            assert (await client.post("/", content=b"x" * 1_000_000)).text == "nobody"
            assert (await client.get("/")).text == "nobody"


async def test_endless_headers_close_the_connection() -> None:
    async with shop() as (client, _), connected(client.base_url) as (_, writer):
        writer.write(HEAD)
        with pytest.raises(ConnectionError):
            await write_headers(writer, 10_000)  # of 100 MB
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK


@pytest.mark.parametrize("sent", [b"", b"GET /hea", HEAD], ids=["nothing", "half a line", "half of the headers"])
async def test_slow_headers_get_408(sent: bytes) -> None:
    protocol = with_limits(head_seconds=SHORT)
    async with shop(protocol=protocol) as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_the_header_timer_restarts_with_each_request() -> None:
    connections: list[Connection] = []

    class Watched(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connections.append(self)
            super().connection_made(transport)

    async with shop(protocol=Watched) as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEALTH)
        assert b'{"status":"alive"}' in await reader.readuntil(b"}")
        connections[0].limits = ConnectionLimits(head_seconds=SHORT)
        writer.write(b"GET /hea")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_read_can_take_longer_than_its_body() -> None:
    async with shop(body_seconds=SHORT) as (client, found):
        reading = asyncio.create_task(client.post(**READ_SLOW))
        await until(found.begun.is_set)
        await pass_time(2 * SHORT)
        found.gate.set()
        assert (await reading).json()["result"]["contents"]


async def pass_time(seconds: float) -> None:
    """Wait until timers of fewer seconds have run."""
    end = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, end.set)
    await end.wait()


@pytest.mark.parametrize(("at_once", "times"), [(90, 1), (10, 100_000)], ids=["less than 64 KB", "endless"])
async def test_a_client_that_does_not_read_is_disconnected(at_once: int, times: int) -> None:
    ended = asyncio.Event()

    class Watched(Connection):
        limits = ConnectionLimits(unread_seconds=SHORT)

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            ended.set()
            super().connection_lost(exc)

    async with shop(protocol=Watched) as (client, _):
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.settimeout(0)
            asking = asyncio.create_task(ask(silent, client.base_url.port or 0, at_once, times))
            async with asyncio.timeout(SECONDS):
                await ended.wait()
            asking.cancel()


async def ask(client: socket.socket, port: int, at_once: int, times: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    with suppress(ConnectionError):
        for _ in range(times):
            await loop.sock_sendall(client, HEALTH * at_once)
            await asyncio.sleep(0)


async def test_whitespace_around_header_values_is_ignored() -> None:
    """The sessionless protocol compares headers with the body."""
    headers = {name: f" \t {value} \t " for name, value in READ_QUICK["headers"].items()}
    body = json.dumps(READ_QUICK["json"]).encode()
    lines = [f"{name}:{value}" for name, value in ({"Content-Length": len(body)} | headers).items()]
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEAD + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


async def test_pipelined_requests_are_answered() -> None:
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEALTH * 100)
        for _ in range(100):
            assert b'{"status":"alive"}' in await reader.readuntil(b"}")


@pytest.mark.parametrize("asked", [READ_QUICK, CALL_QUICK], ids=["read", "call"])
async def test_an_answer_is_sent_as_a_whole(asked: dict[str, Any]) -> None:
    """A proxy repeats a read if the server is killed before the answer, not if it is killed in the answer."""
    sent: list[bytes] = []

    class Watched(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            write = transport.write

            def record(data: bytes | bytearray | memoryview) -> None:
                sent.append(bytes(data))
                write(data)

            transport.write = record  # type: ignore[method-assign]  # so that the test sees each write
            super().connection_made(transport)

    async with shop(protocol=Watched) as (client, _):
        bodies = [(await client.post(**asked)).content for _ in range(3)]
    assert [part.partition(b"\r\n\r\n")[2] for part in sent] == bodies
    assert all(part.startswith(b"HTTP/1.1 200 ") for part in sent)


def test_long_data_are_sent_at_once_and_aborted_data_are_not_sent() -> None:
    async def write(*parts: bytes, ends: bool = False) -> tuple[int, list[bytes]]:
        transport = SlowlyRead([0])
        joined = JoinedWrites(transport)
        for part in parts:
            joined.write(part)
        waiting = joined.get_write_buffer_size()
        if ends:
            joined.abort()
        await asyncio.sleep(0)
        return waiting, transport.written

    long, short = b"x" * (JoinedWrites.LONG_BYTES * 2), b"y"
    assert asyncio.run(write(short, long)) == (0, [short + long])
    assert asyncio.run(write(long, short)) == (1, [long, short])
    assert asyncio.run(write(*[short * 30_000] * 4)) == (30_000, [short * 90_000, short * 30_000])
    assert asyncio.run(write(short, ends=True)) == (1, [])


async def test_a_client_that_reads_slowly_is_disconnected_only_when_it_stops() -> None:
    transport = SlowlyRead([50_000, 30_000, 10_000, 10_000])
    config = configure_uvicorn(HEALTHY, HTTPSettings(), seconds_to_finish=1)
    protocol = Connection(config, ServerState(), {})
    protocol.limits = ConnectionLimits(unread_seconds=0.001)  # the timer starts again while the client reads
    protocol.connection_made(transport)
    protocol.pause_writing()
    await until(transport.is_closing)
    assert transport.sizes == []


HEALTHY = PlainTextResponse("")


class SlowlyRead(asyncio.Transport):
    """A connection with these numbers of unsent bytes, one for each time that it is asked."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes
        self._is_aborted = False
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0)

    def abort(self) -> None:
        self._is_aborted = True

    def is_closing(self) -> bool:
        return self._is_aborted


async def test_a_slow_body_gets_408() -> None:
    async with (
        shop(body_seconds=SHORT) as (client, _),
        connected(client.base_url) as (reader, writer),
    ):
        writer.write(HEAD + b"Content-Length: 10\r\n\r\n{")
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("length", ["Content-Length: 500\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"])
@pytest.mark.parametrize("cut", ["close", "abort"])
async def test_a_client_that_leaves_in_its_body_leaves_nothing_in_the_log(
    cut: str, length: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    class Noting(BodyTimeout):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            begun.set()
            try:
                await super().__call__(scope, receive, send)
            finally:
                begun.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quilt_mcp.http.layers.BodyTimeout", Noting)
        async with shop() as (client, _):
            async with connected(client.base_url) as (_, writer):
                fields = "".join(f"{name}: {value}\r\n" for name, value in READ_QUICK["headers"].items())
                writer.write(HEAD + f"{fields}{length}".encode())
                await asyncio.wait_for(begun.wait(), SECONDS)
                leave = writer.close if cut == "close" else writer.transport.abort
                leave()
                await until(lambda: not begun.is_set())
            assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
    assert [record.getMessage() for record in caplog.records if record.levelname in {"ERROR", "WARNING"}] == []


async def test_a_client_that_leaves_in_any_phase_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    open_now: set[Connection] = set()

    class Watched(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            open_now.add(self)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            open_now.remove(self)
            super().connection_lost(exc)

    body = json.dumps(READ_QUICK["json"]).encode()
    fields = "".join(f"{name}: {value}\r\n" for name, value in READ_QUICK["headers"].items()).encode()
    chunked = HEAD + fields + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(body), body)
    whole = HEAD + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body
    phases = (b"", HEAD[:20], HEAD, HEAD + fields + b"\r\n", whole[:-20], chunked[:-6], chunked + b"a: b", whole)
    async with shop(protocol=Watched) as (client, _):
        for sent in (*phases, HEALTH * 3 + HEALTH[:9]):
            for cut in ("close", "abort", "write_eof"):
                async with connected(client.base_url) as (_, writer):
                    writer.write(sent)
                    await writer.drain()
                    getattr(writer.transport, cut)()
        await until(lambda: not open_now)
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
    assert [record.getMessage() for record in caplog.records if record.levelname in {"ERROR", "WARNING"}] == []


@pytest.mark.parametrize("cut", ["close", "abort"])
async def test_a_read_is_cancelled_when_its_client_disconnects(cut: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    def outcomes() -> list[str]:
        return [vars(one)["fields"]["outcome"] for one in caplog.records if "fields" in vars(one)]

    async with shop() as (client, found), connected(client.base_url) as (_, writer):
        body = json.dumps(READ_SLOW["json"]).encode()
        lines = [f"{name}: {value}" for name, value in READ_SLOW["headers"].items()]
        writer.write(HEAD + "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)
        await until(found.begun.is_set)
        getattr(writer.transport, cut)()
        await until(outcomes)
        assert outcomes() == ["cancelled"]
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
    assert [record for record in caplog.records if record.exc_info] == []


async def test_accepted_connections_do_not_delay_small_packets() -> None:
    """With Nagle's algorithm, each answer would wait for the client's delayed acknowledgement."""
    options: list[int] = []

    class Watched(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            options.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().connection_made(transport)

    async with shop(protocol=Watched) as (client, _):
        assert (await client.post(**READ_QUICK)).json()["result"]["contents"][0]["uri"] == QUICK
    assert len(options) == 1
    assert all(options)

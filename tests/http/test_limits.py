"""Limits on what one client can cost: bodies, headers, time and connections."""

import asyncio
import json
import socket
from asyncio import Protocol
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quilt_mcp.http.connection_limits import ConnectionLimits, Limited, LimitedProtocol
from quilt_mcp.http.request_limits import BodyTimeout
from quilt_mcp.http.whole_answers import WholeAnswers
from quilt_mcp.settings import HTTPSettings
from tests.http.web import CALL_QUICK, READ_QUICK, READ_SLOW, shop
from tests.support.toys import QUICK
from tests.support.waiting import SECONDS, until

SHORT = 0.05
"""A time limit in seconds. Tests wait for its effect, never for the time."""
SMALL = HTTPSettings(max_request_bytes=4096)
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class WithPythonParser(Limited, H11Protocol):  # type: ignore[misc]  # h11 annotates the same attributes
    """The protocol if httptools is not installed."""


@pytest.fixture(params=[LimitedProtocol, WithPythonParser], ids=["httptools", "h11"])
def parser(request: pytest.FixtureRequest) -> type[Any]:
    assert issubclass(LimitedProtocol, HttpToolsProtocol)
    found: type[Any] = request.param
    return found


def with_limits(parser: type[Any], **limits: float) -> type[Protocol]:
    """The protocol with other limits."""
    return type("WithLimits", (parser,), {"limits": replace(ConnectionLimits(), **limits)})  # type: ignore[arg-type]  # checked by replace


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
async def test_a_body_over_the_limit_gets_413(way: str, parser: type[Any]) -> None:
    async with shop(SMALL, protocol=parser) as (client, _):
        body = b" " * 100_000 if way == "declared" else chunks(100_000)
        answer = await client.post("/mcp", content=body, headers=READ_QUICK["headers"])
        assert answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK


async def test_the_body_limit_is_inclusive(parser: type[Any]) -> None:
    body = json.dumps(READ_QUICK["json"]).encode().ljust(4096)
    async with shop(SMALL, protocol=parser) as (client, _):
        for more, status in ((b"", HTTPStatus.OK), (b" ", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)):
            answer = await client.post("/mcp", content=body + more, headers=READ_QUICK["headers"])
            assert answer.status_code == status


async def test_endless_headers_close_the_connection(parser: type[Any]) -> None:
    async with shop(protocol=parser) as (client, _), connected(client.base_url) as (_, writer):
        writer.write(HEAD)
        with pytest.raises(ConnectionError):
            await write_headers(writer, 10_000)  # of 100 MB
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK


@pytest.mark.parametrize("sent", [b"", b"GET /hea", HEAD], ids=["nothing", "half a line", "half of the headers"])
async def test_slow_headers_get_408(sent: bytes, parser: type[Any]) -> None:
    protocol = with_limits(parser, head_seconds=SHORT)
    async with shop(protocol=protocol) as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_the_header_timer_restarts_with_each_request(parser: type[Any]) -> None:
    connections: list[Limited] = []

    class Watched(parser):  # type: ignore[misc]  # a parameter
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connections.append(self)
            super().connection_made(transport)

    async with shop(protocol=Watched) as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEALTH)
        assert b'{"status":"alive"}' in await reader.readuntil(b"}")
        connections[0].limits = ConnectionLimits(head_seconds=SHORT)
        writer.write(b"GET /hea")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_read_can_take_longer_than_its_body(parser: type[Any]) -> None:
    async with shop(protocol=parser, body_seconds=SHORT) as (client, found):
        reading = asyncio.create_task(client.post(**READ_SLOW))
        await until(found.begun.is_set)
        await pass_time(2 * SHORT)
        found.gate.set()
        assert (await reading).json()["result"]["contents"]


async def test_a_read_can_take_longer_than_its_headers() -> None:
    transport, protocol = SlowlyRead([]), Limited()
    protocol.limits = ConnectionLimits(head_seconds=SHORT)
    protocol.transport, protocol.cycle = transport, None
    protocol.connection_made(transport)
    protocol.cycle = RequestInProgress()
    protocol.data_received(b"")
    await pass_time(2 * SHORT)
    assert not transport.is_closing()


async def pass_time(seconds: float) -> None:
    """Wait until timers of fewer seconds have run."""
    end = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, end.set)
    await end.wait()


@pytest.mark.parametrize(("at_once", "times"), [(90, 1), (10, 100_000)], ids=["less than 64 KB", "endless"])
async def test_a_client_that_does_not_read_is_disconnected(at_once: int, times: int, parser: type[Any]) -> None:
    ended = asyncio.Event()

    class Watched(parser):  # type: ignore[misc]  # a parameter
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


async def test_whitespace_around_header_values_is_ignored(parser: type[Any]) -> None:
    """The sessionless protocol compares headers with the body."""
    headers = {name: f" \t {value} \t " for name, value in READ_QUICK["headers"].items()}
    body = json.dumps(READ_QUICK["json"]).encode()
    lines = [f"{name}:{value}" for name, value in ({"Content-Length": len(body)} | headers).items()]
    async with shop(protocol=parser) as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEAD + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


async def test_pipelined_requests_are_answered(parser: type[Any]) -> None:
    async with shop(protocol=parser) as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEALTH * 100)
        for _ in range(100):
            assert b'{"status":"alive"}' in await reader.readuntil(b"}")


@pytest.mark.parametrize("asked", [READ_QUICK, CALL_QUICK], ids=["read", "call"])
async def test_an_answer_is_sent_as_a_whole(asked: dict[str, Any], parser: type[Any]) -> None:
    """A proxy repeats a read if the server is killed before the answer, not if it is killed in the answer."""
    sent: list[bytes] = []

    class Watched(parser):  # type: ignore[misc]  # a parameter
        def connection_made(self, transport: asyncio.Transport) -> None:
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


async def test_a_long_answer_is_sent_in_parts() -> None:
    transport = Received()
    whole = WholeAnswers(transport)
    for _ in range(3):
        whole.writelines([b"x" * 40_000])
    assert [len(part) for part in transport.parts] == [80_000]
    assert whole.get_write_buffer_size() == 40_000
    whole.close()
    assert [len(part) for part in transport.parts] == [80_000, 40_000]
    assert transport.is_closing()


async def test_an_aborted_answer_is_not_sent() -> None:
    transport = Received()
    whole = WholeAnswers(transport)
    whole.write(b"x")
    whole.abort()
    whole.write(b"y")
    await pass_time(0)
    assert (transport.parts, whole.is_closing()) == ([], True)


class Received(asyncio.Transport):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self._is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.parts.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self._is_closed = True

    def abort(self) -> None:
        self._is_closed = True

    def is_closing(self) -> bool:
        return self._is_closed


async def test_a_client_that_reads_slowly_is_disconnected_only_when_it_stops() -> None:
    transport = SlowlyRead([50_000, 30_000, 10_000, 10_000])
    protocol = Limited()
    protocol.limits = ConnectionLimits(unread_seconds=0.001)  # the timer starts again while the client reads
    protocol.transport = transport
    protocol.pause_writing()
    await until(transport.is_closing)
    assert transport.sizes == []


async def test_too_many_pipelined_requests_close_the_connection() -> None:
    transport = SlowlyRead([])
    protocol = Limited()
    protocol.transport, protocol.cycle = transport, None
    for waiting in (100, 101):
        protocol.pipeline = range(waiting)
        protocol.data_received(b"")
        assert transport.is_closing() == (waiting > 100)


class RequestInProgress:
    """A request that is not answered yet."""

    response_complete = more_body = False

    def __init__(self) -> None:
        self.scope: MutableMapping[str, Any] = {}


class SlowlyRead(asyncio.Transport):
    """A connection with these numbers of unsent bytes, one for each time that it is asked."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes
        self._is_aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0)

    def abort(self) -> None:
        self._is_aborted = True

    def is_closing(self) -> bool:
        return self._is_aborted


async def test_a_slow_body_gets_408(parser: type[Any]) -> None:
    async with (
        shop(protocol=parser, body_seconds=SHORT) as (client, _),
        connected(client.base_url) as (reader, writer),
    ):
        writer.write(HEAD + b"Content-Length: 10\r\n\r\n{")
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("length", ["Content-Length: 500\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"])
@pytest.mark.parametrize("cut", ["close", "abort"])
async def test_a_client_that_leaves_in_its_body_leaves_nothing_in_the_log(
    cut: str, length: str, parser: type[Any], caplog: pytest.LogCaptureFixture
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
        patch.setattr("quilt_mcp.http.app.BodyTimeout", Noting)
        async with shop(protocol=parser) as (client, _):
            async with connected(client.base_url) as (_, writer):
                fields = "".join(f"{name}: {value}\r\n" for name, value in READ_QUICK["headers"].items())
                writer.write(HEAD + f"{fields}{length}".encode())
                await asyncio.wait_for(begun.wait(), SECONDS)
                leave = writer.close if cut == "close" else writer.transport.abort
                leave()
                await until(lambda: not begun.is_set())
            assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
    assert [record.getMessage() for record in caplog.records if record.levelname in {"ERROR", "WARNING"}] == []


@pytest.mark.parametrize("cut", ["close", "abort"])
async def test_a_read_is_cancelled_when_its_client_disconnects(
    cut: str, parser: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def outcomes() -> list[str]:
        return [vars(one)["fields"]["outcome"] for one in caplog.records if "fields" in vars(one)]

    async with shop(protocol=parser) as (client, found), connected(client.base_url) as (_, writer):
        body = json.dumps(READ_SLOW["json"]).encode()
        lines = [f"{name}: {value}" for name, value in READ_SLOW["headers"].items()]
        writer.write(HEAD + "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)
        await until(found.begun.is_set)
        getattr(writer.transport, cut)()
        await until(outcomes)
        assert outcomes() == ["cancelled"]
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
    assert [record for record in caplog.records if record.exc_info] == []


async def test_accepted_connections_do_not_delay_small_packets(parser: type[Any]) -> None:
    """With Nagle's algorithm, each answer would wait for the client's delayed acknowledgement."""
    options: list[int] = []

    class Watched(parser):  # type: ignore[misc]  # a parameter
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            options.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().connection_made(transport)

    async with shop(protocol=Watched) as (client, _):
        assert (await client.post(**READ_QUICK)).json()["result"]["contents"][0]["uri"] == QUICK
    assert len(options) == 1
    assert all(options)

"""Limits on what one client can cost: bodies, heads, time, connections and streams."""

import asyncio
import gc
import json
import os
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import ref

import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import RequestResponseCycle
from uvicorn.server import ServerState

from quilt_mcp.commands.install import executable
from quilt_mcp.http.layers import UNFINISHED_BODIES, StreamLimit, UnfinishedBodies
from quilt_mcp.http.server import (
    OTHER_DESCRIPTORS,
    RESERVED_CONNECTIONS,
    Connection,
    ConnectionLimits,
    WebServer,
    configure_uvicorn,
    listen,
)
from quilt_mcp.settings import HTTPSettings
from tests.http.web import (
    ANN,
    CALL_QUICK,
    HEAD,
    HEALTH,
    HEALTHY,
    READ_QUICK,
    READ_SLOW,
    TOKENS,
    connected,
    lines_of,
    new_client,
    serving,
    shop,
    watching,
    with_headers,
    with_limits,
)
from tests.support.server_process import serve_http
from tests.support.waiting import SECONDS, until, until_awaited

SHORT = 0.05
"""A time limit in seconds. Tests wait for its effect, never for the time."""
BODY, FIELDS = json.dumps(READ_QUICK["json"]).encode(), lines_of(READ_QUICK)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
NEVER_IDLE = with_limits(idle_seconds=SECONDS)
Captured = pytest.LogCaptureFixture


def problems(caplog: Captured) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.exc_info or one.levelname in {"ERROR", "WARNING"}]


async def write_headers(writer: asyncio.StreamWriter) -> None:
    for _ in range(10_000):  # of 100 MB
        writer.write(b"X-Filler: " + b"x" * 10_000 + b"\r\n")
        await writer.drain()


async def chunks() -> AsyncIterator[bytes]:
    for _ in range(100):
        yield b" " * 1024


async def test_a_body_over_the_limit_gets_413() -> None:
    whole = BODY.ljust(4096)
    async with shop(HTTPSettings(max_request_bytes=4096)) as (client, _):
        for body, status in ((b" " * 100_000, 413), (chunks(), 413), (whole, 200), (whole + b" ", 413)):
            answer = await client.post("/mcp", content=body, headers=READ_QUICK["headers"])
            assert answer.status_code == status


async def test_two_lengths_of_a_body_end_the_connection() -> None:
    async with shop() as (client, _):
        for length, is_last in ((b"", False), (b"Content-Length: 3\r\n", True)):
            async with connected(client.base_url) as (reader, writer):
                writer.write(HEAD + FIELDS + length + CHUNKED + b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n")
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert head.startswith(b"http/1.1 200 ")
                assert (b"connection: close" in head) == is_last


@pytest.mark.parametrize("sign_in", [TOKENS, None], ids=["refused", "read"])
async def test_endless_heads_and_trailers_close_the_connection(sign_in: str | None, caplog: Captured) -> None:
    """A parser that passes trailers on as headers keeps 60 MB of them in 1.3 GB of memory."""
    settings = HTTPSettings(static_tokens=SecretStr(sign_in)) if sign_in else HTTPSettings()
    async with shop(settings) as (client, _):
        for begun in (HEAD, HEAD + CHUNKED + b"3\r\na=1\r\n0\r\n"):
            async with connected(client.base_url) as (_, writer):
                writer.write(begun)
                with pytest.raises(ConnectionError):
                    await write_headers(writer)
        assert (await client.get("/health", headers=ANN)).status_code == HTTPStatus.OK
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []


FIRST_LINES: dict[str, tuple[bytes, int]] = {
    # as RFC 9112 requires in 3.2 and 6.3; a head is also refused if all of it arrives at once
    "two hosts": (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "a target of 100 KB": (b"GET /health?" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    # as RFC 9110 requires in 6.5.1: a trailer could name another method, or the token of another user
    "trailers": (HEAD + FIELDS + CHUNKED + b"%x\r\n%s\r\n0\r\nMcp-Method: tools/call\r\n\r\n" % (len(BODY), BODY), 200),
    # as Java's client does: a warning for each connection would only mislead
    "HTTP/2": (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 200),
    # the sessionless protocol compares headers with the body
    "whitespace around values": (
        HEAD
        + FIELDS.replace(b": ", b": \t ").replace(b"\r\n", b" \t \r\n")
        + b"Content-Length:%d\r\n\r\n" % len(BODY)
        + BODY,
        200,
    ),
}


@pytest.mark.parametrize(("sent", "status"), FIRST_LINES.values(), ids=FIRST_LINES)
async def test_the_status_of_unusual_heads(sent: bytes, status: int, caplog: Captured) -> None:
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(sent)
        assert (await reader.readline()).startswith(b"HTTP/1.1 %d " % status)
    assert "pgrade" not in caplog.text


async def test_a_client_that_expects_it_is_told_to_send_its_body() -> None:
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEAD + FIELDS + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(BODY)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")


async def test_a_body_that_is_not_http_after_the_answer_closes_the_connection(caplog: Captured) -> None:
    settings = HTTPSettings(static_tokens=SecretStr(TOKENS))
    async with shop(settings) as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEAD + CHUNKED)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 401 ")
        writer.write(b"zz\r\n")
        assert await is_closed(reader)
    assert [one.getMessage() for one in caplog.records if one.exc_info] == []


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
    async with serving(lambda when_ready: WebServer(config, when_ready=when_ready)) as url, new_client(url) as client:
        for _ in range(3):
            assert (await client.post("/", content=b"x" * 1_000_000)).text == "nobody"
            assert (await client.get("/")).text == "nobody"


async def test_the_header_timer_restarts_with_each_request_and_small_packets_are_not_delayed() -> None:
    connections: list[Any] = []
    async with shop(protocol=watching(connections)) as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEALTH)
        assert HEALTHY in await reader.readuntil(b"}")
        [connection] = connections
        # with Nagle's algorithm, each answer would wait for the client's delayed acknowledgement
        assert connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.limits = ConnectionLimits(head_seconds=SHORT)
        writer.write(b"GET /hea")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_slow_body_gets_408_but_a_read_can_take_longer_than_its_body() -> None:
    async with shop(body_seconds=SHORT) as (client, found):
        async with connected(client.base_url) as (reader, writer):
            writer.write(HEAD + b"Content-Length: 10\r\n\r\n{")
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in answer.lower()
        reading = asyncio.create_task(client.post(**READ_SLOW))
        await until(found.begun.is_set)
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(2 * SHORT, passed.set)
        await passed.wait()
        found.gate.set()
        assert (await reading).json()["result"]["contents"]


@pytest.mark.parametrize(("at_once", "times"), [(90, 1), (10, 100_000)], ids=["less than 64 KB", "endless"])
async def test_a_client_that_does_not_read_is_disconnected(at_once: int, times: int) -> None:
    connections: list[Any] = []

    class SmallBuffer(watching(connections, limits=ConnectionLimits(unread_seconds=SHORT))):  # type: ignore[misc]  # made here
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            super().connection_made(transport)

    async def ask(client: socket.socket, port: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", port))
        with suppress(ConnectionError):
            for _ in range(times):
                await loop.sock_sendall(client, HEALTH * at_once)
                await asyncio.sleep(0)

    async with shop(protocol=SmallBuffer) as (client, _):
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.settimeout(0)
            asking = asyncio.create_task(ask(silent, client.base_url.port or 0))
            await until(lambda: connections)
            await until(lambda: not connections)
            asking.cancel()


async def test_an_answer_is_sent_as_a_whole() -> None:
    """A proxy repeats a read if the server is killed before the answer, not if it is killed in the answer."""
    sent: list[bytes] = []

    class Recording(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            write = transport.write

            def record(data: bytes | bytearray | memoryview) -> None:
                sent.append(bytes(data))
                write(data)

            transport.write = record  # type: ignore[method-assign]  # so that the test sees each write
            super().connection_made(transport)

    async with shop(protocol=Recording) as (client, _):
        bodies = [(await client.post(**asked)).content for asked in (READ_QUICK, CALL_QUICK, READ_QUICK)]
    assert [part.partition(b"\r\n\r\n")[2] for part in sent] == bodies
    assert all(part.startswith(b"HTTP/1.1 200 ") for part in sent)


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

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self._is_aborted = True

    def close(self) -> None:
        self._is_aborted = True

    def is_closing(self) -> bool:
        return self._is_aborted


async def test_a_client_that_reads_slowly_is_disconnected_only_when_it_stops() -> None:
    transport = SlowlyRead([50_000, 30_000, 10_000, 10_000])
    config = configure_uvicorn(PlainTextResponse(""), HTTPSettings(), seconds_to_finish=1)
    protocol = Connection(config, ServerState(), {})
    protocol.limits = ConnectionLimits(unread_seconds=0.001)  # the timer starts again while the client reads
    protocol.connection_made(transport)
    protocol.pause_writing()
    await until(transport.is_closing)
    assert transport.sizes == []


@pytest.mark.parametrize("error", [None, ConnectionResetError()], ids=["closed", "reset"])
@pytest.mark.parametrize("phase", ["head", "unread", "keep-alive", "shutdown"])
async def test_no_timer_holds_a_connection_that_is_lost(phase: str, error: Exception | None) -> None:
    config = configure_uvicorn(PlainTextResponse(""), HTTPSettings(), seconds_to_finish=1)
    protocol: Connection | None = Connection(config, ServerState(), {})
    assert protocol
    known = ref(protocol)
    protocol.connection_made(SlowlyRead([1]))
    if phase == "unread":
        protocol.pause_writing()
    if phase == "keep-alive":
        protocol.data_received(HEALTH)
        await until(lambda: protocol and protocol.timeout_keep_alive_task)
    if phase == "shutdown":
        protocol.shutdown()
    protocol.connection_lost(error)
    protocol = None
    await asyncio.sleep(0)  # the request's task ends
    gc.collect()
    assert known() is None


@pytest.mark.parametrize("count", [20, pytest.param(2_000, marks=pytest.mark.soak)])
async def test_connections_that_are_reset_leave_nothing(count: int) -> None:
    """Each kept its head of up to 64 KB for the 75 s of an idle connection, and counted as no connection."""
    open_now: list[Any] = []

    def find_remains() -> list[str]:
        gc.collect()
        return [type(one).__name__ for one in gc.get_objects() if isinstance(one, Connection | RequestResponseCycle)]

    async with shop(protocol=watching(open_now)) as (client, _):
        before = find_remains()
        for _ in range(count):
            async with connected(client.base_url) as (reader, writer):
                writer.write(HEALTH[:-2] + b"X-Filler: " + b"x" * 60_000 + b"\r\n\r\n")
                await reader.readuntil(b"}")
                linger = struct.pack("ii", 1, 0)  # close() then sends RST
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await until(lambda: not open_now)
        assert find_remains() == before


async def test_a_client_that_leaves_in_any_phase_leaves_nothing(caplog: Captured) -> None:
    open_now: list[Any] = []
    chunked = HEAD + FIELDS + CHUNKED + b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
    whole = HEAD + FIELDS + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    phases = (b"", HEAD[:20], HEAD, HEAD + FIELDS + b"\r\n", whole[:-20], chunked[:-6], chunked + b"a: b", whole)
    async with shop(protocol=watching(open_now)) as (client, _):
        for sent in (*phases, HEALTH * 3 + HEALTH[:9]):
            for cut in ("close", "abort", "write_eof"):
                async with connected(client.base_url) as (_, writer):
                    writer.write(sent)
                    await writer.drain()
                    getattr(writer.transport, cut)()
        await until(lambda: not open_now)
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
    assert problems(caplog) == []


async def test_at_the_limit_only_load_balancers_are_answered() -> None:
    async with shop(HTTPSettings(max_connections=1), protocol=NEVER_IDLE) as (client, _), AsyncExitStack() as stack:
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK  # and the connection stays open
        async with new_client(client.base_url) as other:
            for path in ("/health", "/ready"):
                answer = await other.get(path)
                assert (answer.status_code, answer.headers["connection"]) == (HTTPStatus.OK, "close")
            for refused in (await other.post(**READ_QUICK), await other.get("/metrics")):
                assert refused.status_code == HTTPStatus.SERVICE_UNAVAILABLE
                assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
        for _ in range(RESERVED_CONNECTIONS):
            await stack.enter_async_context(connected(client.base_url))
        reader, _ = await stack.enter_async_context(connected(client.base_url))
        assert await is_closed(reader)  # above the reserve
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK


def test_a_server_that_starts_again_can_have_its_port() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            listener.accept()[0].close()  # the system keeps the connection of who closes first for a minute
            assert client.recv(1) == b""
    listen("127.0.0.1", port).close()


async def test_a_silent_connection_makes_room() -> None:
    async with (
        shop(HTTPSettings(max_connections=2), protocol=with_limits(idle_seconds=0)) as (client, _),
        connected(client.base_url) as (busy, writer),
    ):
        writer.write(HEALTH)
        assert HEALTHY in await busy.readuntil(b"}")
        async with connected(client.base_url) as (oldest, _):
            assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
            assert await is_closed(oldest)
        writer.write(HEALTH)
        assert HEALTHY in await busy.readuntil(b"}")


async def test_idle_connections_make_room_for_new_callers() -> None:
    """140 connections with one request each kept all callers out for 75 s."""
    settings = HTTPSettings(max_connections=10)
    async with shop(settings, protocol=with_limits(idle_seconds=0)) as (client, found), AsyncExitStack() as stack:
        reading = asyncio.create_task(client.post(**READ_SLOW))
        await until(found.begun.is_set)
        idle = [await stack.enter_async_context(connected(client.base_url)) for _ in range(14)]
        for reader, writer in idle:
            with suppress(ConnectionError, asyncio.IncompleteReadError):  # it has made room already
                writer.write(HEALTH)
                await reader.readuntil(b"}")
        async with new_client(client.base_url) as other:
            assert (await other.post(**READ_QUICK)).status_code == HTTPStatus.OK
        found.gate.set()
        assert (await reading).status_code == HTTPStatus.OK  # a connection that waits for its answer is not idle


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


HERE: dict[str, str] = {}
BEN = {"Authorization": "Bearer the-token-of-ben"}
BOTH = SecretStr(json.dumps({f"the-token-of-{name}": {"client_id": name} for name in ("ann", "ben")}))
FORWARDED = {"X-Forwarded-For": "203.0.113.7"}
STREAMS = {"address": (20, 2, None, HERE, FORWARDED), "person": (5, 1, BOTH, ANN, BEN)}


@pytest.mark.parametrize(("connections", "count", "tokens", "one", "other"), STREAMS.values(), ids=STREAMS)
async def test_one_caller_cannot_open_all_streams(
    connections: int, count: int, tokens: SecretStr | None, one: dict[str, str], other: dict[str, str]
) -> None:
    settings = HTTPSettings(max_connections=connections, static_tokens=tokens)
    async with shop(settings, transport="sse") as (client, _), AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(client.stream("GET", "/sse", headers=one)) for _ in range(count)]
        assert [stream.status_code for stream in streams] == [HTTPStatus.OK] * count
        refused = await client.get("/sse", headers=one)
        assert (refused.status_code, bool(refused.headers["retry-after"])) == (HTTPStatus.TOO_MANY_REQUESTS, True)
        assert refused.json()["error"]["data"]["details"] == f"at most {count} streams"
        async with client.stream("GET", "/sse", headers=other) as allowed:
            assert allowed.status_code == HTTPStatus.OK
        await streams[0].aclose()

        async def opens_again() -> bool:
            async with client.stream("GET", "/sse", headers=one) as again:
                return bool(again.status_code == HTTPStatus.OK)

        await until_awaited(opens_again)  # the server notices the end later


@pytest.mark.parametrize(
    ("tokens", "one", "other"), [(BOTH, ANN, BEN), (None, HERE, FORWARDED)], ids=["person", "address"]
)
async def test_one_caller_cannot_fill_the_memory_with_unfinished_bodies(
    tokens: SecretStr | None, one: dict[str, str], other: dict[str, str]
) -> None:
    whole, half = BODY.ljust(1_000_000), 500_000

    async with shop(HTTPSettings(static_tokens=tokens)) as (client, _), AsyncExitStack() as stack:

        async def begin(headers: dict[str, str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await stack.enter_async_context(connected(client.base_url))
            writer.write(HEAD + lines_of(with_headers(READ_QUICK, headers)))
            writer.write(b"Content-Length: %d\r\n\r\n" % len(whole) + whole[:half])
            return reader, writer

        connections = [await begin(one) for _ in range(UNFINISHED_BODIES + 2)]
        answers = [asyncio.create_task(reader.readuntil(b"\r\n\r\n")) for reader, _ in connections]
        await until(lambda: sum(answer.done() for answer in answers) == 2)
        refused = [
            (answer.result(), reader) for answer, (reader, _) in zip(answers, connections, strict=True) if answer.done()
        ]
        assert all(head.startswith(b"HTTP/1.1 429 ") and b"retry-after: 1\r\n" in head for head, _ in refused)
        error = json.loads(await refused[0][1].readuntil(b"}}}"))["error"]["data"]
        details = f"at most {UNFINISHED_BODIES} bodies that are not complete"
        assert (error["details"], error["transient"]) == (details, True)
        assert (await client.post(**with_headers(READ_QUICK, one))).status_code == HTTPStatus.OK  # in one piece

        reader, writer = await begin(other)
        waiting = [pair for pair, answer in zip(connections, answers, strict=True) if not answer.done()]
        for _, held in (*waiting, (reader, writer)):
            held.write(whole[half:])
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        assert {(await answer)[:13] for answer in answers} == {b"HTTP/1.1 200 ", b"HTTP/1.1 429 "}


@pytest.mark.parametrize("end", ["complete", "disconnect", "error"])
async def test_a_body_that_ends_in_any_way_makes_room(end: str) -> None:
    last: dict[str, Message] = {"complete": {"type": "http.request"}, "disconnect": {"type": "http.disconnect"}}
    begun = ended = 0
    gate, is_over, sent = asyncio.Event(), asyncio.Event(), list[Message]()
    part = {"type": "http.request", "body": b"x", "more_body": True}

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal begun, ended
        assert await receive() == part
        begun += 1
        try:
            await receive()
        finally:
            ended += 1
        await is_over.wait()  # the request goes on when its body has ended

    async def send(message: Message) -> None:
        sent.append(message)

    def start() -> asyncio.Task[None]:
        parts = [part]

        async def receive() -> Message:
            if parts:
                return parts.pop()
            await gate.wait()
            if end == "error":
                raise ConnectionResetError
            return last[end]

        scope = {"type": "http", "headers": [], "client": ("203.0.113.7", 1)}
        return asyncio.create_task(limited(scope, receive, send))

    limited = UnfinishedBodies(read)
    for total in (UNFINISHED_BODIES, 2 * UNFINISHED_BODIES):
        running = [start() for _ in range(UNFINISHED_BODIES)]
        await until(lambda: begun == total or sent)  # noqa: B023 - it is called now
        await asyncio.wait([start()], timeout=SECONDS)
        assert (sent[0]["status"], begun) == (HTTPStatus.TOO_MANY_REQUESTS, total)
        sent.clear()
        gate.set()
        await until(lambda: ended == total)  # noqa: B023 - as above
        gate.clear()
    is_over.set()
    await asyncio.gather(*running, return_exceptions=True)


async def test_messages_to_a_stream_that_is_not_read_are_refused() -> None:
    session, is_read = uuid4(), asyncio.Event()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        text = f"event: endpoint\r\ndata: /messages/?session_id={session.hex}\r\n\r\n"
        await PlainTextResponse(text if scope["path"] == "/sse" else "Accepted", HTTPStatus.ACCEPTED)(
            scope, receive, send
        )

    async def wait(message: Message) -> None:
        if "body" in message:
            await is_read.wait()

    async def ask(query: str) -> int:
        found = []

        async def note(message: Message) -> None:
            found.append(message.get("status", 0))

        await limited({**scope, "path": "/messages/", "query_string": query.encode()}, no_body, note)
        return int(found[0])

    async def no_body() -> Message:
        return {"type": "http.request"}

    scope = {"type": "http", "path": "/sse", "query_string": b"", "headers": [], "client": ("203.0.113.7", 1)}
    limited = StreamLimit(answer, path="/sse", max_connections=10, max_unanswered=2)
    stream = asyncio.create_task(limited(scope, no_body, wait))
    await asyncio.sleep(0)
    assert [await ask(f"session_id={session.hex}") for _ in range(2)] == [HTTPStatus.ACCEPTED] * 2
    for query in (f"session_id={session.hex}", f"session_id={{{session}}}", f"session_id=x&session_id={session}"):
        assert await ask(query) == HTTPStatus.TOO_MANY_REQUESTS, query
    assert [await ask(query) for query in (f"session_id={uuid4().hex}", "session_id=x", "")] == [
        HTTPStatus.ACCEPTED
    ] * 3
    is_read.set()
    await stream
    assert await ask(f"session_id={session.hex}") == HTTPStatus.ACCEPTED  # the stream is gone, so FastMCP answers


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_the_limit_of_descriptors_is_raised(workers: str, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))  # the server inherits it
    try:
        async with serve_http(tmp_path, "--workers", workers) as server:
            for pid in (server.process.pid, *server.workers):
                assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (min(hard, 1_048_576), hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("limit", "advice"), [(1024, "or set QUILT_MCP_MAX_CONNECTIONS to at most 736"), (200, "systemd unit).")]
)
def test_more_connections_than_descriptors_are_refused(limit: int, advice: str) -> None:
    command = ["/bin/sh", "-c", f'ulimit -n {limit}; exec "$0" serve --transport http --port 0', executable()]
    environment = os.environ | {"QUILT_MCP_MAX_CONNECTIONS": "1500"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS)
    needed = 1500 + RESERVED_CONNECTIONS + OTHER_DESCRIPTORS
    assert found.returncode == 2
    for part in (f"QUILT_MCP_MAX_CONNECTIONS=1500 needs {needed} file descriptors", f"only {limit}", advice):
        assert part in found.stderr
    assert "Traceback" not in found.stderr

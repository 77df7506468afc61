"""What one client may cost: bodies, headers, time, connections."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quilt_mcp.http import connections, request_limits, web_server
from quilt_mcp.http.settings import HTTPSettings
from tests.over_http.web import QUICK, READ_QUICK, READ_SLOW, shop
from tests.waiting import SECONDS, until


class WithPythonParser(connections.Impatient, H11Protocol):
    """For where httptools is not installed."""


@pytest.fixture(autouse=True, params=["httptools", "h11"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "h11":
        monkeypatch.setattr(web_server, "ImpatientProtocol", WithPythonParser)
    else:
        assert issubclass(connections.ImpatientProtocol, HttpToolsProtocol)


LEAST = HTTPSettings(max_request_bytes=4096)
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"


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
async def test_a_larger_body_than_the_setting_is_refused_unread(way: str) -> None:
    async with shop(LEAST) as (client, _):
        body = b" " * 100_000 if way == "declared" else chunks(100_000)
        answer = await client.post("/mcp", content=body, headers=READ_QUICK["headers"])
        assert answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK


async def test_a_body_of_the_limit_is_taken() -> None:
    body = json.dumps(READ_QUICK["json"]).encode().ljust(4096)
    async with shop(LEAST) as (client, _):
        for more, status in ((b"", HTTPStatus.OK), (b" ", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)):
            answer = await client.post("/mcp", content=body + more, headers=READ_QUICK["headers"])
            assert answer.status_code == status


async def test_headers_without_end_are_cut_off() -> None:
    async with shop() as (client, _), connected(client.base_url) as (_, writer):
        writer.write(HEAD)
        with pytest.raises(ConnectionError):
            await write_headers(writer, 10_000)  # of 100 MB
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK


@pytest.mark.parametrize("sent", [b"", b"GET /hea", HEAD], ids=["nothing", "half a line", "half of the headers"])
async def test_who_does_not_ask_in_time_is_cut_off(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_the_clock_runs_anew_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b'{"status":"alive"}' in await reader.readuntil(b"}")
        writer.write(b"GET /hea")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_read_may_take_longer_than_asking_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    monkeypatch.setattr(request_limits, "BODY_SECONDS", 0.05)
    async with shop() as (client, found):
        reading = asyncio.create_task(client.post(**READ_SLOW))
        await until(found.begun.is_set)
        await asyncio.sleep(0.2)
        found.gate.set()
        assert (await reading).json()["result"]["contents"]


@pytest.mark.parametrize(("at_once", "times"), [(90, 1), (10, 100_000)], ids=["less than 64 KB", "without end"])
async def test_who_asks_and_does_not_read_is_cut_off(at_once: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made, lost = connections.Impatient.connection_made, connections.Impatient.connection_lost
    ended: list[connections.Impatient] = []

    def with_a_small_buffer(self: connections.Impatient, transport: asyncio.BaseTransport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        made(self, transport)

    def note(self: connections.Impatient, exc: Exception | None) -> None:
        ended.append(self)
        lost(self, exc)

    monkeypatch.setattr(connections.Impatient, "connection_made", with_a_small_buffer)
    monkeypatch.setattr(connections.Impatient, "connection_lost", note)
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.1)
    async with shop() as (client, _):
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.settimeout(0)
            asking = asyncio.create_task(ask(deaf, client.base_url.port or 0, at_once, times))
            await until(lambda: ended)
            asking.cancel()


async def ask(client: socket.socket, port: int, at_once: int, times: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    with suppress(ConnectionError):
        for _ in range(times):
            await loop.sock_sendall(client, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * at_once)
            await asyncio.sleep(0.01)


async def test_requests_that_wait_behind_another_are_answered() -> None:
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100)
        for _ in range(100):
            assert b'{"status":"alive"}' in await reader.readuntil(b"}")


async def test_who_reads_slowly_is_cut_off_only_when_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.001)
    transport = SlowlyRead([50_000, 30_000, 10_000, 10_000])
    protocol = connections.Impatient()
    protocol.transport = transport
    protocol.pause_writing()
    await until(transport.is_closing)
    assert transport.sizes == []


async def test_who_has_too_many_requests_wait_is_cut_off() -> None:
    transport = SlowlyRead([])
    protocol = connections.Impatient()
    protocol.transport, protocol.cycle = transport, None
    for waiting in (100, 101):
        protocol.pipeline = range(waiting)
        protocol.data_received(b"")
        assert transport.is_closing() == (waiting > 100)


class SlowlyRead(asyncio.Transport):
    """A connection with so many unsent bytes, each time that it is asked."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes
        self._is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.sizes.pop(0)

    def abort(self) -> None:
        self._is_aborted = True

    def is_closing(self) -> bool:
        return self._is_aborted


async def test_a_body_that_does_not_come_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "BODY_SECONDS", 0.1)
    async with shop() as (client, _), connected(client.base_url) as (reader, writer):
        writer.write(HEAD + b"Content-Length: 10\r\n\r\n{")
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in answer.lower()


async def test_a_connection_too_many_is_refused_and_the_others_are_served() -> None:
    async with shop(HTTPSettings(max_connections=2)) as (client, _):
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
        async with connected(client.base_url) as (reader, writer):
            writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("cut", ["close", "abort"])
async def test_a_read_is_given_up_when_its_client_is_gone(cut: str, caplog: pytest.LogCaptureFixture) -> None:
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


async def test_accepted_connections_send_small_packets_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Nagle's algorithm on, each answer would wait for the client's delayed acknowledgement."""
    made = connections.Impatient.connection_made
    options: list[int] = []

    def look(self: connections.Impatient, transport: asyncio.BaseTransport) -> None:
        options.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    monkeypatch.setattr(connections.Impatient, "connection_made", look)
    async with shop() as (client, _):
        assert (await client.post(**READ_QUICK)).json()["result"]["contents"][0]["uri"] == QUICK
    assert len(options) == 1
    assert all(options)

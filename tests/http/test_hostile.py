"""The table of hostile requests, against server processes, while an honest user reads."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from tests.http import test_tokens as tokens
from tests.http.hostile import CLOSED, ERROR, Row, rows
from tests.http.web import request
from tests.support.server_process import HTTPServerProcess, serve_http
from tests.support.waiting import SECONDS, until

READ = request("resources/read", uri="metadata://templates")
AT_ONCE = 40
SIGN_IN = {
    "QUILT_MCP_JWT_PUBLIC_KEY": tokens.PAIR.public_key,
    "QUILT_MCP_JWT_ISSUER": tokens.ISSUER,
    "QUILT_MCP_JWT_AUDIENCE": tokens.AUDIENCE,
    "QUILT_MCP_RATE_LIMIT": "none",
    "QUILT_MCP_CONCURRENT_READS": "0",
}


class Received(NamedTuple):
    status: int
    body: bytes

    def is_right(self, row: Row) -> bool:
        if b"Traceback" in self.body or self.status not in row.statuses:
            return row.succeeds and self.status == HTTPStatus.OK
        return self.status != ERROR or row.succeeds or self._is_error()

    def _is_error(self) -> bool:
        try:
            answer = json.loads(self.body)
        except ValueError:
            return False
        return "error" in answer or bool(answer.get("result", {}).get("isError"))


async def send(port: int, row: Row) -> Received:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    head = body = b""
    try:
        with suppress(ConnectionError):  # the server can refuse before it has read everything
            writer.write(row.sent)
            await writer.drain()
        if row.end == "cut":
            return Received(CLOSED, b"")
        if row.end == "half-close":
            with suppress(OSError):
                writer.write_eof()
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(int(lengths[0])) if lengths else b""
    finally:
        writer.transport.abort()
    return Received(int(head.split(b" ")[1]) if head else CLOSED, body)


class Honest:
    def __init__(self, port: int, headers: Mapping[str, str]) -> None:
        self.statuses: list[int] = []
        self._url = f"http://127.0.0.1:{port}"
        self._read = READ | {"headers": READ["headers"] | headers}

    async def run(self) -> None:
        while True:
            async with httpx2.AsyncClient(base_url=self._url, trust_env=False, timeout=SECONDS) as client:
                for _ in range(5):
                    self.statuses.append((await client.post(**self._read)).status_code)


async def run_table(server: HTTPServerProcess, table: list[Row], honest: Mapping[str, str]) -> dict[str, Received]:
    user, free = Honest(server.port, honest), asyncio.Semaphore(AT_ONCE)
    assert len({row.name for row in table}) == len(table) > 150

    async def send_one(row: Row) -> Received:
        async with free, asyncio.timeout(2 * SECONDS):
            return await send(server.port, row)

    reading = asyncio.create_task(user.run())
    found = await asyncio.gather(*map(send_one, table))
    before = len(user.statuses)
    await until(lambda: len(user.statuses) > before)  # it is still served
    reading.cancel()
    assert set(user.statuses) == {HTTPStatus.OK}
    errors = {"the log": Received(0, server.log.encode())} if "Traceback" in server.log else {}
    return errors | {
        row.name: received._replace(body=received.body[:200])
        for row, received in zip(table, found, strict=True)
        if not received.is_right(row)
    }


def line(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


@pytest.mark.soak
async def test_hostile_requests_without_sign_in(tmp_path: Path) -> None:
    async with serve_http(tmp_path) as server:
        assert await run_table(server, list(rows()), {}) == {}


@pytest.mark.soak
async def test_hostile_requests_with_sign_in_and_two_workers(tmp_path: Path) -> None:
    """With a valid token, and without a token."""
    ann = tokens.sign(tokens.claims())
    anonymous = [
        Row(f"anonymous: {row.name}", row.sent, (*row.statuses, HTTPStatus.UNAUTHORIZED), row.end)
        for row in rows()
        if ERROR in row.statuses and b" /mcp " in row.sent  # the others need no token
    ]
    table = [*rows(line(ann)), *anonymous]
    async with serve_http(tmp_path, "--workers", "2", **SIGN_IN) as server:
        assert await run_table(server, table, ann) == {}

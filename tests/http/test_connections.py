"""Limits on the number of connections and streams, and the file descriptors that they need."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr

from quilt_mcp.commands.install import executable
from quilt_mcp.http.connections import OTHER_DESCRIPTORS, RESERVED_CONNECTIONS
from quilt_mcp.settings import HTTPSettings
from tests.http.test_limits import HEALTH, connected, with_limits
from tests.http.web import READ_QUICK, READ_SLOW, shop
from tests.support.server_process import serve_http
from tests.support.waiting import SECONDS, until, until_awaited

NEVER_IDLE = with_limits(idle_seconds=SECONDS)
TOKENS = '{"ann": {"client_id": "ann"}, "ben": {"client_id": "ben"}}'


async def test_at_the_limit_only_load_balancers_are_answered() -> None:
    async with shop(HTTPSettings(max_connections=1), protocol=NEVER_IDLE) as (client, _):
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK  # and the connection stays open
        async with new_client(client) as other:
            for path in ("/health", "/ready"):
                answer = await other.get(path)
                assert (answer.status_code, answer.headers["connection"]) == (HTTPStatus.OK, "close")
            for refused in (await other.post(**READ_QUICK), await other.get("/metrics")):
                assert refused.status_code == HTTPStatus.SERVICE_UNAVAILABLE
                assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK


async def test_connections_above_the_reserve_are_closed() -> None:
    async with shop(HTTPSettings(max_connections=1), protocol=NEVER_IDLE) as (client, _), AsyncExitStack() as stack:
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
        for _ in range(RESERVED_CONNECTIONS):
            await stack.enter_async_context(connected(client.base_url))
        reader, _ = await stack.enter_async_context(connected(client.base_url))
        assert await is_closed(reader)
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK


async def test_a_silent_connection_makes_room() -> None:
    async with (
        shop(HTTPSettings(max_connections=2), protocol=with_limits(idle_seconds=0)) as (client, _),
        connected(client.base_url) as (busy, writer),
    ):
        writer.write(HEALTH)
        assert b'{"status":"alive"}' in await busy.readuntil(b"}")
        async with connected(client.base_url) as (oldest, _):
            assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.OK
            assert await is_closed(oldest)
        writer.write(HEALTH)
        assert b'{"status":"alive"}' in await busy.readuntil(b"}")


async def test_idle_connections_make_room_for_new_callers() -> None:
    """140 connections with one request each kept all callers out for 75 s."""
    settings = HTTPSettings(max_connections=10)
    async with (
        shop(settings, protocol=with_limits(idle_seconds=0)) as (client, found),
        AsyncExitStack() as stack,
    ):
        reading = asyncio.create_task(client.post(**READ_SLOW))
        await until(found.begun.is_set)
        idle = [await stack.enter_async_context(connected(client.base_url)) for _ in range(14)]
        for reader, writer in idle:
            with suppress(ConnectionError, asyncio.IncompleteReadError):  # it has made room already
                writer.write(HEALTH)
                await reader.readuntil(b"}")
        async with new_client(client) as other:
            assert (await other.post(**READ_QUICK)).status_code == HTTPStatus.OK
        found.gate.set()
        assert (await reading).status_code == HTTPStatus.OK  # a connection that waits for its answer is not idle


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


@asynccontextmanager
async def new_client(client: httpx2.AsyncClient) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=client.base_url, trust_env=False, timeout=SECONDS) as other:
        yield other


async def test_one_address_cannot_open_all_streams() -> None:
    async with shop(HTTPSettings(max_connections=20), transport="sse") as (client, _), AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(client.stream("GET", "/sse")) for _ in range(2)]
        assert [one.status_code for one in streams] == [HTTPStatus.OK] * 2
        refused = await client.get("/sse")
        assert refused.status_code == HTTPStatus.TOO_MANY_REQUESTS
        assert refused.headers["retry-after"]
        assert refused.json()["error"]["data"]["details"] == "at most 2 streams"
        async with client.stream("GET", "/sse", headers={"X-Forwarded-For": "203.0.113.7"}) as other:
            assert other.status_code == HTTPStatus.OK
        await streams[0].aclose()

        async def opens_again() -> bool:
            async with client.stream("GET", "/sse") as again:
                return bool(again.status_code == HTTPStatus.OK)

        await until_awaited(opens_again)  # the server notices the end later


async def test_streams_are_counted_for_each_person() -> None:
    settings = HTTPSettings(max_connections=10, static_tokens=SecretStr(TOKENS))
    ann, ben = ({"Authorization": f"Bearer {name}"} for name in ("ann", "ben"))
    async with shop(settings, transport="sse") as (client, _), client.stream("GET", "/sse", headers=ann) as stream:
        assert stream.status_code == HTTPStatus.OK
        assert (await client.get("/sse", headers=ann)).status_code == HTTPStatus.TOO_MANY_REQUESTS
        async with client.stream("GET", "/sse", headers=ben) as other:
            assert other.status_code == HTTPStatus.OK


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
    command = f'ulimit -n {limit}; exec "$0" serve --transport http --port 0'
    environment = os.environ | {"QUILT_MCP_MAX_CONNECTIONS": "1500"}
    found = subprocess.run(
        ["/bin/sh", "-c", command, executable()],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    needed = 1500 + RESERVED_CONNECTIONS + OTHER_DESCRIPTORS
    assert found.returncode == 2
    assert f"QUILT_MCP_MAX_CONNECTIONS=1500 needs {needed} file descriptors" in found.stderr
    assert f"only {limit}" in found.stderr
    assert advice in found.stderr
    assert "Traceback" not in found.stderr

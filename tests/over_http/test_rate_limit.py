"""How often a signed-in caller may ask over HTTP: the server as `quilt-mcp serve` makes it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from mcp.shared.exceptions import MCPError
from pydantic import SecretStr

from quilt_mcp.commands.http_server import create_web_server
from quilt_mcp.http.listening import listen
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings
from tests.over_http.web import request
from tests.waiting import SECONDS

TOKENS = json.dumps({f"token-of-{name}": {"client_id": name} for name in ("ann", "ben")})
ANN, BEN = ({"Authorization": f"Bearer token-of-{name}"} for name in ("ann", "ben"))
READ = request("resources/read", uri="metadata://examples")
LIST_TOOLS = request("tools/list")


@asynccontextmanager
async def serving(transport: Any = "http", **options: Any) -> AsyncIterator[str]:
    """A server that runs; its URL."""
    settings = Settings(**{"static_tokens": SecretStr(TOKENS)} | options)
    is_ready = asyncio.Event()
    web = create_web_server(
        create_server(settings), settings, transport=transport, host="127.0.0.1", when_ready=is_ready.set
    )
    with listen("127.0.0.1", 0) as listener:
        task = asyncio.create_task(web.serve([listener]))
        await asyncio.wait([task, asyncio.create_task(is_ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        web.should_exit = True
        await task


async def post(url: str, asked: dict[str, Any], who: dict[str, str]) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client:
        return await client.post(**asked | {"headers": asked["headers"] | who})


async def read_often(client: Client[Any], times: int) -> None:
    for _ in range(times):
        await client.read_resource("metadata://examples")


async def test_each_request_counts_once_whatever_it_asks() -> None:
    async with serving(rate_limit="4/day") as url:
        asked = (READ, LIST_TOOLS, READ, request("tools/call", name="get_resource", arguments={}), LIST_TOOLS, READ)
        statuses = [(await post(url, one, ANN)).status_code for one in asked]
        assert statuses == [HTTPStatus.OK] * 4 + [HTTPStatus.TOO_MANY_REQUESTS] * 2
        assert (await post(url, READ, BEN)).status_code == HTTPStatus.OK


async def test_who_asks_too_often_is_told_when_to_come_again() -> None:
    async with serving(rate_limit="1/hour") as url:
        await post(url, READ, ANN)
        refused = await post(url, READ, ANN)
    error = refused.json()["error"]
    assert refused.status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert refused.json() | {"error": None} == {"jsonrpc": "2.0", "id": None, "error": None}
    assert (error["code"], error["data"]["transient"]) == (-32001, True)
    assert 0 < int(refused.headers["retry-after"]) == error["data"]["retry_after_seconds"] <= 3601


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_either_era_sees_the_error(mode: Any) -> None:
    async with (
        serving(rate_limit="5/hour") as url,
        Client(StreamableHttpTransport(f"{url}/mcp", headers=ANN), mode=mode) as client,
    ):
        with pytest.raises(MCPError) as refused:
            await read_often(client, 6)
    assert refused.value.error.data["retry_after_seconds"] > 0


async def test_over_sse_too_each_message_counts_once() -> None:
    async with serving("sse", rate_limit="9/hour") as url, Client(SSETransport(f"{url}/sse", headers=ANN)) as client:
        # one request opens the stream, two messages begin the session
        await read_often(client, 6)
        assert (await post(url, READ | {"url": "/messages/"}, ANN)).status_code == HTTPStatus.TOO_MANY_REQUESTS


async def test_the_refusal_does_not_wait_for_the_body() -> None:
    async with serving(rate_limit="1/hour") as url:
        await post(url, READ, ANN)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        fields = f"Host: 127.0.0.1\r\nAuthorization: {ANN['Authorization']}\r\nContent-Length: 9\r\n"
        writer.write(f"POST /mcp HTTP/1.1\r\n{fields}\r\n".encode())
        async with asyncio.timeout(SECONDS / 4):
            assert b"429" in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_without_sign_in_nobody_is_limited() -> None:
    async with serving(rate_limit="1/day", concurrent_reads=1, static_tokens=None) as url:
        statuses = [(await post(url, READ, {})).status_code for _ in range(5)]
    assert statuses == [HTTPStatus.OK] * 5


async def test_the_metrics_tell_what_was_read_and_refused() -> None:
    async with serving(rate_limit="2/day", metrics_token=SecretStr("m")) as url:
        for _ in range(4):
            await post(url, READ, ANN)
        async with httpx2.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client:
            numbers = (await client.get("/metrics", headers={"Authorization": "Bearer m"})).text
    assert 'quilt_mcp_reads_total{outcome="ok",surface="resource",uri="metadata://examples"} 2.0' in numbers
    assert 'quilt_mcp_events_total{event="rate_limit"} 2.0' in numbers
    assert '"ann"' not in numbers

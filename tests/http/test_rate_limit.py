"""Rate limits over HTTP, with the server as `quilt-mcp serve` creates it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from mcp.shared.exceptions import MCPError
from pydantic import SecretStr

from quilt_mcp.commands.http_server import create_web_server
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings
from tests.http.web import request, serving
from tests.support.waiting import SECONDS

TOKENS = json.dumps({f"token-of-{name}": {"client_id": name} for name in ("ann", "ben")})
ANN, BEN = ({"Authorization": f"Bearer token-of-{name}"} for name in ("ann", "ben"))
ISSUER = "https://issuer.example.com"
READ = request("resources/read", uri="metadata://examples")
LIST_TOOLS = request("tools/list")


@asynccontextmanager
async def limited(transport: Any = "http", **options: Any) -> AsyncIterator[str]:
    """Run the whole server with these settings; the value is its URL."""
    settings = Settings(**{"static_tokens": SecretStr(TOKENS)} | options)
    create = partial(create_web_server, create_server(settings), settings, transport=transport, host="127.0.0.1")
    async with serving(lambda when_ready: create(when_ready=when_ready)) as url:
        yield url


async def post(url: str, asked: dict[str, Any], who: dict[str, str]) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client:
        return await client.post(**asked | {"headers": asked["headers"] | who})


async def read_often(client: Client[Any], times: int) -> None:
    for _ in range(times):
        await client.read_resource("metadata://examples")


@pytest.mark.soak
async def test_every_kind_of_request_counts_once() -> None:
    async with limited(rate_limit="4/day") as url:
        asked = (READ, LIST_TOOLS, READ, request("tools/call", name="get_resource", arguments={}), LIST_TOOLS, READ)
        statuses = [(await post(url, one, ANN)).status_code for one in asked]
        assert statuses == [HTTPStatus.OK] * 4 + [HTTPStatus.TOO_MANY_REQUESTS] * 2
        assert (await post(url, READ, BEN)).status_code == HTTPStatus.OK


@pytest.mark.soak
async def test_tokens_that_do_not_name_their_owner_count_together() -> None:
    pair = RSAKeyPair.generate()
    settings = {"jwt_public_key": pair.public_key, "jwt_issuer": ISSUER, "jwt_audience": "quilt-mcp"}
    tokens = [
        pair.create_token(
            subject="", issuer=ISSUER, audience="quilt-mcp", additional_claims={"client_id": "robot"} | more
        )
        for more in ({}, {"jti": "another"}, {"client_id": "other"})
    ]
    first, second, other = ({"Authorization": f"Bearer {token}"} for token in tokens)
    async with limited(static_tokens=None, rate_limit="2/day", **settings) as url:
        answers = [await post(url, READ, who) for who in (first, second, first, other)]
    assert [one.status_code for one in answers] == [HTTPStatus.OK] * 2 + [HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.OK]
    assert answers[0].json()["error"]["data"]["error"] == "Unauthorized"


async def test_a_refusal_says_when_to_try_again() -> None:
    async with limited(rate_limit="1/hour") as url:
        await post(url, READ, ANN)
        refused = await post(url, READ, ANN)
    error = refused.json()["error"]
    assert refused.status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert refused.json() | {"error": None} == {"jsonrpc": "2.0", "id": None, "error": None}
    assert (error["code"], error["data"]["transient"]) == (-31001, True)
    assert 0 < int(refused.headers["retry-after"]) == error["data"]["retry_after_seconds"] <= 3601


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clients_of_both_protocols_receive_the_error(mode: Any) -> None:
    async with (
        limited(rate_limit="5/hour") as url,
        Client(StreamableHttpTransport(f"{url}/mcp", headers=ANN), mode=mode) as client,
    ):
        with pytest.raises(MCPError) as refused:
            await read_often(client, 6)
    assert refused.value.error.data["retry_after_seconds"] > 0


@pytest.mark.soak
async def test_each_message_over_sse_counts_once() -> None:
    async with limited("sse", rate_limit="9/hour") as url, Client(SSETransport(f"{url}/sse", headers=ANN)) as client:
        # one request opens the stream, two messages initialize the session
        await read_often(client, 6)
        assert (await post(url, READ | {"url": "/messages/"}, ANN)).status_code == HTTPStatus.TOO_MANY_REQUESTS


async def test_a_request_is_refused_before_its_body_is_read() -> None:
    async with limited(rate_limit="1/hour") as url:
        await post(url, READ, ANN)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        fields = f"Host: 127.0.0.1\r\nAuthorization: {ANN['Authorization']}\r\nContent-Length: 9\r\n"
        writer.write(f"POST /mcp HTTP/1.1\r\n{fields}\r\n".encode())
        async with asyncio.timeout(SECONDS / 4):
            assert b"429" in await reader.readline()
        writer.close()
        await writer.wait_closed()


@pytest.mark.soak
async def test_the_limit_does_not_apply_without_sign_in() -> None:
    async with limited(rate_limit="1/day", concurrent_reads=1, static_tokens=None) as url:
        statuses = [(await post(url, READ, {})).status_code for _ in range(5)]
    assert statuses == [HTTPStatus.OK] * 5


@pytest.mark.soak
async def test_the_metrics_count_reads_and_refusals() -> None:
    async with limited(rate_limit="2/day", metrics_token=SecretStr("m")) as url:
        for _ in range(4):
            await post(url, READ, ANN)
        async with httpx2.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client:
            numbers = (await client.get("/metrics", headers={"Authorization": "Bearer m"})).text
    assert 'quilt_mcp_reads_total{outcome="ok",surface="resource",uri="metadata://examples"} 2.0' in numbers
    assert 'quilt_mcp_events_total{event="rate_limit"} 2.0' in numbers
    assert '"ann"' not in numbers

"""Rate limits: over HTTP, counted in this process, and in a Valkey that several processes share."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

import httpx2
import pytest
import time_machine
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import parse_many
from mcp.shared.exceptions import MCPError
from pydantic import SecretStr

from quilt_mcp.http.rate_limiter import MAX_COUNTERS, BoundedMemory, RateLimiter
from quilt_mcp.http.shared_state import open_pool
from quilt_mcp.settings import RATE_LIMIT
from tests.http.web import HEAD, READ, connected, request, statuses, whole_server, with_headers
from tests.support.examples import count_examples
from tests.support.valkey_server import Valkey, valkey_server
from tests.support.waiting import SECONDS

TOKENS = SecretStr(json.dumps({f"token-of-{name}": {"client_id": name} for name in ("ann", "ben")}))
ANN, BEN = ({"Authorization": f"Bearer token-of-{name}"} for name in ("ann", "ben"))
ISSUER, LIST = "https://issuer.example.com", request("tools/list")
MIDNIGHT = datetime(2026, 1, 15, tzinfo=UTC)


def limited(transport: str = "http", **options: Any) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
    return whole_server(transport, **{"static_tokens": TOKENS} | options)


async def test_each_kind_of_request_counts_once_and_a_refusal_says_when_to_try_again() -> None:
    async with limited(rate_limit="4/hour", metrics_token=SecretStr("m")) as client:
        call = request("tools/call", name="get_resource", arguments={})
        found = [await client.post(**with_headers(one, ANN)) for one in (READ, LIST, READ, call, LIST, READ)]
        assert [one.status_code for one in found] == [HTTPStatus.OK] * 4 + [HTTPStatus.TOO_MANY_REQUESTS] * 2
        assert await statuses(client, READ, BEN) == [HTTPStatus.OK]
        async with connected(client.base_url) as (reader, writer):  # refused before the body is read
            writer.write(HEAD + f"Authorization: {ANN['Authorization']}\r\nContent-Length: 9\r\n\r\n".encode())
            assert b"429" in await reader.readline()
        numbers = (await client.get("/metrics", headers={"Authorization": "Bearer m"})).text
    refused, error = found[-1], found[-1].json()["error"]
    assert refused.json() | {"error": None} == {"jsonrpc": "2.0", "id": None, "error": None}
    assert (error["code"], error["data"]["transient"]) == (-31001, True)
    assert 0 < int(refused.headers["retry-after"]) == error["data"]["retry_after_seconds"] <= 3601
    assert 'quilt_mcp_reads_total{outcome="ok",surface="resource",uri="metadata://examples"} 3.0' in numbers
    assert 'quilt_mcp_events_total{event="rate_limit"} 3.0' in numbers
    assert '"ann"' not in numbers


@pytest.mark.soak
async def test_tokens_that_do_not_name_their_owner_count_together() -> None:
    pair, named = RSAKeyPair.generate(), dict[str, Any](issuer=ISSUER, audience="quilt-mcp")
    first, second, other = (
        pair.create_token(subject="", additional_claims={"client_id": "robot"} | more, **named)
        for more in ({}, {"jti": "another"}, {"client_id": "other"})
    )
    key = {"jwt_public_key": pair.public_key, "jwt_issuer": ISSUER, "jwt_audience": "quilt-mcp"}
    async with limited(static_tokens=None, rate_limit="2/day", **key) as client:
        asked = [with_headers(READ, Authorization=f"Bearer {one}") for one in (first, second, first, other)]
        answers = [await client.post(**one) for one in asked]
    assert [one.status_code for one in answers] == [HTTPStatus.OK] * 2 + [HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.OK]
    assert answers[0].json()["error"]["data"]["error"] == "Unauthorized"


async def read_often(client: Client[Any], times: int) -> None:
    for _ in range(times):
        await client.read_resource("metadata://examples")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clients_of_both_protocols_receive_the_error(mode: Any) -> None:
    async with (
        limited(rate_limit="5/hour") as web,
        Client(StreamableHttpTransport(str(web.base_url.join("/mcp")), headers=ANN), mode=mode) as client,
    ):
        with pytest.raises(MCPError) as refused:
            await read_often(client, 6)
    assert refused.value.error.data["retry_after_seconds"] > 0


@pytest.mark.soak
async def test_each_message_over_sse_counts_once() -> None:
    async with (
        limited("sse", rate_limit="9/hour") as web,
        Client(SSETransport(str(web.base_url.join("/sse")), headers=ANN)) as client,
    ):
        await read_often(client, 6)  # one request opened the stream, two messages the session
        assert await statuses(web, READ | {"url": "/messages/"}, ANN) == [HTTPStatus.TOO_MANY_REQUESTS]


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with valkey_server() as server:
        yield server


async def count_allowed(limiter: RateLimiter, key: str, times: int) -> int:
    return sum([await limiter.hit(key) == 0 for _ in range(times)])


@pytest.mark.parametrize("rate", ["5/minute", "3/10 seconds", "5/minute;2/second", "7/day"])
async def test_a_request_is_admitted_after_the_returned_seconds(rate: str) -> None:
    limiter = RateLimiter(rate)
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        for _ in range(5):
            while not (wait := await limiter.hit("ann")):
                clock.shift(timedelta(seconds=0.1))
            assert wait >= 1
            clock.shift(timedelta(seconds=wait))
            assert await limiter.hit("ann") == 0


async def test_each_identity_has_its_own_limits_that_all_apply_and_refused_requests_do_not_count() -> None:
    one, several = RateLimiter("2/minute"), RateLimiter("5/minute;2/second")
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        assert [await count_allowed(one, name, 100) for name in ("ann", "ben")] == [2, 2]
        clock.shift(timedelta(minutes=2))
        assert await count_allowed(one, "ann", 3) == 2
        found = []
        for _ in range(4):
            found.append(await count_allowed(several, "ann", 4))
            clock.shift(timedelta(seconds=3))
    assert found == [2, 2, 1, 0]


@pytest.mark.soak
async def test_memory_is_bounded_for_any_number_of_identities() -> None:
    memory = BoundedMemory()
    limiter = RateLimiter("2/day", memory=memory)
    for number in range(100_000):
        await limiter.hit(f"user {number}")
    assert len(memory.counters) == MAX_COUNTERS
    assert await count_allowed(limiter, "user 99999", 2) == 1  # recently used counters are kept


async def test_expired_counters_are_removed() -> None:
    memory = BoundedMemory()
    limiter = RateLimiter("2/minute", memory=memory)
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        for number in range(50):
            await limiter.hit(f"user {number}")
        clock.shift(timedelta(minutes=3))
        await limiter.hit("ann")
        assert len(memory.counters) == 1


async def test_limiters_share_a_valkey_that_contains_no_names(valkey: Valkey) -> None:
    one, other = RateLimiter("6/hour", open_pool(valkey.url)), RateLimiter("6/hour", open_pool(valkey.url))
    crowd = RateLimiter("50/hour", open_pool(valkey.url, seconds=SECONDS))
    secret = '["https://issuer.example.com", "ann@example.com"]'
    assert await count_allowed(one, secret, 4) == 4
    assert await count_allowed(other, secret, 4) == 2
    assert 3000 < await one.hit(secret) <= 3601
    waits = await asyncio.gather(*(crowd.hit("crowd") for _ in range(200)))
    assert waits.count(0) == 50
    keys = valkey.keys()
    assert keys
    assert not [key for key in keys if "ann" in key or "issuer" in key]
    for limiter in (one, other, crowd):
        await limiter.close()


async def test_each_process_counts_by_itself_until_the_valkey_responds_again(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[str] = []
    with valkey_server() as own, caplog.at_level(logging.INFO, "quilt_mcp"):
        one, other = (
            RateLimiter("3/hour", open_pool(own.url), failed=partial(failures.append, name), pause_seconds=0)
            for name in ("one", "other")
        )
        third = RateLimiter("3/hour", open_pool(own.url), failed=partial(failures.append, "third"))
        assert [await count_allowed(one, "ann", 2), await count_allowed(other, "ann", 2)] == [2, 1]
        own.stop()
        assert [await count_allowed(one, "ann", 4), await count_allowed(other, "ann", 4)] == [3, 3]
        assert await count_allowed(third, "ben", 4) == 3
        assert failures == ["one"] * 4 + ["other"] * 4 + ["third"]  # which does not use it for a while
        own.start()
        assert [await count_allowed(one, "ann", 2), await count_allowed(other, "ann", 2)] == [2, 1]
        for limiter in (one, other, third):
            await limiter.close()
    lost, found = "the shared state does not respond", "the shared state responds again"
    assert [record.getMessage()[: len(lost)] for record in caplog.records] == [lost, lost, lost, found, found]
    assert own.url not in caplog.text


async def test_a_valkey_that_does_not_respond_has_a_time_limit() -> None:
    with valkey_server() as own:
        own.stall(milliseconds=600_000)
        limiter = RateLimiter("3/hour", open_pool(own.url, seconds=0.05))  # it is stalled
        async with asyncio.timeout(SECONDS):
            assert await count_allowed(limiter, "ann", 4) == 3
        await limiter.close()


@settings(max_examples=count_examples(25), deadline=None)
@given(st.from_regex(RATE_LIMIT, fullmatch=True))
def test_the_library_accepts_every_valid_setting(text: str) -> None:
    if text.strip() not in {"", "none"}:
        assert len(parse_many(text)) == text.count(";") + 1

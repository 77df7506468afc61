"""Counting requests, in this process and in a Valkey that several share."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import parse_many

from quilt_mcp import rate_limits, shared_state, trace
from quilt_mcp.rate_limits import MOST_COUNTERS, BoundedMemory, RateLimiter
from quilt_mcp.settings import RATE_LIMIT, Settings
from quilt_mcp.shared_state import open_pool
from tests.valkey_server import Valkey, valkey_server
from tests.waiting import SECONDS

MIDNIGHT = datetime(2026, 1, 15, tzinfo=UTC)
CHILD = """
import asyncio, sys
from quilt_mcp.rate_limits import RateLimiter
from quilt_mcp.shared_state import open_pool

async def main():
    limiter = RateLimiter("10/hour", open_pool(sys.argv[1]))
    print(sum([await limiter.hit("ann") == 0 for _ in range(10)]))
    await limiter.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with valkey_server() as server:
        yield server


async def answered(limiter: RateLimiter, key: str, times: int) -> int:
    """How many of so many requests may be answered."""
    return sum([await limiter.hit(key) == 0 for _ in range(times)])


async def test_an_identity_may_ask_so_often_and_others_too() -> None:
    limiter = RateLimiter("5/minute")
    assert await answered(limiter, "ann", 9) == 5
    assert await answered(limiter, "ben", 9) == 5


@pytest.mark.parametrize("rate", ["5/minute", "3/10 seconds", "5/minute;2/second", "7/day"])
async def test_after_the_seconds_that_it_tells_a_request_is_answered(rate: str) -> None:
    limiter = RateLimiter(rate)
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        for _ in range(5):
            while not (wait := await limiter.hit("ann")):
                clock.shift(timedelta(seconds=0.1))
            assert wait >= 1
            clock.shift(timedelta(seconds=wait))
            assert await limiter.hit("ann") == 0


async def test_what_is_refused_does_not_count() -> None:
    limiter = RateLimiter("2/minute")
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        await answered(limiter, "ann", 100)
        clock.shift(timedelta(minutes=2))
        assert await answered(limiter, "ann", 3) == 2


async def test_of_several_limits_each_holds() -> None:
    limiter = RateLimiter("5/minute;2/second")
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        found = []
        for _ in range(4):
            found.append(await answered(limiter, "ann", 4))
            clock.shift(timedelta(seconds=3))
    assert found == [2, 2, 1, 0]


async def test_a_hundred_thousand_identities_take_no_more_memory_than_some() -> None:
    memory = BoundedMemory()
    limiter = RateLimiter("2/day", memory=memory)
    for number in range(100_000):
        await limiter.hit(f"user {number}")
    assert len(memory) == MOST_COUNTERS
    assert await answered(limiter, "user 99999", 2) == 1  # who asked last is still known


async def test_counters_whose_time_is_over_are_gone() -> None:
    memory = BoundedMemory()
    limiter = RateLimiter("2/minute", memory=memory)
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        for number in range(50):
            await limiter.hit(f"user {number}")
        clock.shift(timedelta(minutes=3))
        await limiter.hit("ann")
        assert len(memory) == 1


async def test_limiters_share_a_valkey_and_in_it_nobody_is_named(valkey: Valkey) -> None:
    one, other = RateLimiter("6/hour", open_pool(valkey.url)), RateLimiter("6/hour", open_pool(valkey.url))
    secret = '["https://issuer.example.com", "ann@example.com"]'
    assert await answered(one, secret, 4) == 4
    assert await answered(other, secret, 4) == 2
    assert 3000 < await one.hit(secret) <= 3601
    keys = valkey.keys()
    assert keys
    assert not [key for key in keys if "ann" in key or "issuer" in key]
    await one.close()
    await other.close()


def test_processes_share_a_valkey(valkey: Valkey) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, valkey.url], stdout=subprocess.PIPE, text=True) for _ in "ab"
    ]
    assert sum(int(child.communicate(timeout=SECONDS)[0]) for child in children) == 10


async def test_without_the_valkey_each_counts_by_itself_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rate_limits, "PAUSE_SECONDS", 0.0)
    noted: list[trace.Event] = []
    with (
        valkey_server() as own,
        trace.observed_by(lambda _: None, noted=noted.append),
        caplog.at_level(logging.INFO, "quilt_mcp"),
    ):
        one, other = RateLimiter("3/hour", open_pool(own.url)), RateLimiter("3/hour", open_pool(own.url))
        assert [await answered(one, "ann", 2), await answered(other, "ann", 2)] == [2, 1]
        own.stop()
        assert [await answered(one, "ann", 4), await answered(other, "ann", 4)] == [3, 3]
        assert noted == ["shared_state_failure"] * 8
        own.start()
        assert [await answered(one, "ann", 2), await answered(other, "ann", 2)] == [2, 1]
        await one.close()
        await other.close()
    lost, found = "the shared state does not answer", "the shared state answers again"
    assert [record.getMessage()[: len(lost)] for record in caplog.records] == [lost, lost, found[:32], found[:32]]
    assert own.url not in caplog.text


async def test_a_valkey_that_failed_is_left_alone_for_a_while() -> None:
    noted: list[trace.Event] = []
    with valkey_server() as own, trace.observed_by(lambda _: None, noted=noted.append):
        limiter = RateLimiter("3/hour", open_pool(own.url))
        own.stop()
        assert await answered(limiter, "ann", 4) == 3
        await limiter.close()
    assert noted == ["shared_state_failure"]


async def test_a_valkey_that_does_not_answer_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_state, "STATE_SECONDS", 0.05)
    with valkey_server() as own:
        limiter = RateLimiter("3/hour", open_pool(own.url))
        assert await limiter.hit("ann") == 0
        own.stall(milliseconds=600_000)
        async with asyncio.timeout(SECONDS):
            assert await answered(limiter, "ann", 4) == 3
        await limiter.close()


async def test_many_at_once_are_counted_exactly(valkey: Valkey) -> None:
    limiter = RateLimiter("50/hour", open_pool(valkey.url))
    waits = await asyncio.gather(*(limiter.hit("crowd") for _ in range(200)))
    assert waits.count(0) == 50
    await limiter.close()


@settings(max_examples=25, deadline=None)
@given(st.from_regex(RATE_LIMIT, fullmatch=True))
def test_what_the_setting_takes_the_library_takes(text: str) -> None:
    if text.strip() not in {"", "none"}:
        assert len(parse_many(text)) == text.count(";") + 1


@pytest.mark.parametrize(
    "text", ["600", "0/minute", "-1/minute", "1/fortnight", "600/minute;", "x", "1e3/minute", "1//s"]
)
def test_another_rate_limit_is_a_wrong_setting(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_RATE_LIMIT", text)
    with pytest.raises(ValueError, match="it is not like 600/minute"):
        Settings()


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost",
        "localhost:6379",
        "valkey://",
        "valkey://host/0?socket_timeout=abc",
        "redis://:hidden@host:port/0",
        "",
    ],
)
def test_another_state_url_is_a_wrong_setting_and_its_password_is_not_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUILT_MCP_STATE_URL", url)
    with pytest.raises(ValueError, match="state_url") as refused:
        Settings()
    first = refused.value.errors()[0]  # type: ignore[attr-defined]  # it is pydantic's ValidationError
    assert "hidden" not in first["msg"]

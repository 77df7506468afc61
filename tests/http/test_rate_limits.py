"""Rate limits, counted in this process and in a Valkey that several processes share."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import time_machine
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import parse_many

from quilt_mcp.http.rate_limiter import MAX_COUNTERS, BoundedMemory, RateLimiter
from quilt_mcp.http.shared_state import open_pool
from quilt_mcp.settings import RATE_LIMIT, Settings
from tests.support.examples import count_examples
from tests.support.valkey_server import Valkey, valkey_server
from tests.support.waiting import SECONDS

MIDNIGHT = datetime(2026, 1, 15, tzinfo=UTC)
CHILD = """
import asyncio, sys
from quilt_mcp.http.rate_limiter import RateLimiter
from quilt_mcp.http.shared_state import open_pool

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


async def count_allowed(limiter: RateLimiter, key: str, times: int) -> int:
    """Return how many of these requests are admitted."""
    return sum([await limiter.hit(key) == 0 for _ in range(times)])


async def test_each_identity_has_its_own_limit() -> None:
    limiter = RateLimiter("5/minute")
    assert await count_allowed(limiter, "ann", 9) == 5
    assert await count_allowed(limiter, "ben", 9) == 5


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


async def test_refused_requests_do_not_count() -> None:
    limiter = RateLimiter("2/minute")
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        await count_allowed(limiter, "ann", 100)
        clock.shift(timedelta(minutes=2))
        assert await count_allowed(limiter, "ann", 3) == 2


async def test_several_limits_all_apply() -> None:
    limiter = RateLimiter("5/minute;2/second")
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        found = []
        for _ in range(4):
            found.append(await count_allowed(limiter, "ann", 4))
            clock.shift(timedelta(seconds=3))
    assert found == [2, 2, 1, 0]


@pytest.mark.soak
async def test_memory_is_bounded_for_any_number_of_identities() -> None:
    memory = BoundedMemory()
    limiter = RateLimiter("2/day", memory=memory)
    for number in range(100_000):
        await limiter.hit(f"user {number}")
    assert len(memory) == MAX_COUNTERS
    assert await count_allowed(limiter, "user 99999", 2) == 1  # recently used counters are kept


async def test_expired_counters_are_removed() -> None:
    memory = BoundedMemory()
    limiter = RateLimiter("2/minute", memory=memory)
    with time_machine.travel(MIDNIGHT, tick=False) as clock:
        for number in range(50):
            await limiter.hit(f"user {number}")
        clock.shift(timedelta(minutes=3))
        await limiter.hit("ann")
        assert len(memory) == 1


async def test_limiters_share_a_valkey_that_contains_no_names(valkey: Valkey) -> None:
    one, other = RateLimiter("6/hour", open_pool(valkey.url)), RateLimiter("6/hour", open_pool(valkey.url))
    secret = '["https://issuer.example.com", "ann@example.com"]'
    assert await count_allowed(one, secret, 4) == 4
    assert await count_allowed(other, secret, 4) == 2
    assert 3000 < await one.hit(secret) <= 3601
    keys = valkey.keys()
    assert keys
    assert not [key for key in keys if "ann" in key or "issuer" in key]
    await one.close()
    await other.close()


@pytest.mark.soak
def test_processes_share_a_valkey(valkey: Valkey) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, valkey.url], stdout=subprocess.PIPE, text=True) for _ in "ab"
    ]
    assert sum(int(child.communicate(timeout=SECONDS)[0]) for child in children) == 10


async def test_each_process_counts_by_itself_until_the_valkey_responds_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures: list[str] = []
    with valkey_server() as own, caplog.at_level(logging.INFO, "quilt_mcp"):
        one, other = (
            RateLimiter("3/hour", open_pool(own.url), failed=partial(failures.append, name), pause_seconds=0)
            for name in ("one", "other")
        )
        assert [await count_allowed(one, "ann", 2), await count_allowed(other, "ann", 2)] == [2, 1]
        own.stop()
        assert [await count_allowed(one, "ann", 4), await count_allowed(other, "ann", 4)] == [3, 3]
        assert failures == ["one"] * 4 + ["other"] * 4
        own.start()
        assert [await count_allowed(one, "ann", 2), await count_allowed(other, "ann", 2)] == [2, 1]
        await one.close()
        await other.close()
    lost, found = "the shared state does not respond", "the shared state responds again"
    assert [record.getMessage()[: len(lost)] for record in caplog.records] == [lost, lost, found, found]
    assert own.url not in caplog.text


async def test_a_failed_valkey_is_not_used_for_a_while() -> None:
    failures: list[str] = []
    with valkey_server() as own:
        limiter = RateLimiter("3/hour", open_pool(own.url), failed=partial(failures.append, "failed"))
        own.stop()
        assert await count_allowed(limiter, "ann", 4) == 3
        await limiter.close()
    assert len(failures) == 1


async def test_a_valkey_that_does_not_respond_has_a_time_limit() -> None:
    with valkey_server() as own:
        own.stall(milliseconds=600_000)
        limiter = RateLimiter("3/hour", open_pool(own.url, seconds=0.05))  # it is stalled
        async with asyncio.timeout(SECONDS):
            assert await count_allowed(limiter, "ann", 4) == 3
        await limiter.close()


async def test_concurrent_requests_are_counted_exactly(valkey: Valkey) -> None:
    limiter = RateLimiter("50/hour", open_pool(valkey.url, seconds=SECONDS))
    waits = await asyncio.gather(*(limiter.hit("crowd") for _ in range(200)))
    assert waits.count(0) == 50
    await limiter.close()


@settings(max_examples=count_examples(25), deadline=None)
@given(st.from_regex(RATE_LIMIT, fullmatch=True))
def test_the_library_accepts_every_valid_setting(text: str) -> None:
    if text.strip() not in {"", "none"}:
        assert len(parse_many(text)) == text.count(";") + 1


@pytest.mark.parametrize(
    "text", ["600", "0/minute", "-1/minute", "1/fortnight", "600/minute;", "x", "1e3/minute", "1//s"]
)
def test_an_invalid_rate_limit_is_an_error(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_RATE_LIMIT", text)
    with pytest.raises(ValueError, match="must be like 600/minute"):
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
def test_an_invalid_state_url_is_an_error_without_its_password(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_STATE_URL", url)
    with pytest.raises(ValueError, match="state_url") as refused:
        Settings()
    first = refused.value.errors()[0]  # type: ignore[attr-defined]  # it is pydantic's ValidationError
    assert "hidden" not in first["msg"]

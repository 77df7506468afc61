"""The direct path answers exactly as FastMCP's pipeline does."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from opentelemetry import trace

from tests.http.direct_pair import CALLERS, SHARE, Answer, Twin, ask_over_http, logging_to, pair
from tests.http.direct_requests import Sent, make_request, make_requests
from tests.support.serving import PROTOCOLS
from tests.support.waiting import SECONDS, until

Observed = tuple[Answer, list[Any]]


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    levels = {one: one.level for one in map(logging.getLogger, (None, "mcp"))}
    logging.getLogger().setLevel(logging.INFO)
    yield
    for logger, level in levels.items():
        logger.setLevel(level)


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return partial(pair, tmp_path, monkeypatch)


def plain(method: str = "resources/read", uri: str = "t://plain", *, is_sessionless: bool = True) -> Sent:
    rng = random.Random(0)  # noqa: S311 - a reproducible choice
    while True:
        sent = make_request(rng)
        protocol = dict(sent.headers)["mcp-protocol-version"]
        arguments = sent.message["params"].get("arguments")
        if sent.message["method"] == method and (protocol == "2026-07-28") is is_sessionless and arguments != {}:
            (sent.message["params"] if arguments is None else arguments)["uri"] = uri
            name = "get_resource" if method == "tools/call" else uri
            sent.headers = [(key, name if key == "mcp-name" else value) for key, value in sent.headers]
            return sent.write(rng)


def with_callers(requests: Iterable[Sent], *, has_sign_in: bool) -> Iterator[tuple[Sent, str | None]]:
    """Return who sends each request. Each caller sends so many that the last ones exceed the rate limit."""
    for number, sent in enumerate(requests):
        yield sent, f"caller-{number // SHARE % CALLERS}" if has_sign_in else None


async def observe(twin: Twin, sent: Sent, token: str | None = None) -> Observed:
    twin.noted.clear()
    with logging_to(twin.noted.append):
        answer = await twin.ask(sent, token)
        for _ in range(50 if answer.status == HTTPStatus.ACCEPTED else 0):
            await asyncio.sleep(0)  # the event loop handles a notification after it is accepted
    return answer, sorted(twin.noted, key=str)


async def find_difference(
    one_direct: Twin, without: Twin, requests: Iterable[tuple[Sent, str | None]]
) -> tuple[Sent, str | None, Observed, Observed] | None:
    """Send each request to both servers; return the first that fails, or has another answer, read or line of a log."""
    for sent, token in requests:
        one, other = await observe(one_direct, sent, token), await observe(without, sent, token)
        if one != other or (one[0].status or HTTPStatus.INTERNAL_SERVER_ERROR) >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return sent, token, one, other
    return None


@pytest.mark.parametrize(
    ("seed", "count"), [(2, 120), *(pytest.param(seed, 2400, marks=pytest.mark.soak) for seed in range(100, 120))]
)
async def test_the_answers_are_those_of_the_mcp_library(seed: int, count: int, twins: Any) -> None:
    has_sign_in = seed % 2 == 0
    async with twins(has_sign_in=has_sign_in) as (one_direct, without):
        requests = with_callers(make_requests(seed, count), has_sign_in=has_sign_in)
        assert await find_difference(one_direct, without, requests) is None
        assert min((await one_direct.count_messages()).values()) > count // 10
        assert (await without.count_messages())["direct"] == 0


@pytest.mark.parametrize("count", [50, pytest.param(250, marks=pytest.mark.soak)])
async def test_the_answers_are_the_same_over_real_connections(count: int, twins: Any) -> None:
    async with twins() as (one_direct, without):
        for sent in make_requests(3, count):
            assert await ask_over_http(one_direct, sent) == await ask_over_http(without, sent), sent
        await until(lambda: len(one_direct.noted) == len(without.noted))
        assert one_direct.noted == without.noted
        assert (await one_direct.count_messages())["direct"] > count // 5


async def test_concurrent_requests_get_their_own_answers(twins: Any) -> None:
    async with twins() as (one_direct, without):
        requests = make_requests(4, 60) + [plain(uri="t://gate") for _ in range(10)]
        answers = []
        for twin in (one_direct, without):
            asked = [asyncio.create_task(ask_over_http(twin, sent)) for sent in requests]
            await until(lambda: twin.gate.waiting == 10)  # noqa: B023 - awaited here
            twin.gate.open.set()
            answers.append(await asyncio.gather(*asked))
        assert answers[0] == answers[1]
        assert Counter(map(str, one_direct.noted)) == Counter(map(str, without.noted))


@pytest.mark.parametrize("method", ["resources/read", "tools/call"])
@pytest.mark.parametrize("is_sessionless", [True, False])
async def test_the_limit_of_concurrent_reads_holds(method: str, *, is_sessionless: bool, twins: Any) -> None:
    async with twins(has_sign_in=True, concurrent_reads=2) as both:
        refused = []
        for twin in both:
            sent = plain(method, "t://gate", is_sessionless=is_sessionless)
            waiting = [asyncio.create_task(twin.ask(sent, "caller-1")) for _ in range(2)]
            await until(lambda: twin.gate.waiting == 2)  # noqa: B023 - awaited here
            refused.append(await observe(twin, sent, "caller-1"))
            assert (await twin.ask(plain(method), "caller-2")).status == 200
            twin.gate.open.set()
            assert [one.status for one in await asyncio.gather(*waiting)] == [200, 200]
        assert "Too many concurrent reads" in refused[0][0].body
        assert refused[0] == refused[1]


@pytest.mark.parametrize("is_sessionless", [True, False])
async def test_a_request_is_cancelled_when_its_client_leaves(*, is_sessionless: bool, twins: Any) -> None:
    async with twins(has_sign_in=True) as both:
        for twin in both:
            sent = plain(uri="t://gate", is_sessionless=is_sessionless)
            asked = asyncio.create_task(ask_over_http(twin, sent, "caller-1"))
            await until(lambda: twin.gate.waiting == 1)  # noqa: B023 - awaited here
            asked.cancel()
            await until(lambda: twin.gate.waiting == 0 and len(twin.noted) == 2)  # noqa: B023 - awaited here
        one_direct, without = both
        for twin in both:
            twin.noted.sort(key=lambda one: isinstance(one, dict))
            assert (twin.noted[0][4], twin.noted[1]["outcome"]) == ("cancelled", "cancelled")
        assert one_direct.noted[0] == without.noted[0]
        if is_sessionless:  # in the older protocol, the MCP library cancels the read after the line is written
            assert one_direct.noted[1] == without.noted[1]
        assert (await one_direct.count_messages())["direct"] == 1


@pytest.mark.parametrize("mode", PROTOCOLS)
async def test_the_client_of_fastmcp_is_answered_directly(mode: str, twins: Any) -> None:
    async with twins() as (twin, _), Client(f"{twin.url}/mcp", mode=mode, timeout=SECONDS) as client:
        assert client.protocol_version == PROTOCOLS[mode]
        before = (await twin.count_messages())["direct"]
        await client.read_resource("t://plain")
        await client.call_tool("get_resource", {"uri": "t://plain"})
        assert (await twin.count_messages())["direct"] == before + 2


async def test_traced_requests_have_the_spans_of_fastmcp(twins: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with twins() as (one_direct, _):
        with monkeypatch.context() as patch:
            patch.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider())
            await one_direct.ask(plain())
        assert (await one_direct.count_messages()) == {"direct": 0, "pipeline": 1}


async def test_a_name_beyond_ascii_must_be_in_the_header_as_the_library_reads_it(twins: Any) -> None:
    sent = [plain(uri="t://pl\u00e4in") for _ in range(2)]
    sent[1].headers = [(key, value.encode().decode("latin-1")) for key, value in sent[1].headers]  # UTF-8
    async with twins() as (one_direct, without):
        assert await find_difference(one_direct, without, [(one, None) for one in sent]) is None


async def test_the_page_has_its_metadata(twins: Any) -> None:
    async with twins() as (one_direct, without):
        [page] = one_direct.mcp.manager.documents
        sent = [(plain(uri=page, is_sessionless=is_sessionless), None) for is_sessionless in (True, False)]
        assert await find_difference(one_direct, without, sent) is None
        assert (await one_direct.count_messages())["direct"] == 2


async def test_an_application_below_another_path_is_left_to_fastmcp(twins: Any) -> None:
    sent = plain()
    sent.path = "/below/mcp"
    async with twins() as (one_direct, without):
        assert await one_direct.ask(sent) == await without.ask(sent)

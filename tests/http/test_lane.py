"""The fast lane answers exactly as the MCP library does, and is closed while the server is in any other state."""

import asyncio
import json
import logging
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import fastmcp
import pytest
from fastmcp import FastMCP
from fastmcp.resources import Resource
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers import LocalProvider
from fastmcp.server.transforms import Namespace
from fastmcp.tools import Tool
from mcp.server.caching import CacheHint
from mcp_types import CallToolRequestParams, CallToolResult, ReadResourceRequestParams, ReadResourceResult
from opentelemetry import trace

from quilt_mcp.core import surfaces
from quilt_mcp.http import lane, plain_request
from quilt_mcp.http.plain_request import RequestReader
from quilt_mcp.http.tool_schemas import declare_input_schemas
from quilt_mcp.server import create_server
from quilt_mcp.settings import Settings
from tests.http.lane_pair import CALLERS, SHARE, Answer, Twin, ask_over_http, logging_to, pair, served_pair
from tests.http.lane_requests import Sent, make_request, make_requests
from tests.support.low_level import low_level
from tests.support.waiting import until

Observed = tuple[Answer, list[Any]]
Difference = tuple[Sent, str | None, Observed, Observed]


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    levels = {one: one.level for one in map(logging.getLogger, (None, "mcp"))}
    logging.getLogger().setLevel(logging.INFO)
    yield
    for logger, level in levels.items():
        logger.setLevel(level)


def plain(method: str = "resources/read", uri: str = "t://plain", *, is_sessionless: bool = True) -> Sent:
    """Return a request that the lane answers."""
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
    return answer, sorted(twin.noted, key=str)


async def find_difference(
    with_lane: Twin, without: Twin, requests: Iterable[tuple[Sent, str | None]]
) -> Difference | None:
    """Send each request to both servers; return the first with another answer, read, log line or audit line."""
    for sent, token in requests:
        one, other = await observe(with_lane, sent, token), await observe(without, sent, token)
        if one != other:
            return sent, token, one, other
    return None


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "has_sign_in"), [(1, False), (2, True)])
async def test_the_answers_are_those_of_the_mcp_library(
    seed: int, *, has_sign_in: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path, monkeypatch, has_sign_in=has_sign_in) as (with_lane, without):
        requests = with_callers(make_requests(seed, 1100), has_sign_in=has_sign_in)
        assert await find_difference(with_lane, without, requests) is None
        assert min((await with_lane.count_messages()).values()) > 250
        assert (await without.count_messages())["lane"] == 0


@pytest.mark.soak
async def test_many_answers_are_those_of_the_mcp_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(100, 120):
        has_sign_in = seed % 2 == 0
        async with pair(tmp_path, monkeypatch, has_sign_in=has_sign_in) as (with_lane, without):
            requests = with_callers(make_requests(seed, 2400), has_sign_in=has_sign_in)
            assert await find_difference(with_lane, without, requests) is None
            sys.stdout.write(f"seed {seed}: {await with_lane.count_messages()}\n")


async def test_the_rate_limit_counts_requests_that_the_lane_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path, monkeypatch, has_sign_in=True, rate_limit="3/day") as (with_lane, _):
        statuses = [(await with_lane.ask(plain(), "caller-0")).status for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]


@pytest.mark.parametrize("count", [50, pytest.param(250, marks=pytest.mark.soak)])
async def test_the_answers_are_the_same_over_real_connections(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served_pair(tmp_path, monkeypatch) as ((with_lane, one), (without, other)):
        for sent in make_requests(3, count):
            assert await ask_over_http(one, sent) == await ask_over_http(other, sent), sent
        await until(lambda: len(with_lane.noted) == len(without.noted))
        assert with_lane.noted == without.noted
        assert (await with_lane.count_messages())["lane"] > count // 5


async def test_concurrent_requests_get_their_own_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_pair(tmp_path, monkeypatch) as ((with_lane, one), (without, other)):
        requests = make_requests(4, 60) + [plain(uri="t://gate") for _ in range(10)]
        answers = []
        for twin, url in ((with_lane, one), (without, other)):
            asked = [asyncio.create_task(ask_over_http(url, sent)) for sent in requests]
            await until(lambda: twin.gate.waiting == 10)  # noqa: B023 - awaited here
            twin.gate.open.set()
            answers.append(await asyncio.gather(*asked))
        assert answers[0] == answers[1]
        assert Counter(map(str, with_lane.noted)) == Counter(map(str, without.noted))


@pytest.mark.parametrize("method", ["resources/read", "tools/call"])
@pytest.mark.parametrize("is_sessionless", [True, False])
async def test_the_limit_of_concurrent_reads_holds_in_the_lane(
    method: str, *, is_sessionless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path, monkeypatch, has_sign_in=True, concurrent_reads=2) as twins:
        refused = []
        for twin in twins:
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
async def test_a_request_is_cancelled_when_its_client_leaves(
    *, is_sessionless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served_pair(tmp_path, monkeypatch, has_sign_in=True) as twins:
        for twin, url in twins:
            sent = plain(uri="t://gate", is_sessionless=is_sessionless)
            asked = asyncio.create_task(ask_over_http(url, sent, "caller-1"))
            await until(lambda: twin.gate.waiting == 1)  # noqa: B023 - awaited here
            asked.cancel()
            await until(lambda: twin.gate.waiting == 0 and len(twin.noted) == 2)  # noqa: B023 - awaited here
        (with_lane, _), (without, _) = twins
        for twin in (with_lane, without):
            twin.noted.sort(key=lambda one: isinstance(one, dict))
            assert (twin.noted[0][4], twin.noted[1]["outcome"]) == ("cancelled", "cancelled")
        assert with_lane.noted[0] == without.noted[0]
        if is_sessionless:  # in the older protocol, the MCP library cancels the read after the line is written
            assert with_lane.noted[1] == without.noted[1]
        assert (await with_lane.count_messages())["lane"] == 1


@pytest.mark.parametrize("method", ["resources/read", "tools/call"])
@pytest.mark.parametrize("is_sessionless", [True, False])
async def test_a_bug_in_an_observer_has_the_answer_of_the_mcp_library(
    method: str, *, is_sessionless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("the disk is full")

    async with pair(tmp_path, monkeypatch) as (with_lane, without):
        sent = plain(method, is_sessionless=is_sessionless)
        with with_lane.mcp.manager.reads.observe(fail), without.mcp.manager.reads.observe(fail):
            assert await with_lane.ask(sent) == await without.ask(sent)
        assert (await with_lane.count_messages())["lane"] == 1


async def test_the_lane_is_open_for_the_whole_server(tmp_path: Path) -> None:
    server = create_server(Settings(data_dir=tmp_path))
    assert not lane.is_known(server)
    await declare_input_schemas(server)
    assert lane.is_known(server) is (lane.INSTALLED in lane.TESTED)


async def test_no_service_function_that_the_lane_calls_asks_fastmcp(tmp_path: Path) -> None:
    rows = create_server(Settings(data_dir=tmp_path)).manager.registry.values()
    modules = {row["category"]: vars(sys.modules[row["service_function"].__module__]) for row in rows}
    assert {scheme for scheme, names in modules.items() if "get_context" in names} == lane.ASKS_FASTMCP


def test_the_versions_that_are_tested_are_the_ones_that_are_installed() -> None:
    assert lane.INSTALLED in lane.TESTED


RENAMED = """
import sys
import fastmcp
from fastmcp.server import low_level
from quilt_mcp.server import create_server
mcp = create_server()
fastmcp.__version__ = sys.argv[1]
del low_level.FastMCPServerMiddleware
from quilt_mcp.http.app import create_application
from quilt_mcp.http import lane
from quilt_mcp.settings import Settings
create_application(mcp, Settings(), transport="http", host="127.0.0.1", checks={}).build_middleware_stack()
print(lane.is_known(mcp))
"""


@pytest.mark.soak
@pytest.mark.parametrize("version", ["4.1.3", fastmcp.__version__])
def test_a_version_with_other_names_serves_without_the_lane(version: str, data_dir: Path) -> None:
    del data_dir
    ran = subprocess.run([sys.executable, "-c", RENAMED, version], check=False, capture_output=True, text=True)
    if version == fastmcp.__version__:  # a name that a tested version does not have is a bug
        assert "ImportError: cannot import name 'FastMCPServerMiddleware'" in ran.stderr
    else:
        assert ran.stdout.split() == ["False"], ran.stderr


def _replace(target: object, name: str, make: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what replaces a function with one that is made from it."""
    return lambda monkeypatch: monkeypatch.setattr(target, name, make(getattr(target, name)))


def _answer_otherwise(before: bytes, after: bytes) -> Callable[[pytest.MonkeyPatch], None]:
    return _replace(lane, "_encode", lambda encode: lambda *given: encode(*given).replace(before, after))


def _skip_middleware(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: FastMCP[Any], context: object, call_next: Any, *, phase: str = "all") -> object:
        return await call_next(context)

    answer = lane.Lane._answer  # noqa: SLF001 - the fault is planted in it

    async def answer_without(self: lane.Lane, *given: Any) -> tuple[int, bytes]:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self._mcp, "_run_middleware", run.__get__(self._mcp))
            return await answer(self, *given)

    monkeypatch.setattr(lane.Lane, "_answer", answer_without)


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the order of the headers": _replace(
        lane,
        "_send",
        lambda send: (
            lambda out, asked, *rest: send(out, plain_request.PlainRequest(1, "", "", is_sessionless=False), *rest)
        ),
    ),
    "the status of errors": _replace(lane, "_encode_error", lambda encode: lambda *given: (200, encode(*given)[1])),
    "the flag of errors": _answer_otherwise(b'"isError":true', b'"isError":false'),
    "the type of the content": _answer_otherwise(b'"type":"text"', b'"type":"json"'),
    "the MIME type": _answer_otherwise(b"application/json", b"text/plain"),
    "the time to live": _answer_otherwise(b'"ttlMs":0', b'"ttlMs":1'),
    "the scope of caches": _answer_otherwise(b'"private"', b'"public"'),
    "the type of the result": _answer_otherwise(b',"resultType":"complete"', b""),
    "the name of the server": _answer_otherwise(b"quilt-mcp", b"quilt"),
    "escapes in texts": _answer_otherwise("\u00e4".encode(), b"\\\\u00e4"),
    "structured content": _answer_otherwise(b'"structuredContent"', b'"structured"'),
    "the id": _answer_otherwise(b'"id":7', b'"id":"7"'),
    "any id is accepted": _replace(plain_request, "_is_plain_id", lambda _: lambda value: True),
    "any content type is accepted": _replace(plain_request, "JSON", lambda _: None),
    "routing headers are not compared": _replace(
        plain_request, "_is_routed", lambda _: lambda headers, *given: plain_request.VERSION in headers
    ),
    "repeated headers are accepted": _replace(
        plain_request, "_find_headers", lambda find: lambda headers: find(dict(headers).items())
    ),
    "any client is accepted": _replace(RequestReader, "_is_known_client", lambda _: lambda *given: True),
    "unknown arguments are ignored": _replace(
        RequestReader,
        "_find_uri",
        lambda find: (
            lambda self, method, params: find(
                self,
                method,
                params | {"arguments": {"uri": params["arguments"]["uri"]}}
                if isinstance(params.get("arguments"), dict) and "uri" in params["arguments"]
                else params,
            )
        ),
    ),
    "the middleware does not run": _skip_middleware,
}


PROMPT = {"the status of errors", "any content type is accepted", "the middleware does not run"}
"""One of each kind: in the answer, in the request, and between. `make soak` plants the others."""


@pytest.mark.parametrize(
    "fault", [fault if fault in PROMPT else pytest.param(fault, marks=pytest.mark.soak) for fault in FAULTS]
)
async def test_a_fault_in_the_lane_is_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with pair(tmp_path, monkeypatch, has_sign_in=True) as (with_lane, without):
        FAULTS[fault](monkeypatch)
        requests = with_callers(make_requests(1, 1100), has_sign_in=True)
        assert await find_difference(with_lane, without, requests) is not None


class Other(Middleware):
    """Middleware of somebody else."""


class Addition(ServerExtension):
    """An extension of somebody else."""

    identifier = "com.example/addition"


async def _call(_: object, __: object) -> CallToolResult:
    return CallToolResult(content=[])


async def _read(_: object, __: object) -> ReadResourceResult:
    return ReadResourceResult(contents=[])


async def _pass_on(ctx: Any, call_next: Any) -> Any:
    return await call_next(ctx)


def _add_template(mcp: FastMCP[Any]) -> None:
    mcp.add_template(ResourceTemplate.from_function(lambda a: a, uri_template="t://{a}", name="other"))


def _require_rights(component: Any) -> None:
    component.auth = lambda _: True


CHANGES: dict[str, Callable[[FastMCP[Any], pytest.MonkeyPatch], object]] = {
    "middleware": lambda mcp, _: mcp.add_middleware(Other()),
    "middleware of the MCP library": lambda mcp, _: low_level(mcp).middleware.append(_pass_on),
    "a transform of the server": lambda mcp, _: mcp.add_transform(Namespace("other")),
    "a disabled component": lambda mcp, _: mcp.disable(tags={"other"}),
    "a transform of the tools": lambda mcp, _: mcp.local_provider.add_transform(Namespace("other")),
    "a transform of the resources": lambda mcp, _: mcp.providers[1].add_transform(Namespace("other")),
    "a provider": lambda mcp, _: mcp.add_provider(LocalProvider()),
    "a resource": lambda mcp, _: mcp.add_resource(Resource(uri="t://plain", name="other")),
    "a template": lambda mcp, _: _add_template(mcp),
    "another version of the tool": lambda mcp, patch: patch.setitem(
        mcp.local_provider._components,  # noqa: SLF001 - `add_tool` refuses it beside a tool without a version
        f"{lane.TOOL}2",
        Tool(name="get_resource", parameters={"type": "object"}),
    ),
    "an extension": lambda mcp, patch: patch.setitem(
        mcp._extensions,  # noqa: SLF001 - `add_extension` refuses it after the start
        Addition.identifier,
        Addition(),
    ),
    "a handler of calls": lambda mcp, _: low_level(mcp).add_request_handler("tools/call", CallToolRequestParams, _call),
    "a handler of reads": lambda mcp, _: low_level(mcp).add_request_handler(
        "resources/read", ReadResourceRequestParams, _read
    ),
    "a replaced method": lambda mcp, patch: patch.setattr(mcp, "call_tool", _call),
    "a replaced method of the class": lambda _, patch: patch.setattr(FastMCP, "read_resource", _read),
    "hints for caches": lambda mcp, _: low_level(mcp).cache_hints.update({"resources/read": CacheHint(ttl_ms=1)}),
    "an unknown schema": lambda mcp, patch: patch.setattr(low_level(mcp), "get_tool_input_schema", None),
    "another schema": lambda mcp, patch: patch.setattr(low_level(mcp), "get_tool_input_schema", {}.get),
    "a tracer": lambda _, patch: patch.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider()),
    "the log of all requests": lambda *_: logging.getLogger("mcp").setLevel(logging.DEBUG),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_after_the_start_closes_the_lane(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path, monkeypatch) as (with_lane, _):
        await with_lane.ask(plain())
        assert (await with_lane.count_messages()) == {"lane": 1, "pipeline": 0}
        with monkeypatch.context() as patch:
            CHANGES[change](with_lane.mcp, patch)
            await with_lane.ask(plain())
            assert (await with_lane.count_messages()) == {"lane": 1, "pipeline": 1}


@pytest.mark.parametrize("tested", [("0", lane.INSTALLED[1]), (lane.INSTALLED[0], "0")], ids=["FastMCP", "mcp"])
async def test_the_lane_is_closed_with_another_version(
    tested: lane.Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path, monkeypatch, tested=[tested]) as (with_lane, _):
        await with_lane.ask(plain())
        assert (await with_lane.count_messages()) == {"lane": 0, "pipeline": 1}
        assert not lane.is_known(with_lane.mcp, [tested])
        assert lane.is_known(with_lane.mcp, [lane.INSTALLED])


@pytest.mark.parametrize("method", ["resources/read", "tools/call"])
async def test_a_component_that_needs_rights_is_left_to_fastmcp(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path, monkeypatch) as (with_lane, _):
        local, surface = with_lane.mcp.providers
        is_call = method == "tools/call"
        _require_rights(await (local.get_tool("get_resource") if is_call else surface.get_resource("t://plain")))
        await with_lane.ask(plain(method))
        assert (await with_lane.count_messages()) == {"lane": 0, "pipeline": 1}


async def test_another_tool_of_the_same_name_is_left_to_fastmcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OtherTool(surfaces.GetResourceTool):
        """A tool that could answer otherwise."""

    async with pair(tmp_path, monkeypatch) as (with_lane, _):
        local = with_lane.mcp.local_provider
        own = await local.get_tool("get_resource")
        assert own
        local.remove_tool("get_resource")
        local.add_tool(OtherTool(**{name: getattr(own, name) for name in own.model_fields_set}))
        await with_lane.ask(plain("tools/call"))
        assert (await with_lane.count_messages()) == {"lane": 0, "pipeline": 1}


async def test_a_request_that_is_part_of_a_trace_is_left_to_fastmcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path, monkeypatch) as (with_lane, _):
        parent = trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=True))
        with trace.use_span(parent):
            await with_lane.ask(plain())
        assert (await with_lane.count_messages()) == {"lane": 0, "pipeline": 1}


async def test_an_application_below_another_path_is_left_to_fastmcp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_below(sent: Sent) -> Sent:
        sent.path = "/below/mcp"
        return sent

    async with pair(tmp_path, monkeypatch) as (with_lane, without):
        assert await with_lane.ask(put_below(plain())) == await without.ask(put_below(plain()))


async def test_a_client_with_much_to_say_about_itself_is_asked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path, monkeypatch) as (with_lane, without):
        for length in (1, 10, 100, 10_000):
            sent = plain_of("x" * length)
            assert await with_lane.ask(sent) == await without.ask(sent)
        assert (await with_lane.count_messages()) == {"lane": 3, "pipeline": 1}


def test_clients_above_the_number_that_is_remembered_are_read_too() -> None:
    reader = RequestReader({"t"}, max_clients=1)
    for name in ("a", "b", "a", "a"):
        sent = plain_of(name)
        headers = [(key.encode(), value.encode()) for key, value in sent.headers]
        assert reader.read(headers, sent.body)
        changed = sent.body.replace(b"clientCapabilities", b"clientOther")
        assert reader.read(headers, changed) is None


def plain_of(client: str) -> Sent:
    """Return a request of a client with this name."""
    sent = plain()
    sent.message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = client
    sent.body = json.dumps(sent.message).encode()
    return sent

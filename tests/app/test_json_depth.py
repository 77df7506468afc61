"""JSON that is nested too deeply is refused before Python's parser reads it."""

import gc
import json
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp_types import PARSE_ERROR
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from quilt_mcp.app.json_depth import MAX_DEPTH, is_nested_too_deeply
from quilt_mcp.app.message_text import find_refusal
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.http.layers import HandleMessage
from quilt_mcp.services.stack.session import StackSession
from tests.support.silent_server import SilentServer

DEEP = b"[" * 20_000
TEXTS = st.text() | st.sampled_from(['"', "\u2200", "\\", '\\"', "[" * 150, "{" * 150, "]}" * 100])
VALUES = st.recursive(TEXTS | st.none(), lambda one: st.lists(one) | st.dictionaries(TEXTS, one), max_leaves=20)


ENCODINGS = ["ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


HOSTILE = [
    rb'"\"',
    b'"',
    b"\\",
    b'\\"',
    b'"\\',
    b'"[',
    b'["',
    b"[]",
    b"{]",
    b"][",
    b'{"a":',
    b'\\\\"',
    b"\xff",
    b"[\x00",
]


@pytest.mark.parametrize("part", HOSTILE)
def test_no_text_takes_more_than_linear_time(part: bytes) -> None:
    for start in (b"", b'"', b'["'):
        assert is_nested_too_deeply(b"[" * 201 + start + part * 50_000)  # quadratic time would be minutes


def measure(value: object) -> int:
    """Return the number of levels, from the parsed value."""
    levels, depth = [value], 0
    while True:
        inner = [one for one in levels if isinstance(one, list | dict)]
        if not inner:
            return depth
        depth += 1
        levels = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]


@given(VALUES, st.integers(0, 250), st.sampled_from(["list", "object"]), st.sampled_from(ENCODINGS))
def test_the_depth_is_that_of_the_parsed_value(value: Any, around: int, kind: str, encoding: str) -> None:
    for _ in range(around):
        value = {"a[{": value, '"': 1} if kind == "object" else ["]}", value]
    text = json.dumps(value, ensure_ascii=encoding == "ascii", indent=1).encode(encoding, "surrogatepass")
    assert is_nested_too_deeply(text) == (measure(value) > MAX_DEPTH)


def test_text_that_is_not_json_is_measured_up_to_its_end() -> None:
    for text in (DEEP, b'{"a":' * 100_000, b"[" * 201, b'[["x"],' + b"[" * 200 + b'"'):
        assert is_nested_too_deeply(text), text[:9]
    only_strings = (b'["' * 300, json.dumps("[" * 1000).encode())
    for text in (b"", b"[" * 200, b"[]" * 50_000, b"<" + b"]" * 1000, *only_strings):
        assert not is_nested_too_deeply(text), text[:9]


class Fragile:
    """Garbage in a cycle. Its finalizer needs some frames, as the one of a connection pool does."""

    def __init__(self) -> None:
        self.cycle = self

    def __del__(self) -> None:
        descend(50)


def descend(frames: int) -> None:
    if frames:
        descend(frames - 1)


def run_with(reads: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """Call a function so that garbage is collected at many depths of the stack. Return the exceptions of finalizers."""
    failed: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: failed.append(what.exc_value))

    thresholds = gc.get_threshold()
    gc.freeze()  # makes each collection fast
    for containers in range(20, 1000, 20):
        gc.disable()
        for _ in range(20):
            Fragile()
        gc.set_threshold(gc.get_count()[0] + containers)  # the garbage is collected after so many new containers
        gc.enable()
        try:
            reads()
        finally:
            gc.set_threshold(*thresholds)
            gc.collect()
    gc.unfreeze()
    return failed


def parse() -> None:
    with pytest.raises(RecursionError):
        json.loads(DEEP)


@pytest.mark.soak
def test_the_parser_of_python_makes_finalizers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {RecursionError} if sys.version_info < (3, 12) else set()  # newer versions collect between instructions
    assert {type(one) for one in run_with(parse, monkeypatch)} == expected


def test_invalid_text_in_a_deep_message_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_with(lambda: find_refusal(b'["\\ud800",' + DEEP), monkeypatch) == []


def test_a_deep_response_of_the_stack_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    with SilentServer(lambda _: Answer(HTTPStatus.OK, DEEP)) as stack:

        def read() -> None:
            with StackSession((30, 30)) as session, pytest.raises(Unavailable) as error:
                session.get(f"{stack.url}/config.json")
            assert error.value.details == "nested too deeply"

        assert run_with(read, monkeypatch) == []


@pytest.mark.parametrize(("depth", "status"), [(MAX_DEPTH, 200), (MAX_DEPTH + 1, 400), (150_000, 400)])
async def test_a_deep_message_gets_400(depth: int, status: int) -> None:
    async def answer(request: Request) -> Response:
        return Response(await request.body())

    app = RequestBodyLimitMiddleware(HandleMessage(Starlette(routes=[Route("/mcp", answer, methods=["POST"])])), 10**6)
    body = b'{"a":' * depth + b"1" + b"}" * depth
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://server") as client:
        response = await client.post("/mcp", content=body)
    assert response.status_code == status
    if status != HTTPStatus.OK:
        error = response.json()["error"]
        assert error == {"code": PARSE_ERROR, "message": "The message is nested too deeply. Send at most 200 levels."}

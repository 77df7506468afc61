"""The manager: from a URI to data or a typed error."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import ResourceTemplateReference
from pydantic import BaseModel

from quilt_mcp.core import tracing
from quilt_mcp.core.answers import GetResourceError, GetResourceSuccess, to_json
from quilt_mcp.core.errors import (
    InvalidURI,
    MissingTemplateVariable,
    NotFound,
    ResourceExecutionError,
    TooManyRequests,
    Unavailable,
)
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import Values
from quilt_mcp.core.tracing import Read, count_call
from quilt_mcp.services.parallel_calls import fan_out
from tests.support.toys import toy, toy_manager, toy_server
from tests.support.waiting import SECONDS


class Price(BaseModel):
    amount: float
    since: datetime


def nothing() -> dict[str, Any]:
    return {}


def manager_of(
    function: Callable[..., Any],
    uri: str = "shop://thing",
    values: Mapping[str, Values] | None = None,
    **options: Any,
) -> ResourceManager:
    return toy_manager(toy(uri, function, name="Thing", values=values), **options)


async def respond(function: Callable[..., Any], **options: Any) -> GetResourceSuccess | GetResourceError:
    return await manager_of(function, **options).respond("shop://thing", surface="test")


async def test_a_sync_function_runs_in_a_thread_and_an_async_one_in_the_loop() -> None:
    def in_thread() -> dict[str, Any]:
        return {"main": threading.current_thread() is threading.main_thread()}

    async def in_loop() -> dict[str, Any]:
        return {"main": threading.current_thread() is threading.main_thread()}

    assert (await manager_of(in_thread).get_resource("shop://thing"))["data"] == {"main": False}
    assert (await manager_of(in_loop).get_resource("shop://thing"))["data"] == {"main": True}


async def test_get_resource_returns_uri_name_data_and_mime_type() -> None:
    assert await manager_of(lambda: {"a": 1}).get_resource("shop://thing") == {
        "uri": "shop://thing",
        "resource_name": "Thing",
        "data": {"a": 1},
        "mime_type": "application/json",
    }


async def test_a_model_becomes_json_also_inside_the_data() -> None:
    price = Price(amount=1.5, since=datetime(2026, 1, 2, tzinfo=UTC))
    expected = {"amount": 1.5, "since": "2026-01-02T00:00:00Z"}

    assert (await manager_of(lambda: price).get_resource("shop://thing"))["data"] == expected
    response = await respond(lambda: {"price": price})
    assert isinstance(response, GetResourceSuccess)
    assert response.data_json == '{"price":{"amount":1.5,"since":"2026-01-02T00:00:00Z"}}'


async def test_a_templates_value_is_decoded_and_passed_under_its_parameters_name() -> None:
    row = toy("shop://items/{id}", lambda name: {"got": name}, parameter_mapping={"id": "name"})
    answer = await toy_manager(row).get_resource("shop://items/a%2Db")
    assert answer["data"] == {"got": "a-b"}
    assert answer["uri"] == "shop://items/a%2Db"


async def test_python_callers_can_catch_builtin_exceptions() -> None:
    def failing() -> dict[str, Any]:
        raise Unavailable("closed")

    with pytest.raises(KeyError):
        await manager_of(failing).get_resource("shop://nothing")
    with pytest.raises(ValueError, match="not recognized"):
        await manager_of(failing).get_resource("no-uri")
    with pytest.raises(RuntimeError, match="closed"):
        await manager_of(failing).get_resource("shop://thing")


async def test_a_failure_that_a_service_raises_is_returned_unchanged() -> None:
    def failing() -> dict[str, Any]:
        raise NotFound("no such thing", details="d", suggested_actions=["look elsewhere"], transient=True)

    assert (await respond(failing)).body() == {
        "success": False,
        "uri": "shop://thing",
        "error": "NotFound",
        "message": "no such thing",
        "details": "d",
        "suggested_actions": ["look elsewhere"],
        "transient": True,
    }


async def test_what_a_uri_means_is_searched_only_if_it_is_short() -> None:
    asked: list[int] = []

    def guess(uri: str) -> str | None:
        asked.append(len(uri))
        return None

    manager = manager_of(nothing, guesses=[guess])
    for length in (20, 1024 * 1024):
        answer = await manager.respond("x" * length, surface="test")
        assert isinstance(answer, GetResourceError)
        assert answer.error == "InvalidURI"
    assert asked == [20]


async def test_a_foreign_exception_is_mapped_by_the_row_of_its_base_class() -> None:
    def failing() -> dict[str, Any]:
        raise ConnectionError("refused")

    response = await respond(failing, failures={"builtins.OSError": lambda _: Unavailable("far end down")})
    assert (response["error"], response["message"]) == ("ResourceExecutionError", "far end down")
    assert response.get("transient") is True


@pytest.mark.parametrize(
    "answer", [{"when": datetime(2026, 1, 1, tzinfo=UTC)}, {"ratio": float("nan")}, ["a list"], None], ids=str
)
async def test_a_bug_is_masked_and_logged_under_an_id(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    response = await respond(lambda: answer)

    assert isinstance(response, GetResourceError)
    assert response.error == "ResourceExecutionError"
    assert not response.transient
    correlation_id = (response.details or "").removeprefix("correlation id ")
    [bug] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert correlation_id in bug.getMessage()


async def test_the_text_of_a_bug_is_hidden_and_its_place_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> dict[str, Any]:
        held = "a token"
        raise KeyError(held)

    response = await respond(failing)
    assert "a token" not in to_json(response.body()) + caplog.text
    assert "KeyError" in caplog.text
    assert "in failing" in caplog.text


@pytest.mark.parametrize("end", [asyncio.CancelledError(), SystemExit(3), BaseExceptionGroup("", [SystemExit()])])
async def test_a_function_that_ends_itself_has_a_bug_and_ends_no_connection(
    end: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(**_: Any) -> dict[str, Any]:
        raise end

    async def failing_async(*_: Any) -> Any:
        raise end

    for function in (failing, failing_async):
        assert (await respond(function))["message"] == "Internal server error."
        assert f"in {function.__name__}" in caplog.text
    manager = toy_manager(toy("shop://all/{item}", failing, values={"item": failing_async}))
    with pytest.raises(RuntimeError, match="which is no failure"):
        await manager.complete("shop://all/{item}", "item")


async def test_the_deadline_ends_a_read_with_a_transient_error() -> None:
    finish = threading.Event()

    def slow() -> dict[str, Any]:
        finish.wait(SECONDS)
        return {}

    async def slow_async() -> dict[str, Any]:
        await asyncio.sleep(SECONDS)
        return {}

    for function in (slow, slow_async):
        response = await respond(function, deadline=0.01)
        assert isinstance(response, GetResourceError)
        assert response.error == "ResourceExecutionError"
        assert response.transient
        assert "within 0.01 seconds" in response.message
    finish.set()


async def test_each_read_has_one_log_line_without_client_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    manager = manager_of(nothing)
    for uri in ("shop://thing", "shop://made-up", "", 5):
        await manager.respond(uri, surface="test")
    lines = [vars(record)["fields"] for record in caplog.records if record.name == tracing.__name__]
    assert [(line["surface"], line["uri"], line["outcome"]) for line in lines] == [
        ("test", "shop://thing", "ok"),
        ("test", "unknown", "InvalidURI"),
        ("test", "discovery", "ok"),
        ("test", "unknown", "InvalidURI"),
    ]
    assert all(line.keys() == {"surface", "uri", "outcome", "ms", "correlation_id"} for line in lines)
    assert "made-up" not in caplog.text


async def test_at_debug_the_line_also_has_the_lookup_and_the_calls(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def calling() -> dict[str, Any]:
        count_call("aws")
        fan_out(lambda _: count_call("aws"), range(3), seconds=5)
        count_call("stack")
        return {}

    await manager_of(calling).respond("shop://thing", surface="test")
    await manager_of(lambda item: {"item": item}, uri="shop://items/{item}").respond("shop://items/a", surface="test")
    await manager_of(nothing).respond("shop://made-up", surface="test")
    lines = [vars(record)["fields"] for record in caplog.records if record.name == tracing.__name__]
    assert [(line["lookup"], line["calls"]) for line in lines] == [
        ("static", {"aws": 4, "stack": 1}),
        ("template", {}),
        ("none", {}),
    ]


async def test_a_missing_value_is_an_error_with_existing_values() -> None:
    manager = manager_of(
        lambda item: {"item": item},
        uri="shop://items/{item}",
        values={"item": lambda _: ["hat", "scarf"]},
    )
    with pytest.raises(MissingTemplateVariable) as caught:
        await manager.get_resource("shop://items/")
    assert caught.value.suggested_actions[:2] == [
        "Example: get_resource('shop://items/hat')",
        "Existing values: hat, scarf",
    ]

    response = await manager.respond("shop://items/%20", surface="test")
    assert response["error"] == "InvalidTemplateVariable"


async def test_without_known_values_the_advice_is_to_replace_the_variable() -> None:
    manager = manager_of(lambda item: {"item": item}, uri="shop://items/{item}")
    with pytest.raises(MissingTemplateVariable) as caught:
        await manager.get_resource("shop://items/{item}")
    assert caught.value.suggested_actions[0] == "Replace {item} in shop://items/{item} with a value."


async def test_completion_lists_existing_values_with_the_prefix() -> None:
    manager = manager_of(
        lambda item: {"item": item},
        uri="shop://items/{item}",
        values={"item": lambda _: ["hat", "ham", "scarf"]},
    )
    assert await manager.complete("shop://items/{item}", "item", "ha") == ["hat", "ham"]
    assert await manager.complete("shop://items/{item}", "other") == []
    assert await manager.complete("shop://nothing/{item}", "item") == []


@pytest.mark.parametrize("failure", [Unavailable("closed"), TimeoutError(), ConnectionError()])
async def test_values_that_cannot_be_listed_are_not_suggested(failure: Exception) -> None:
    def closed(_: str) -> list[str]:
        raise failure

    failures = {"builtins.OSError": lambda _: Unavailable("closed")}
    values = {"item": closed}
    manager = manager_of(lambda item: {"item": item}, uri="shop://items/{item}", values=values, failures=failures)
    assert await manager.complete("shop://items/{item}", "item") == []
    assert (await manager.respond("shop://items/", surface="test"))["error"] == "MissingTemplateVariable"


async def test_a_bug_in_the_values_is_masked() -> None:
    def broken(_: str) -> list[str]:
        raise KeyError("secret")

    manager = manager_of(lambda item: {"item": item}, uri="shop://items/{item}", values={"item": broken})
    assert (await manager.respond("shop://items/", surface="test"))["message"] == "Internal server error."


async def test_discovery_is_computed_once_and_sorted_by_uri() -> None:
    manager = toy_manager(*(toy(uri, nothing) for uri in ("b://2", "a://9", "b://1", "a://1")))
    data = await manager.get_discovery_data()
    assert {category: [row.uri for row in rows] for category, rows in data.items()} == {
        "a": ["a://1", "a://9"],
        "b": ["b://1", "b://2"],
    }
    for nothing_asked in (None, ""):
        given = (await manager.get_resource(nothing_asked))["data"]
        assert given == data
        given["a"].clear()
    assert len(data["a"]) == 2


async def test_a_cancelled_read_raises() -> None:
    started = asyncio.Event()

    async def slow() -> dict[str, Any]:
        started.set()
        await asyncio.sleep(SECONDS)
        return {}

    reading = asyncio.create_task(respond(slow))
    async with asyncio.timeout(SECONDS):
        await started.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_a_lone_surrogate_in_an_answer_can_be_sent() -> None:
    def named_oddly() -> dict[str, Any]:
        return {"path": "bad\udcff", "sizes": {chr(0xDCFF): 1, chr(0xDCFE): 2, "?": 3}}

    def failing() -> dict[str, Any]:
        raise NotFound("no bad\udcff", details="\udcff", suggested_actions=["\udcff"])

    response = await respond(named_oddly)
    assert response.body()["data"] == {"path": "bad?", "sizes": {"?": 1, "??": 2, "???": 3}}
    assert isinstance(response, GetResourceSuccess)
    assert response.data_json == '{"path":"bad?","sizes":{"?":1,"??":2,"???":3}}'
    to_json((await respond(failing)).body()).encode("utf-8")


async def test_a_timeout_of_the_service_itself_is_a_bug() -> None:
    def impatient() -> dict[str, Any]:
        raise TimeoutError("of its own")

    response = await respond(impatient)
    assert "correlation id" in (response["details"] or "")


async def test_a_lone_surrogate_in_a_uri_gives_an_error_that_can_be_sent() -> None:
    response = await manager_of(nothing).respond("shop://\ud800", surface="test")
    assert response["error"] == InvalidURI.error
    str(response.body()).encode("utf-8")


@pytest.mark.parametrize(("text", "size"), [("x" * 200, 211), ("ü" * 60, 131)])
async def test_an_answer_that_is_too_long_in_bytes_is_refused(text: str, size: int) -> None:
    manager = manager_of(lambda: {"text": text}, uri="shop://hats", max_bytes=100)
    answer = await manager.respond("shop://hats", surface="test")
    assert (answer["error"], answer["message"]) == ("ResourceExecutionError", "The answer is too long to send.")
    assert answer["details"] == f"{size} bytes; the maximum is 100."
    fitting = manager_of(lambda: {"text": text}, uri="shop://hats", max_bytes=size)
    assert (await fitting.respond("shop://hats", surface="test"))["success"]


async def test_a_completion_is_admitted_and_logged_like_a_read(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[str] = []
    is_full = False

    @asynccontextmanager
    async def admit(_: Read) -> AsyncIterator[None]:
        if is_full:
            raise TooManyRequests("Too many concurrent reads.", retry_after_seconds=1)
        yield

    def items(prefix: str) -> list[str]:
        asked.append(prefix)
        return ["hat"]

    manager = manager_of(lambda item: {"item": item}, "shop://items/{item}", {"item": items}, admit=admit)
    reference = ResourceTemplateReference(type="ref/resource", uri="shop://items/{item}")
    async with Client(toy_server(manager)) as client:
        with caplog.at_level("INFO", "quilt_mcp.core.tracing"):
            assert (await client.complete(reference, {"name": "item", "value": "h"})).values == ["hat"]
            is_full = True
            assert (await client.complete(reference, {"name": "item", "value": "ha"})).values == []
    assert asked == ["h"]
    lines = [record.getMessage() for record in caplog.records if record.name == tracing.__name__]
    assert [line.split(" ms=")[0] for line in lines] == [
        "surface=completion uri=shop://items/{item} outcome=ok",
        "surface=completion uri=unknown outcome=ResourceExecutionError",
    ]


async def test_an_execution_error_without_advice_of_its_own_suggests_the_servers_diagnosis() -> None:
    def failing() -> dict[str, Any]:
        raise ResourceExecutionError("broken")

    def advising() -> dict[str, Any]:
        raise ResourceExecutionError("broken", suggested_actions=["Restart it."])

    def missing() -> dict[str, Any]:
        raise NotFound("missing")

    actions = [(await respond(one, diagnosis="Run doctor.")).get("suggested_actions") for one in (failing, advising)]
    assert actions == [[*ResourceExecutionError.default_actions, "Run doctor."], ["Restart it."]]
    assert "Run doctor." not in (await respond(missing, diagnosis="Run doctor.")).get("suggested_actions")

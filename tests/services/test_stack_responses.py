"""Responses of a stack that are not what was asked for: redirects, errors with a body, bodies without an end."""

import gzip
import itertools
import json
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import requests
import urllib3

from quilt_mcp.core.errors import ResourceExecutionError, ResourceFailure, Unavailable
from quilt_mcp.demo.world import World
from quilt_mcp.services.stack.caller import Caller, Standing
from quilt_mcp.services.stack.catalog import CatalogConfigs, fetch_catalog_config
from quilt_mcp.services.stack.failures import (
    NotSignedInToQuilt,
    QueryFailed,
    QueryNotUnderstood,
    QueryRefused,
    RefusedByStack,
    RequestRejected,
)
from quilt_mcp.services.stack.login import Stack
from quilt_mcp.services.stack.session import StackSession, call_stack
from quilt_mcp.services.stack.sign_in import RequestSignIn
from tests.support.python_caller import read_error
from tests.support.quilt_fakes import answer_queries
from tests.support.raw_server import RawServer, Respond, make_response, raw_server
from tests.support.settings import Settings

TOKEN = "qk_S3CRET"
TIMEOUT = (2.0, 2.0)
HTML = b"<!doctype html><title>Sign in</title>"
FAILED = {"errors": [{"message": "Internal server error"}]}
REFUSAL = {"errors": [{"message": "Cannot query field", "locations": [{"line": 1, "column": 1}]}]}


def respond_always(status: str, body: object, *headers: str) -> Respond:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/html" if isinstance(body, bytes) else "application/json"
    return lambda _: [make_response(status, content, f"Content-Type: {kind}", *headers)]


@pytest.fixture
def open_caller() -> Iterator[Callable[[Respond], tuple[Caller, RawServer]]]:
    """Return a function that starts a stack and returns a caller at it."""
    contexts = []

    def start(respond: Respond) -> tuple[Caller, RawServer]:
        contexts.append(raw_server(respond))
        server = contexts[-1].__enter__()
        stack = Stack(server.url, server.url, "us-east-1")
        return Caller(RequestSignIn(stack, TOKEN, "X-Quilt-Token", TIMEOUT), Settings()), server

    yield start
    for context in contexts:
        context.__exit__(None, None, None)


Open = Callable[[Respond], tuple[Caller, RawServer]]


def query(caller: Caller) -> object:
    return caller.send_query("rolesList", list[object], "roles")


CALLS: dict[str, Callable[[Caller], object]] = {
    "query": query,
    "AWS credentials": lambda caller: caller.open_aws(Standing(known=False)),
}


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("call", CALLS)
def test_a_redirect_is_not_followed(status: str, call: str, open_caller: Open) -> None:
    _, other = open_caller(respond_always("200 OK", {"data": {}}))
    caller, stack = open_caller(respond_always(status, b"", f"Location: {other.url}/secret?code=S3CRET"))
    with pytest.raises(ResourceExecutionError, match="redirected") as caught:
        CALLS[call](caller)
    assert other.requests == []
    assert len(stack.requests) == 1
    assert "to 127.0.0.1" in str(caught.value.details)
    assert "S3CRET" not in str(vars(caught.value))


def test_a_redirect_of_a_public_file_is_not_followed(open_caller: Open) -> None:
    _, other = open_caller(respond_always("200 OK", {"registryUrl": "https://evil.example"}))
    _, catalog = open_caller(respond_always("302 Found", b"", f"Location: {other.url}/config.json"))
    with pytest.raises(ResourceExecutionError, match="redirected"):
        fetch_catalog_config(catalog.url, TIMEOUT)
    assert other.requests == []


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "422 Unprocessable"])
def test_graphql_errors_are_read_with_the_statuses_of_an_invalid_query(status: str, open_caller: Open) -> None:
    caller, _ = open_caller(respond_always(status, REFUSAL))
    with pytest.raises(QueryRefused) as caught:
        query(caller)
    assert caught.value.details == "GraphQL error at query"


@pytest.mark.parametrize(
    ("status", "body", "failure"),
    [
        ("400 Bad Request", HTML, RequestRejected),
        ("400 Bad Request", {"message": "no"}, RequestRejected),
        ("400 Bad Request", [{"errors": []}], RequestRejected),
        ("401 Unauthorized", REFUSAL, NotSignedInToQuilt),
        ("403 Forbidden", {"message": "no"}, RefusedByStack),
        ("403 Forbidden", HTML, ResourceExecutionError),
        ("403 Forbidden", REFUSAL, RefusedByStack),
        ("404 Not Found", REFUSAL, RequestRejected),
        ("408 Request Timeout", REFUSAL, Unavailable),
        ("404 Not Found", HTML, RequestRejected),
        ("429 Too Many Requests", REFUSAL, Unavailable),
        ("500 Error", REFUSAL, Unavailable),
        ("200 OK", HTML, ResourceExecutionError),
        ("200 OK", b"", ResourceExecutionError),
        ("200 OK", [1], Unavailable),
        ("200 OK", {"hello": 1}, Unavailable),
    ],
)
def test_other_responses_to_a_query_keep_the_meaning_of_their_status(
    status: str, body: object, failure: type[ResourceFailure], open_caller: Open
) -> None:
    caller, _ = open_caller(respond_always(status, body))
    with pytest.raises(ResourceFailure) as caught:
        query(caller)
    assert type(caught.value) is failure


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("text/html; charset=utf-8", "text/html"),
        ("TEXT/PLAIN", "text/plain"),
        ("application/xhtml+xml", "application/xhtml+xml"),
        ("S3CRET", "no content type"),
        ("", "no content type"),
    ],
)
def test_a_page_of_a_proxy_is_not_the_api(kind: str, named: str, open_caller: Open) -> None:
    caller, stack = open_caller(lambda _: [make_response("200 OK", HTML, f"Content-Type: {kind}")])
    for call in (query, CALLS["AWS credentials"], lambda _: fetch_catalog_config(stack.url, TIMEOUT)):
        with pytest.raises(ResourceExecutionError, match="sign-in page of a proxy") as caught:
            call(caller)
        assert caught.value.details == f"HTTP status 200, {named} instead of JSON"
        assert not caught.value.transient
        assert "VPN" in caught.value.suggested_actions[0]


@pytest.mark.parametrize("body", [b'{"data"', b"", b"<html>"])
def test_broken_json_can_be_repeated(body: bytes, open_caller: Open) -> None:
    caller, _ = open_caller(lambda _: [make_response("200 OK", body, "Content-Type: application/json")])
    with pytest.raises(Unavailable) as caught:
        query(caller)
    assert caught.value.transient


@pytest.mark.parametrize(
    ("error", "failure", "can_be_repeated"),
    [
        ({"message": "Internal server error"}, QueryFailed, True),
        ({"message": "x", "locations": None}, QueryFailed, True),
        ({"message": "x", "locations": []}, QueryFailed, True),
        ({"message": "x", "path": []}, QueryFailed, True),
        ({"message": "x", "locations": [{"line": 1, "column": 2}]}, QueryNotUnderstood, False),
        ({"message": "x", "path": ["roles"]}, QueryRefused, False),
        ({"message": "x", "path": ["roles"], "locations": [{"line": 1, "column": 2}]}, QueryRefused, False),
    ],
)
def test_the_place_of_an_error_tells_its_cause(
    error: object, failure: type[ResourceFailure], can_be_repeated: object, open_caller: Open
) -> None:
    caller, _ = open_caller(respond_always("200 OK", {"errors": [error], "data": None}))
    with pytest.raises(QueryRefused) as caught:
        query(caller)
    assert (type(caught.value), caught.value.transient) == (failure, can_be_repeated)


@pytest.mark.parametrize("uri", ["quilt://buckets/acme-analysis-results/packages", "quilt://search/rna"])
async def test_a_failure_inside_of_the_stack_is_not_its_age(
    uri: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answer_queries(monkeypatch, {"packages": FAILED, "searchPackages": FAILED})
    failure = await read_error(uri)
    assert {"packages", "searchPackages"} & set(asked)
    assert failure.message == "The Quilt stack failed while it processed the query."
    assert "Repeat the call in a minute." in failure.suggested_actions


def test_a_403_neither_renews_nor_ends_the_login(open_caller: Open) -> None:
    caller, stack = open_caller(respond_always("403 Forbidden", {}))
    with pytest.raises(RefusedByStack) as caught:
        caller.fetch_standing()
    assert len(stack.requests) == 1
    assert not caller.sign_in.is_stale()
    assert "login" not in " ".join(caught.value.suggested_actions)
    assert str(caught.value.details).startswith("refused by the stack: ")


def stream_zeros(head: bytes) -> Iterable[bytes]:
    return itertools.chain([head], itertools.repeat(b"0" * 65_536))


def stream_compressed_zeros(head: bytes) -> Iterable[bytes]:
    yield head
    bomb = gzip.compress(b"0" * 10_000_000)
    while True:
        yield bomb


ENDLESS: dict[str, Callable[[], Iterable[bytes]]] = {
    "plain": partial(stream_zeros, b"HTTP/1.1 200 OK\r\n\r\n"),
    "with a false length": partial(stream_zeros, b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n"),
    "compressed": partial(stream_compressed_zeros, b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"),
    "an error": partial(stream_zeros, b"HTTP/1.1 400 Bad Request\r\n\r\n"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_body_without_an_end_is_limited_by_its_size(kind: str) -> None:
    with raw_server(lambda _: ENDLESS[kind]()) as stack, StackSession((60, 60), max_body_bytes=1_000_000) as session:
        with pytest.raises(Unavailable, match="too large") as caught:
            call_stack(lambda: session.post(f"{stack.url}/graphql"))
        assert not caught.value.transient
        assert len(stack.requests) == 1


def test_a_small_compressed_body_counts_with_its_size_after_decompression() -> None:
    body = gzip.compress(b'"' + b"0" * 999_999 + b'"')
    headers = ("Content-Encoding: gzip", "Content-Type: application/json")
    with raw_server(lambda _: [make_response("200 OK", body, *headers)]) as stack:
        with StackSession(TIMEOUT, max_body_bytes=1_000_000) as session, pytest.raises(Unavailable, match="too large"):
            session.get(stack.url)
        with StackSession(TIMEOUT, max_body_bytes=1_000_001) as session:
            assert len(session.get(stack.url).content) == 1_000_001


def test_a_response_has_at_most_16_megabytes_after_decompression() -> None:
    body = gzip.compress(json.dumps({"data": "0" * 17_000_000}).encode())
    with (
        raw_server(respond_always("200 OK", body, "Content-Encoding: gzip")) as stack,
        StackSession((60, 60)) as session,
    ):
        with pytest.raises(Unavailable, match="too large") as caught:
            session.get(stack.url)
        assert caught.value.details == "more than 16777216 bytes"
        assert "quilt3.Package.browse" in caught.value.suggested_actions[0]  # a folder can have so many files


@pytest.mark.soak
def test_a_response_that_grows_a_thousandfold_does_not_fill_the_memory() -> None:
    bomb = gzip.compress(b"0" * 200_000_000)
    with (
        raw_server(respond_always("200 OK", bomb, "Content-Encoding: gzip")) as stack,
        StackSession((60, 60)) as session,
    ):
        tracemalloc.start()
        try:
            with pytest.raises(Unavailable, match="too large"):
                session.get(stack.url)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most < 60 * 1024 * 1024


@pytest.mark.parametrize("body", [b"[" * 200_000 + b"]" * 200_000, b'{"a":' * 200_000 + b"1" + b"}" * 200_000])
def test_a_response_that_is_nested_deeply_is_not_that_of_a_stack(body: bytes, open_caller: Open) -> None:
    caller, _ = open_caller(respond_always("200 OK", body))
    for call in CALLS.values():
        with pytest.raises(Unavailable, match="did not return a valid response"):
            call(caller)


def test_threads_that_need_a_config_json_share_one_request_and_its_failure() -> None:
    opened, asked = threading.Event(), []

    def respond(request: bytes) -> Iterable[bytes]:
        asked.append(request)
        opened.wait()
        return [make_response("503 Busy", b"")]

    with raw_server(respond) as catalog, ThreadPoolExecutor(8) as threads:
        configs = CatalogConfigs((60, 60))
        fetches = [threads.submit(configs.fetch, catalog.url) for _ in range(8)]
        opened.set()
        failures = [fetch.exception() for fetch in fetches]
        assert {type(failure) for failure in failures} == {Unavailable}
        with pytest.raises(Unavailable):
            configs.fetch(catalog.url)
    assert len(asked) == 1


def test_the_failure_of_a_config_json_is_forgotten() -> None:
    answers = iter([make_response("503 Busy", b""), make_response("200 OK", b'{"region": "us-east-1"}')])
    with raw_server(lambda _: [next(answers)]) as catalog:
        configs = CatalogConfigs(TIMEOUT, retry_seconds=0.0)
        with pytest.raises(Unavailable):
            configs.fetch(catalog.url)
        assert configs.fetch(catalog.url) == {"region": "us-east-1"}


def test_an_error_body_without_an_end_is_not_read() -> None:
    """It is closed, so the server notices. Otherwise this test would not end."""
    endless = stream_zeros(b"HTTP/1.1 500 Error\r\n\r\n")
    with raw_server(lambda _: endless) as stack, StackSession(TIMEOUT) as session, pytest.raises(requests.HTTPError):
        session.get(stack.url)


def respond_with_me(me: object, *, without_role: object = None, **rest: object) -> Respond:
    """Return the responses to the two queries for the caller."""

    def respond(request: bytes) -> Iterable[bytes]:
        payload = without_role if b"meWithoutRole" in request else {"data": {"me": me}, **rest}
        return [make_response("200 OK", json.dumps(payload).encode())]

    return respond


ANN = {"name": "ann", "email": "ann@acme.example", "is_admin": False}
ANN_WITH_ROLE = {**ANN, "role": {"name": "R"}, "roles": [{"name": "S"}, {"name": "R"}]}
ROLE_IS_NULL = [{"message": "Cannot return null for non-nullable field Me.role.", "path": ["me", "role"]}]


def test_the_standing_contains_what_the_stack_says(open_caller: Open) -> None:
    caller, stack = open_caller(respond_with_me(ANN_WITH_ROLE))
    # fields of a tuple
    assert caller.fetch_standing() == Standing(True, "ann", "ann@acme.example", False, "R", ("R", "S"))  # noqa: FBT003 - the fields in their order
    assert len(stack.requests) == 1


def test_a_user_without_a_role_has_a_standing_without_a_role(open_caller: Open) -> None:
    caller, stack = open_caller(respond_with_me(None, errors=ROLE_IS_NULL, without_role={"data": {"me": ANN}}))
    assert caller.fetch_standing() == Standing(
        known=True, name="ann", email="ann@acme.example", is_admin=False, role=None, roles=None
    )
    assert len(stack.requests) == 2


def test_data_together_with_errors_are_used(open_caller: Open) -> None:
    caller, stack = open_caller(respond_with_me(ANN_WITH_ROLE, errors=[{"message": "x", "path": ["other"]}]))
    assert caller.fetch_standing().role == "R"
    assert len(stack.requests) == 1
    partial_answer = caller.send_partial_query("me", dict[str, object], "me")
    assert (partial_answer.data, partial_answer.error_paths) == (ANN_WITH_ROLE, ["other"])
    with pytest.raises(QueryRefused, match="could not read the data"):
        query(caller)


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
def test_a_stack_without_me_has_unknown_callers(status: str, open_caller: Open) -> None:
    def respond(request: bytes) -> Iterable[bytes]:
        known = make_response("200 OK", b'{"data": {"known": "Query"}}')
        return [known if b"__typename" in request else make_response(status, json.dumps(REFUSAL).encode())]

    caller, stack = open_caller(respond)
    assert caller.fetch_standing() == Standing(known=False)
    assert len(stack.requests) == 2


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "422 Unprocessable"])
@pytest.mark.parametrize("data", [{}, {"data": None}], ids=["without data", "null"])
def test_a_stack_that_refuses_every_query_is_not_old(status: str, data: dict[str, None], open_caller: Open) -> None:
    caller, stack = open_caller(respond_always(status, {**REFUSAL, **data}))
    with pytest.raises(QueryRefused, match="rejected the query"):
        caller.fetch_standing()
    assert len(stack.requests) == 2


def test_a_user_whom_the_stack_does_not_know_is_signed_out(open_caller: Open) -> None:
    caller, _ = open_caller(respond_with_me(None))
    with pytest.raises(NotSignedInToQuilt, match="does not know"):
        caller.fetch_standing()


@pytest.mark.parametrize(
    "second",
    [
        {"data": {"me": None}, "errors": [{"message": "x", "path": ["me", "name"]}]},
        {"data": None, "errors": [{"message": "x", "path": ["me"]}]},
        {"errors": ["no object"]},
        {"errors": "no list", "data": None},
    ],
)
def test_a_stack_that_fails_to_describe_the_caller_is_not_old(second: object, open_caller: Open) -> None:
    caller, _ = open_caller(respond_with_me(None, errors=ROLE_IS_NULL, without_role=second))
    with pytest.raises(QueryRefused):
        caller.fetch_standing()


def test_many_error_paths_are_cut(open_caller: Open) -> None:
    errors = [{"message": "x", "path": ["tables", number]} for number in range(10)]
    caller, _ = open_caller(respond_always("200 OK", {"errors": errors, "data": None}))
    with pytest.raises(QueryRefused) as caught:
        query(caller)
    assert str(caught.value.details).endswith("tables.3, tables.4 and 5 more")


@pytest.mark.parametrize("proxied", [(), ("http",)])
def test_no_request_waits_for_the_acknowledgement_of_its_headers(
    proxied: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    create = urllib3.util.connection.create_connection

    def note(*args: Any, **kwargs: Any) -> socket.socket:
        connection = create(*args, **kwargs)
        opened.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return connection

    monkeypatch.setattr(urllib3.util.connection, "create_connection", note)
    with raw_server(respond_always("200 OK", {"data": {}})) as stack, StackSession(TIMEOUT) as session:
        session.proxies = dict.fromkeys(proxied, stack.url)
        session.post(f"{stack.url}/graphql", json={})
    assert len(opened) == 1
    assert all(opened)

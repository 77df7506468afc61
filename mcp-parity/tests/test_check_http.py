"""`mcp-parity check` of servers over HTTP that hang, flood, break off, want a login, or are none."""

from typing import Any

import pytest

from tests.raw_http import ASKS_FIRST, ONCE, PACKS, serve_raw
from tests.test_check import QUICK, check

SHORT = [*QUICK, "--limit", "0.3", "--timeout", "2"]  # a server that never answers
LONG = [*QUICK, "--limit", "5", "--timeout", "30"]  # one that hangs later must first answer
SMALL = [*QUICK, "--limit", "5", "--largest", "300000"]
TOKEN = "it needs a login (HTTP 401 Unauthorized, Bearer realm=\"shop\"): give --token TOKEN or --header 'Name: value'"
FAULTS = {
    "never answers": " s (there is no HTTP answer)",
    "answers only the head": " s (HTTP 200 OK, application/json, 0 bytes without an end)",
    "closes without an answer": "(there is no HTTP answer)",
    "closes in the middle": "(HTTP 200 OK, application/json, 10 bytes without an end: '{\"jsonrpc\"')",
    "closes the stream": "SSE stream ended without a response (HTTP 200 OK, text/event-stream)",
    "has a body without end": "more than 300,000 bytes (HTTP 200 OK, application/json, ",
    "has a stream without end": "Failed to parse SSE message: ",
    "has comments without end": "SSE stream ended without a response (HTTP 200 OK, text/event-stream, ",
    "has a long line": "SSE stream ",
    "is compressed": "application/json in gzip, which was not asked for)",
    "ends in gzip": "application/json in gzip, which was not asked for)",
    "is a bomb": "more than 300,000 bytes (HTTP 200 OK, application/json in gzip, which was not asked for)",
    "is in another packing": "application/json in br, which was not asked for)",
    "is no HTTP": "(there is no HTTP answer)",
    "is a page": "Unexpected content type: text/html; charset=utf-8 (HTTP 200 OK, text/html)",
    "is no JSON": "(HTTP 200 OK, application/json, 2 bytes: '{]')",
    "redirects for ever": "/mcp not followed; use that URL as the endpoint if it is the intended server (HTTP 307",
    "redirects elsewhere": "Redirect to http://127.0.0.1:9/other not followed; ",
    "wants a login": TOKEN,
    "wants a token": "it needs a login (HTTP 401 Unauthorized, application/json): give",
    "wants another scope": '(HTTP 403 Forbidden, Bearer error="insufficient_scope", scope="files:read"): give',
    "fails": "Server returned an error response (HTTP 503 Service Unavailable)",
}


CASES = [
    # a second of waiting each: one of them is enough for a push
    pytest.param(
        fault, when, marks=pytest.mark.soak if "answers" in fault and (fault, when) != ("never answers", "") else ()
    )
    for fault in FAULTS
    for when in ("", "resources/read")
]


@pytest.mark.parametrize(("fault", "when"), CASES)
def test_a_fault_is_named_in_a_line(fault: str, when: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    hanging = SHORT if (fault, when) == ("never answers", "") else LONG
    with serve_raw(fault, when) as url:
        status, text = check(capsysbinary, *(hanging if "answers" in fault else SMALL), url)
    level, expected = ("login", 3) if "wants" in fault else ("error", {"": 2}.get(when, 1))
    [*_, line, verdict] = text.splitlines()
    assert line.startswith(f"  {level:<8} {(when and 'raw://') or 'connection: '}")
    assert FAULTS[fault] in line
    assert ("does not answer within" in line) is ("answers" in fault)
    assert (status, "error" in verdict) == (expected, level == "error"), text


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["has a body without end", "has comments without end", "has a long line"])
def test_a_flood_ends_at_the_usual_limits(fault: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with serve_raw(fault) as url:
        status, text = check(capsysbinary, url)
    assert (status, "(HTTP 200 OK, " in text) == (2, True), text


@pytest.mark.parametrize(
    "fault",
    [pytest.param("never answers", marks=pytest.mark.soak), "has comments without end", "wants a login", "is a page"],
)
def test_a_server_can_refuse_notifications_in_any_way(fault: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with serve_raw(fault, "GET") as url:
        status, text = check(capsysbinary, *SMALL, url)
    assert (status, text.splitlines()[-1]) == (0, "Nothing is wrong.")


def test_a_server_can_ask_before_it_answers(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with serve_raw(ASKS_FIRST, "resources/read") as url:
        status, text = check(capsysbinary, *SMALL, url)
    assert (status, text.splitlines()[-1]) == (0, "Nothing is wrong.")


def test_a_session_that_ends_is_begun_again(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with serve_raw(ONCE, "resources/read") as url:
        status, text = check(capsysbinary, *SMALL, url)
    assert (status, text.splitlines()[-1]) == (0, "Nothing is wrong."), text
    with serve_raw("ends the session", "resources/read") as url:
        status, text = check(capsysbinary, *SMALL, url)
    assert (status, "refused" in text) == (1, False)
    assert (
        "raw://rows and 2 more: no answer: MCPError: Session not found (HTTP 404 Not Found, the session has ended)"
        in text
    )


def test_packed_answers_are_read(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with serve_raw(PACKS) as url:
        status, text = check(capsysbinary, *SMALL, url)
    assert (status, text.splitlines()[-1]) == (0, "Nothing is wrong."), text


def test_a_login_that_is_refused(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with serve_raw("wants a login") as url:
        status, text = check(capsysbinary, *QUICK, "--token", "abc", url)
    assert (status, 'realm="shop"): the login is refused; give --token' in text) == (3, True), text


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            {"code": -32001, "message": "sign in first"},
            "it needs a login: sign in first; give --token TOKEN or --header",
        ),
        ({"code": -32603, "message": "KeyError: 'SHOP_API_KEY'"}, "KeyError: 'SHOP_API_KEY'; it names SHOP_API_KEY"),
        ({"code": 1, "message": "x" * 900 + " SHOP_TOKEN"}, "xx…; it names SHOP_TOKEN"),
        (
            {"code": -31002, "message": "no session", "data": {"actions": ["Run `shop login` and sign in."]}},
            "it needs a login: no session; it names `shop login`",
        ),
    ],
)
def test_a_resource_that_needs_a_login_is_neither_an_error_nor_a_success(
    error: dict[str, Any], line: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    with serve_raw(refusal=error) as url:
        status, text = check(capsysbinary, *QUICK, url)
    [found] = [
        one for one in text.splitlines() if one.startswith("  login    raw://rows and 2 more: it needs a login: ")
    ]
    assert line in found
    assert (status, text.splitlines()[-1]) == (3, "3 missing logins.")


@pytest.mark.parametrize("message", ["no such row", "the disk is full", "raw://rows is broken"])
def test_other_refusals_are_errors(message: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with serve_raw(refusal={"code": -32603, "message": message}) as url:
        status, text = check(capsysbinary, *QUICK, url)
    assert (status, "login" in text) == (1, False), text

"""A request with text that is not valid Unicode, or with an id that is none, gets an error on each transport."""

import asyncio
import json
from http import HTTPStatus
from typing import Any, get_args

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, ClientRequest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from quilt_mcp.app.message_text import find_refusal
from quilt_mcp.server import create_server
from quilt_mcp.settings import HTTPSettings
from tests.http.web import older, request, running, shop
from tests.support.server_process import CLIENT, serve_stdio
from tests.support.serving import HANDSHAKE
from tests.support.toys import QUICK
from tests.support.waiting import SECONDS

HALF = "a\ud800b"
JSON_BODY = {"Content-Type": "application/json"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("tools/call", {"name": "get_resource", "arguments": {"uri": HALF}}),
    ("tools/call", {"name": "health_check", "arguments": {"more": [{"deep": ["valid", HALF]}]}}),
    ("tools/call", {"name": HALF, "arguments": {}}),
    ("resources/read", {"uri": HALF}),
    ("resources/list", {"cursor": HALF}),
    ("prompts/get", {"name": "symbolic_check_template", "arguments": {"code": HALF, "function_name": "f"}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": HALF}, "argument": {"name": "x", "value": "y"}}),
    ("ping", {"more": {HALF: 1}}),
    ("initialize", {**CLIENT, "clientInfo": {"name": HALF, "version": "1"}}),
    (HALF, {}),
]

# of all revisions of the protocol that the library knows
METHODS: list[str] = [get_args(one.model_fields["method"].annotation)[0] for one in get_args(ClientRequest)]


def check_error(error: dict[str, Any], where: str) -> None:
    assert error["code"] == -32602
    assert error["data"]["error"] == "InvalidUnicode"
    assert error["data"]["success"] is False
    assert where in error["data"]["details"]
    assert "surrogate" in error["data"]["suggested_actions"][0]


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (rb'{"a": "\ud800"}', ("a", 0)),
        (rb'{"a": ["x", "12\udfff"]}', ("a[1]", 2)),
        (rb'{"a": {"b": "\ud800\ud83d\ude00"}}', ("a.b", 0)),
        (rb'{"\ud800": 1}', ("(key)", 0)),
        (b'{"a": "\xff"}', ("a", 0)),
        (b'{"a": "\xed\xa0\x80"}', ("a", 0)),
        (b'{"n": ' + b"9" * 5000 + rb', "a": "\ud800"}', ("a", 0)),
        (rb'"\ud800"', ("the message", 0)),
        (b'{"' + b"k" * 1000 + rb'": "\ud800"}', ("k" * 200, 0)),
        (rb'{"a\u0007": "\ud800"}', ("a?", 0)),
        (rb'{"a": "\ud83d\ude00 \u00e9 \\ud800"}', None),
        ('{"a": "\U0001f600 é"}'.encode(), None),
        (rb'{"a": "\ud800"', None),
        (b"[" * 100_000 + rb'"\ud800"', None),
    ],
)
def test_text_that_is_not_unicode_is_found(message: bytes, found: tuple[str, int] | None) -> None:
    refusal = find_refusal(message)
    assert (refusal and refusal.details) == (found and f"{found[0]}: character {found[1]} is not valid.")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"id": 7, "method": "m"}, (7, True)),
        ({"id": "seven", "method": "m"}, ("seven", True)),
        ({"id": HALF, "method": "m"}, (HALF, True)),
        ({"id": True, "method": "m"}, (None, False)),
        ({"method": "m"}, (None, False)),
        ({"id": 7, "result": {}}, (7, False)),
    ],
)
def test_only_requests_are_answered(message: dict[str, Any], expected: tuple[object, bool]) -> None:
    refusal = find_refusal(json.dumps({**message, "params": HALF}).encode())
    assert refusal
    assert (refusal.request_id, refusal.is_request) == expected
    assert json.loads(refusal.to_error())["id"] == expected[0]


FORALL = "\u2200"
"""In UTF-16, its bytes contain the one of a quotation mark. A check that reads UTF-8 sees the beginning of a text."""
ENCODINGS = ["utf-8-sig", *(f"utf-{size}{order}" for size in (16, 32) for order in ("", "-le", "-be"))]
NOT_JSON = {b"\xff": "Byte 0", b'{"a\xe9': "Byte 3", b"[\x00]": "byte 0", b"\xef\xbb\xbf": "byte order mark"}


@given(st.sampled_from(ENCODINGS), st.text(), st.integers(0, 250))
def test_json_in_another_encoding_is_refused(encoding: str, text: str, depth: int) -> None:
    message = ("[" * depth + json.dumps(FORALL + text, ensure_ascii=False) + "]" * depth).encode(encoding)
    refusal = find_refusal(message)
    assert refusal
    assert (refusal.code, refusal.request_id, refusal.message) == (
        PARSE_ERROR,
        None,
        "The message is not JSON in UTF-8.",
    )


@pytest.mark.parametrize(("message", "reason"), NOT_JSON.items())
def test_bytes_that_are_no_json_are_refused_with_the_reason(message: bytes, reason: str) -> None:
    refusal = find_refusal(message)
    assert refusal
    assert reason in (refusal.details or "")


def check_parse_error(answer: dict[str, Any]) -> None:
    error = answer["error"]
    assert (answer["id"], error["code"], error["data"]["error"]) == (None, PARSE_ERROR, "InvalidUnicode")
    assert error["data"]["suggested_actions"][0].startswith("Send UTF-8")


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS])
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_no_version_of_the_protocol_reads_another_encoding(transport: str, version: str) -> None:
    """The parser of 2026-07-28 reads UTF-16 and UTF-32. The limit of levels and the check of texts did not."""
    read = request("resources/read", uri=QUICK) if version in MODERN_PROTOCOL_VERSIONS else older("ping")
    headers = read["headers"] | JSON_BODY | {"MCP-Protocol-Version": version}
    deep = read["json"] | {"params": {"_meta": json.loads("[" * 250 + f'"{FORALL}"' + "]" * 250)}}
    texts = [json.dumps(one, ensure_ascii=False) for one in (read["json"], {"a": HALF}, deep)]
    bodies = [text.encode(encoding, "surrogatepass") for text in texts for encoding in ENCODINGS]
    async with shop(transport=transport) as (client, _):
        place = "/mcp" if transport == "http" else "/messages/?session_id=00000000-0000-0000-0000-000000000000"
        for body in (*bodies, *NOT_JSON):
            answer = await client.post(place, content=body, headers=headers)
            assert answer.status_code == HTTPStatus.BAD_REQUEST, body[:40]
            check_parse_error(answer.json())
        if transport == "http":
            assert (await client.post("/mcp", content=texts[0].encode(), headers=headers)).status_code == HTTPStatus.OK


@pytest.mark.soak
async def test_stdio_refuses_another_encoding_and_answers_what_follows() -> None:
    ping = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping"})
    async with serve_stdio() as server:
        for encoding in ENCODINGS:
            server.stdin.write(ping.encode(encoding) + b"\n")
            check_parse_error(json.loads(await server.stdout.readline()))
            assert (await server.ask("ping"))["result"] == {}
        server.stdin.close()
        assert (await server.end())[:2] == (0, "")


@pytest.mark.soak
async def test_stdio_answers_each_request_with_its_id() -> None:
    assert len(METHODS) > 10
    async with serve_stdio() as server:
        tools = (await server.ask("tools/list"))["result"]["tools"]
        assert len(tools) > 5
        names = [(one["name"], name) for one in tools for name in one["inputSchema"]["properties"] or ["none"]]
        calls = [
            *((method, given, "method" if method == HALF else "params.") for method, given in CALLS),
            *(("tools/call", {"name": a, "arguments": {b: HALF}}, f"params.arguments.{b}") for a, b in names),
            *((method, {"_meta": {"more": HALF}}, "params._meta.more") for method in METHODS),
        ]
        for method, parameters, where in calls:
            check_error((await server.ask(method, **parameters))["error"], where)  # ask checks the id
            assert (await server.ask("ping"))["result"] == {}
        server.stdin.close()
        status, stdout, log = await server.end()
    assert (status, stdout) == (0, "")
    assert log.count("not valid Unicode. ") == len(calls)
    assert "Traceback" not in log


@pytest.mark.soak
async def test_stdio_answers_bytes_that_are_not_utf8_and_messages_around_them() -> None:
    async with serve_stdio() as server:
        ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"_meta":{"x":"%s"}}}\n'
        server.stdin.write(ping % (101, b"ok") + ping % (102, b"\xff") + ping % (103, b"x" * 100_000))
        server.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/\xff"}\n' + (ping % (104, b"\xff"))[:-1])
        server.stdin.close()
        status, stdout, log = await server.end()
    answers = {answer["id"]: answer for answer in map(json.loads, stdout.splitlines())}
    assert (status, set(answers)) == (0, {101, 102, 103, 104})
    assert answers[101]["result"] == answers[103]["result"] == {}
    for number in (102, 104):
        check_error(answers[number]["error"], "params._meta.x")
    assert "Traceback" not in log


@pytest.mark.soak
async def test_large_answers_and_errors_do_not_mix_over_stdio() -> None:
    async with serve_stdio() as server:
        for number in range(0, 200, 2):
            for one, method, parameters in ((number, "tools/list", {}), (number + 1, "ping", {"_meta": {"x": HALF}})):
                message = {"jsonrpc": "2.0", "id": f"n{one}", "method": method, "params": parameters}
                server.stdin.write(json.dumps(message).encode() + b"\n")
        server.stdin.close()
        _, stdout, _ = await server.end()
    answers = [json.loads(line) for line in stdout.splitlines()]
    assert {answer["id"] for answer in answers} == {f"n{number}" for number in range(200)}


async def test_http_answers_each_request_with_its_id() -> None:
    async with shop() as (client, _):
        for number, (method, parameters) in enumerate(CALLS):
            for protocol in (HANDSHAKE, None):
                sent = request(method if method.isascii() else "ping", **parameters)
                sent["json"] |= {"id": number, "method": method}
                headers = {name: value for name, value in sent["headers"].items() if value.isascii()}
                headers |= {"MCP-Protocol-Version": protocol} if protocol else {}
                answer = await client.post("/mcp", content=json.dumps(sent["json"]), headers=headers)
                assert (answer.status_code, answer.json()["id"]) == (HTTPStatus.BAD_REQUEST, number)
                check_error(answer.json()["error"], "method" if method == HALF else "params.")
        assert (await client.post(**request("resources/read", uri=QUICK))).status_code == HTTPStatus.OK


async def test_http_answers_messages_that_are_no_valid_request() -> None:
    ids = (b"1.0", b"1.5", b"1e400", b"-1e2", b"NaN", b"null", b"true", b"[]", b"{}")
    odd = [
        (rb'{"jsonrpc":"2.0","\u0069\u0064":1.5,"method":"ping"}', None, INVALID_REQUEST),
        *((b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % one, None, INVALID_REQUEST) for one in ids),
        (rb'{"jsonrpc":"2.0","method":"\ud800"}', None, INVALID_PARAMS),
        (b'{"id":5,"method":"\xff"}', 5, INVALID_PARAMS),
    ]
    headers = older("ping")["headers"] | JSON_BODY
    async with shop() as (client, _):
        for content, number, code in odd:
            answer = await client.post("/mcp", content=content, headers=headers)
            found = (answer.status_code, answer.json()["id"], answer.json()["error"]["code"])
            assert found == (HTTPStatus.BAD_REQUEST, number, code), content
        notice = b'{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}'  # some clients send this
        answer = await client.post("/mcp", content=notice, headers=headers)
        assert answer.status_code == HTTPStatus.ACCEPTED


async def test_sse_answers_on_the_stream() -> None:
    async with (
        running(create_server(), HTTPSettings(), transport="sse") as url,
        httpx2.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client,
        client.stream("GET", "/sse") as stream,
        asyncio.timeout(SECONDS),
    ):
        data = (line.removeprefix("data: ") async for line in stream.aiter_lines() if line.startswith("data: "))
        address = await anext(data)
        for number, (method, parameters) in enumerate(CALLS):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
            response = await client.post(address, content=json.dumps(message), headers=JSON_BODY)
            assert response.status_code == HTTPStatus.ACCEPTED
            answer = json.loads(await anext(data))
            assert (answer["id"], answer["error"]["code"]) == (number, -32602)

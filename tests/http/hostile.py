"""Hostile requests over HTTP, as a table. Each must get a clean refusal, and no other caller may notice it.

The requests come in both protocol eras. `rows` makes them with or without the header Authorization.
direct_requests.py has more that are almost valid.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tests.http.web import ACCEPT, SESSIONLESS, request
from tests.support.serving import HANDSHAKE

CLOSED = 0
"""Stands for the status of a connection that is closed without an answer."""
REFUSED = (400, 401, 403, 404, 405, 406, 408, 411, 413, 414, 415, 421, 426, 429, 431, 501, 503, 505)
ERROR = 200
"""An answer with this status must contain a JSON-RPC error, or a result of a tool that is an error."""
ACCEPTED = 202
NO, NO_ANSWER, NO_RESULT = (*REFUSED, CLOSED), (*REFUSED, ERROR), (*REFUSED, ERROR, ACCEPTED)
End = Literal["read", "half-close", "cut"]


@dataclass(frozen=True)
class Row:
    """A hostile request, and the statuses that are right."""

    name: str
    sent: bytes
    statuses: tuple[int, ...]
    end: End = "read"  # what the client does afterwards: it reads the answer, ends its half first, or leaves
    succeeds: bool = False  # whether a complete answer is right too, because the request is only unusual


def rows(auth: bytes = b"") -> Iterator[Row]:
    """Return all rows, with a header line that has a valid token, or nothing."""
    yield from _not_http()
    yield from _heads(auth)
    yield from _bodies(auth)
    for era in (HANDSHAKE, SESSIONLESS):
        yield from _documents(era, auth)
        yield from _messages(era, auth)
        yield from _headers(era, auth)


def _not_http() -> Iterator[Row]:
    yield Row("nothing", b"", (408,))
    yield Row("noise", bytes(range(256)) * 4, (400, CLOSED))
    yield Row("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(512), (400, CLOSED))
    yield Row("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), (400, 404, 405, 421, 505, CLOSED))
    yield Row("HTTP/0.9", b"GET /health\r\n", (400, 408, CLOSED))
    yield Row("HTTP/9.9", b"GET /health HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", (400, 505, CLOSED), succeeds=True)
    yield Row("an empty line", b"\r\n" * 20_000, (400, 408, 431, CLOSED))
    yield Row("a slow head", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", (408,))
    yield Row("a head that is cut", b"POST /mcp HTTP/1.1\r\nHost: 127", (CLOSED,), "cut")
    yield Row("half-closed without a request", b"", (408, CLOSED), "half-close")


def _heads(auth: bytes) -> Iterator[Row]:
    for method in ("CONNECT", "TRACE", "OPTIONS", "PUT", "PATCH", "DELETE", "PURGE", "get", "BREW"):
        target = "127.0.0.1:443" if method == "CONNECT" else "/mcp"
        yield Row(f"the method {method}", _head(method, target, auth), NO)
    yield Row("a stream over streamable HTTP", _head("GET", "/mcp", auth, "Accept: text/event-stream"), REFUSED)
    targets = ("*", "//", "/%00", "/mcp/../metrics", "/%2e%2e/mcp", "/mcp%0d%0aX: y", "http://[::1/", "/" + "x" * 9999)
    for target in targets:
        yield Row(f"the target {target[:20]}", _head("GET", target, auth), NO)
    yield Row("a target of bytes", _head("GET", "/TARGET", auth).replace(b"TARGET", b"\xff\xfe"), NO)
    for host in ("", "attacker.example.com", "127.0.0.1.attacker.example.com", "[::", "a b", "\x00"):
        yield Row(f"the host {host!r}", _head("GET", "/health", auth, host=host), NO)
    unusual = _head("GET", "/health", auth, host="127.0.0.1:99999")
    yield Row("a port that does not exist", unusual, REFUSED, succeeds=True)
    for line in ("X-Header : space", "X Header: space", ": no name", "no colon", "X-Null: \x00", "X-Return: \rY: z"):
        yield Row(f"the header {line!r}", _head("GET", "/mcp", auth, line), NO)
    yield Row("a folded header", _head("GET", "/mcp", auth, "X-Folded: a\r\n b"), NO)
    yield Row("a header of 70 KB", _head("GET", "/mcp", auth, f"X-Long: {'x' * 70_000}"), NO)
    yield Row("9,000 headers", _head("GET", "/mcp", auth, *["X-Many: x"] * 9000), NO)
    for upgrade in ("websocket", "h2c"):
        lines = (f"Upgrade: {upgrade}", "Connection: Upgrade", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13")
        yield Row(f"an upgrade to {upgrade}", _head("GET", "/mcp", auth, *lines), NO)
    yield Row("200 pipelined requests", _head("GET", "/mcp", auth) * 200, NO)


def _bodies(auth: bytes) -> Iterator[Row]:
    whole = json.dumps(request("resources/read", uri="metadata://templates")["json"]).encode()
    for length in ("-1", "abc", "1e3", "0x10", "99999999999999999999", "1048577", "5, 6"):
        sent = _post(auth, f"Content-Length: {length}")
        yield Row(f"a length of {length}", sent, NO)
    smuggled = _post(auth, "Transfer-Encoding: chunked", "Content-Length: 3")
    yield Row("a length and chunks", smuggled + b"0\r\n\r\n", NO)
    yield Row("an unknown encoding", _post(auth, "Transfer-Encoding: gzip") + whole, NO)
    for chunk in (b"zz\r\nabc\r\n", b"-1\r\na\r\n", b"f" * 17 + b"\r\n", b"3\r\nabcdef\r\n0\r\n\r\n", b"1" * 70_000):
        sent = _post(auth, "Transfer-Encoding: chunked") + chunk
        yield Row(f"the chunk {chunk[:8]!r}", sent, NO)
    chunks = b"".join(b"4000\r\n" + b" " * 0x4000 + b"\r\n" for _ in range(70)) + b"0\r\n\r\n"
    yield Row("more than 1 MB in chunks", _post(auth, "Transfer-Encoding: chunked") + chunks, (401, 413, CLOSED))
    part = _post(auth, f"Content-Length: {len(whole)}") + whole[:20]
    yield Row("a slow body", part, (401, 408))
    yield Row("a body that is cut", part, (CLOSED,), "cut")
    yield Row("a body that is half-closed", part, (400, 401, 408, CLOSED), "half-close")
    cut = _post(auth, "Transfer-Encoding: chunked") + b"5\r\nab"
    yield Row("a chunk that is cut", cut, (CLOSED,), "cut")
    expecting = _post(auth, "Content-Length: 9", "Expect: 100-continue")
    yield Row("an expectation without a body", expecting, (100, 401, 408, CLOSED), "half-close")
    yield Row("another expectation", _post(auth, "Content-Length: 2", "Expect: tea") + b"{}", REFUSED)
    zipped = _post(auth, "Content-Encoding: gzip", "Content-Length: 4") + b"\x1f\x8b\x08\x00"
    yield Row("a compressed body", zipped, REFUSED)


def _documents(era: str, auth: bytes) -> Iterator[Row]:
    deep, ping = b"[" * 100_000, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    documents = (
        *(
            b"null",
            b'"text"',
            b"NaN",
            b"[]",
            b"{}{}",
            b" " * 900_000,
            ping + ping,
            ping.replace(b"1,", b"9" * 5000 + b","),
        ),
        *(deep, deep + b"]" * 100_000, b'{"a":' * 100_000, b'{"jsonrpc": "2.0", "id": 1}'),
        b'{"jsonrpc": "2.0", "id": 1, "result": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}',
    )
    for number, document in enumerate(documents):
        yield Row(f"{era}: document {number}, {document[:30]!r}", _post_body(era, auth, document), NO_RESULT)
    for identifier in ("null", "{}", "[1]", "1.5", "true", '"\\ud800"', "1e400"):
        document = f'{{"jsonrpc": "2.0", "id": {identifier}, "method": "ping"}}'.encode()
        yield Row(f"{era}: the id {identifier}", _post_body(era, auth, document), NO_RESULT, succeeds=True)


def _messages(era: str, auth: bytes) -> Iterator[Row]:
    uris: tuple[Any, ...] = (
        *("x", "quilt://", "auth://status\x00", "auth://\ud800", "a" * 900_000, "auth://" + "/" * 9999),
    )
    read, create, template = "get_resource", "workflow_create", "symbolic_check_template"
    calls: list[tuple[str, dict[str, Any]]] = [("resources/read", {"uri": uri}) for uri in uris]
    calls += [
        *(("unknown/method", {}), ("tools/call", {}), ("sampling/createMessage", {})),
        ("tools/call", {"name": "no_such_tool", "arguments": {}}),
        ("tools/call", {"name": read, "arguments": {"uri": "workflow://workflows/\udfff"}}),
        ("tools/call", {"name": create, "arguments": {"workflow_id": "\ud800", "name": "x"}}),
        ("tools/call", {"name": create, "arguments": {"workflow_id": 1, "name": [None]}}),
        *(("resources/list", {"cursor": "no cursor"}), ("resources/list", {"cursor": {}})),
        ("prompts/get", {"name": "no_such_prompt"}),
        *(("prompts/get", {"name": template, "arguments": {"code": code}}) for code in (5, "x")),
        ("completion/complete", {"ref": {"type": "ref/other"}, "argument": {}}),
        *(("logging/setLevel", {"level": "loud"}), ("subscriptions/listen", {"notifications": 7})),
        *(("resources/subscribe", {"uri": "auth://status"}), ("initialize", {"protocolVersion": 5})),
    ]
    for method, parameters in calls:
        sent = _post_message(era, auth, method, parameters)
        shown = json.dumps(parameters)[:60]
        yield Row(f"{era}: {method} {shown}", sent, NO_RESULT)
    backquotes = {"name": template, "arguments": {"code": "`" * 900_000, "function_name": "f"}}
    sent = _post_message(era, auth, "prompts/get", backquotes)
    yield Row(f"{era}: 900,000 backquotes", sent, NO_ANSWER, succeeds=True)
    for value in ("NaN", "Infinity", "1e999", "-" + "9" * 4000, "[" * 900 + "]" * 900):
        sent = _post_message(era, auth, "tools/call", {"name": read, "arguments": {"uri": "VALUE"}}, value=value)
        yield Row(f"{era}: the argument {value[:12]}", sent, NO_ANSWER)


def _headers(era: str, auth: bytes) -> Iterator[Row]:
    read = {"uri": "metadata://templates"}
    for headers in ({"MCP-Protocol-Version": "x" * 5000}, {"Content-Type": "multipart/form-data"}):
        yield Row(f"{era}: {str(headers)[:60]}", _post_message(era, auth, "resources/read", read, headers=headers), NO)
    session = _post_message(
        era, auth, "resources/read", read, headers={"Mcp-Session-Id": "x" * 3000, "Last-Event-ID": "\x7f"}
    )
    yield Row(f"{era}: a session that does not exist", session, NO_ANSWER, succeeds=True)


def _head(method: str, target: str, auth: bytes, *lines: str, host: str = "127.0.0.1") -> bytes:
    given = "".join(f"{line}\r\n" for line in lines)
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n".encode() + auth + f"{given}\r\n".encode()


def _post(auth: bytes, *lines: str) -> bytes:
    headers = request("resources/read", uri="metadata://templates")["headers"]
    return _head("POST", "/mcp", auth, *(f"{name}: {value}" for name, value in headers.items()), *lines)


def _post_body(era: str, auth: bytes, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    given = {"Accept": ACCEPT, "Content-Type": "application/json", "MCP-Protocol-Version": era, **(headers or {})}
    given["Content-Length"] = str(len(body))
    return _head("POST", "/mcp", auth, *(f"{name}: {value}" for name, value in given.items())) + body


def _post_message(
    era: str,
    auth: bytes,
    method: str,
    parameters: dict[str, Any],
    *,
    value: str = "",
    headers: dict[str, str] | None = None,
) -> bytes:
    """Return a request. In its parameters, "VALUE" stands for a value that is no valid JSON."""
    made = request(method, **parameters)
    if era != SESSIONLESS:
        made["json"]["params"] = parameters
    described = {
        name: value
        for name, value in made["headers"].items()
        if name.startswith("Mcp-") and isinstance(value, str) and value.isprintable() and len(value) < 1000
    }
    body = json.dumps(made["json"]).replace('"VALUE"', value).encode()
    return _post_body(era, auth, body, (described if era == SESSIONLESS else {}) | (headers or {}))

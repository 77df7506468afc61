"""Random requests near the form that the direct path answers: most are exactly of that form, the others almost."""

import json
import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from tests.http.web import ACCEPT, SESSIONLESS, request

OLDER = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
URIS = (
    *(f"t://{name}" for name in ("plain", "texts", "floats", "integers", "nulls", "empty", "rows", "keys", "nested")),
    *(f"t://{name}" for name in ("surrogates", "nan", "date", "refused", "missing", "away", "bug", "thread", "deep")),
    *("t://picture", "t://bytes", "t://inner_keys", "t://levels"),
    *("t://echo/abc", "t://echo/a%20b", "t://echo/x?b=1", 't://echo/"\\', "t://echo/", "t://echo/{a}", "t://echo/.."),
    *("t://none", "t://plain#", "t://plain?x=1", "t:plain", "T://plain", "x://y", "info://self", "ui://x", ""),
    *("t://pl\u00e4in", "t://plain ", "t://\x00", "t://" + "a" * 2001, "=?base64?dDovL3BsYWlu?="),
)
GOOD = URIS[:20]
IDS: tuple[Any, ...] = (
    *(0, -1, 2**53, 2**53 - 1, 2**64, 10**30, 1.0, 1.5, True, None, [], {}),
    *("1", "", "\u00fc", 'a"b\\', "\x7f", "x" * 300),
)
VALUES: tuple[Any, ...] = (None, True, 1, 1.5, "", "x", "t://plain", [], {}, {"uri": "t://plain"}, ["t://plain"])
META = request("tools/list")["json"]["params"]["_meta"]
OTHER_META: dict[str, tuple[Any, ...]] = {
    "io.modelcontextprotocol/protocolVersion": (*OLDER, None, 5, "2099-01-01"),
    "io.modelcontextprotocol/clientInfo": (
        *(None, [], {"name": "x"}, {"name": 1, "version": "1"}, {"name": "x", "version": "2"}),
    ),
    "io.modelcontextprotocol/clientCapabilities": (
        *(None, [], {"roots": 5}, {"sampling": {}}, {"extensions": {"a/b": {}}}),
    ),
    "io.modelcontextprotocol/logLevel": ("debug", None, 1),
    "progressToken": (1, "t", 1.5, True, None, "x" * 500, [], 2**70),
    "fastmcp": ({"version": "2"}, {}, None),
    "traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 1),
    "com.example/x": (1, None),
}
OTHER_HEADERS = {
    "accept": ("*/*", "application/json", "text/event-stream", "", "text/html", "Application/JSON", f"{ACCEPT}, */*"),
    "content-type": ("application/json; charset=utf-8", "text/plain", "", "Application/JSON", "application/jsonx"),
    "mcp-protocol-version": (SESSIONLESS, *OLDER, "1999-01-01", "", "2026-07-28x"),
    "mcp-method": ("tools/call", "resources/read", "", "TOOLS/CALL", "ping"),
    "mcp-name": ("get_resource", "t://plain", "", "=?base64?dDovL3BsYWlu?=", "=?base64?!!?="),
    "mcp-param-uri": ("t://plain", ""),
    "mcp-session-id": ("abc",),
    "last-event-id": ("1",),
    "origin": ("http://127.0.0.1:1", "http://attacker.example.com", "null"),
    "host": ("attacker.example.com", "localhost:9"),
    "authorization": ("Bearer wrong", "Bearer weak", "Bearer nobody", "Basic x", "bearer  one"),
    "traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",),
}


@dataclass
class Sent:
    message: dict[str, Any]
    headers: list[tuple[str, str]]
    method: str = "POST"
    path: str = "/mcp"
    chunks: int = 1  # of the body
    rewrite: Callable[[bytes], bytes] = bytes
    body: bytes = field(default=b"", repr=False)

    def write(self, rng: random.Random) -> "Sent":
        text = json.dumps(self.message, ensure_ascii=rng.random() < 0.5, separators=(",", ":"))
        self.body = self.rewrite(text.encode("utf-8", "surrogatepass"))
        return self


def _insert(before: bytes, text: bytes) -> Callable[[bytes], bytes]:
    return lambda body: body.replace(before, text + before, 1)


REWRITES: tuple[Callable[[bytes], bytes], ...] = (
    lambda body: b"[" + body + b"]",
    lambda body: body[:-1] + b',"id":99}',
    lambda body: body[:-1] + b',"method":"ping"}',
    lambda body: body[:-1] + b',"params":{"uri":"t://plain"}}',
    _insert(b'"uri":', b'"uri":"t://empty",'),
    _insert(b'"jsonrpc"', b'"x":NaN,'),
    _insert(b'"io.model', b'"z":1e999,'),
    lambda body: body.replace(b'"id":1', b'"id":NaN', 1),
    lambda body: body.replace(b'"id":1', b'"id":1.0', 1),
    lambda body: body.replace(b'"id":1', b'"id":true', 1),
    lambda body: body.replace(b'"2.0"', b'"1.0"', 1),
    lambda body: body + b"x",
    lambda body: b"\xef\xbb\xbf" + body,
    lambda body: body.decode("utf-8", "replace").encode("utf-16"),
    lambda body: body[:20] + b"\xff" + body[20:],
    lambda body: body.replace(b'"t://', b'"\\ud800t://', 1),
    lambda body: body.replace(b"t://", b"\\u0074:\\/\\/"),
    lambda body: b"[" * 3000 + b"]" * 3000,
    lambda body: b" \n\t" + body + b"\r\n ",
    lambda body: body[:-1],
    lambda body: b"",
    lambda body: b"5",
    lambda body: body + b" " * 20_000,
)


def make_request(rng: random.Random) -> Sent:
    is_sessionless, is_call = rng.random() < 0.5, rng.random() < 0.5
    uri = rng.choice(GOOD if rng.random() < 0.7 else URIS)
    arguments = {} if rng.random() < 0.05 else {"uri": uri}
    params: dict[str, Any] = {"name": "get_resource", "arguments": arguments} if is_call else {"uri": uri}
    method, name = ("tools/call", "get_resource") if is_call else ("resources/read", uri)
    headers = [("accept", ACCEPT), ("content-type", "application/json")]
    if is_sessionless:
        params["_meta"] = deepcopy(META)
        routing = name if name.isascii() and name.isprintable() else "?"
        headers += [("mcp-protocol-version", SESSIONLESS), ("mcp-method", method), ("mcp-name", routing)]
    else:
        headers.append(("mcp-protocol-version", rng.choice(OLDER)))
    number = rng.choice((1, 7, "a", "abc-1"))
    return Sent({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, headers)


def _change_header(sent: Sent, rng: random.Random) -> None:
    name = rng.choice(list(OTHER_HEADERS))
    sent.headers = [one for one in sent.headers if one[0] != name]
    sent.headers.append((name, rng.choice(OTHER_HEADERS[name])))


def _remove_header(sent: Sent, rng: random.Random) -> None:
    sent.headers.remove(rng.choice(sent.headers))


def _repeat_header(sent: Sent, rng: random.Random) -> None:
    name, value = rng.choice(sent.headers)
    other = rng.choice(OTHER_HEADERS.get(name, (value,)))
    sent.headers.append((name, value if rng.random() < 0.5 else other))


def _change_envelope(sent: Sent, rng: random.Random) -> None:
    key = rng.choice(("jsonrpc", "id", "method", "params", "extra", "result", "error", "_meta"))
    methods = ("tools/list", "ping", "resources/read", "tools/call", "Tools/call", "server/discover", None, 5)
    choices: dict[str, tuple[Any, ...]] = {"id": IDS, "method": methods, "jsonrpc": ("2.0", "1.0", 2.0, None)}
    sent.message[key] = rng.choice(choices.get(key, VALUES))
    if rng.random() < 0.2:
        del sent.message[key]


def _change_params(sent: Sent, rng: random.Random) -> None:
    params = sent.message["params"]
    key = rng.choice(("uri", "name", "arguments", "_meta", "task", "requestState", "inputResponses", "cursor"))
    params[key] = rng.choice(VALUES)
    if rng.random() < 0.2:
        del params[key]


def _change_arguments(sent: Sent, rng: random.Random) -> None:
    sent.message["params"]["arguments"][rng.choice(("uri", "limit", "URI"))] = rng.choice(VALUES)


def _change_meta(sent: Sent, rng: random.Random) -> None:
    key = rng.choice(list(OTHER_META))
    meta = sent.message["params"].setdefault("_meta", {})
    meta[key] = rng.choice(OTHER_META[key])
    if rng.random() < 0.2:
        del meta[key]


def _rewrite(sent: Sent, rng: random.Random) -> None:
    sent.rewrite = rng.choice(REWRITES)


def _send_otherwise(sent: Sent, rng: random.Random) -> None:
    sent.chunks = rng.choice((1, 2, 5))
    if rng.random() < 0.3:
        sent.method = rng.choice(("GET", "PUT", "DELETE", "OPTIONS"))
    if rng.random() < 0.3:
        sent.path = rng.choice(("/mcp/", "/", "/mcp/x", "/MCP", "/mcp?a=1"))


CHANGES = (
    *(_change_header, _remove_header, _repeat_header, _change_envelope, _change_params, _change_arguments),
    *(_change_meta, _rewrite, _send_otherwise),
)


def make_requests(seed: int, count: int) -> list[Sent]:
    rng, made = random.Random(seed), list[Sent]()  # noqa: S311 - a reproducible choice
    while len(made) < count:
        sent = make_request(rng)
        for _ in range(rng.choice((0, 0, 0, 1, 1, 1, 2))):
            try:
                rng.choice(CHANGES)(sent, rng)
            except (AttributeError, KeyError, TypeError):  # an earlier change has removed what this would change
                continue
        made.append(sent.write(rng))
    return made

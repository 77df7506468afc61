"""The audit log over HTTP: one line for each request, and nothing that a client sent, as in the log at DEBUG."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from mcp.shared.exceptions import MCPError
from pydantic import AnyHttpUrl, SecretStr

from quilt_mcp.console.logs import Format, configure_logging
from quilt_mcp.http.audit import FIELDS, AuditLog, auditing
from quilt_mcp.http.server import Connection
from tests.contract.canaries import leaks
from tests.http.web import HEAD, HEALTH, READ, connected, older, request, whole_server, with_headers, with_limits
from tests.support.toys import Shop
from tests.support.waiting import SECONDS, until

CANARY = "canary-3f9c"
TOKEN = f"token-{CANARY}"
OWNER = {"client_id": "cli", "sub": "ann@example.com", "scopes": ["read"], "iss": "https://id.example.com"}
NARROW = {"client_id": "cli", "sub": "ben", "scopes": []}
TOKENS = json.dumps({TOKEN: OWNER, f"narrow-{CANARY}": NARROW})
ANN = {"Authorization": f"Bearer {TOKEN}"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}

ANN_READS = {"subject": "ann@example.com", "issuer": "https://id.example.com", "client": "cli"}
POSTED = {"transport": "http", "address": "127.0.0.1", "http_method": "POST", "path": "/mcp"}
BEN = {"subject": "ben", "issuer": None, "client": "cli"}
NOBODY = {"subject": None, "issuer": None, "client": None}


class Lines:
    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[dict[str, Any]]:
        text = self.path.read_text(encoding="ascii") if self.path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    async def wait_for(self, count: int) -> list[dict[str, Any]]:
        await until(lambda: len(self.all()) >= count)
        return self.all()


@asynccontextmanager
async def audited(
    directory: Path, transport: Any = "http", protocol: Any = Connection, **options: Any
) -> AsyncIterator[tuple[httpx2.AsyncClient, Lines]]:
    """A client of the whole server, and its audit log. When the block has ended, the log is complete."""
    lines = Lines(directory / "audit.jsonl")
    given: dict[str, Any] = {"audit_log": str(lines.path), "data_dir": directory, "max_request_bytes": 8192}
    given |= {"static_tokens": SecretStr(TOKENS), "required_scopes": ("read",)}
    async with whole_server(transport, protocol, **given | options) as client:
        yield client, lines


def tool(name: str, /, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", name=name, arguments=arguments)


def posted(content: bytes) -> dict[str, Any]:
    return {"url": "/mcp", "content": content, "headers": READ["headers"]}


def ok(**fields: object) -> dict[str, object]:
    return {"status": 200, "outcome": "ok", "error": None} | fields


def bad(error: str | None, status: int = 200, outcome: str = "error", **fields: object) -> dict[str, object]:
    return {"status": status, "outcome": outcome, "error": error} | fields


def refused(status: int, **fields: object) -> dict[str, object]:
    return bad(f"HTTP {status}", status, "refused", **fields)


def get(url: str, method: str = "GET") -> dict[str, Any]:
    return {"url": url, "method": method}


def is_ours(**fields: object) -> dict[str, object]:
    return ok(method="resources/read", uri="metadata://examples", name=None) | ANN_READS | fields


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": CANARY, "version": "1"}}
SENT, PROMPT = "203.0.113.7", "symbolic_check_template"
TWO, NONE = {"X-Forwarded-For": f"{CANARY}, {SENT}"}, {"X-Forwarded-For": CANARY}
MASKED = {"method": "resources/read", "uri": "unknown"}
PROMPTED: dict[str, object] = {"method": "prompts/get", "name": PROMPT}
CALLED = {"method": "tools/call", "name": "get_resource"}
NOTICE = older("") | {"json": {"jsonrpc": "2.0", "method": "notifications/initialized"}}
WROTE = ok(method="tools/call", name="workflow_create") | ANN_READS
SURROGATE = rb'{"id": 1, "method": "tools/list", "x": "\ud800"}'
UTF16, HANDSHAKE = '{"id": 1, "method": "tools/list"}'.encode("utf-16-le"), older("")["headers"]
REQUESTS: list[tuple[str, dict[str, Any], dict[str, object]]] = [
    ("a read", READ, is_ours()),
    ("a read of the older protocol", older("resources/read", uri="metadata://examples"), is_ours()),
    ("no URI", request("resources/read", uri=f"metadata://{CANARY}"), bad("InvalidURI", 400, **MASKED)),
    ("get_resource", tool("get_resource", uri="metadata://examples"), is_ours(**CALLED)),
    ("an error of the tool", tool("get_resource", uri=CANARY), bad("InvalidURI", name="get_resource")),
    ("a tool that writes", tool("workflow_create", workflow_id="one", name=CANARY), WROTE),
    ("invalid arguments", tool("workflow_create", x=CANARY), bad("InvalidArguments", name="workflow_create")),
    ("an unknown tool", tool(CANARY), bad("NotFound", method="tools/call", name="unknown")),
    ("a prompt", request("prompts/get", name=PROMPT, arguments={"code": CANARY}), PROMPTED),
    ("a list", request("tools/list"), ok(method="tools/list", uri=None)),
    ("a list of the older protocol", older("prompts/list"), ok(method="prompts/list")),
    ("a list of resources", request("resources/list"), {"status": 200, "method": "resources/list", "uri": None}),
    ("discovery", request("server/discover"), ok(method="server/discover")),
    ("an initialization", older("initialize", **HELLO), ok(method="initialize")),
    ("a notification", NOTICE, ok(status=202, method="notifications/initialized")),
    ("an unknown method", older(f"{CANARY}/x"), bad("JSON-RPC -32601", method="unknown")),
    ("invalid parameters", older("resources/read", uri=[CANARY]), bad("InvalidArguments", method="resources/read")),
    ("no JSON", posted(f'{{"{CANARY}'.encode()), ANN_READS | bad("JSON-RPC -32700", 400)),
    ("deep JSON", posted(b"[" * 5000), bad("JSON-RPC -32700", 400, bytes_received=5000)),
    ("UTF-16", posted(UTF16) | {"headers": HANDSHAKE}, bad("JSON-RPC -32700", 400, method=None)),
    ("half a surrogate pair", posted(SURROGATE), bad("JSON-RPC -32602", 400, method="tools/list")),
    ("another method in the header", with_headers(READ, {"Mcp-Method": "tools/list"}), bad("JSON-RPC -32020", 400)),
    ("a long body", posted(b" " * 20_000), ANN_READS | bad("HTTP 413", 413, "limit", method="resources/read")),
    ("no token", with_headers(READ, Authorization=""), NOBODY | refused(401, method="resources/read")),
    ("a wrong token", with_headers(READ, Authorization=f"Bearer {CANARY}"), NOBODY | refused(401)),
    ("no scope", with_headers(READ, Authorization=f"Bearer narrow-{CANARY}"), BEN | refused(403)),
    ("a foreign origin", with_headers(READ, Origin=f"https://{CANARY}.example.com"), refused(403)),
    ("a foreign host", with_headers(READ, Host=f"{CANARY}.example.com"), refused(421)),
    ("an unknown path", get(f"/{CANARY}?x={CANARY}"), bad("HTTP 404", 404, http_method="GET", path=None)),
    ("a wrong method", get("/mcp", "DELETE"), bad("JSON-RPC -32600", 405, http_method="DELETE")),
    ("a rare method", get("/mcp", "PROPFIND"), bad("HTTP 405", 405, http_method="other")),
    ("an invented method", get("/mcp", f"X{CANARY}"), bad("HTTP 405", 405, http_method="other")),
    ("health", get(f"/health?{CANARY}"), ok(http_method="GET", path="/health", bytes_sent=18)),
    ("metrics", get("/metrics") | {"headers": TWO}, refused(401, http_method="GET", path="/metrics", address=SENT)),
    ("no address", get("/health") | {"headers": NONE}, ok(http_method="GET", path="/health", address=None)),
    ("a trace", with_headers(READ, PARENT), ok(trace_id=TRACE)),
    ("a trace, refused", with_headers(READ, PARENT, Authorization=""), refused(401, trace_id=TRACE)),
]
"""What it is, the arguments of httpx, and the expected fields beside POSTED."""


async def send(client: httpx2.AsyncClient, asked: dict[str, Any]) -> httpx2.Response:
    """Send a request as Ann, or without the headers that are empty."""
    headers = ANN | asked.get("headers", {})
    given = {name: value for name, value in headers.items() if value}
    return await client.request(**{"method": "POST"} | asked | {"headers": given})


FORMS = {CANARY, TOKEN, "ann@example.com"}


@contextmanager
def debug_log(form: Format, capsys: pytest.CaptureFixture[str], secrets: set[str]) -> Iterator[None]:
    """Log as `QUILT_MCP_LOG_LEVEL=debug quilt-mcp serve` does, and look for the secrets at the end.

    Not a fixture: pytest replaces stderr after setup.
    """
    with configure_logging("DEBUG", form):
        yield
    log = capsys.readouterr().err
    assert "surface=resource" in log
    assert "could not be written" not in log
    assert leaks(log, secrets) == []


@pytest.mark.parametrize("form", ["console", "json"])
async def test_each_request_has_one_line_and_the_log_has_no_texts(
    form: Format, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with debug_log(form, capsys, FORMS):
        async with audited(tmp_path) as (client, lines):
            answers = [await send(client, asked) for _, asked, _ in REQUESTS]
            found = await lines.wait_for(len(REQUESTS))
    for (what, _, expected), answer, line in zip(REQUESTS, answers, found, strict=True):
        assert line == line | POSTED | expected, what
        assert line["status"] == answer.status_code, what
        assert line["bytes_sent"] in {len(answer.content), None}, what
        assert (line["bytes_received"] or 0) <= len(answer.request.content), what
        assert line["ms"] >= 0, what
        assert line["uri"] is None or line["correlation_id"], what
    assert CANARY not in lines.path.read_text()


async def test_limits_of_a_caller_are_named(tmp_path: Path) -> None:
    async with audited(tmp_path, rate_limit="1/day") as (client, lines):
        for _ in range(2):
            await client.post(**with_headers(READ, ANN))
    first, second = lines.all()
    assert first["outcome"] == "ok"
    assert second == second | POSTED | ANN_READS | {"status": 429, "outcome": "limit", "error": "rate_limit"}


async def test_a_bug_in_a_tool_is_named_by_the_class_of_its_exception(tmp_path: Path) -> None:
    found, lines = Shop(), Lines(tmp_path / "audit.jsonl")
    log = AuditLog(str(lines.path))

    @found.server.tool
    def break_down() -> str:
        raise KeyError(CANARY)

    before = [*found.server.middleware]
    with auditing(log, found.server, found.manager, "stdio"):
        async with Client(found.server) as client:
            await client.call_tool("break_down", raise_on_error=False)
    await log.close()
    assert found.server.middleware == before
    [line] = [line for line in lines.all() if line["name"]]
    assert (line["name"], line["outcome"], line["error"]) == ("break_down", "error", "ToolError")
    assert CANARY not in lines.path.read_text()


async def test_a_disconnect_is_a_cancelled_request(tmp_path: Path) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{"
    async with audited(tmp_path) as (client, lines):
        async with connected(client.base_url) as (_, writer):
            writer.write(head.encode())
            await writer.drain()
        [line] = await lines.wait_for(1)
    assert line == line | POSTED | {"outcome": "cancelled", "error": "disconnected", "status": None}


async def test_each_pipelined_or_invalid_request_has_a_line_and_a_silent_connection_none(tmp_path: Path) -> None:
    invalid = {"status": 400, "outcome": "error", "address": "127.0.0.1", "http_method": None}
    impatient = with_limits(head_seconds=0.05)  # no client sends a whole head
    async with audited(tmp_path, protocol=impatient) as (client, lines):
        async with connected(client.base_url) as (reader, writer):
            writer.write(HEALTH * 100)
            for _ in range(100):
                await reader.readuntil(b"alive")
        found = await lines.wait_for(100)
        assert [(one["path"], one["status"], one["outcome"]) for one in found] == [("/health", 200, "ok")] * 100
        too_long = b"GET /health HTTP/1.1\r\nX-Filler: " + b"x" * 100_000
        slow = ((b"", 408), (b"GET /hea", 408), (HEAD, 408))
        for sent, status in ((b"canary-3f9c\r\n\r\n", 400), (too_long, 400), *slow):
            async with connected(client.base_url) as (reader, writer):
                writer.write(sent)
                assert (await reader.read()).startswith(b"HTTP/1.1 %d " % status)
    *_, first, second, late, later = lines.all()
    assert (len(lines.all()), first | invalid, second | invalid) == (104, first, second)
    assert [(one["status"], one["outcome"]) for one in (late, later)] == [(408, "limit")] * 2
    assert CANARY not in lines.path.read_text()


async def test_a_connection_over_the_limit_has_a_line(tmp_path: Path) -> None:
    async with audited(tmp_path, max_connections=1) as (client, lines), connected(client.base_url) as (reader, writer):
        writer.write(HEALTH)  # a connection with a request keeps its place
        await reader.readuntil(b"alive")
        refused = await client.get("/metrics")
        alive = await client.get("/health")  # the refused connection is closed: this one is over the limit too
    _, first, second = lines.all()
    assert refused.status_code == first["status"] == 503
    assert (first["outcome"], first["http_method"]) == ("limit", "GET")
    assert (alive.status_code, second["path"], second["outcome"]) == (200, "/health", "ok")


@pytest.mark.soak
async def test_messages_over_sse_have_one_line_when_they_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with debug_log("console", capsys, FORMS):
        async with audited(tmp_path, "sse") as (client, lines):
            transport = SSETransport(str(client.base_url.join("/sse")), headers=ANN)
            async with Client(transport, timeout=SECONDS, mode="legacy") as user:
                await user.read_resource("metadata://examples")
                with pytest.raises(MCPError):
                    await user.read_resource(f"metadata://{CANARY}")
            await lines.wait_for(5)
            body = {"content": f'{{"{CANARY}'.encode(), "headers": {"Content-Type": "application/json"}}
            queries = ("", f"session_id={CANARY}", "session_id=" + "0" * 32)
            refused = [await send(client, body | {"url": f"/messages/?{query}"}) for query in queries]
    assert {line["subject"] for line in lines.all()} == {"ann@example.com"}
    assert sorted(str([line[name] for name in ("path", "method", "uri", "outcome")]) for line in lines.all()) == [
        "['/messages', 'initialize', None, 'ok']",
        "['/messages', 'notifications/initialized', None, 'ok']",
        "['/messages', 'resources/read', 'metadata://examples', 'ok']",
        "['/messages', 'resources/read', 'unknown', 'error']",
        *["['/messages', None, None, 'error']"] * len(refused),
        "['/sse', None, None, 'cancelled']",
    ]
    assert all(one.is_client_error for one in refused)
    assert CANARY not in lines.path.read_text()


async def test_without_sign_in_the_caller_is_the_local_user(tmp_path: Path) -> None:
    async with audited(tmp_path, static_tokens=None, required_scopes=()) as (client, lines):
        await client.post(**READ)
        [line] = await lines.wait_for(1)
    assert line == line | ok(subject="local", issuer=None, uri="metadata://examples")


@pytest.mark.soak
async def test_concurrent_requests_keep_their_lines_apart(tmp_path: Path) -> None:
    uris = ["metadata://examples", "metadata://templates", "metadata://nothing"] * 10
    async with audited(tmp_path, rate_limit="none", concurrent_reads=0) as (client, lines):
        await asyncio.gather(*(client.post(**with_headers(request("resources/read", uri=uri), ANN)) for uri in uris))
    assert len({line["correlation_id"] for line in lines.all()}) == 30
    expected = {("metadata://examples", "ok"): 10, ("metadata://templates", "ok"): 10, ("unknown", "error"): 10}
    assert Counter((line["uri"], line["outcome"]) for line in lines.all()) == expected


def random_text(numbers: Random, alphabet: bytes) -> bytes:
    return bytes(numbers.choices(alphabet, k=numbers.randrange(60))) + CANARY.encode()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
async def test_no_header_or_body_forges_a_line_or_leaks_into_one(seed: int, tmp_path: Path) -> None:
    numbers = Random(seed)  # noqa: S311 - not for security
    printable, anything = bytes(range(0x20, 0x100)), bytes(range(0x100))
    names = [b"Authorization", b"X-Forwarded-For", b"X-Forwarded-Proto", b"Mcp-Method", b"Mcp-Name", b"Traceparent"]
    names += [b"Origin", b"Mcp-Session-Id", b"User-Agent", b"Content-Type", b"Accept", b"Cookie", b"X-Quilt-Token"]
    async with audited(tmp_path) as (client, lines):
        for count in range(40):
            body = random_text(numbers, anything)
            if count % 4 == 0:  # valid JSON
                text = random_text(numbers, anything).decode("latin-1")
                body = json.dumps({"jsonrpc": "2.0", "id": text, "method": text, "params": {text: text}}).encode()
            path = b"/mcp" if count % 2 else b"/" + random_text(numbers, b"%/?&=.;abc0129~")
            head = [b"POST " + path + b" HTTP/1.1", b"Host: 127.0.0.1", b"Connection: close"]
            head += [b"Authorization: Bearer " + TOKEN.encode()] * (count % 3 > 0)
            head += [name + b": " + random_text(numbers, printable) for name in numbers.sample(names, 5)]
            head += [b"Content-Length: %d" % len(body)]
            async with connected(client.base_url) as (reader, writer):
                writer.write(b"\r\n".join(head) + b"\r\n\r\n" + body)
                assert (await reader.read()).startswith(b"HTTP/1.1 ")
    found = lines.all()
    assert len(found) == len(lines.path.read_bytes().splitlines()) == 40
    assert {tuple(line) for line in found} == {("time", "logger", *FIELDS, "ms")}
    assert CANARY not in lines.path.read_text()


async def test_a_full_disk_is_counted_and_does_not_stop_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with audited(tmp_path, audit_log="/dev/full", metrics_token=SecretStr("m")) as (client, _):
        for _ in range(3):
            assert (await client.post(**with_headers(READ, ANN))).status_code == 200
        lost = 'quilt_mcp_events_total{event="audit_failure"}'
        await until(lambda: sum("audit log cannot be written" in one.getMessage() for one in caplog.records) == 1)
        metrics = (await client.get("/metrics", headers={"Authorization": "Bearer m"})).text
    [counted] = [line for line in metrics.splitlines() if line.startswith(lost)]
    assert float(counted.split()[-1]) >= 1


async def test_nothing_is_written_unless_the_setting_is_set(tmp_path: Path) -> None:
    async with audited(tmp_path, audit_log=None) as (client, lines):
        assert (await client.post(**with_headers(READ, ANN))).status_code == 200
    assert not lines.path.exists()


@pytest.mark.parametrize("form", ["console", "json"])
async def test_tokens_and_their_claims_are_not_logged(
    form: Format, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pair, issuer = RSAKeyPair.generate(), "https://id.example.com"
    named: dict[str, Any] = {"subject": "ann@example.com", "issuer": issuer, "audience": "quilt"}
    signed, expired = pair.create_token(scopes=["read"], **named), pair.create_token(expires_in_seconds=-10, **named)
    foreign = RSAKeyPair.generate().create_token(**named)
    other = pair.create_token(**named | {"issuer": f"https://{CANARY}", "audience": CANARY})
    tokens = [signed, expired, foreign, other, signed[:-4] + "AAAA", f"{CANARY}.{CANARY}.{CANARY}"]
    secrets = FORMS | {part for token in tokens for part in token.split(".")}
    key: dict[str, Any] = {"jwt_public_key": pair.public_key, "jwt_issuer": issuer, "jwt_audience": "quilt"}
    key |= {"static_tokens": None, "public_url": AnyHttpUrl("https://mcp.example.com"), "allowed_hosts": ("127.0.0.1",)}
    metadata = "/.well-known/oauth-protected-resource/mcp"
    with debug_log(form, capsys, secrets):
        async with audited(tmp_path, **key) as (client, lines):
            for token in tokens:
                await send(client, with_headers(READ, Authorization=f"Bearer {token}"))
            await client.get(metadata)
    assert [(line["status"], line["path"]) for line in lines.all()] == [
        (200, "/mcp"),
        *[(401, "/mcp")] * 5,
        (200, metadata),
    ]
    assert leaks(json.dumps(lines.all()), secrets - {"ann@example.com"}) == []

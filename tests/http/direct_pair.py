"""Two servers of the same resources, of which one has the direct path, and what each does with a request."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, tzinfo
from pathlib import Path
from typing import Any, Self, cast

import pytest
from pydantic import SecretStr
from starlette.applications import Starlette

from quilt_mcp.app.domain import Domain
from quilt_mcp.commands import http_server
from quilt_mcp.core import answers
from quilt_mcp.core.errors import NotFound, NotSignedIn, Unavailable
from quilt_mcp.core.tracing import Read
from quilt_mcp.http import direct
from quilt_mcp.http.audit import AuditRecord, open_audit_log
from quilt_mcp.http.server import WebServer, configure_uvicorn
from quilt_mcp.server import QuiltServer, create_server
from tests.http.direct_requests import Sent
from tests.http.web import connected, serving
from tests.support.settings import Settings
from tests.support.toys import toy
from tests.support.waiting import SECONDS

DATA: dict[str, Any] = {
    "plain": {"a": 1, "b": [1, 2, {"c": None}]},
    "texts": {"\u00e4": "\u00f6\u20ac\U0001f600", "x": '\u2028\x7f\x00\x1f\\"/', "e": "1e5, 2E-7", "<": "</script>&"},
    "floats": {"f": [1e16, 1e-7, 1.5, 0.1, 1e22, -0.0, 1e300, 5e-324, 1.2345678901234568e17, 1e15, 1e-4, 1e-5]},
    "integers": {"i": [2**53, 2**63, 2**64, 10**30, -(2**70), True, False]},
    "nulls": {"a": None, "b": {"c": None}, "d": [None]},
    "empty": {},
    "rows": {"rows": [{"i": i, "text": "x" * 20} for i in range(300)]},
    "keys": {1: "a", 2.5: "b", None: "d"},
    "nested": json.loads('{"a":' * 50 + "{}" + "}" * 50),
    "inner_keys": {"a": {None: 1, 2: "b", "2": "c"}},
    "levels": json.loads('{"a":' * 249 + "{}" + "}" * 249),
    "deep": json.loads('{"a":' * 250 + "{}" + "}" * 250),
    "surrogates": {"s": "\ud800x", "\udfff": 1},
    "nan": {"a": float("nan")},
    "date": {"a": date(2020, 1, 1)},
    "picture": answers.ServiceResult({"a": 1}, answers.Attachment(b"\x89PNG\xff\0", "image/png"), ttl_seconds=60),
    "bytes": answers.ServiceResult({"\u00e4": "\ud800"}, answers.Attachment(bytes(range(256)), "application/zip")),
}
FAILURES: dict[str, Exception] = {
    "refused": NotSignedIn("no"),
    "missing": NotFound("n\u00e4h", details="d\x7f"),
    "away": Unavailable("x"),
    "bug": KeyError("secret"),
}
CALLERS = 40
SHARE = 60
"""Requests of a caller before the next one sends. The rate limit is lower."""
RATE_LIMIT = "55/day"
TOKENS = {f"caller-{i}": {"client_id": f"caller-{i}", "scopes": ["read"]} for i in range(CALLERS)} | {
    "weak": {"client_id": "weak", "scopes": []},
    "nobody": {"client_id": "unknown", "scopes": ["read"]},
}
_IDS = re.compile(r"correlation id [0-9a-f]{12}|correlation_id=[0-9a-f]{12}|\bms=\d+")
_WAITING = re.compile(r"\b(retry-after|retry_after_seconds\"?:|in) \d+", re.IGNORECASE)


def _answer_with(data: Any) -> Callable[[], Any]:
    async def answer() -> Any:
        return data

    return answer


def _fail_with(error: Exception) -> Callable[[], Any]:
    async def fail() -> dict[str, Any]:
        raise error.with_traceback(None)  # otherwise it, and each log line with it, grows with every request

    return fail


async def echo(a: str, b: str = "") -> dict[str, str]:
    return {"a": a, "b": b}


@dataclass
class Gate:
    open: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0

    async def wait(self) -> dict[str, Any]:
        self.waiting += 1
        try:
            await self.open.wait()
        finally:
            self.waiting -= 1
        return {"open": True}


class FrozenTime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(2026, 11, 21, 1, 2, 3, 456789, tzinfo=tz or UTC)


@dataclass(frozen=True)
class Answer:
    """What a client receives, without what differs from moment to moment."""

    status: int | None
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""


METRICS = "metrics"
"""The token for the metrics."""


@dataclass
class Twin:
    """One of the servers, which notes the reads, the lines of the log, and those of the audit log of its requests."""

    mcp: QuiltServer
    app: Starlette
    gate: Gate
    settings: Settings
    noted: list[Any] = field(default_factory=list)
    url: str = ""

    def noting(self) -> AbstractContextManager[None]:
        def note(read: Read) -> None:
            shown = read.surface, read.uri, read.lookup, read.outcome, read.caller, read.is_admitted
            self.noted.append(("read", *shown))

        return self.mcp.manager.reads.observe(note)

    def note_audit(self, record: AuditRecord) -> None:
        ignored = {"arrived", "started", "bytes_sent", "correlation_id"}  # the bytes of the envelope can differ
        self.noted.append({name: value for name, value in asdict(record).items() if name not in ignored})

    async def ask(self, sent: Sent, token: str | None = None) -> Answer:
        parts, start = _split(sent), Answer(None)
        path, _, query = sent.path.partition("?")
        headers = [(name.encode(), value.encode("latin-1")) for name, value in _add_headers(sent, token)]
        scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
        scope |= {"scheme": "http", "path": path, "raw_path": path.encode(), "query_string": query.encode()}
        scope |= {"method": sent.method, "root_path": "", "headers": headers, "state": {}}
        scope |= {"client": ("127.0.0.1", 5), "server": ("127.0.0.1", 1)}
        waiting = [{"type": "http.request", "body": part, "more_body": part is not parts[-1]} for part in parts]
        got: list[Any] = []

        async def receive() -> Any:
            return waiting.pop(0) if waiting else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            got.append(message)

        await asyncio.wait_for(self.app(scope, receive, send), SECONDS)
        start = next(one for one in got if one["type"] == "http.response.start")
        shown = [(name.decode(), value.decode()) for name, value in start["headers"]]
        return _normalize(start["status"], shown, b"".join(one.get("body", b"") for one in got))

    async def count_messages(self) -> Mapping[str, int]:
        """Return how many messages each path has answered, as /metrics shows it."""
        shown = (await self.ask(Sent({}, [], method="GET", path="/metrics"), METRICS)).body
        counts = re.findall(r'messages_total{path="(\w+)"} ([\d.]+)', shown)
        return {path: int(float(number)) for path, number in counts}


def _split(sent: Sent) -> list[bytes]:
    size = -(-len(sent.body) // sent.chunks) or 1
    return [sent.body[i : i + size] for i in range(0, len(sent.body), size)] or [b""]


def _add_headers(sent: Sent, token: str | None) -> list[tuple[str, str]]:
    names = {name for name, _ in sent.headers}
    added = [] if "host" in names else [("host", "127.0.0.1:1")]
    added += [("authorization", f"Bearer {token}")] if token and "authorization" not in names else []
    return added + sent.headers


def _normalize(status: int, headers: list[tuple[str, str]], body: bytes) -> Answer:
    text = body.decode()
    with suppress(ValueError):
        text = json.dumps(json.loads(text), sort_keys=True)
    varying = {"content-length", "date", "retry-after"}
    shown = tuple(sorted((name, "" if name in varying else value) for name, value in headers))
    return Answer(status, shown, _WAITING.sub("", _IDS.sub("", text)))


async def ask_over_http(twin: Twin, sent: Sent, token: str | None = None) -> Answer:
    """Send a request as bytes over a connection of its own. A body of several chunks is sent chunk by chunk."""
    is_chunked = sent.chunks > 1
    framing = ("transfer-encoding", "chunked") if is_chunked else ("content-length", str(len(sent.body)))
    head = "".join(f"{name}: {value}\r\n" for name, value in [*_add_headers(sent, token), framing])
    async with connected(twin.url) as (reader, writer):
        writer.write(f"{sent.method} {sent.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1"))
        for part in filter(None, _split(sent) if is_chunked else ()):
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n" if is_chunked else sent.body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        parts = (line.partition(":") for line in lines[1:-1])
        headers = [(name.lower(), value.strip()) for name, _, value in parts]
        body = await reader.readexactly(int(dict(headers).get("content-length", "0")))
    return _normalize(int(lines[0].split()[1]), headers, body)


class _Records(logging.Handler):
    def __init__(self, note: Callable[[Any], None]) -> None:
        super().__init__(logging.INFO)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] != "mcp" or record.levelno > logging.INFO:  # quilt-mcp's log has no others
            self._note((record.name, record.levelname, _IDS.sub("", record.getMessage())))


@contextmanager
def logging_to(note: Callable[[Any], None]) -> Iterator[None]:
    handler = _Records(note)
    roots = [one for one in map(logging.getLogger, (None, "fastmcp")) if one.parent is None or not one.propagate]
    for one in roots:
        one.addHandler(handler)
    try:
        yield
    finally:
        for one in roots:
            one.removeHandler(handler)


def create_twin(directory: Path, *, is_direct: bool, has_sign_in: bool = False, **options: Any) -> Twin:
    """Return a server of the toys. With a sign-in, it has rate limits and an audit log too."""
    gate = Gate()
    rows = [
        *(
            toy(f"t://{name}", _answer_with(data), ttl_seconds=60 * at, shared=at > 1)
            for at, (name, data) in enumerate(DATA.items())
        ),
        *(toy(f"t://{name}", _fail_with(error)) for name, error in FAILURES.items()),
        *(toy("t://thread", lambda: {"s": 1}), toy("t://echo/{a}{?b}", echo), toy("t://gate", gate.wait)),
    ]
    given: dict[str, Any] = {"data_dir": directory}
    if has_sign_in:
        given |= {"static_tokens": SecretStr(json.dumps(TOKENS)), "required_scopes": ("read",)}
        given |= {"metrics_token": SecretStr(METRICS)}
        given |= {"rate_limit": RATE_LIMIT, "audit_log": str(directory / f"audit-{is_direct}.jsonl")}
    settings = Settings(**given | options)
    itself = [toy("info://self", _answer_with({}))]
    domains = [Domain(name="toys", resources=rows), Domain(name="self", resources=itself)]
    mcp = create_server(settings, domains=domains)
    app = http_server.create_http_application(mcp, settings, transport="http", host="127.0.0.1", is_direct=is_direct)
    assert (cast("object", app.user_middleware[-1].cls) is direct.Direct) == is_direct
    twin = Twin(mcp, app, gate, settings)
    # so that the twin sees each record
    mcp.app.part(open_audit_log).write = twin.note_audit  # type: ignore[method-assign]  # notes what the real method writes
    return twin


@asynccontextmanager
async def pair(directory: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> AsyncIterator[tuple[Twin, Twin]]:
    """A server with the direct path, and one without."""
    monkeypatch.setattr(answers, "datetime", FrozenTime)
    monkeypatch.setattr(http_server, "_prepare_process", lambda: None)  # it is for a process of its own
    one_direct, without = (create_twin(directory, is_direct=is_direct, **options) for is_direct in (True, False))
    async with _serving(one_direct), _serving(without):
        yield one_direct, without


@asynccontextmanager
async def _serving(twin: Twin) -> AsyncIterator[None]:
    config = configure_uvicorn(twin.app, twin.settings, seconds_to_finish=1)
    async with serving(lambda when_ready: WebServer(config, when_ready=when_ready)) as twin.url:
        with twin.noting():
            yield

"""The audit log: one JSON object per line for each request. It has no data, arguments, tokens or texts of clients.

AuditRequests writes the line of each HTTP request. AuditMessages adds the MCP message. Over stdio and SSE it writes the
line too: there, a message has no HTTP request of its own, or one that is answered before the message is.
"""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from io import TextIOWrapper
from ipaddress import ip_address
from logging.handlers import WatchedFileHandler
from pathlib import Path

from anyio import to_thread
from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError
from fastmcp.server.middleware import Middleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.shared.exceptions import MCPError
from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from opentelemetry.trace import Span, get_current_span
from opentelemetry.trace import format_trace_id as format_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quilt_mcp.app.json_depth import is_nested_too_deeply
from quilt_mcp.app.request_guard import Context, Next
from quilt_mcp.console.background_log import BackgroundHandler, LineHandler
from quilt_mcp.core.errors import INVALID_PARAMS, InvalidArguments, NotFound
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.surfaces import TOOL_NAME
from quilt_mcp.core.tracing import DONE, Read, milliseconds_since
from quilt_mcp.http.request_state import current_scope
from quilt_mcp.settings import LogSettings

STDERR = "stderr"
MAX_WAITING = 10_000
"""How many lines can wait for a slow disk. More are lost, and counted."""
MAX_CHARACTERS = 300

logger = logging.getLogger(__name__)
_current: ContextVar["AuditRecord | None"] = ContextVar("audit_record", default=None)


@dataclass
class AuditRecord:
    """One request, as the audit log shows it. docs/deploy.md describes the fields."""

    transport: str
    address: str | None = None
    subject: str | None = None
    issuer: str | None = None
    client: str | None = None
    http_method: str | None = None
    path: str | None = None
    status: int | None = None
    method: str | None = None
    name: str | None = None
    uri: str | None = None
    outcome: str = "ok"
    error: str | None = None
    bytes_received: int | None = None
    bytes_sent: int | None = None
    correlation_id: str | None = None
    trace_id: str | None = None
    arrived: float = field(default_factory=time.time)
    started: float = field(default_factory=time.perf_counter)

    @contextmanager
    def current(self) -> Iterator[None]:
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def describe_caller(self, scope: Mapping[str, object]) -> None:
        """Set who sent the request, if its token was verified."""
        user = scope.get("user")
        if isinstance(user, AuthenticatedUser):
            claims = user.access_token.claims or {}
            self.subject = _shorten(user.access_token.subject or claims.get("sub"))
            self.issuer = _shorten(claims.get("iss"))
            self.client = _shorten(user.access_token.client_id)

    def note_failure(self, outcome: str, error: str) -> None:
        """Note how the request failed. The first note has the best reason, so later ones do not replace it."""
        if self.outcome in DONE:
            self.outcome, self.error = outcome, error

    def to_line(self) -> str:
        """Return the record as JSON in ASCII, so that no text can start a line."""
        when = datetime.fromtimestamp(self.arrived, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {"time": when.replace("+00:00", "Z"), "logger": "audit"}
        fields |= {name: getattr(self, name) for name in FIELDS}
        fields["ms"] = milliseconds_since(self.started)
        return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))


FIELDS = tuple(name for name in AuditRecord.__dataclass_fields__ if name not in {"arrived", "started"})


def note_read(read: Read) -> None:
    """Note the pattern and the outcome of a read that has ended in the record of the context."""
    if (record := _current.get()) is None:
        return
    record.correlation_id = read.correlation_id
    if read.surface in {"resource", "completion"} or record.name == TOOL_NAME:
        record.uri = read.uri
    if read.outcome not in DONE | {"error"}:  # AuditMessages knows which error
        kinds = {"Unauthorized": "refused", "cancelled": "cancelled"}
        record.note_failure(kinds.get(read.outcome, "error"), read.outcome)
    elif read.outcome in DONE and record.outcome in DONE:
        record.outcome = read.outcome


def note_event(event: str) -> None:
    record = _current.get()
    if record is not None and event.endswith("_limit"):
        record.note_failure("limit", event)


class AuditLog:
    """Writes the audit log of one process, in a thread.

    Args:
        target: the path of a file, or "stderr". Nothing is written if it is empty.

    Attributes:
        failed: called for each line that is lost.
    """

    def __init__(self, target: str | None) -> None:
        self.is_on = bool(target)
        self.failed: Callable[[], object] = lambda: None
        self._is_failing = False
        self._out = LineHandler(sys.stderr) if target == STDERR else _AuditFile(target or os.devnull)
        self._out.note = self._note
        self._lines = BackgroundHandler(self._out, MAX_WAITING)

    def check(self) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be opened.
        """
        if self.is_on:
            self._out.open()

    def write(self, record: AuditRecord) -> None:
        """Write the record soon. Never raises."""
        if self.is_on:
            self._lines.handle(logging.makeLogRecord({"msg": record.to_line()}))

    async def close(self) -> None:
        """Write what is waiting, and close the file. A later record opens it again."""
        await to_thread.run_sync(self._lines.close)
        self._out.close()

    def _note(self, reason: str | None) -> None:
        """Count a line that is lost, and log the first of them."""
        if reason is not None:
            if not self._is_failing:
                logger.error("the audit log cannot be written, and lines are lost: %s", reason)
            self.failed()
        self._is_failing = reason is not None


class _AuditFile(LineHandler, WatchedFileHandler):
    """A file that several processes append to. It is opened again after it was renamed or removed."""

    def __init__(self, path: str) -> None:
        # Path.expanduser raises an error for an unknown user
        super().__init__(os.path.expanduser(path), encoding="ascii", delay=True)  # noqa: PTH111 - as above

    def open(self) -> None:
        self.reopenIfNeeded()
        if self.stream is None:  # at first, and when it could not be opened again
            self.stream = self._open()
            self._statstream()

    def _open(self) -> TextIOWrapper:
        self._is_torn &= Path(self.baseFilename).exists()  # a new file has no line that was cut
        return open(self.baseFilename, "a", encoding="ascii", opener=partial(os.open, mode=0o600))


def open_audit_log(settings: LogSettings) -> AuditLog:
    return AuditLog(settings.audit_log)


def _shorten(value: object) -> str | None:
    """Return a text for the log: not too long; None for a value that is not a text."""
    if not isinstance(value, str) or not value:
        return None
    return value if len(value) <= MAX_CHARACTERS else f"{value[:MAX_CHARACTERS]}…"


RECORD, AUDIT_LOG = "quilt_mcp.audit_record", "quilt_mcp.audit_log"
"""The keys of the record in the ASGI scope, and of the log in the state that the lifespan shares with the protocol."""
PARSED_BYTES = 65_536
"""At most so much of a body is parsed, if a request was refused before the MCP library parsed it."""
HTTP_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
KNOWN_METHODS = SPEC_CLIENT_METHODS | SPEC_CLIENT_NOTIFICATION_METHODS
ERROR_NAME = re.compile(r"[A-Za-z]{1,60}", re.ASCII)
KINDS = dict.fromkeys((401, 403, 421), "refused") | dict.fromkeys((408, 413, 429, 431), "limit")
"""The outcome by HTTP status. Others are errors."""


@dataclass(eq=False)
class AuditMessages(Middleware):
    """Notes the method, the tool or prompt, and the outcome of each message. It must be the outermost middleware."""

    log: AuditLog
    transport: str

    async def __call__(self, context: Context, call_next: Next) -> object:
        with self._recording() as record:
            record.method = context.method if context.method in KNOWN_METHODS else "unknown"
            record.name = await _find_name(context)
            record.trace_id = format_trace_id(get_current_span()) or record.trace_id
            try:
                with record.current():
                    result = await call_next(context)
            except Exception as error:  # `note_read` notes that a message was cancelled
                record.note_failure("error", _name_exception(error))
                raise
            if getattr(result, "is_error", False):
                record.note_failure("error", _find_error_name(result) or "tool error")
            return result

    @contextmanager
    def _recording(self) -> Iterator[AuditRecord]:
        scope = current_scope()  # over stdio, there is none
        found = scope.get(RECORD)
        if isinstance(found, AuditRecord) and self.transport == "http":
            yield found
            return
        record = AuditRecord(self.transport, subject="local")
        if isinstance(found, AuditRecord):
            begun = (record.arrived, record.started)
            record = replace(found, status=None, bytes_received=None, bytes_sent=None)
            record.arrived, record.started = begun
            record.describe_caller(scope)
        try:
            yield record
        finally:
            self.log.write(record)


@contextmanager
def auditing(log: AuditLog, server: FastMCP, manager: ResourceManager, transport: str) -> Iterator[None]:
    """Audit the messages of a server until the context ends."""
    messages = AuditMessages(log, transport)
    server.middleware.insert(0, messages)
    try:
        with manager.reads.observe(note_read):
            yield
    finally:
        server.middleware.remove(messages)


async def _find_name(context: Context) -> str | None:
    server = context.fastmcp_context.fastmcp if context.fastmcp_context else None
    name = getattr(context.message, "name", None)
    if server is None or context.method not in {"tools/call", "prompts/get"}:
        return None
    find = server.get_tool if context.method == "tools/call" else server.get_prompt
    return name if isinstance(name, str) and await find(name) is not None else "unknown"


def _name_exception(error: Exception) -> str:
    """Return the name of the error. The text of an exception can be a client's."""
    code = error.error.code if isinstance(error, MCPError) else None
    if isinstance(error, NotFoundError):
        return NotFound.error
    if isinstance(error, ValidationError) or code == INVALID_PARAMS:
        return InvalidArguments.error
    return type(error).__name__ if code is None else f"JSON-RPC {code}"


def _find_error_name(result: object) -> str | None:
    body = getattr(result, "structured_content", None)
    named = (body.get("error"), body.get("error_type")) if isinstance(body, dict) else ()
    return next((one for one in named if isinstance(one, str) and ERROR_NAME.fullmatch(one)), None)


@dataclass(eq=False)
class AuditRequests:
    """Audits every request. It must be the outermost layer of the application."""

    app: ASGIApp
    log: AuditLog
    routes: Sequence[BaseRoute]  # only their patterns appear in the log, never a path that a client sent
    transport: str
    has_sign_in: bool  # without it, every caller is the local user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        record = scope[RECORD] = begin_record(scope, self.transport)
        record.subject = None if self.has_sign_in else "local"
        record.path = _find_path(scope, self.routes)
        record.trace_id = _find_trace_id(scope)
        exchange = _Exchange(receive, send)
        try:
            with record.current():
                await self.app(scope, exchange.receive, exchange.send)
        finally:
            record.describe_caller(scope)
            record.path = record.path or _find_path(scope, self.routes)  # without a slash at its end
            exchange.describe(record)
            record.method = record.method or _find_method(scope, bytes(exchange.request))
            is_accepted = record.status == HTTPStatus.ACCEPTED and record.method is not None
            if not (is_accepted and self.transport == "sse"):  # else AuditMessages writes it after the answer
                self.log.write(record)


def audit_requests(app: Starlette, log: AuditLog, *, transport: str, has_sign_in: bool) -> None:
    """Audit all requests of an application that is complete: nothing can be added to it afterwards."""
    app.middleware_stack = AuditRequests(app.build_middleware_stack(), log, app.routes, transport, has_sign_in)


def describe_message(scope: Scope, method: str, name: str | None) -> AbstractContextManager[None]:
    """Note the method, and the tool or prompt, of the message in the record of its HTTP request, if there is one."""
    record = scope.get(RECORD)
    if not isinstance(record, AuditRecord):
        return nullcontext()
    record.method, record.name = method, name
    return record.current()


def audit_refusal(state: Mapping[str, object], record: AuditRecord, status: HTTPStatus, outcome: str) -> None:
    """Audit a request that the application does not receive, in the log of the state that the lifespan shares."""
    log = state.get(AUDIT_LOG)
    if isinstance(log, AuditLog):
        record.status = status.value
        record.note_failure(outcome, f"HTTP {status.value}")
        log.write(record)


def begin_record(scope: Scope, transport: str) -> AuditRecord:
    method = scope["method"] if scope["method"] in HTTP_METHODS else "other"
    return AuditRecord(transport, find_address(scope.get("client")), http_method=method)


class _Exchange:  # counts and keeps what passes between the client and the application, for the record
    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._received = self._sent = 0
        self._status: int | None = None
        self._is_complete = self._is_disconnected = False
        self.request, self._error = bytearray(), b""

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_disconnected |= message["type"] == "http.disconnect"
        if body := message.get("body", b""):
            if self._received < PARSED_BYTES:
                self.request += body
            self._received += len(body)
        return message

    async def send(self, message: Message) -> None:
        await self._send(message)
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif message["type"] == "http.response.body":
            body = message.get("body", b"")
            if not self._sent and (self._status or 0) >= HTTPStatus.BAD_REQUEST:
                self._error = body
            self._sent += len(body)
            self._is_complete = not message.get("more_body", False)

    def describe(self, record: AuditRecord) -> None:
        record.status, record.bytes_received, record.bytes_sent = self._status, self._received, self._sent
        if not self._is_complete:
            record.note_failure("cancelled", "disconnected" if self._is_disconnected else "aborted")
        elif self._status is not None and self._status >= HTTPStatus.BAD_REQUEST:
            code = _find(self._error, "error", "code")
            kind = KINDS.get(self._status, "error")
            record.note_failure(kind, f"JSON-RPC {code}" if isinstance(code, int) else f"HTTP {self._status}")


def find_address(client: object) -> str | None:
    """Return the address of the client; None if a trusted proxy forwarded something that is not an address."""
    try:
        return str(ip_address(client[0])) if isinstance(client, list | tuple) else None
    except ValueError:
        return None


def _find(body: bytes, *keys: str) -> object:
    """Return a value of a small JSON object; None if there is none."""
    if not 0 < len(body) <= PARSED_BYTES or is_nested_too_deeply(body):
        return None
    try:
        found: object = json.loads(body.decode())  # of bytes it would also read UTF-16, which the server refuses
    except ValueError:
        return None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def format_trace_id(span: Span) -> str | None:
    """Return the trace of a span as hexadecimal digits; None if it is not part of one."""
    context = span.get_span_context()
    return format_id(context.trace_id) if context.is_valid else None


def _find_method(scope: Scope, body: bytes) -> str | None:
    """Return the method that a refused message names, if MCP defines it."""
    sent = (_find(body, "method"), Headers(scope=scope).get("mcp-method"))
    return next((one for one in sent if isinstance(one, str) and one in KNOWN_METHODS), None)


def _find_trace_id(scope: Scope) -> str | None:
    """Return the trace that the client or a proxy started, if there is one. AuditMessages knows the server's own."""
    parent = Headers(scope=scope).get("traceparent", "")
    return format_trace_id(get_current_span(TraceContextTextMapPropagator().extract({"traceparent": parent})))


def _find_path(scope: Scope, routes: Sequence[BaseRoute]) -> str | None:
    """Return the pattern of the route; None if there is no such route."""
    known = (one for one in routes if isinstance(one, Route | Mount))
    return next((one.path for one in known if one.matches(scope)[0] is not Match.NONE), None)

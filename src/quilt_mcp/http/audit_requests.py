"""Middleware that writes one line of the audit log for each HTTP request, with every kind of answer."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from ipaddress import ip_address

from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quilt_mcp.app.json_depth import is_nested_too_deeply
from quilt_mcp.http.audit_log import RECORD, AuditLog, AuditRecord
from quilt_mcp.http.audit_messages import KNOWN_METHODS, format_trace_id

HTTP_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
REFUSED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST}
LIMITS = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
}
AUDIT_LOG = "quilt_mcp.audit_log"
"""The key of the audit log in the state that the lifespan of the application shares with the protocol."""
PARSED_BYTES = 65_536
"""At most so much of a body is parsed, if a request was refused before the MCP library parsed it."""


class AuditRequests:
    """Audits every request. It must be the outermost layer of the application.

    Args:
        app: the application.
        log: the audit log.
        routes: of the application. Only their patterns appear in the log, never a path that a client sent.
        transport: the name for the log.
        has_sign_in: whether the server authenticates. If not, every caller is the local user.
    """

    def __init__(
        self, app: ASGIApp, *, log: AuditLog, routes: Sequence[BaseRoute], transport: str, has_sign_in: bool
    ) -> None:
        self._app = app
        self._log = log
        self._routes = routes
        self._transport = transport
        self._has_sign_in = has_sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, then write the line."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in HTTP_METHODS else "other"
        record = scope[RECORD] = AuditRecord(
            self._transport,
            address=find_address(scope.get("client")),
            subject=None if self._has_sign_in else "local",
            http_method=method,
            path=_find_path(scope, self._routes),
            trace_id=_find_trace_id(scope),
        )
        exchange = _Exchange(receive, send)
        try:
            with record.current():
                await self._app(scope, exchange.receive, exchange.send)
        finally:
            record.describe_caller(scope)
            exchange.describe(record)
            if record.method is None:
                record.method = exchange.find_method() or _find_header_method(scope)
            if not self._is_answered_later(record):
                self._log.write(record)

    def _is_answered_later(self, record: AuditRecord) -> bool:
        """Return whether AuditMessages writes the line: the message was accepted, and its answer goes to a stream."""
        return self._transport == "sse" and record.status == HTTPStatus.ACCEPTED and record.method is not None


def audit_requests(app: Starlette, log: AuditLog, *, transport: str, has_sign_in: bool) -> None:
    """Audit all requests of an application that is complete: nothing can be added to it afterwards."""
    stack = app.build_middleware_stack()
    app.middleware_stack = AuditRequests(
        stack, log=log, routes=app.routes, transport=transport, has_sign_in=has_sign_in
    )
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def share(app: Starlette) -> AsyncIterator[Mapping[str, object]]:
        async with inner(app) as state:
            yield {**(state or {}), AUDIT_LOG: log}

    app.router.lifespan_context = share


@contextmanager
def describe_message(scope: Scope, method: str, name: str | None) -> Iterator[None]:
    """Note the method, and the tool or prompt, of the message in the record of its HTTP request, if there is one."""
    record = scope.get(RECORD)
    if not isinstance(record, AuditRecord):
        yield
        return
    record.method, record.name = method, name
    with record.current():
        yield


def audit_refusal(scope: Scope, status: HTTPStatus) -> None:
    """Audit a request that the application does not receive, because there are too many connections."""
    log = scope["state"].get(AUDIT_LOG)
    if isinstance(log, AuditLog):
        method = scope["method"] if scope["method"] in HTTP_METHODS else "other"
        record = AuditRecord("http", find_address(scope.get("client")), http_method=method, status=status.value)
        record.note_failure("limit", f"HTTP {status.value}")
        log.write(record)


class _Exchange:
    """The ASGI channels of one request, and what passed through them."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._received = self._sent = 0
        self._status: int | None = None
        self._is_complete = False
        self._is_disconnected = False
        self._request: list[bytes] = []
        self._error: bytes = b""

    async def receive(self) -> Message:
        """Receive a message of the client."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._is_disconnected = True
        elif body := message.get("body", b""):
            if self._received < PARSED_BYTES:
                self._request.append(body)
            self._received += len(body)
        return message

    async def send(self, message: Message) -> None:
        """Send a message to the client."""
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
        """Set the status, the sizes and the outcome."""
        record.status, record.bytes_received, record.bytes_sent = self._status, self._received, self._sent
        if not self._is_complete:
            record.note_failure("cancelled", "disconnected" if self._is_disconnected else "aborted")
        elif self._status is not None and self._status >= HTTPStatus.BAD_REQUEST:
            kind = "refused" if self._status in REFUSED else "limit" if self._status in LIMITS else "error"
            code = _find(self._error, "error", "code")
            record.note_failure(kind, f"JSON-RPC {code}" if isinstance(code, int) else f"HTTP {self._status}")

    def find_method(self) -> str | None:
        """Return the method of the message if MCP defines it."""
        method = _find(b"".join(self._request), "method")
        return method if isinstance(method, str) and method in KNOWN_METHODS else None


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
        found: object = json.loads(body)
    except (ValueError, RecursionError):  # UTF-16 can still be nested too deeply
        return None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _find_header_method(scope: Scope) -> str | None:
    method = _find_header(scope, b"mcp-method")
    return method if method in KNOWN_METHODS else None


def _find_header(scope: Scope, name: bytes) -> str | None:
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return next((value.decode("latin-1") for key, value in headers if key == name), None)


def _find_trace_id(scope: Scope) -> str | None:
    """Return the trace that the client or a proxy started, if there is one. AuditMessages knows the server's own."""
    parent = _find_header(scope, b"traceparent")
    if parent is None:
        return None
    return format_trace_id(get_current_span(TraceContextTextMapPropagator().extract({"traceparent": parent})))


def _find_path(scope: Scope, routes: Sequence[BaseRoute]) -> str | None:
    """Return the pattern of the route; None if there is no such route."""
    for route in routes:
        if isinstance(route, Route | Mount) and route.matches(scope)[0] is not Match.NONE:
            return route.path
    return None

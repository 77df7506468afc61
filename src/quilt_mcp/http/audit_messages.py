"""FastMCP middleware that adds the MCP message to the line of the audit log.

Over stdio and SSE it writes the line too: there, a message has no HTTP request of its own, or one that is answered
before the message is.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError
from fastmcp.server.dependencies import get_http_request
from fastmcp.server.middleware import Middleware
from mcp.shared.exceptions import MCPError
from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS
from opentelemetry.trace import Span, get_current_span
from opentelemetry.trace import format_trace_id as format_id
from pydantic import ValidationError

from quilt_mcp.app.checked_tool import INVALID_ARGUMENTS
from quilt_mcp.app.request_guard import Context, Next
from quilt_mcp.core.errors import INVALID_PARAMS, NotFound
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.http.audit_log import RECORD, AuditLog, AuditRecord, note_read

KNOWN_METHODS = SPEC_CLIENT_METHODS | SPEC_CLIENT_NOTIFICATION_METHODS
ERROR_NAME = re.compile(r"[A-Za-z]{1,60}", re.ASCII)


class AuditMessages(Middleware):
    """Notes the method, the tool or prompt, and the outcome of each message. It must be the outermost middleware.

    Args:
        log: the audit log.
        transport: the name for the log.
    """

    def __init__(self, log: AuditLog, transport: str) -> None:
        self._log = log
        self._transport = transport

    async def __call__(self, context: Context, call_next: Next) -> object:
        """Handle the message."""
        with self._recording() as record:
            record.method = context.method if context.method in KNOWN_METHODS else "unknown"
            record.name = await _find_name(context)
            record.trace_id = format_trace_id(get_current_span()) or record.trace_id
            try:
                with record.current():
                    result = await call_next(context)
            except BaseException as error:
                record.note_failure(*_describe_exception(error))
                raise
            if getattr(result, "is_error", False):
                record.note_failure("error", _find_error_name(result) or "tool error")
            return result

    @contextmanager
    def _recording(self) -> Iterator[AuditRecord]:
        """Return the record of the HTTP request, or a new one that is written at the end of the message."""
        scope = _find_scope()
        found = scope.get(RECORD)
        if isinstance(found, AuditRecord) and self._transport == "http":
            yield found
            return
        record = AuditRecord(self._transport, subject="local")
        if isinstance(found, AuditRecord):
            record = replace(
                found, arrived=record.arrived, started=record.started, status=None, bytes_received=None, bytes_sent=None
            )
            record.describe_caller(scope)
        try:
            yield record
        finally:
            self._log.write(record)


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


def format_trace_id(span: Span) -> str | None:
    """Return the trace of a span as hexadecimal digits; None if it is not part of one."""
    context = span.get_span_context()
    return format_id(context.trace_id) if context.is_valid else None


def _find_scope() -> Mapping[str, object]:
    try:
        return get_http_request().scope
    except RuntimeError:  # stdio
        return {}


async def _find_name(context: Context) -> str | None:
    """Return the name of the tool or prompt; "unknown" if the server has none with this name."""
    server = context.fastmcp_context.fastmcp if context.fastmcp_context else None
    name = getattr(context.message, "name", None)
    if server is None or context.method not in {"tools/call", "prompts/get"}:
        return None
    find = server.get_tool if context.method == "tools/call" else server.get_prompt
    return name if isinstance(name, str) and await find(name) is not None else "unknown"


def _describe_exception(error: BaseException) -> tuple[str, str]:
    """Return the outcome and the name of the error. The text of an exception can be a client's."""
    code = error.error.code if isinstance(error, MCPError) else None
    if not isinstance(error, Exception):
        return "cancelled", "cancelled"
    if isinstance(error, NotFoundError):
        return "error", NotFound.error
    if isinstance(error, ValidationError) or code == INVALID_PARAMS:
        return "error", INVALID_ARGUMENTS
    return "error", type(error).__name__ if code is None else f"JSON-RPC {code}"


def _find_error_name(result: object) -> str | None:
    """Return the error that the body of a tool's answer names."""
    body = getattr(result, "structured_content", None)
    named = (body.get("error"), body.get("error_type")) if isinstance(body, dict) else ()
    return next((one for one in named if isinstance(one, str) and ERROR_NAME.fullmatch(one)), None)

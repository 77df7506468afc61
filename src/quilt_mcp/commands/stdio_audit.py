"""The audit log of a server over stdio."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from fastmcp.server.middleware import Middleware
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

from quilt_mcp.app.request_guard import Context, Next
from quilt_mcp.commands.handshake import parse
from quilt_mcp.http.audit import KNOWN_METHODS, AuditLog, AuditRecord, auditing, open_audit_log
from quilt_mcp.server import QuiltServer

INVALID_MESSAGE = "InvalidMessage"
UNANSWERED = "unanswered"


class StdioAudit(Middleware):
    """Writes the lines of messages that no middleware receives, because this project or the MCP library refuses them.

    Args:
        log: the audit log. Nothing is watched if it is off.
        known_methods: the methods that MCP defines. No other name is logged.
    """

    def __init__(self, log: AuditLog, known_methods: frozenset[str] = frozenset()) -> None:
        self._log = log
        self._known_methods = known_methods
        self._requests: dict[str, list[AuditRecord]] = defaultdict(list)
        """The requests that no middleware has received yet, by id. A client can repeat an id, and use 1 beside "1"."""
        self._lock = Lock()  # one thread reads messages, others answer them

    async def on_request(self, context: Context, call_next: Next) -> object:
        """Leave the line of this request to AuditMessages."""
        if context.fastmcp_context is not None and context.fastmcp_context.request_context is not None:
            self._take(context.fastmcp_context.request_id)
        return await call_next(context)

    def note_invalid_text(self) -> None:
        """Audit a request that the MCP library does not receive, because its text is invalid."""
        self._write(AuditRecord("stdio", subject="local"), "InvalidUnicode")

    def read(self, line: bytes) -> None:
        """Look at a message before the MCP library reads it."""
        if not self._log.is_on or not line.strip():
            return
        record = AuditRecord("stdio", subject="local")
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:  # the MCP library drops the message
            self._write(record, INVALID_MESSAGE)
            return
        if isinstance(message, JSONRPCRequest):
            record.method = message.method if message.method in self._known_methods else "unknown"
            with self._lock:
                self._requests[str(message.id)].append(record)

    def answer(self, lines: bytes) -> None:
        """Audit the requests that the MCP library refuses with these answers."""
        for line in lines.splitlines() if self._requests else ():
            answer = parse(line) or {}
            error = answer.get("error")
            if isinstance(error, dict) and (record := self._take(str(answer.get("id")))) is not None:
                self._write(record, f"JSON-RPC {error.get('code')}")

    def close(self) -> None:
        """Audit the requests without an answer."""
        with self._lock:
            unanswered = [record for records in self._requests.values() for record in records]
            self._requests.clear()
        for record in unanswered:
            self._write(record, UNANSWERED)

    def _take(self, number: str) -> AuditRecord | None:
        """Return the first request with this id, and forget it."""
        with self._lock:
            records = self._requests.get(number, [])
            record = records.pop(0) if records else None
            if not records:
                self._requests.pop(number, None)
            return record

    def _write(self, record: AuditRecord, error: str) -> None:
        record.note_failure("error", error)
        self._log.write(record)


@contextmanager
def audit_stdio(mcp: QuiltServer) -> Iterator[StdioAudit]:
    """Audit the messages of a server, if the setting is set."""
    log = mcp.app.part(open_audit_log)
    if not log.is_on:
        yield StdioAudit(log)
        return
    audit = StdioAudit(log, KNOWN_METHODS)
    mcp.middleware.insert(0, audit)
    try:
        with auditing(log, mcp, mcp.manager, "stdio"):
            yield audit
    finally:
        audit.close()

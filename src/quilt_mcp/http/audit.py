"""The audit log: one JSON object per line for each request. It has no data, arguments, tokens or texts of clients."""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path

from anyio import to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from quilt_mcp.app.background_log import BackgroundHandler, LineHandler
from quilt_mcp.core.surfaces import TOOL_NAME
from quilt_mcp.core.tracing import DONE, Read, milliseconds_since
from quilt_mcp.settings import Settings

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
        """Make this the record of the context."""
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
    """Note that the current request exceeds a limit."""
    record = _current.get()
    if record is not None and event.endswith("_limit"):
        record.note_failure("limit", event)


class AuditLog:
    """Writes the audit log of one process, in a thread.

    Args:
        target: the path of a file, or "stderr". Nothing is written if it is empty.

    Attributes:
        is_on: whether anything is written.
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
        super().__init__(Path(path).expanduser(), encoding="ascii", delay=True)

    def open(self) -> None:
        self.reopenIfNeeded()
        if self.stream is None:  # at first, and when it could not be opened again
            self.stream = self._open()
            self._statstream()

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="ascii", opener=partial(os.open, mode=0o600))


def open_audit_log(settings: Settings) -> AuditLog:
    """Create the audit log of an app, as a part of it."""
    return AuditLog(settings.audit_log)


def _shorten(value: object) -> str | None:
    """Return a text for the log: not too long; None for a value that is not a text."""
    if not isinstance(value, str) or not value:
        return None
    return value if len(value) <= MAX_CHARACTERS else f"{value[:MAX_CHARACTERS]}…"

"""The audit log: one JSON object per line for each request. It has no data, arguments, tokens or texts of clients.

A thread writes the lines, so that a slow disk does not delay requests. Each line is one write to a file that is opened
for appending, so several processes can share it. A file that was renamed or removed is opened again, so logrotate needs
no signal.
"""

import atexit
import json
import logging
import os
import select
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

from anyio import to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

from quilt_mcp.core.surfaces import TOOL_NAME
from quilt_mcp.core.tracing import DONE, Read, milliseconds_since
from quilt_mcp.settings import Settings

STDERR = "stderr"
RECORD = "quilt_mcp.audit_record"
"""The key of the record in the ASGI scope."""
MAX_WAITING = 10_000
"""How many lines can wait for a slow disk. More are lost, and counted."""
MAX_CHARACTERS = 300
CLOSE_SECONDS = 5.0

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

    def to_line(self) -> bytes:
        """Return the record as JSON in ASCII, so that no text can start a line."""
        when = datetime.fromtimestamp(self.arrived, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, object] = {"time": when.replace("+00:00", "Z"), "logger": "audit"}
        fields |= {name: getattr(self, name) for name in FIELDS}
        fields["ms"] = milliseconds_since(self.started)
        return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


FIELDS = tuple(name for name in AuditRecord.__dataclass_fields__ if name not in {"arrived", "started"})


def note_read(read: Read) -> None:
    """Note the pattern and the outcome of a read that has ended in the record of the context."""
    record = _current.get()
    if record is None:
        return
    record.correlation_id = read.correlation_id
    if read.surface in {"resource", "completion"} or record.name == TOOL_NAME:
        record.uri = read.uri
    if read.outcome in DONE:
        if record.outcome in DONE:
            record.outcome = read.outcome
    elif read.outcome != "error":  # AuditMessages knows which
        kinds = {"Unauthorized": "refused", "cancelled": "cancelled"}
        record.note_failure(kinds.get(read.outcome, "error"), read.outcome)


def note_event(event: str) -> None:
    """Note that the current request exceeds a limit."""
    record = _current.get()
    if record is not None and event.endswith("_limit"):
        record.note_failure("limit", event)


class AuditLog:
    """Writes the audit log of one process.

    Args:
        target: the path of a file, or "stderr". Nothing is written if it is empty.

    Attributes:
        is_on: whether anything is written.
        failed: called for each line that is lost.
    """

    def __init__(self, target: str | None) -> None:
        self.is_on = bool(target)
        self.failed: Callable[[], object] = lambda: None
        self._out = StandardError() if target == STDERR else AppendedFile(Path(target or os.devnull).expanduser())
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()  # the writer never holds a lock that a request needs
        self._thread: Thread | None = None
        self._lock = Lock()
        self._is_failing = False

    def check(self) -> None:
        """Open the file.

        Raises:
            OSError: it cannot be opened.
        """
        if self.is_on:
            self._out.open()

    def write(self, record: AuditRecord) -> None:
        """Write the record soon. Never raises."""
        if not self.is_on:
            return
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, daemon=True, name="audit log")
                self._thread.start()
                atexit.register(self._finish)
        if self._lines.qsize() < MAX_WAITING:
            self._lines.put(record.to_line())
        else:
            self._lose("the disk is too slow")

    async def close(self) -> None:
        """Write what is waiting. A later record starts a new thread."""
        await to_thread.run_sync(self._finish)

    def _finish(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            atexit.unregister(self._finish)
            self._lines.put(None)
            thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._out.write(line)
            except OSError as error:
                self._lose(error.strerror or type(error).__name__)
            else:
                self._is_failing = False
        self._out.close()

    def _lose(self, reason: str) -> None:
        if not self._is_failing:
            logger.error("the audit log cannot be written, and lines are lost: %s", reason)
        self._is_failing = True
        self.failed()


class StandardError:
    """The standard error of the process."""

    def open(self) -> None:
        """Do nothing: it is open."""

    def close(self) -> None:
        """Do nothing: others use it too."""

    def write(self, line: bytes) -> None:
        """Write the line.

        Raises:
            OSError: as `os.write`.
        """
        _write_all(2, line)


class AppendedFile:
    """A file that several processes append to.

    Args:
        path: of the file. Only its owner may read a file that this class creates.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._identity = (0, 0)
        self._is_torn = False
        self._lock = Lock()  # after a close that took too long, two threads can write

    def open(self) -> int:
        """Open the file, unless this file is already open. Return its descriptor.

        Raises:
            OSError: it cannot be opened.
        """
        if self._descriptor is not None:
            if self._identity == self._find_identity():
                return self._descriptor
            os.close(self._descriptor)
            self._descriptor = None
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        found = os.fstat(self._descriptor)
        self._identity = (found.st_dev, found.st_ino)
        return self._descriptor

    def close(self) -> None:
        """Close the file. The next line opens it again."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)

    def write(self, line: bytes) -> None:
        """Append the line. After a failure, it starts on a line of its own.

        Raises:
            OSError: it cannot be written, for example because the disk is full.
        """
        with self._lock:
            descriptor = self.open()
            try:
                _write_all(descriptor, b"\n" + line if self._is_torn else line)
            except OSError:
                self._is_torn = True
                raise
            self._is_torn = False

    def _find_identity(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino


def _shorten(value: object) -> str | None:
    """Return a text for the log: not too long; None for a value that is not a text."""
    if not isinstance(value, str) or not value:
        return None
    return value if len(value) <= MAX_CHARACTERS else f"{value[:MAX_CHARACTERS]}…"


def _write_all(descriptor: int, line: bytes) -> None:
    left = memoryview(line)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # another program that has the same stream can set this
            select.select((), (descriptor,), ())


def open_audit_log(settings: Settings) -> AuditLog:
    """Create the audit log of an app, as a part of it."""
    return AuditLog(settings.audit_log)

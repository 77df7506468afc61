"""Reads: the log line, the span and the calls of each.

A span contains nothing that a client sent, and no text of an exception. Without an OpenTelemetry SDK spans cost
nothing. As with FastMCP's own spans, FASTMCP_TELEMETRY_MODE turns them off.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import getrandbits

from fastmcp.telemetry import native_spans_enabled
from opentelemetry import trace

_current: ContextVar["Read | None"] = ContextVar("read", default=None)
_tracer = trace.get_tracer(__name__)
Observer = Callable[["Read"], object]

DONE = frozenset({"ok", "partial"})
"""The outcomes of a read that returned data. Others are the name of an error, and `cancelled`."""

logger = logging.getLogger(__name__)


class ReadIsOver(Exception):
    """Stops a thread after the end of its read."""


@dataclass
class Read:
    """One read, and what is logged about it."""

    surface: str
    correlation_id: str = field(default_factory=lambda: f"{getrandbits(48):012x}")
    started: float = field(default_factory=time.perf_counter)
    uri: str = "unknown"
    """The pattern that the URI matches; never a text of the client."""
    lookup: str = "none"
    """How it was found: static, template or none."""
    outcome: str = "ok"
    service_ms: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    rows: int | None = None
    """For a list: the number of rows."""
    providers: dict[str, float] = field(default_factory=dict)
    """For a list: the seconds that each provider took."""
    failed: list[str] = field(default_factory=list)
    """For a list: the providers that are left out."""
    caller: str | None = None
    """A short hash of the caller; None for the local user."""
    is_over: bool = False
    """Whether it has ended. A thread can still be working for it."""
    is_admitted: bool = False
    is_used: bool = True
    """Whether something reads in it. A middleware can open it for a request before that."""
    owner: "Reads | None" = None

    def log(self) -> None:
        """Log one line; at DEBUG also the lookup, the time of the service function and the calls."""
        fields: dict[str, object] = {"surface": self.surface, "uri": self.uri, "outcome": self.outcome}
        fields |= {"ms": milliseconds_since(self.started), "correlation_id": self.correlation_id}
        fields |= {"caller": self.caller, "rows": self.rows, "failed": ",".join(self.failed) or None}
        if logger.isEnabledFor(logging.DEBUG):
            fields |= {"lookup": self.lookup, "service_ms": self.service_ms, "calls": dict(self.calls)}
        shown = {key: value for key, value in fields.items() if value is not None}
        logger.info(" ".join(f"{key}={value}" for key, value in shown.items()), extra={"fields": shown})


class Reads:
    """The reads of one server: each is logged at its end, and shown to the observers."""

    def __init__(self) -> None:
        self._observers: list[tuple[Observer, Observer]] = []

    @property
    def current(self) -> Read | None:
        """The read of this server in which this code runs; None outside of reads."""
        read = _current.get()
        return read if read is not None and read.owner is self and not read.is_over else None

    @contextmanager
    def reading(self, surface: str, *, is_used: bool = True) -> Iterator[Read]:
        """Yield the current read if nothing uses it yet. Otherwise open one, also for threads that copy the context."""
        if (current := self.current) is not None and not current.is_used:
            current.is_used = True
            with _in_own_span(current):
                yield current
            return
        read = Read(surface, owner=self, is_used=is_used)
        token = _current.set(read)
        for begun, _ in self._observers:
            begun(read)
        try:
            # a request that nothing uses yet has the span of FastMCP, which a span of ours would hide from it
            with _in_own_span(read) if is_used else nullcontext():
                yield read
        finally:
            if not read.is_used and is_traced():
                _describe(read, trace.get_current_span())
            read.is_over = True
            _current.reset(token)
            read.log()
            for _, ended in self._observers:
                ended(read)

    @contextmanager
    def observe(self, ended: Observer, *, begun: Observer = lambda _: None) -> Iterator[None]:
        """Call these functions at the beginning and the end of every read until the context ends."""
        observer = (begun, ended)
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)


@contextmanager
def span(
    name: str, attributes: Mapping[str, str] | None = None, *, kind: trace.SpanKind = trace.SpanKind.INTERNAL
) -> Iterator[trace.Span]:
    """Open a span and make it the current one; an exception marks it as an error."""
    if not is_traced():
        yield trace.INVALID_SPAN
        return
    with _tracer.start_as_current_span(
        name, attributes=attributes, kind=kind, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield current
        except Exception as error:  # noted in the span, then raised again
            current.set_attribute("error.type", type(error).__qualname__)
            current.set_status(trace.StatusCode.ERROR)
            raise


@contextmanager
def calling(system: str, operation: str) -> Iterator[None]:
    """Count a call as `count_call` does, and open a span for it.

    The operation is the name of the call, never a text of the client.

    Raises:
        ReadIsOver: as `count_call`.
    """
    count_call(system)
    attributes = {"mcp.call.system": system, "mcp.call.operation": operation}
    with span(f"{system} {operation}", attributes, kind=trace.SpanKind.CLIENT):
        yield


def is_traced() -> bool:
    """Return whether spans go anywhere."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider) and native_spans_enabled()


@contextmanager
def _in_own_span(read: Read) -> Iterator[None]:
    with span("read") as own:
        try:
            yield
        finally:
            _describe(read, own)


def _describe(read: Read, own: trace.Span) -> None:
    """Write into a span how a read has ended."""
    shown = ("uri", "surface", "outcome", "correlation_id")
    own.set_attributes({f"mcp.read.{name}": getattr(read, name) for name in shown})
    if read.outcome not in DONE:
        own.set_status(trace.StatusCode.ERROR)


def count_call(system: str) -> None:
    """Count a call of the current read to another system, such as "sql". Does nothing outside of a read.

    Raises:
        ReadIsOver: the read has ended. Without this, a thread would continue from page to page.
    """
    if read := _current.get():
        if read.is_over:
            raise ReadIsOver
        read.calls[system] += 1


def current_caller_hash() -> str | None:
    """Return the hash of the caller of the current read; None for the local user, and outside of a read."""
    read = _current.get()
    return read.caller if read else None


def milliseconds_since(started: float) -> int:
    """Return the milliseconds since a value of time.perf_counter()."""
    return round((time.perf_counter() - started) * 1000)

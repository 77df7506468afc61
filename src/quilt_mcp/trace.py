"""One read, as the log tells it: an id, how it was found and ended, how long it took, and the calls that it made."""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from opentelemetry.trace import SpanKind, StatusCode

from quilt_mcp.tracing import span

Event = Literal["rate_limit", "concurrency_limit", "shared_state_failure"]
"""What happens beside reads, and is counted: a caller meets a limit, the state that processes share is not there."""

DONE = frozenset({"ok", "partial"})
"""The outcomes of a read that gave data; another is an error's name, or `cancelled`."""

logger = logging.getLogger(__name__)


class ReadIsOver(Exception):
    """Ends the work of a thread whose read was answered or given up without it."""


@dataclass
class Read:
    """A read under way."""

    surface: str
    correlation_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    started: float = field(default_factory=time.perf_counter)
    uri: str = "unknown"
    """The pattern that the URI matches, never what a client made up."""
    lookup: str = "none"
    """How it was found: static, template, or none where it was not."""
    outcome: str = "ok"
    service_ms: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    rows: int | None = None
    """For a list: how many rows were answered."""
    providers: dict[str, float] = field(default_factory=dict)
    """For a list: the seconds that each provider took."""
    failed: list[str] = field(default_factory=list)
    """For a list: the providers that were left out."""
    caller: str | None = None
    """A short hash that stands for who asks; None for the person at this machine."""
    cache: Literal["hit", "miss"] | None = None
    """For a list: whether its rows were kept ones; None where none are kept."""
    is_over: bool = False
    """Whether it has been answered or given up; a thread may still be working for it."""

    def log(self) -> None:
        """Write the one line of this read: at DEBUG with the look-up, the service's time and the calls."""
        fields = {
            "surface": self.surface,
            "uri": self.uri,
            "outcome": self.outcome,
            "ms": milliseconds_since(self.started),
            "correlation_id": self.correlation_id,
        }
        if self.caller is not None:
            fields |= {"caller": self.caller}
        if self.rows is not None:
            fields |= {"rows": self.rows}
        if self.failed:
            fields |= {"failed": ",".join(self.failed)}
        if logger.isEnabledFor(logging.DEBUG):
            fields |= {"lookup": self.lookup, "service_ms": self.service_ms, "calls": dict(self.calls)}
        logger.info(" ".join(f"{key}={value}" for key, value in fields.items()), extra={"fields": fields})


@dataclass(frozen=True)
class _Observer:
    ended: Callable[[Read], None]
    begun: Callable[[Read], None]
    noted: Callable[[Event], None]


def _ignore(_: object) -> None:
    pass


_observers: list[_Observer] = []
_current: ContextVar[Read | None] = ContextVar("read", default=None)


@contextmanager
def reading(surface: str) -> Iterator[Read]:
    """Make a read the current one of this context, and of the threads that get a copy of it; log it at its end."""
    read = Read(surface)
    token = _current.set(read)
    for observer in _observers:
        observer.begun(read)
    try:
        with _read_span(read):
            yield read
    finally:
        read.is_over = True
        _current.reset(token)
        read.log()
        for observer in _observers:
            observer.ended(read)


@contextmanager
def observed_by(
    ended: Callable[[Read], None],
    *,
    begun: Callable[[Read], None] = _ignore,
    noted: Callable[[Event], None] = _ignore,
) -> Iterator[None]:
    """Show every read of this process at its beginning and its end, and what is noted, for as long as it lasts."""
    observer = _Observer(ended, begun, noted)
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def note(event: Event) -> None:
    """Tell the observers of something that happened beside reads."""
    for observer in _observers:
        observer.noted(event)


@contextmanager
def calling(system: str, operation: str) -> Iterator[None]:
    """Count a call of the current read to another system, and make it a span.

    Args:
        system: as for `count_call`.
        operation: its name, such as "athena.get_work_group"; nothing that a client sent.

    Raises:
        ReadIsOver: as `count_call`.
    """
    count_call(system)
    attributes = {"quilt_mcp.system": system, "quilt_mcp.operation": operation}
    with span(f"{system} {operation}", attributes, kind=SpanKind.CLIENT):
        yield


@contextmanager
def _read_span(read: Read) -> Iterator[None]:
    with span("read") as current:
        try:
            yield
        finally:
            current.set_attributes(
                {
                    "quilt_mcp.uri": read.uri,
                    "quilt_mcp.surface": read.surface,
                    "quilt_mcp.outcome": read.outcome,
                    "quilt_mcp.correlation_id": read.correlation_id,
                }
            )
            if read.outcome not in DONE:
                current.set_status(StatusCode.ERROR)


def count_call(system: str) -> None:
    """Note a call of the current read to another system, such as "aws"; outside of a read it does nothing.

    Raises:
        ReadIsOver: nobody waits for it any more; without this, a thread would go on from page to page.
    """
    if read := _current.get():
        if read.is_over:
            raise ReadIsOver
        read.calls[system] += 1


def milliseconds_since(started: float) -> int:
    """The whole milliseconds since a value of time.perf_counter()."""
    return round((time.perf_counter() - started) * 1000)

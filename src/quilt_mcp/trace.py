"""One read, as the log tells it: an id, how it was found and ended, how long it took, and the calls that it made."""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

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
        if self.rows is not None:
            fields |= {"rows": self.rows}
        if self.failed:
            fields |= {"failed": ",".join(self.failed)}
        if logger.isEnabledFor(logging.DEBUG):
            fields |= {"lookup": self.lookup, "service_ms": self.service_ms, "calls": dict(self.calls)}
        logger.info(" ".join(f"{key}={value}" for key, value in fields.items()), extra={"fields": fields})


_observers: list[Callable[[Read], None]] = []
_current: ContextVar[Read | None] = ContextVar("read", default=None)


@contextmanager
def reading(surface: str) -> Iterator[Read]:
    """Make a read the current one of this context, and of the threads that get a copy of it; log it at its end."""
    read = Read(surface)
    token = _current.set(read)
    try:
        yield read
    finally:
        read.is_over = True
        _current.reset(token)
        read.log()
        for observer in _observers:
            observer(read)


@contextmanager
def observed_by(observer: Callable[[Read], None]) -> Iterator[None]:
    """Show every read of this process to the observer at its end, for as long as the context lasts."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


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

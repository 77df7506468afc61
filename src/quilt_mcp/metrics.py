"""The server's numbers for Prometheus.

Imported where the server is served over HTTP only, because it imports prometheus_client. Every label has few values,
and all of them are in the code: URIs are patterns of the registry, and no label tells who asks. With several processes
the variable MULTIPROCESS must be set before this module is imported: each process then writes its numbers to files
in that directory, and any of them can tell the sums.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from quilt_mcp import errors
from quilt_mcp.trace import DONE, Event, Read, observed_by

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
OTHER = "other"
UNKNOWN = "unknown"
NO_PATTERNS = {UNKNOWN, "discovery", "resources/list"}
SURFACES = {"resource", "tool", "list", "completion"}
SYSTEMS = {"aws", "stack", "sql"}
OUTCOMES = DONE | {"cancelled"} | {one.error for one in vars(errors).values() if hasattr(one, "error")}
STATUSES = {"ok": "success", "partial": "partial", "cancelled": "cancelled"}
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counts what reads tell of themselves, while `watching`.

    Args:
        uris: the patterns of the registry; any other URI is told as `unknown`.
        waiting: tells how many reads wait for a thread.
    """

    def __init__(self, uris: Collection[str] = (), *, waiting: Callable[[], int] = lambda: 0) -> None:
        self._uris = NO_PATTERNS | set(uris)
        self._waiting = waiting
        own = self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=own)
        counter, histogram = partial(Counter, registry=own), partial(Histogram, registry=own, buckets=SECONDS)
        gauge = partial(Gauge, registry=own, multiprocess_mode="livesum")
        read = ["uri", "surface"]
        self._reads = counter("quilt_mcp_reads_total", "Reads and lists that ended.", [*read, "outcome"])
        self._seconds = histogram("quilt_mcp_read_duration_seconds", "How long reads and lists took.", read)
        self._calls = counter("quilt_mcp_calls_total", "Calls to AWS, the stack and the database.", ["system"])
        self._under_way = gauge("quilt_mcp_reads_in_progress", "Reads and lists under way.", ["surface"])
        self._queue = gauge("quilt_mcp_reads_waiting", "Reads under way that wait for a thread.")
        self._events = counter(
            "quilt_mcp_events_total", "Limits that callers met; failures of shared state.", ["event"]
        )
        self._lists = counter("mcp_resources_list_requests_total", "Pages of resources/list.", ["status"])
        self._list_seconds = histogram("mcp_resources_list_duration_seconds", "Time of a provider.", ["provider"])
        self._list_errors = counter("mcp_resources_list_provider_errors_total", "Providers left out.", ["provider"])
        self._list_cache = counter("mcp_resources_list_cache_total", "Pages looked for in the cache.", ["result"])
        self._show_zeros()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the reads of this process for as long as the context lasts."""
        with observed_by(self._ended, begun=self._begun, noted=self._noted):
            yield

    def exposition(self) -> bytes:
        """All numbers in Prometheus' text format: with several processes, the sums over those that have been."""
        registry = self._registry
        if MULTIPROCESS in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library has no annotation here
        return generate_latest(registry)

    def _show_zeros(self) -> None:
        """Make the counters that should stay at zero visible: an alert cannot see the first step from nothing."""
        for event in get_args(Event):
            self._events.labels(event)
        for status in (*STATUSES.values(), "error"):
            self._lists.labels(status)

    def _begun(self, read: Read) -> None:
        self._under_way.labels(_known(read.surface, SURFACES)).inc()
        self._queue.set(self._waiting())

    def _ended(self, read: Read) -> None:
        uri, surface = _known(read.uri, self._uris, UNKNOWN), _known(read.surface, SURFACES)
        self._under_way.labels(surface).dec()
        self._queue.set(self._waiting())
        self._reads.labels(uri, surface, _known(read.outcome, OUTCOMES)).inc()
        self._seconds.labels(uri, surface).observe(time.perf_counter() - read.started)
        for system, count in read.calls.items():
            self._calls.labels(_known(system, SYSTEMS)).inc(count)
        if surface == "list":
            self._listed(read)

    def _listed(self, read: Read) -> None:
        self._lists.labels(STATUSES.get(read.outcome, "error")).inc()
        for provider, seconds in read.providers.items():
            self._list_seconds.labels(provider).observe(seconds)
        for provider in read.failed:
            self._list_errors.labels(provider).inc()
        if read.cache is not None:
            self._list_cache.labels(read.cache).inc()

    def _noted(self, event: Event) -> None:
        self._events.labels(event).inc()


def _known(value: str, known: Collection[str], other: str = OTHER) -> str:
    return value if value in known else other

"""Metrics for Prometheus.

Only servers over HTTP import this module, because it imports prometheus_client. Each label has few values, all of which
are in the code: URIs are patterns of the registry, and no label identifies a caller. For several processes, the
environment variable MULTIPROCESS must name a directory before this module is imported. Each process then writes its
values to files there, and each can report the sums. prometheus_client names the files by process and keeps them
forever. Here they have numbers, and a process that starts continues the counters of one that has ended.
"""

import itertools
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import IO, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
    values,
)
from prometheus_client.multiprocess import MultiProcessCollector

from quilt_mcp.app import request_guard
from quilt_mcp.app.build import find_version
from quilt_mcp.core import errors
from quilt_mcp.core.tracing import DONE, Read, Reads
from quilt_mcp.http.admission import Admission, Event
from quilt_mcp.http.reload import WorkerSettings

if sys.platform != "win32":  # which has no workers
    import fcntl

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
OTHER = "other"
UNKNOWN = "unknown"
OTHER_LISTS = {"resources/templates/list", "tools/list", "prompts/list"}
NO_PATTERNS = OTHER_LISTS | {UNKNOWN, "discovery", "resources/list"}
SURFACES = {*request_guard.SURFACES.values(), "list"}
PATHS = ("direct", "pipeline")
"""The handlers of messages: the direct path (direct.py), or FastMCP with the MCP library."""
SYSTEMS = {"aws", "stack", "sql"}
OUTCOMES = (
    DONE | {"cancelled", request_guard.FAILED} | {one.error for one in vars(errors).values() if hasattr(one, "error")}
)
STATUSES = {"ok": "success", "partial": "partial", "cancelled": "cancelled"}
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counts reads and events, while `watching`.

    Args:
        uris: the patterns of the registry, and the names of tools and prompts. All others are counted as `unknown`.
        waiting: returns the number of reads that wait for a thread.
        settings: which ones this worker has; None for a server in one process.
        commit: of this installation; None if it is not known.
    """

    def __init__(
        self,
        uris: Collection[str] = (),
        *,
        waiting: Callable[[], int] = lambda: 0,
        settings: WorkerSettings | None = None,
        commit: str | None = None,
    ) -> None:
        self.commit = commit
        self.settings = settings
        self._uris = NO_PATTERNS | set(uris)
        self._waiting = waiting
        if directory := os.environ.get(MULTIPROCESS):
            number, self._lock = _take_number(Path(directory))
            values.ValueClass = values.MultiProcessValue(lambda: number)  # type: ignore[no-untyped-call]  # of prometheus_client
        own = self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=own)
        counter, histogram = partial(Counter, registry=own), partial(Histogram, registry=own, buckets=SECONDS)
        gauge = partial(Gauge, registry=own, multiprocess_mode="livesum")
        build = Gauge(
            "quilt_mcp_build_info", "Always 1.", ["version", "commit"], registry=own, multiprocess_mode="livemax"
        )
        build.labels(find_version(), commit or UNKNOWN).set(1)
        read = ["uri", "surface"]
        reads = counter("quilt_mcp_reads_total", "Completed reads and lists.", [*read, "outcome"])
        seconds = histogram("quilt_mcp_read_duration_seconds", "Duration of reads and lists.", read)
        calls = counter("quilt_mcp_calls_total", "Calls to AWS, the stack and the database.", ["system"])
        in_progress = gauge("quilt_mcp_reads_in_progress", "Reads and lists in progress.", ["surface"])
        self._reads, self._seconds = cache(reads.labels), cache(seconds.labels)  # finding a series takes a lock
        self._calls, self._in_progress = cache(calls.labels), cache(in_progress.labels)
        self._queue = gauge("quilt_mcp_reads_waiting", "Reads in progress that wait for a thread.")
        self._outdated_workers = Gauge(
            "quilt_mcp_outdated_workers",
            "Workers that have the settings from before the last SIGHUP.",
            registry=own,
            multiprocess_mode="livemostrecent",
        )
        self._events = counter(
            "quilt_mcp_events_total", "Exceeded limits, and failures of the shared state.", ["event"]
        )
        self._lists = counter("mcp_resources_list_requests_total", "Requests for a page of resources/list.", ["status"])
        self._list_seconds = histogram(
            "mcp_resources_list_duration_seconds", "Duration of a provider's part.", ["provider"]
        )
        self._list_errors = counter("mcp_resources_list_provider_errors_total", "Provider failures.", ["provider"])
        messages = counter("quilt_mcp_messages_total", "Messages to the MCP endpoint, by what answers them.", ["path"])
        self._messages = {path: messages.labels(path) for path in PATHS}
        self._show_first_values()

    @contextmanager
    def watching(self, reads: Reads, admission: Admission) -> Iterator[None]:
        """Count the reads and events of a server until the context ends."""
        with (
            reads.observe(self._end, begun=self._begin),
            admission.observe(lambda event: self._events.labels(event).inc()),
        ):
            yield

    def count_message(self, path: str) -> None:
        self._messages[path].inc()

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format, summed over all processes, including those that ended."""
        directory = os.environ.get(MULTIPROCESS)
        self._outdated_workers.set(
            self.settings.outdated.value if self.settings else 0
        )  # only the parent process knows when
        if not directory:
            return generate_latest(self._registry)
        for number in {path.stem for path in Path(directory).glob("*.lock")}:
            with suppress(BlockingIOError):
                _lock_number(Path(directory), number).close()  # which removes what a process that has ended left
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library has no annotation here
        return generate_latest(registry)

    def _show_first_values(self) -> None:
        """Show when this worker read its settings, and the counters that should stay at zero.

        Alerts cannot detect the first increase of a counter otherwise.
        """
        if self.settings:
            name, text = "quilt_mcp_settings_read_timestamp_seconds", "When a worker read its settings."
            Gauge(name, text, registry=self._registry, multiprocess_mode="liveall").set(self.settings.read_at)
        for event in get_args(Event):
            self._events.labels(event)
        for status in (*STATUSES.values(), "error"):
            self._lists.labels(status)

    def _begin(self, read: Read) -> None:
        self._in_progress(_limit_label(read.surface, SURFACES)).inc()
        self._queue.set(self._waiting())

    def _end(self, read: Read) -> None:
        uri, surface = _limit_label(read.uri, self._uris, UNKNOWN), _limit_label(read.surface, SURFACES)
        self._in_progress(surface).dec()
        self._queue.set(self._waiting())
        self._reads(uri, surface, _limit_label(read.outcome, OUTCOMES)).inc()
        self._seconds(uri, surface).observe(time.perf_counter() - read.started)
        for system, count in read.calls.items():
            self._calls(_limit_label(system, SYSTEMS)).inc(count)
        if surface == "list" and uri not in OTHER_LISTS:
            self._count_list(read)

    def _count_list(self, read: Read) -> None:
        self._lists.labels(STATUSES.get(read.outcome, "error")).inc()
        for provider, seconds in read.providers.items():
            self._list_seconds.labels(provider).observe(seconds)
        for provider in read.failed:
            self._list_errors.labels(provider).inc()


def _limit_label(value: str, known: Collection[str], other: str = OTHER) -> str:
    """Return the value if it is known, else the label for others, so that a metric has few series."""
    return value if value in known else other


def _take_number(directory: Path) -> tuple[str, IO[bytes]]:
    """Take the first number that no running process has. Return it and its lock, which ends with the process."""
    for number in map(str, itertools.count()):
        with suppress(BlockingIOError):
            return number, _lock_number(directory, number)
    raise AssertionError("the numbers have no end")


def _lock_number(directory: Path, number: str) -> IO[bytes]:
    """Lock a number, and remove the gauges of the process that had it.

    Raises:
        BlockingIOError: a running process has it.
    """
    lock = (directory / f"{number}.lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise
    for path in directory.glob(f"gauge_live*_{number}.db"):
        path.unlink()
    return lock

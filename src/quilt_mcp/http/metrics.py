"""Metrics for Prometheus.

Only servers over HTTP import this module, because it imports prometheus_client. Each label has few values, all of which
are in the code: URIs are patterns of the registry, and no label identifies a caller. For several processes, the
environment variable MULTIPROCESS must name a directory before this module is imported. Each process then writes its
values to files there, and each can report the sums. prometheus_client keeps the files of each process forever, so the
files of processes that have ended are added up.
"""

import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
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
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector

from quilt_mcp import __version__
from quilt_mcp.app import request_guard
from quilt_mcp.core import errors
from quilt_mcp.core.tracing import DONE, Read, Reads
from quilt_mcp.http.admission import Admission, Event

if sys.platform != "win32":  # which has no workers
    import fcntl

SUMS = ("counter", "histogram")
ENDED = "ended"
"""Stands for the number of a process in the names of the files with the sums of all processes that ended."""
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
        commit: of this installation; None if it is not known.
    """

    def __init__(
        self, uris: Collection[str] = (), *, waiting: Callable[[], int] = lambda: 0, commit: str | None = None
    ) -> None:
        self.commit = commit
        self._uris = NO_PATTERNS | set(uris)
        self._waiting = waiting
        own = self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=own)
        counter, histogram = partial(Counter, registry=own), partial(Histogram, registry=own, buckets=SECONDS)
        gauge = partial(Gauge, registry=own, multiprocess_mode="livesum")
        build = Gauge(
            "quilt_mcp_build_info", "Always 1.", ["version", "commit"], registry=own, multiprocess_mode="livemax"
        )
        build.labels(__version__, commit or UNKNOWN).set(1)
        read = ["uri", "surface"]
        reads = counter("quilt_mcp_reads_total", "Completed reads and lists.", [*read, "outcome"])
        seconds = histogram("quilt_mcp_read_duration_seconds", "Duration of reads and lists.", read)
        calls = counter("quilt_mcp_calls_total", "Calls to AWS, the stack and the database.", ["system"])
        in_progress = gauge("quilt_mcp_reads_in_progress", "Reads and lists in progress.", ["surface"])
        self._reads, self._seconds = cache(reads.labels), cache(seconds.labels)  # finding a series takes a lock
        self._calls, self._in_progress = cache(calls.labels), cache(in_progress.labels)
        self._queue = gauge("quilt_mcp_reads_waiting", "Reads in progress that wait for a thread.")
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
        self._show_zeros()

    @contextmanager
    def watching(self, reads: Reads, admission: Admission) -> Iterator[None]:
        """Count the reads and events of a server until the context ends."""
        if directory := os.environ.get(MULTIPROCESS):  # a worker that starts can replace one that has ended
            with _without_ended_processes(Path(directory)):
                pass
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
        if not directory:
            return generate_latest(self._registry)
        with _without_ended_processes(Path(directory)):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library has no annotation here
            return generate_latest(registry)

    def _show_zeros(self) -> None:
        """Create the counters that should stay at zero, because alerts cannot detect the first increase otherwise."""
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


@contextmanager
def _without_ended_processes(directory: Path) -> Iterator[None]:
    """Add up the counters of the processes that ended, and remove their gauges. No other process does so meanwhile."""
    with (directory / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in directory.glob("gauge_live*.db"):
            if _has_ended(path):
                path.unlink()
        for kind in SUMS:
            if ended := [path for path in directory.glob(f"{kind}_*.db") if _has_ended(path)]:
                _add_up(kind, ended, directory)
        yield


def _has_ended(path: Path) -> bool:
    number = path.stem.rpartition("_")[2]
    if number == ENDED:
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # the id belongs to another user's process now
        return False
    return False


def _add_up(kind: str, ended: list[Path], directory: Path) -> None:
    before, new = directory / f"{kind}_{ENDED}.db", directory / f"{kind}_{ENDED}.new"
    sums: defaultdict[str, float] = defaultdict(float)
    for path in (*ended, *([before] if before.exists() else [])):
        # prometheus_client has no annotations here
        for key, value, _, _ in MmapedDict.read_all_values_from_file(path):  # type: ignore[no-untyped-call]  # of prometheus_client
            sums[key] += value
    new.unlink(missing_ok=True)
    written = MmapedDict(new)  # type: ignore[no-untyped-call]  # the library has no annotations here
    for key, value in sums.items():
        written.write_value(key, value, 0.0)  # type: ignore[no-untyped-call]  # of prometheus_client
    written.close()  # type: ignore[no-untyped-call]  # of prometheus_client
    new.replace(before)
    for path in ended:
        path.unlink()

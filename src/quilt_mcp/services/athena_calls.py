"""Calls to Athena for each of many items, within Athena's quotas, which are for each operation and the whole account.

Quotas that are exceeded cost more than they save: botocore then halves the rate of calls, and raises it slowly.
"""

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

from quilt_mcp.app import current_app
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.fan_out import fan_out
from quilt_mcp.services.stack.shared_attempts import SharedAttempts

WORKERS = 4

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Quota(NamedTuple):
    """The rate limit of an operation: calls per second, after a first burst."""

    operation: str
    per_second: float
    burst: int


# Athena's quotas, with one call less in the burst. It documents none for the last two.
LISTS = Quota("ListQueryExecutions", 5, 9)
DESCRIPTIONS = Quota("BatchGetQueryExecution", 20, 39)
DETAILS = Quota("GetWorkGroup", 20, 39)
WORKGROUPS = Quota("ListWorkGroups", 20, 39)


class _Pace:
    """Says when the next call of an operation may start. It is thread-safe."""

    def __init__(self, quota: Quota) -> None:
        self._interval = 1 / quota.per_second
        self._burst_seconds = quota.burst * self._interval
        self._last = -math.inf
        self._lock = threading.Lock()

    def reserve(self, until: float) -> float | None:
        """Return when the next call may start, on the monotonic clock; None if that is not before `until`."""
        with self._lock:
            start = max(self._last, time.monotonic() - self._burst_seconds) + self._interval
            if start >= until:
                return None
            self._last = start
            return start


def share_read(read: Callable[[K], T], key: K) -> T:
    """Return `read(key)`. Calls at the same time run it once and share its result or its failure.

    So a caller with many reads at the same time uses the quotas no more than a caller with one. If the read that runs
    it is cancelled, one of the others runs it again.

    Args:
        read: a function of a module, which makes many calls.
        key: its argument. It names the owner of the calls, such as the AWSClients of a caller.
    """
    running = current_app().once(lambda _: SharedAttempts[Any](), key=share_read)
    result: T = running.share((read, key), lambda: read(key))
    return result


def ask_each(call: Callable[[K], T], items: Iterable[K], *, until: float, quota: Quota) -> dict[K, T | ResourceFailure]:
    """Return the result or the failure of `call` for each item that finished in time. The others are missing.

    At any time, only one of its calls has a place in the queue for the quota. So readers take turns, and a reader
    waits for at most one call of each other reader.

    Args:
        call: calls one operation of Athena.
        items: its arguments.
        until: when the time is over, on the monotonic clock.
        quota: the quota of the operation. All reads of an app share it, because AWS counts the whole account.
    """
    pace, turn = current_app().once(lambda _: _Pace(quota), key=quota), threading.Lock()

    def ask(item: K) -> T | ResourceFailure | None:
        with turn:
            start = pace.reserve(until)
            if start is None:
                return None
            time.sleep(max(0, start - time.monotonic()))
        try:
            return call(item)
        except ResourceFailure as failure:
            return failure

    found = fan_out(ask, items, seconds=max(0, until - time.monotonic()), workers=WORKERS)
    return {item: answer for item, answer in found.items() if answer is not None}

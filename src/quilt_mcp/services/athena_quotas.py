"""Athena's quotas, within which the calls of all reads stay.

They are for each operation and the whole account. If others use them too, AWS throttles calls: then the rate is halved,
and raised slowly. botocore's adaptive mode would do so for all operations of a client together, and waits as long as
the clock of the machine is set back.
"""

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

from quilt_mcp.app import current_app
from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.parallel_calls import fan_out
from quilt_mcp.services.stack.failures import Throttled
from quilt_mcp.services.stack.shared_attempts import SharedAttempts

WORKERS = 4
SLOWEST_SECONDS = 2.0  # the most time between two calls
RAISE = 0.9  # the change of this time by a call that AWS did not throttle

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Quota(NamedTuple):
    """The rate limit of an operation: calls per second, after a first burst."""

    operation: str
    per_second: float
    burst: int


# Athena's quotas, with one call less in the burst. It documents none for the last two.
LISTS = Quota("ListQueryExecutions", 5, 9)
DETAILS = Quota("GetWorkGroup", 20, 39)
WORKGROUPS = Quota("ListWorkGroups", 20, 39)


class _Pace:
    """Says when the next call of an operation may start. It is thread-safe."""

    def __init__(self, quota: Quota) -> None:
        self._shortest = self._interval = 1 / quota.per_second
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

    def adapt(self, *, is_throttled: bool) -> None:
        """Adapt the rate to the result of a call."""
        with self._lock:
            if is_throttled:
                self._burst_seconds = 0.0
                self._interval = min(2 * self._interval, SLOWEST_SECONDS)
            else:
                self._interval = max(RAISE * self._interval, self._shortest)


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
    waits for at most one call of each other reader. Calls that AWS throttled are repeated once if it admitted others.

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
            answer = call(item)
        except ResourceFailure as failure:
            pace.adapt(is_throttled=isinstance(failure, Throttled))
            return failure
        pace.adapt(is_throttled=False)
        return answer

    def ask_all(asked: Iterable[K]) -> dict[K, T | ResourceFailure]:
        found = fan_out(ask, asked, seconds=max(0, until - time.monotonic()), workers=WORKERS)
        return {item: answer for item, answer in found.items() if answer is not None}

    found = ask_all(items)
    throttled = [item for item, answer in found.items() if isinstance(answer, Throttled)]
    if 0 < len(throttled) < len(found):  # AWS admits calls, and the rate is now the one at which it does
        found |= ask_all(throttled)
    return found

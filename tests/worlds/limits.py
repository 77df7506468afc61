"""Limits of an AWS account that a world can have: quotas of calls, and a key that expires."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple


class Quota(NamedTuple):
    """How often an account may call an operation: calls per second, and the calls that it can save up."""

    per_second: float
    burst: int


# "Per account API call quotas" in Athena's service quotas. The page names no quota for the other operations that only
# read. They have the quota of BatchGetQueryExecution here, which is a guess.
LISTS = Quota(5, 10)
OTHER_READS = Quota(20, 40)
ATHENA_QUOTAS = {"ListQueryExecutions": LISTS, "ListNamedQueries": LISTS, "GetQueryExecution": Quota(100, 200)}


class Throttle:
    """A token bucket for each operation. It uses the real time, also in tests that stop the clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[float, float]] = {}

    def admit(self, operation: str) -> bool:
        """Return whether the account may call the operation now, and count the call."""
        quota, now = ATHENA_QUOTAS.get(operation, OTHER_READS), self._clock()
        with self._lock:
            level, since = self._levels.get(operation, (quota.burst, now))
            level = min(quota.burst, level + (now - since) * quota.per_second)
            admitted = level >= 1
            self._levels[operation] = level - admitted, now
        return admitted


TEMPORARY = "ASIA"  # how temporary access keys begin


class Expiry:
    """Lets the temporary access key that is used first expire after a number of calls."""

    def __init__(self, calls: int) -> None:
        self._left = calls
        self._key: str | None = None
        self._lock = threading.Lock()

    def count_and_check(self, key_id: str) -> bool:
        """Count a call with this key, and return whether the key has expired."""
        if not key_id.startswith(TEMPORARY):
            return False
        with self._lock:
            self._key = self._key or key_id
            if key_id != self._key:
                return False
            self._left -= 1
            return self._left < 0

"""How often an identity may ask: counted in a Valkey or Redis that processes share, or in this process alone.

Imported by `runtime_context.py` only, because it imports limits, on the first request of an identity.

The window slides: an identity has two counters for each limit, whatever it asks. Where the shared state does not
answer, each process counts by itself until it does: nobody is locked out, and nobody is without a limit.
"""

import hashlib
import logging
import math
import time
from collections.abc import Sequence
from typing import Any

from cachetools import TLRUCache
from limits import RateLimitItem, parse_many
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError

from quilt_mcp.trace import note

MOST_COUNTERS = 20_000
"""How many are kept in memory: about 8 MB. Of more, those used last; others begin anew."""
PAUSE_SECONDS = 5.0
"""How long it is left alone after it has not answered."""
PREFIX = "QUILT_MCP"

logger = logging.getLogger(__name__)


class RateLimiter:
    """Counts requests, for one event loop.

    Args:
        rate: such as `600/minute`, or several separated by semicolons.
        pool: connections to a Valkey or Redis, as `shared_state.open_pool` gives them; None counts in this process
            alone.
        memory: where this process counts by itself.
    """

    def __init__(self, rate: str, pool: Any = None, memory: "BoundedMemory | None" = None) -> None:
        # The shortest first: what it lets through and a longer one refuses is soon forgotten.
        self._items = sorted(parse_many(rate), key=RateLimitItem.get_expiry)
        self._own = SlidingWindowCounterRateLimiter(memory or BoundedMemory())
        self._pool = pool
        self._shared = SlidingWindowCounterRateLimiter(_shared_storage(pool)) if pool else None
        self._again_at = 0.0
        self._is_reached = True

    async def hit(self, key: str) -> int:
        """Count a request; 0 if it may be answered, else the seconds until one may be, which is then not counted."""
        digest = hashlib.sha256(key.encode()).hexdigest()  # of one length, and no name in a store that others read
        if self._shared is not None and time.monotonic() >= self._again_at:
            try:
                wait = await _hit(self._shared, self._items, digest)
            except StorageError as error:
                self._lost(error)
            else:
                self._found()
                return wait
        return await _hit(self._own, self._items, digest)

    async def close(self) -> None:
        """Close the connections to the shared state; it may be used again."""
        if self._pool is not None:
            await self._pool.disconnect()

    def _lost(self, error: StorageError) -> None:
        note("shared_state_failure")
        if self._is_reached:
            kind = type(error.storage_error).__name__  # its text may hold the address
            logger.warning("the shared state does not answer (%s): this process counts requests by itself", kind)
        self._is_reached = False
        self._again_at = time.monotonic() + PAUSE_SECONDS

    def _found(self) -> None:
        if not self._is_reached:
            logger.info("the shared state answers again")
        self._is_reached = True


class BoundedMemory(MemoryStorage):
    """Counters in memory, of which there are never more than `MOST_COUNTERS`.

    limits' own storage keeps every identity's for two windows, and walks through all of them at each request.
    """

    STORAGE_SCHEME = ["async+bounded-memory"]  # noqa: RUF012 - as the base class declares it

    def __init__(self) -> None:
        super().__init__()
        self._counters: TLRUCache[str, tuple[int, float]] = TLRUCache(
            MOST_COUNTERS, ttu=lambda _, counter, now: now + counter[1], timer=time.time
        )

    def __len__(self) -> int:
        return len(self._counters)

    def __bool__(self) -> bool:
        return True  # also while it is empty

    async def get(self, key: str) -> int:
        """What the counter stands at."""
        return self._counters.get(key, (0, 0.0))[0]

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Add to the counter, which is kept for so many seconds."""
        count = await self.get(key) + amount
        self._counters[key] = (count, expiry)
        return count

    async def decr(self, key: str, amount: int = 1) -> int:
        """Take back what was added."""
        count, expiry = self._counters.get(key, (0, 0.0))
        self._counters[key] = (max(count - amount, 0), expiry)
        return self._counters[key][0]


async def _hit(limiter: SlidingWindowCounterRateLimiter, items: Sequence[RateLimitItem], key: str) -> int:
    for item in items:
        if not await limiter.hit(item, key):
            stats = [await limiter.get_window_stats(one, key) for one in items]
            free_at = max((reset for reset, remaining in stats if remaining <= 0), default=0.0)
            return max(0, math.floor(free_at - time.time())) + 1  # at that very moment the window is still full
    return 0


def _shared_storage(pool: Any) -> RedisStorage:
    # The URL is the pool's: what stands here says which client library to take.
    return RedisStorage(
        "async+redis://", wrap_exceptions=True, implementation="redispy", key_prefix=PREFIX, connection_pool=pool
    )

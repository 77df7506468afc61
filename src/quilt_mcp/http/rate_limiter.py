"""Rate limits: requests are counted in a Valkey or Redis that processes share, or in this process.

admission.py imports this module on first use, because it imports limits.

The window slides: an identity has two counters for each limit. If the shared state does not respond, each process
counts by itself until it responds again. So callers keep access, and the limits still apply.
"""

import hashlib
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Any

from cachetools import TLRUCache
from limits import RateLimitItem, parse_many
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError

if TYPE_CHECKING:
    from redis.asyncio import BlockingConnectionPool

MAX_COUNTERS = 20_000
"""The maximum number of counters in memory, about 8 MB. The least recently used are dropped and start from zero."""
PAUSE_SECONDS = 5.0
PREFIX = "QUILT_MCP"
IPV6_PREFIX = 64
"""One user of IPv6 usually has so many bits of the address."""
MAPPED = "::ffff:"  # starts an address of IPv4 that is written as one of IPv6

logger = logging.getLogger(__name__)


class RateLimiter:
    """Counts the requests of one event loop.

    Args:
        rate: such as `600/minute`, or several separated by semicolons.
        pool: connections to a Valkey or Redis, as `shared_state.open_pool` returns them; None counts in this process.
        failed: called when the shared state does not respond.
        pause_seconds: how long the shared state is not used after it did not respond.
    """

    def __init__(
        self,
        rate: str,
        pool: "BlockingConnectionPool | None" = None,
        memory: "BoundedMemory | None" = None,
        *,
        failed: Callable[[], None] = lambda: None,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        # The shortest first: a request that it counts and a longer limit refuses is soon forgotten.
        self._items = sorted(parse_many(rate), key=RateLimitItem.get_expiry)
        self._local = SlidingWindowCounterRateLimiter(memory or BoundedMemory())
        self._pool = pool
        self._shared = SlidingWindowCounterRateLimiter(_shared_storage(pool)) if pool else None
        self._failed = failed
        self._pause_seconds = pause_seconds
        self._retry_at = 0.0
        self._is_available = True

    async def hit(self, key: str) -> int:
        """Count a request.

        Returns:
            0 if the request may be answered; otherwise the seconds until one may be. It is then not counted.
        """
        digest = hashlib.sha256(key.encode()).hexdigest()  # of fixed length, and no name in a store that others read
        if self._shared is not None and time.monotonic() >= self._retry_at:
            try:
                wait = await _hit(self._shared, self._items, digest)
            except StorageError as error:
                self._note_failure(error)
            else:
                self._note_success()
                return wait
        return await _hit(self._local, self._items, digest)

    async def close(self) -> None:
        """Close the connections to the shared state. The next use opens new ones."""
        if self._pool is not None:
            await self._pool.disconnect()

    def _note_failure(self, error: StorageError) -> None:
        self._failed()
        if self._is_available:
            kind = type(error.storage_error).__name__  # its text can contain the address
            logger.warning("the shared state does not respond (%s): this process counts requests by itself", kind)
        self._is_available = False
        self._retry_at = time.monotonic() + self._pause_seconds

    def _note_success(self) -> None:
        if not self._is_available:
            logger.info("the shared state responds again")
        self._is_available = True


class BoundedMemory(MemoryStorage):
    """Counters in memory, at most `MAX_COUNTERS`.

    limits' own storage keeps the counters of every identity for two windows, and walks through all of them for each
    request.
    """

    STORAGE_SCHEME = ["async+bounded-memory"]  # noqa: RUF012 - as the base class declares it

    def __init__(self) -> None:
        super().__init__()
        self.counters: TLRUCache[str, tuple[int, float]] = TLRUCache(
            MAX_COUNTERS, ttu=lambda _, counter, now: now + counter[1], timer=time.time
        )

    async def get(self, key: str) -> int:
        return self.counters.get(key, (0, 0.0))[0]

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        count = await self.get(key) + amount
        self.counters[key] = (count, expiry)
        return count

    async def decr(self, key: str, amount: int = 1) -> int:
        count, expiry = self.counters.get(key, (0, 0.0))
        self.counters[key] = (max(count - amount, 0), expiry)
        return self.counters[key][0]


async def _hit(limiter: SlidingWindowCounterRateLimiter, items: Sequence[RateLimitItem], key: str) -> int:
    for item in items:
        if not await limiter.hit(item, key):
            stats = [await limiter.get_window_stats(one, key) for one in items]
            free_at = max((reset for reset, remaining in stats if remaining <= 0), default=0.0)
            return max(0, math.floor(free_at - time.time())) + 1  # at the exact moment the window is still full
    return 0


def _shared_storage(pool: "BlockingConnectionPool") -> RedisStorage:
    return RedisStorage(
        "async+redis://",  # only selects the client library: the pool has the address
        wrap_exceptions=True,
        implementation="redispy",
        key_prefix=PREFIX,
        connection_pool=pool,  # type: ignore[arg-type]  # annotated for texts and numbers only
    )


def find_network(scope: Mapping[str, Any]) -> str:
    """Return the address that a request comes from; for IPv6 its network. Empty if there is none."""
    host: str = (scope.get("client") or ("",))[0].removeprefix(MAPPED)
    try:
        address = ip_address(host)
    except ValueError:  # a trusted proxy can forward something that is not an address
        return host
    return host if address.version == 4 else str(ip_network((address.packed, IPV6_PREFIX), strict=False))  # noqa: PLR2004 - the version of IP

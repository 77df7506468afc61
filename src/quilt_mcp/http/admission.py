"""Rate limits and concurrency limits, per identity. The local user is never limited.

The middleware RateLimit counts an HTTP request before its body is read. Reads that arrive another way are counted here.
Each process counts concurrent reads by itself.
"""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Literal, cast

from quilt_mcp.app import identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.core.errors import TooManyRequests
from quilt_mcp.core.tracing import Read
from quilt_mcp.http.request_state import COUNTED, current_scope
from quilt_mcp.settings import HTTPSettings

if TYPE_CHECKING:
    from quilt_mcp.http.rate_limiter import RateLimiter

Event = Literal["rate_limit", "concurrency_limit", "shared_state_failure", "audit_failure"]
"""Counted in addition to reads: an exceeded limit, a failure of the shared state, or a lost line of the audit log."""


class Places:
    """Limits what each caller has at the same time. Only callers that have something are remembered."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken: Counter[str] = Counter()

    @contextmanager
    def hold(self, caller: str) -> Iterator[bool]:
        """Hold a place until the context ends; False if all are taken. The limit 0 is none."""
        is_free = not self.limit or self._taken[caller] < self.limit
        self._taken[caller] += is_free
        try:
            yield is_free
        finally:
            self._taken[caller] -= is_free
            if not self._taken[caller]:
                del self._taken[caller]


class Admission:
    """Limits the reads and requests of one app."""

    def __init__(self, settings: HTTPSettings) -> None:
        self._settings = settings
        self._reading = Places(settings.concurrent_reads)
        self._limiter: RateLimiter | None = None
        self._observers: list[Callable[[Event], None]] = []

    @asynccontextmanager
    async def admit(self, read: Read) -> AsyncIterator[None]:
        """Count a read of the current caller, and hold one of the caller's concurrent reads.

        Raises:
            TooManyRequests: the caller exceeds a limit.
            NotSignedIn: as `identity.current`.
        """
        who = identity.current()
        if who.is_local:
            yield
            return
        read.caller = short_hash(who)
        if COUNTED not in current_scope():
            await self.count(who)
        with self._reading.hold(who.key) as is_free:
            if is_free:
                yield
                return
        self.note("concurrency_limit")
        details = f"at most {self._reading.limit} reads"
        raise TooManyRequests("Too many concurrent reads.", retry_after_seconds=1, details=details)

    async def count(self, who: Identity) -> None:
        """Count a request of this identity.

        Raises:
            TooManyRequests: the identity exceeds its rate limit.
        """
        if who.is_local or self._settings.is_unlimited:
            return
        if wait := await self._open_limiter().hit(who.key):
            self.note("rate_limit")
            raise TooManyRequests(
                "Rate limit exceeded.", retry_after_seconds=wait, details=f"at most {self._settings.rate_limit}"
            )

    def note(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)

    @contextmanager
    def observe(self, observer: Callable[[Event], None]) -> Iterator[None]:
        self._observers.append(observer)
        try:
            yield
        finally:
            self._observers.remove(observer)

    async def close(self) -> None:
        """Close the connections to the shared state. The next use opens new ones."""
        if self._limiter is not None:
            await self._limiter.close()

    def _open_limiter(self) -> "RateLimiter":
        if self._limiter is None:
            url, pool = self._settings.state_url, None
            if url is not None:
                pool = import_module("quilt_mcp.http.shared_state").open_pool(url.get_secret_value())
            module = import_module("quilt_mcp.http.rate_limiter")  # it imports limits
            self._limiter = cast(
                "RateLimiter",
                module.RateLimiter(self._settings.rate_limit, pool, failed=lambda: self.note("shared_state_failure")),
            )
        return self._limiter


def short_hash(who: Identity) -> str:
    """Return the hash that stands for an identity in the log.

    With the issuer and the subject of a user, an operator can find the user's log lines.
    """
    return hashlib.sha256(who.key.encode()).hexdigest()[:12]

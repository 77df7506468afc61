"""Readiness: whether the systems that this server depends on respond. Load balancers ask for it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from ctypes import c_bool

from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.http.overload import Flag

Check = Callable[[], Awaitable[None]]
"""Checks one system; raises a ResourceFailure, OSError or TimeoutError if it does not work."""

CHECK_SECONDS = 5.0
FRESH_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Readiness:
    """Runs all checks concurrently, at most once per second.

    Args:
        checks: by the name of the system.
        leaving: whether this server shuts down. Load balancers then stop to send requests.
        check_seconds: the time limit of each check.
        clock: returns seconds.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        *,
        leaving: Flag | None = None,
        check_seconds: float = CHECK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checks = dict(checks)
        self._leaving = c_bool() if leaving is None else leaving
        self._check_seconds = check_seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._checked_at: float | None = None
        self._failing: list[str] = []

    @property
    def is_leaving(self) -> bool:
        """Whether this server shuts down."""
        return self._leaving.value

    async def find_failing(self) -> list[str]:
        """Return the names of the systems that do not work, sorted. The log has the reasons, whenever they change."""
        async with self._lock:
            if self._checked_at is None or self._clock() >= self._checked_at + FRESH_SECONDS:
                results = await asyncio.gather(*(self._find_reason(check) for check in self._checks.values()))
                reasons = {name: reason for name, reason in zip(self._checks, results, strict=True) if reason}
                if sorted(reasons) != self._failing:
                    logger.warning("not ready: %s", reasons) if reasons else logger.info("ready again")
                self._failing, self._checked_at = sorted(reasons), self._clock()
            return self._failing

    async def _find_reason(self, check: Check) -> str:
        """Return why a check fails, for the log; empty if it does not. A bug in a check is raised and gives a 500."""
        try:
            async with asyncio.timeout(self._check_seconds):
                await check()
        except TimeoutError:
            return "no response in time"
        except ResourceFailure as failure:
            return failure.message
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""

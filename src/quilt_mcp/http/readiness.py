"""Whether what this server depends on answers: what a load balancer asks before it sends requests."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from quilt_mcp.errors import ResourceFailure

Check = Callable[[], Awaitable[None]]
"""Asks something that reads depend on; raises a ResourceFailure, OSError or TimeoutError if it does not answer."""

CHECK_SECONDS = 5.0
FRESH_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Readiness:
    """Runs checks at the same time, each with a time limit, and not more than once in a second.

    Args:
        checks: from what is checked, in a word, to its check.
        clock: tells seconds, for how long an answer is fresh.
    """

    def __init__(self, checks: Mapping[str, Check], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._checks = dict(checks)
        self._clock = clock
        self._asking = asyncio.Lock()
        self._asked: float | None = None
        self._failing: list[str] = []

    async def failing(self) -> list[str]:
        """The names of what does not answer, sorted; the log tells why, whenever it changes."""
        async with self._asking:
            if self._asked is None or self._clock() >= self._asked + FRESH_SECONDS:
                results = await asyncio.gather(*(_reason(check) for check in self._checks.values()))
                reasons = {name: reason for name, reason in zip(self._checks, results, strict=True) if reason}
                if sorted(reasons) != self._failing:
                    logger.warning("not ready: %s", reasons) if reasons else logger.info("ready again")
                self._failing, self._asked = sorted(reasons), self._clock()
            return self._failing


async def _reason(check: Check) -> str:
    """Why it fails, for the log; empty if it does not. A bug in a check is raised, and answered with status 500."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check()
    except TimeoutError:
        return "no answer in time"
    except ResourceFailure as failure:
        return failure.message
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""

"""A client that slows down when AWS throttles it: botocore's adaptive retry mode, with a clock that never stands still.

Athena allows few calls per second for a whole account. botocore's own adaptive mode reads the time of day. If that is
set back, or stands still in a test, the mode waits for that long.
"""

import threading
import time

from botocore.client import BaseClient
from botocore.retries.adaptive import ClientRateLimiter, RateClocker
from botocore.retries.bucket import Clock, TokenBucket
from botocore.retries.standard import RetryEventAdapter, ThrottlingErrorDetector
from botocore.retries.throttling import CubicCalculator


class _SteadyClock(Clock):  # type: ignore[misc]  # botocore has no types
    def current_time(self) -> float:
        return time.monotonic()


class _OperationRates:
    """The rate of calls of each operation: Athena's quotas are per operation."""

    def __init__(self) -> None:
        self._limiters: dict[str, ClientRateLimiter] = {}
        self._lock = threading.Lock()

    def wait(self, request: object, event_name: str, **_: object) -> None:
        """Wait until the next call is allowed. botocore calls this before it sends a request."""
        self._get(event_name).on_sending_request(request)

    def learn(self, event_name: str, **response: object) -> None:
        """Adapt the rate to a response. botocore calls this after each attempt."""
        self._get(event_name).on_receiving_response(**response)

    def _get(self, event_name: str) -> ClientRateLimiter:
        operation = event_name.rpartition(".")[2]
        with self._lock:
            if operation not in self._limiters:
                self._limiters[operation] = _create_limiter()
            return self._limiters[operation]


def _create_limiter() -> ClientRateLimiter:
    clock = _SteadyClock()
    return ClientRateLimiter(
        rate_adjustor=CubicCalculator(starting_max_rate=0, start_time=clock.current_time()),
        rate_clocker=RateClocker(clock),
        token_bucket=TokenBucket(max_rate=1, clock=clock),
        throttling_detector=ThrottlingErrorDetector(retry_event_adapter=RetryEventAdapter()),
        clock=clock,
    )


def adapt_rate(client: BaseClient) -> None:
    """Let a client in the standard retry mode also adapt the rate of its calls, as the adaptive mode does."""
    rates = _OperationRates()
    client.meta.events.register("before-send", rates.wait)
    client.meta.events.register("needs-retry", rates.learn)

"""One attempt for all threads that want its result at the same time."""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

from quilt_mcp.core.tracing import ReadIsOver

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class SharedAttempts(Generic[T]):
    """Runs one attempt per key at a time. Threads that come meanwhile wait, and get its result or its failure.

    No lock is held during the attempt. Nothing is remembered after it.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, Future[T]] = {}
        self._lock = threading.Lock()

    def share(self, key: Hashable, attempt: Callable[[], T]) -> T:
        """Run the attempt, or wait for the one with the same key that runs already."""
        while True:
            with self._lock:
                running = self._running.get(key)
                own = Future[T]()
                if running is None:
                    self._running[key] = own
            if running is None:
                return self._run(key, own, attempt)
            failure = running.exception()
            if failure is None:
                return running.result()
            if isinstance(failure, Exception) and not isinstance(failure, ReadIsOver):
                raise copy_failure(failure)
            # Only the other thread's read has ended, so this thread makes the next attempt.

    def _run(self, key: Hashable, future: Future[T], attempt: Callable[[], T]) -> T:
        try:
            result = attempt()
        except BaseException as failure:  # raised again, here and in the threads that wait
            self._end(key)  # first: a thread that waits can make the next attempt
            future.set_exception(failure)
            raise
        self._end(key)
        future.set_result(result)
        return result

    def _end(self, key: Hashable) -> None:
        with self._lock:
            del self._running[key]


def copy_failure(failure: E) -> E:
    """Return the failure without a traceback: a raised exception keeps its own, and other threads raise it too.

    `copy.copy` would call the constructor, which can need other arguments than those in `args`.
    """
    copied = failure.__class__.__new__(failure.__class__, *failure.args)
    copied.__dict__.update(failure.__dict__)
    return copied

"""One call for each of many items, at the same time and within a time limit."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

WORKERS = 32
NOT_IN_TIME = "not reached in time"
"""The reason in answers for an item with a call that did not finish in time."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def fan_out(call: Callable[[K], T], items: Iterable[K], *, seconds: float, workers: int = WORKERS) -> dict[K, T]:
    """Return the result of `call` for each item that finished in time. The others are missing.

    A call that is still running after the time limit continues until its own limit. A call that has not started does
    not start. At most `workers` calls run at the same time.

    Raises:
        Exception: what a call raised. To continue with the other items, a call must return its failure instead.
    """
    futures: dict[K, Future[T]] = {item: Future() for item in items}
    waiting = deque(futures.items())

    def work() -> None:
        with suppress(IndexError):  # no more items
            while True:
                item, future = waiting.popleft()
                _settle(future, call, item)

    # Not an executor: Python waits for its threads at exit, which would delay the shutdown of the server.
    for _ in range(min(workers, len(futures))):
        Thread(target=copy_context().run, args=(work,), name="fan-out", daemon=True).start()
    done, _ = wait(futures.values(), timeout=seconds)
    waiting.clear()
    return {item: future.result() for item, future in futures.items() if future in done}


def _settle(future: Future[T], call: Callable[[K], T], item: K) -> None:
    try:
        future.set_result(call(item))
    except BaseException as error:  # noqa: BLE001 - passed on to the thread that reads the result
        future.set_exception(error)

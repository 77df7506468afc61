"""Runs one call for each of many things, in parallel and within a time limit."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

WORKERS = 32

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def fan_out(call: Callable[[K], T], items: Iterable[K], *, seconds: float) -> dict[K, T]:
    """What `call` answered for each item that was done in time; the others are missing.

    A call that still runs when the time is up is left to its own time limit; one that has not begun never begins.

    Raises:
        Exception: what a call raised; a call that may fail has to answer its failure instead.
    """
    futures: dict[K, Future[T]] = {item: Future() for item in items}
    waiting = deque(futures.items())

    def work() -> None:
        with suppress(IndexError):  # nothing waits any more
            while True:
                item, future = waiting.popleft()
                _settle(future, call, item)

    # Not an executor's threads: Python waits for those when it ends, and a server that is told to stop would not.
    for _ in range(min(WORKERS, len(futures))):
        Thread(target=copy_context().run, args=(work,), name="fan-out", daemon=True).start()
    done, _ = wait(futures.values(), timeout=seconds)
    waiting.clear()
    return {item: future.result() for item, future in futures.items() if future in done}


def _settle(future: Future[T], call: Callable[[K], T], item: K) -> None:
    try:
        future.set_result(call(item))
    except BaseException as error:  # noqa: BLE001 - handed on whole: whoever asks for the result gets it
        future.set_exception(error)

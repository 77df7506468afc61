"""Runs one call for each of many things, in parallel and within a time limit."""

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
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
    pool = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="fan-out")
    try:
        futures: dict[K, Future[T]] = {item: pool.submit(copy_context().run, call, item) for item in items}
        done, _ = wait(futures.values(), timeout=seconds)
        return {item: future.result() for item, future in futures.items() if future in done}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)

"""Threads for blocking calls, in one pool for each kind of system, so that a slow system delays nothing else.

Each caller has a share of the threads of each pool, which is smaller while others use much of the pool. A place in a
pool is free again when its thread ends, also if the caller no longer waits for the result.
"""

import asyncio
import inspect
import math
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial, wraps
from typing import Literal, TypeVar, cast
from weakref import WeakKeyDictionary

import anyio
from anyio import to_thread

from quilt_mcp.app import current_app
from quilt_mcp.app.fair_queue import FairQueue, Share
from quilt_mcp.core.manager import Call
from quilt_mcp.core.tracing import ReadIsOver, current_caller_hash

Pool = Literal["local", "stack", "aws", "database", "readiness"]

PLACES: Mapping[Pool, int] = {"local": 16, "stack": 64, "aws": 64, "database": 16, "readiness": 8}
SHARES = 8
"""A caller who is identified can use this fraction of a pool, and less if others use much of it. The local user and the
readiness checks can use all."""

T = TypeVar("T")


class _Stop:
    """Whether the caller no longer waits for a thread, and what then interrupts the thread."""

    def __init__(self) -> None:
        self.is_set = False
        self._interrupts: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def set(self) -> None:
        with self._lock:
            self.is_set = True
            for interrupt in self._interrupts:
                interrupt()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        with self._lock:
            if self.is_set:
                raise ReadIsOver
            self._interrupts.append(interrupt)
        try:
            yield
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)


_stop: ContextVar[_Stop | None] = ContextVar("stop", default=None)


@contextmanager
def interruptible(interrupt: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Call a function, which must not wait, if the caller of this thread stops waiting while the block runs.

    Yields:
        Whether the caller has stopped waiting.

    Raises:
        ReadIsOver: the caller no longer waits.
    """
    stop = _stop.get() or _Stop()
    with stop.interrupting(interrupt):
        yield lambda: stop.is_set


class Pools:
    """The pools of one app."""

    def __init__(self, settings: object = None) -> None:
        del settings
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Pool, FairQueue]] = WeakKeyDictionary()
        self._unlimited = anyio.CapacityLimiter(math.inf)  # the queues limit the threads

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a place."""
        return sum(queue.waiting for queues in list(self._queues.values()) for queue in queues.values())

    async def run(self, pool: Pool, call: Call) -> object:
        """Hold a place in a pool, and await the function or run it in a thread.

        An asynchronous function for local work needs no place, because it waits for nothing. If this is cancelled, the
        thread continues, and keeps its place until it ends.
        """
        is_async = inspect.iscoroutinefunction(call)
        if is_async and pool == "local":
            return await call()
        queue, caller = self._find_queue(pool), current_caller_hash()
        share = Share(caller or "", places=PLACES[pool] // SHARES if caller else None)
        place = await queue.acquire(share)
        if is_async:
            try:
                return await call()
            finally:
                queue.release(place)
        return await self._run_in_thread(call, partial(queue.release, place))

    async def close(self) -> None:
        pass  # Python cannot stop a thread from outside

    async def _run_in_thread(self, call: Callable[[], T], release: Callable[[], None]) -> T:
        loop, stop = asyncio.get_running_loop(), _Stop()
        turn = threading.Lock()  # whoever takes it first, the thread or the end of the wait, decides whether it starts

        def work() -> T:
            if not turn.acquire(blocking=False):
                raise ReadIsOver
            _stop.set(stop)  # of the copy of the context that the thread has
            try:
                return call()
            finally:
                with suppress(RuntimeError):  # the event loop has been closed
                    loop.call_soon_threadsafe(release)

        try:
            return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._unlimited)
        finally:
            if turn.acquire(blocking=False):  # the thread has not started, and will not
                release()
            stop.set()  # which changes nothing for a thread that has ended

    def _find_queue(self, pool: Pool) -> FairQueue:
        loop = asyncio.get_running_loop()
        queues = self._queues.get(loop)
        if queues is None:
            queues = self._queues[loop] = {
                name: FairQueue(places, spread=SHARES - 1) for name, places in PLACES.items()
            }
        return queues[pool]


async def run_in_pool(pool: Pool, call: Callable[[], T]) -> T:
    """Run a blocking function in a pool of the current app."""
    return cast("T", await current_app().part(Pools).run(pool, call))


@cache  # FastMCP keeps what it makes of a function, so each server must add the same one
def make_pooled(pool: Pool, function: Callable[..., object]) -> Callable[..., Awaitable[object]]:
    """Return an asynchronous function with the same signature, which runs the function in a pool of the current app."""

    @wraps(function)
    async def run(*args: object, **kwargs: object) -> object:
        return await run_in_pool(pool, partial(function, *args, **kwargs))

    return run

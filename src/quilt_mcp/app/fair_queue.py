"""A queue for a limited number of places, in which no caller delays the others for long.

Each caller has a share of the places and a limited number of waiting calls. A free place goes to the waiting caller
that holds the fewest places; among equals, to the one that was served least recently. The fewer places are free, the
fewer a caller can take: shares alone would let some greedy callers take all places together.
"""

import math
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio


class NoPlace(Exception):
    """The caller got no place.

    Attributes:
        waited: how long the call waited, in seconds; 0 if it was refused at once.
        retry_after_seconds: when a place for this caller is free at the latest, if no other call takes it; at least 1.
    """

    def __init__(self, waited: float, retry_after_seconds: int) -> None:
        super().__init__()
        self.waited = waited
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True)
class Share:
    """The limits of one caller.

    Attributes:
        caller: identifies the caller.
        places: maximum number of places at the same time; None means all.
        waiting: maximum number of waiting calls; None means any number.
    """

    caller: str
    places: int | None = None
    waiting: int | None = None


@dataclass(eq=False, slots=True)
class Call:
    """A call that waits for a place or holds one."""

    share: Share
    until: float
    started: bool = False
    event: anyio.Event | None = None  # while it waits


class FairQueue:
    """The places of one event loop.

    Args:
        places: how many calls can run at the same time.
        spread: a caller with n places gets another only while more than n times this number are free. 0 turns it off,
            and it does not apply to callers who can use all places.
    """

    def __init__(self, places: int, *, spread: int = 0) -> None:
        self._places = places
        self._spread = spread
        self._running: list[Call] = []
        self._waiting: dict[str, deque[Call]] = {}
        self._served: dict[str, int] = {}  # for callers with calls: the number of the last start
        self._starts = 0

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def place(self, share: Share, *, wait: float, hold: float) -> AsyncIterator[float]:
        """Wait for a place and hold it. The value is how long the call waited, in seconds.

        Args:
            share: of the caller.
            wait: how long the call can wait, in seconds.
            hold: how long it holds the place at most after its arrival, in seconds.

        Raises:
            NoPlace: the caller has too many waiting calls, or no place was free in time.
        """
        arrived = anyio.current_time()
        call = Call(share, until=arrived + hold)
        self._enqueue(call)
        try:
            with anyio.move_on_after(wait):
                await _wait(call)
            waited = anyio.current_time() - arrived
            if not call.started:
                raise NoPlace(waited, self._find_next_end(share))
            yield waited
        finally:
            self.release(call)

    async def acquire(self, share: Share) -> Call:
        """Wait for a place, for any time, and hold it until `release`.

        Raises:
            NoPlace: the caller has too many waiting calls.
        """
        call = Call(share, until=math.inf)
        self._enqueue(call)
        try:
            await _wait(call)
        except BaseException:  # a cancellation, which is raised again
            self.release(call)
            raise
        return call

    def _enqueue(self, call: Call) -> None:
        calls = self._waiting.setdefault(call.share.caller, deque())
        calls.append(call)
        self._start_calls()
        most = call.share.waiting
        if not call.started and most is not None and len(calls) > most:
            self.release(call)
            raise NoPlace(0.0, self._find_next_end(call.share))

    def _start_calls(self) -> None:
        while len(self._running) < self._places:
            held = Counter(one.share.caller for one in self._running)
            first = [calls[0] for calls in self._waiting.values() if calls]
            allowed = [one for one in first if self._can_start(one.share, held[one.share.caller])]
            if not allowed:
                return
            chosen = min(allowed, key=lambda one: (held[one.share.caller], self._served.get(one.share.caller, 0)))
            self._starts += 1
            self._served[chosen.share.caller] = self._starts
            self._waiting[chosen.share.caller].popleft()
            self._running.append(chosen)
            chosen.started = True
            if chosen.event is not None:
                chosen.event.set()

    def _can_start(self, share: Share, held: int) -> bool:
        if share.places is None:
            return True
        free = self._places - len(self._running)
        return held < share.places and free > held * self._spread

    def release(self, call: Call) -> None:
        """Give the place back, or stop waiting for one."""
        caller = call.share.caller
        if call.started:
            self._running.remove(call)
        else:
            self._waiting[caller].remove(call)
        self._start_calls()
        if not self._waiting.get(caller):
            self._waiting.pop(caller, None)
            if all(one.share.caller != caller for one in self._running):
                self._served.pop(caller, None)

    def _find_next_end(self, share: Share) -> int:
        own = [one.until for one in self._running if one.share.caller == share.caller]
        at_limit = share.places is not None and len(own) >= share.places
        ends = own if at_limit else [one.until for one in self._running]
        return max(1, math.ceil(min(ends, default=0.0) - anyio.current_time()))


async def _wait(call: Call) -> None:
    if not call.started:
        call.event = anyio.Event()
        await call.event.wait()

"""The fair queue: each caller has a share, and a free place goes to the caller who holds the fewest."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sized
from contextlib import asynccontextmanager
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.app.fair_queue import FairQueue, NoPlace, Share
from tests.support.waiting import SECONDS


class Calls:
    """Calls in a queue. Each holds its place until it is released."""

    def __init__(self, places: int, *, share: int | None = None, waiting: int | None = None, spread: int = 0) -> None:
        self.queue = FairQueue(places, spread=spread)
        self.started: list[str] = []
        self._limits = (share, waiting)
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def send(self, name: str, caller: str, wait: float = SECONDS) -> None:
        """Send a call and let it reach the queue."""
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(name, Share(caller, *self._limits), wait))
        for _ in range(3):
            await asyncio.sleep(0)

    async def release(self, name: str) -> None:
        """End a call that has a place."""
        self._ends[name].set()
        await self.tasks[name]
        for _ in range(3):
            await asyncio.sleep(0)

    async def cancel(self, name: str) -> None:
        """Cancel a call."""
        self.tasks[name].cancel()
        await asyncio.wait([self.tasks[name]])

    def failure(self, name: str) -> NoPlace:
        """Return why a call got no place."""
        found = self.tasks[name].exception()
        assert isinstance(found, NoPlace)
        return found

    async def stop(self) -> None:
        """Cancel all calls."""
        for name in self.tasks:
            await self.cancel(name)

    async def _run(self, name: str, share: Share, wait: float) -> None:
        async with self.queue.place(share, wait=wait, hold=30):
            self.started.append(name)
            await self._ends[name].wait()


@asynccontextmanager
async def calls(places: int, **limits: int) -> AsyncIterator[Calls]:
    found = Calls(places, **limits)
    try:
        yield found
    finally:
        await found.stop()


async def test_a_free_place_goes_to_the_caller_who_holds_the_fewest() -> None:
    async with calls(2) as sent:
        for name in ("a1", "a2", "a3", "a4"):
            await sent.send(name, "ann")
        await sent.send("b1", "ben")
        assert sent.started == ["a1", "a2"]
        await sent.release("a1")
        assert sent.started == ["a1", "a2", "b1"]
        await sent.release("a2")
        assert sent.started == ["a1", "a2", "b1", "a3"]


async def test_callers_with_equally_many_places_take_turns() -> None:
    async with calls(1) as sent:
        await sent.send("x", "other")
        for name in ("a1", "a2", "b1", "b2", "c1"):
            await sent.send(name, name[0])
        for name in ("x", "a1", "b1", "c1", "a2"):
            await sent.release(name)
        assert sent.started == ["x", "a1", "b1", "c1", "a2", "b2"]


async def test_one_caller_cannot_take_all_places() -> None:
    async with calls(4, share=2) as sent:
        for name in ("a1", "a2", "a3"):
            await sent.send(name, "ann")
        await sent.send("b1", "ben")
        assert sent.started == ["a1", "a2", "b1"]
        await sent.release("b1")
        assert sent.started == ["a1", "a2", "b1"]
        await sent.release("a1")
        assert sent.started == ["a1", "a2", "b1", "a3"]


@pytest.mark.parametrize("order", ["one caller after the other", "in turn"])
@pytest.mark.parametrize("greedy", [1, 2, 8, 20])
async def test_greedy_callers_leave_a_place_for_another(greedy: int, order: str) -> None:
    places, share = 64, 8
    sends = [(caller, number) for caller in range(greedy) for number in range(share + 2)]
    async with calls(places, share=share, spread=7) as sent:
        for caller, number in sends if order != "in turn" else sorted(sends, key=itemgetter(1)):
            await sent.send(f"{caller}-{number}", f"greedy {caller}")
        held = Counter(name.split("-")[0] for name in sent.started)
        assert (len(held), max(held.values()) <= share) == (greedy, True), "each of them has a place"
        assert greedy > 1 or held["0"] == share
        await sent.send("honest", "honest")
        assert sent.started[-1] == "honest"


async def test_a_place_that_is_free_again_goes_to_the_caller_with_the_fewest() -> None:
    async with calls(4, share=2, spread=2) as sent:
        for name in ("a1", "a2", "b1", "b2", "c1", "d1"):
            await sent.send(name, name[0])
        assert sent.started == ["a1", "a2", "b1", "c1"]
        await sent.release("a1")
        assert sent.started[4:] == ["d1"]
        for name in ("a2", "c1"):
            await sent.release(name)
        assert sent.started[5:] == []
        await sent.release("d1")
        assert sent.started[5:] == ["b2"]


async def test_a_caller_who_can_use_all_places_uses_the_last() -> None:
    async with calls(4, spread=7) as sent:
        for name in ("a1", "a2", "a3", "a4", "a5"):
            await sent.send(name, "")
        assert sent.started == ["a1", "a2", "a3", "a4"]


async def test_calls_over_the_limit_are_refused_at_once() -> None:
    async with calls(1, share=1, waiting=1) as sent:
        for name in ("a1", "a2", "a3"):
            await sent.send(name, "ann")
        refusal = sent.failure("a3")
        assert refusal.waited == 0
        assert 1 <= refusal.retry_after_seconds <= 30
        await sent.send("b1", "ben")  # another caller can wait
        await sent.release("a1")
        assert sent.started == ["a1", "b1"]


async def test_a_call_that_gets_no_place_in_time_says_how_long_it_waited() -> None:
    async with calls(1) as sent:
        await sent.send("a1", "ann")
        await sent.send("b1", "ben", wait=0.05)

        with pytest.raises(NoPlace):
            await sent.tasks["b1"]
        assert sent.failure("b1").waited >= 0.05
        assert sent.failure("b1").retry_after_seconds >= 1


async def test_cancelled_calls_free_their_places() -> None:
    async with calls(1) as sent:
        for name in ("a1", "a2", "a3"):
            await sent.send(name, "ann")
        await sent.cancel("a2")
        await sent.cancel("a1")
        await sent.release("a3")
        assert sent.started == ["a1", "a3"]
        left = {name: value for name, value in vars(sent.queue).items() if isinstance(value, Sized)}
        assert left
        assert not any(left.values()), left


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["send", "release", "cancel"])), max_size=40))
def test_no_order_of_calls_loses_a_place_or_exceeds_a_share(steps: list[tuple[str, str]]) -> None:
    async def play() -> None:
        async with calls(3, share=2) as sent:
            open_calls: list[str] = []
            for number, (caller, step) in enumerate(steps):
                held = [name for name in sent.started if name in open_calls]
                if step == "send":
                    open_calls.append(f"{caller}{number}")
                    await sent.send(open_calls[-1], caller)
                elif step == "release" and held:
                    open_calls.remove(held[0])
                    await sent.release(held[0])
                elif step == "cancel" and open_calls:
                    await sent.cancel(open_calls.pop())
                    await asyncio.sleep(0)
                running_now = [name for name in sent.started if name in open_calls]
                by_caller = {one: sum(name[0] == one for name in running_now) for one in "abc"}
                waiting = {name[0] for name in open_calls if name not in sent.started}
                assert len(running_now) <= 3
                assert max(by_caller.values()) <= 2
                assert len(running_now) == 3 or all(by_caller[one] == 2 for one in waiting)

    asyncio.run(play())

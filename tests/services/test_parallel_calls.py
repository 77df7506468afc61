"""Calls in parallel: no more at once than given, none after the time, one attempt for all who wait for it."""

import inspect
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.parallel_calls import fan_out
from quilt_mcp.services.stack.failures import RoleChanged
from quilt_mcp.services.stack.shared_attempts import SharedAttempts, copy_failure
from tests.support.waiting import SECONDS

GIVEN: dict[str, Any] = {
    "message": "It failed.",
    "details": "why",
    "retry_after_seconds": 7,
    "suggested_action": "Repeat it.",
}


def failure_types(above: type[ResourceFailure] = ResourceFailure) -> Iterator[type[ResourceFailure]]:
    for one in above.__subclasses__():
        yield one
        yield from failure_types(one)


@pytest.mark.parametrize("kind", sorted({*failure_types()}, key=str))
def test_every_failure_can_be_raised_in_another_thread(kind: type[ResourceFailure]) -> None:
    wanted = inspect.signature(kind).parameters
    failure = kind(**{name: value for name, value in GIVEN.items() if name in wanted})
    copied = copy_failure(failure)
    assert type(copied) is kind
    assert (copied.args, vars(copied), str(copied)) == (failure.args, vars(failure), str(failure))
    assert copied is not failure


def test_a_thread_that_waits_gets_the_failure_of_the_other() -> None:
    shared, started, release = SharedAttempts[None](), threading.Event(), threading.Event()

    def fail() -> None:
        started.set()
        release.wait()
        raise RoleChanged

    class Waiting(str):
        """A key that says when the second thread has looked it up."""

        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            release.set()
            return str(self) == other

        __hash__ = str.__hash__

    def wait_for_the_other() -> Any:
        started.wait()
        return shared.share(Waiting("key"), lambda: None)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(shared.share, "key", fail), pool.submit(wait_for_the_other)
        failures = [first.exception(), second.exception()]
    assert list(map(type, failures)) == [RoleChanged, RoleChanged]
    assert failures[0] is not failures[1]


@pytest.mark.parametrize("workers", [1, 4])
def test_no_more_calls_run_at_the_same_time_than_there_are_workers(workers: int) -> None:
    running, most, lock, full = 0, 0, threading.Lock(), threading.Barrier(workers)

    def call(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.wait(10)  # until all workers are in a call
        with lock:
            running -= 1

    results = fan_out(call, range(workers * 3), seconds=30, workers=workers)
    assert len(results) == workers * 3
    assert most == workers


def test_late_items_are_missing_and_waiting_items_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    release, is_answered, started = threading.Event(), threading.Event(), []

    def call(item: int) -> int:
        started.append(item)
        if item:
            release.wait(SECONDS)
        return item

    def wait_for_the_first(futures: Iterable[Future[int]], timeout: float) -> tuple[set[Future[int]], set[Future[int]]]:
        """Begin to count the time when the item that must be in time has its answer."""
        [*waiting] = futures
        assert waiting[0].result(SECONDS) == 0
        is_answered.set()
        return wait(waiting, timeout)

    monkeypatch.setattr("quilt_mcp.services.parallel_calls.wait", wait_for_the_first)
    answers = fan_out(call, range(100), seconds=0.05)  # the first has answered before
    release.set()
    assert is_answered.is_set()
    assert answers == {0: 0}
    assert len(started) < 100

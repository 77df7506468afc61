"""Calls in parallel: no more at the same time than given, and none after the time."""

import threading
from collections.abc import Iterable
from concurrent.futures import Future, wait

import pytest

from quilt_mcp.services.lists import fan_out
from tests.support.waiting import SECONDS


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

    monkeypatch.setattr("quilt_mcp.services.lists.wait", wait_for_the_first)
    answers = fan_out(call, range(100), seconds=0.05)  # the first has answered before
    release.set()
    assert is_answered.is_set()
    assert answers == {0: 0}
    assert len(started) < 100

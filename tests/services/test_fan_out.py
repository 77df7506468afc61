"""Calls in parallel: no more at the same time than given."""

import threading

import pytest

from quilt_mcp.services.lists import fan_out


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

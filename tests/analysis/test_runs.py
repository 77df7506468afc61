"""The time limit of runs in plain Python."""

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from quilt_mcp.analysis.engine.exploration import ConcreteRun
from quilt_mcp.analysis.gate.rules import Interrupted
from tests.analysis.engine_runs import load

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
CODE = """
import itertools
class A:
    def method(self, x):
        return 0
def f(x: int):
    return {body}
"""


def wait_for_close(_: object) -> Iterator[None]:
    yield


def leave_cycle() -> None:
    """Leave a generator that only the garbage collector can close."""
    cycle: list[object] = []
    waiting = wait_for_close(cycle)
    next(waiting)
    cycle.append(waiting)


def run_past_deadline(function: Callable[[], object]) -> None:
    """Run a function that is written in C after the deadline, then one in Python, and expect the interruption."""
    deadline = time.perf_counter() + 0.05

    def run() -> None:
        time.sleep(max(0.0, deadline - time.perf_counter()))
        function()
        leave_cycle()

    with pytest.raises(Interrupted):
        ConcreteRun(deadline).call(run)


@pytest.mark.parametrize(
    "body",
    [
        "any(x < 0 for x in itertools.count())",
        "all(map(lambda x: True, itertools.count()))",
        "[0 for x in itertools.count()]",
        "all(map(bool, (1 for x in itertools.count())))",
        "sum(map(A().method, itertools.count()))",
        "x and f(x - 1) + f(x - 1)",
    ],
)
def test_run_of_an_endless_expression_is_interrupted(body: str) -> None:
    run = ConcreteRun(time.perf_counter() + 0.02)
    with pytest.raises(Interrupted):
        run.call(load(CODE.format(body=body)).module.f, 60)


def test_generator_that_the_collector_closes_does_not_swallow_the_interruption() -> None:
    leave_cycle()
    run_past_deadline(partial(list, map(list, [()] * 100_000)))  # starts the collector
    assert gc.isenabled()


def test_generator_of_a_library_cannot_swallow_the_interruption() -> None:
    left: list[object] = [wait_for_close(None)]
    next(left[0])  # type: ignore[call-overload]  # the list holds it as an object
    run_past_deadline(left.clear)


def test_generator_of_the_code_is_closed_after_the_deadline() -> None:
    code = "def g(log):\n    try:\n        yield\n    finally:\n        log.append(1)\n"
    module, log = load(code).module, list[int]()
    waiting = [module.g(log)]
    next(waiting[0])
    run_past_deadline(waiting.clear)

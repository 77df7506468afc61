"""What the adapter expects of CrossHair. These tests fail if an upgrade changes it."""

from inspect import BoundArguments
from types import FunctionType

import pytest
from crosshair.util import ControlFlowException, NotDeterministic

from quilt_mcp.analysis.engine.exploration import (
    Budget,
    CodeFacts,
    End,
    Exploration,
    Judgement,
    Program,
    Run,
    Watch,
)
from quilt_mcp.analysis.engine.search import Explorer
from quilt_mcp.analysis.engine.subjects import resolve_types
from quilt_mcp.analysis.gate.loading import load_module
from quilt_mcp.analysis.policy import Policy

# CrossHair uses all subclasses of a type, also deprecated ones of the standard library
pytestmark = pytest.mark.filterwarnings("ignore")


def load(code: str) -> FunctionType:
    """Return the function `f` of code that the gate has not seen."""
    function = load_module(code, Policy()).__dict__["f"]
    assert isinstance(function, FunctionType)
    return function


def explore(function: FunctionType, budget: Budget, program: Program | None = None) -> Exploration:
    """Explore a program about a function, by default one that calls it."""
    signature = resolve_types(function)
    assert signature is not None

    def call(run: Run, arguments: BoundArguments) -> Judgement:
        return Judgement(type(run.call(function, *arguments.args, **arguments.kwargs)).__name__)

    return Explorer(program or call, signature, budget, Watch(), CodeFacts()).run()


def test_except_exception_does_not_catch_control_flow() -> None:
    assert not issubclass(ControlFlowException, Exception)
    assert issubclass(NotDeterministic, Exception)


NO_COPY = """
class Odd(dict):
    def __setitem__(self, key: int, value: int) -> None:
        raise {error}

class A:
    def __init__(self, x: int) -> None:
        self.x = x
        self.values = Odd([(1, 2)])

def f(a: A) -> int:
    return a.x
"""


@pytest.mark.soak
@pytest.mark.parametrize("error", ["ValueError", "RecursionError", "TypeError"])
def test_arguments_that_cannot_be_copied_leave_the_path_undecided(error: str) -> None:
    explored = explore(load(NO_COPY.format(error=error)), Budget(seconds=20, paths=3))
    assert explored.decided == 0
    assert explored.undecided == explored.paths > 0


def test_run_that_the_end_of_a_part_interrupts_is_repeated() -> None:
    function = load("""
def f(x: int) -> int:
    for _ in range(3_000):
        pass
    return x
""")
    budget = Budget(seconds=45, paths=50, first=0.0001)  # a few runs before the symbolic paths
    assert explore(function, budget).end is End.ALL_PATHS


def test_memo_of_a_copy_refers_only_to_arguments() -> None:
    code = """
MEMOS = []
class A:
    def __init__(self, x: int) -> None:
        self.x = x
    def __deepcopy__(self, memo):
        MEMOS.append(memo)
        return A(self.x)
def f(a: A) -> int:
    return a.x
"""
    function = load(code)  # the gate refuses it
    explore(function, Budget(seconds=60, paths=3))
    memos = function.__globals__["MEMOS"]
    kept = [one for memo in memos for value in memo.values() for one in (value if isinstance(value, list) else [value])]
    assert len(memos) > 2
    assert {type(one).__name__ for one in kept} <= {"A"}


@pytest.mark.soak
def test_concrete_run_overrides_symbolic_run() -> None:
    def differs(run: Run, arguments: BoundArguments) -> Judgement:
        return Judgement("symbolic" if run.symbolic else "concrete")

    def stops_only_symbolically(run: Run, arguments: BoundArguments) -> Judgement:
        return Judgement("wanted", stop=run.symbolic)

    function, budget = load("def f(x: int): pass"), Budget(seconds=20, paths=50)
    assert explore(function, budget, differs).end is End.UNDECIDED
    assert explore(function, budget, stops_only_symbolically).end is not End.STOPPED

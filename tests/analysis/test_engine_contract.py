"""What the adapter expects of CrossHair. These tests fail if an upgrade changes it."""

import inspect
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from inspect import BoundArguments
from types import FunctionType

import pytest
from crosshair import core, options
from crosshair.condition_parser import Conditions
from crosshair.util import ControlFlowException, NotDeterministic, PathTimeout

from quilt_mcp.analysis.engine.exploration import (
    Budget,
    End,
    Exploration,
    Judgement,
    NoArguments,
    Raised,
    Returned,
    Run,
    Undecided,
    Watch,
)
from quilt_mcp.analysis.engine.search import explore
from quilt_mcp.analysis.engine.subjects import parse_contract, resolve_types
from quilt_mcp.analysis.gate.inspection import admit
from quilt_mcp.analysis.gate.loading import load_module
from quilt_mcp.analysis.policy import Policy

# CrossHair uses all subclasses of a type, also deprecated ones of the standard library
pytestmark = pytest.mark.filterwarnings("ignore")
ENOUGH = Budget(seconds=20, paths=50)
UNWATCHED = Watch()


def load(code: str) -> FunctionType:
    """Return the function `f` of code in this file, loaded as in the sandbox."""
    module = load_module(admit(code, Policy()).source, Policy())
    function = module.__dict__["f"]
    assert isinstance(function, FunctionType)
    return function


def explore_calls(
    function: FunctionType,
    stop: Callable[[Returned | Raised], bool] = lambda _: False,
    budget: Budget = ENOUGH,
    watch: Watch = UNWATCHED,
) -> Exploration:
    signature = resolve_types(function)
    assert signature is not None

    def program(run: Run, arguments: BoundArguments) -> Judgement:
        outcome = run.call(function, *arguments.args, **arguments.kwargs)
        return Judgement(type(outcome).__name__, stop=stop(outcome))

    return explore(program, signature, budget, watch)


def raises(error: type[Exception]) -> Callable[[Returned | Raised], bool]:
    return lambda outcome: isinstance(outcome, Raised) and isinstance(outcome.error, error)


def test_versions_are_those_that_the_adapter_was_written_for() -> None:
    assert (version("crosshair-tool"), version("z3-solver")) == ("0.0.113", "5.3.3.0")


def test_loop_has_the_expected_parameters_and_results() -> None:
    parameters = list(inspect.signature(core.explore_loop).parameters)
    assert parameters == ["options", "search_root", "run_path", "stop_on_refutation"]
    assert set(core.ExplorationResult.__dataclass_fields__) == {"top_analysis", "exhausted", "iterations"}
    assert set(core.PathOutcome.__dataclass_fields__) == {"analysis", "breakout"}
    wanted = {"per_condition_timeout", "per_path_timeout", "max_iterations", "stats", "analysis_kind", "enabled"}
    assert wanted <= set(options.AnalysisOptionSet.__dataclass_fields__)


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
    explored = explore_calls(load(NO_COPY.format(error=error)), budget=Budget(seconds=20, paths=3))
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
    assert explore_calls(function, raises(KeyError), budget).end is End.ALL_PATHS


@pytest.mark.soak
def test_path_that_ends_before_the_code_runs_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_too_long(_: object) -> None:
        raise PathTimeout

    monkeypatch.setattr("quilt_mcp.analysis.engine.crosshair.gen_args", take_too_long)
    explored = explore_calls(load("def f(x: int): return x"), budget=Budget(seconds=10, paths=3))
    assert explored.undecided == explored.paths > 0
    assert list(explored.causes.found) == [(None, "", "One path took too long.")]


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
    function = load_module(code, Policy()).__dict__["f"]  # the gate refuses it
    explore_calls(function, budget=Budget(seconds=60, paths=3))
    memos = function.__globals__["MEMOS"]
    kept = [one for memo in memos for value in memo.values() for one in (value if isinstance(value, list) else [value])]
    assert len(memos) > 2
    assert {type(one).__name__ for one in kept} <= {"A"}


def test_contracts_have_the_expected_fields() -> None:
    assert {"pre", "post", "raises"} <= set(Conditions.__dataclass_fields__)
    code = '''
def f(x: int) -> int:
    """
    pre: x > 0
    post: _ == __old__.x
    raises: KeyError
    """
    return x
'''
    contract = parse_contract(load(code))
    assert [clause.source for clause in contract.pre] == ["x > 0"]
    assert [clause.source for clause in contract.post] == ["_ == __old__.x"]
    assert (contract.raises, contract.problems) == ((KeyError,), [])
    (pre,) = contract.pre
    assert (pre.evaluate({"x": 1}), pre.evaluate({"x": 0})) == (True, False)


def test_arguments_are_created_and_become_concrete() -> None:
    function = load("def f(x: int, s: str, *, k: bool):\n    if x == 77 and s == 'abc' and k: raise KeyError")
    found = explore_calls(function, raises(KeyError))
    assert found.end is End.STOPPED
    assert found.arguments is not None
    assert found.arguments.arguments == {"x": 77, "s": "abc", "k": True}
    assert [type(value) for value in found.arguments.arguments.values()] == [int, str, bool]


@pytest.mark.soak
def test_all_paths_differ_from_some_paths() -> None:
    straight = explore_calls(load("def f(x: int):\n    return x if x > 3 else 0"))
    assert (straight.end, straight.paths, straight.decided) == (End.ALL_PATHS, 2, 2)
    loop = load("def f(x: int):\n    while x > 0: x -= 1")
    assert explore_calls(loop, budget=Budget(seconds=10, paths=3)).end is End.PATHS
    assert explore_calls(loop, budget=Budget(seconds=0.3, paths=10**6)).end is End.TIME  # it has no end


@pytest.mark.soak
def test_path_that_crosshair_gives_up_is_undecided() -> None:
    signature = resolve_types(load("def f(x: int): pass"))
    assert signature is not None

    def gives_up(run: Run, arguments: BoundArguments) -> Judgement:
        raise Undecided

    assert explore(gives_up, signature, ENOUGH).end is End.UNDECIDED


@pytest.mark.soak
def test_concrete_run_overrides_symbolic_run() -> None:
    signature = resolve_types(load("def f(x: int): pass"))
    assert signature is not None

    def differs(run: Run, arguments: BoundArguments) -> Judgement:
        return Judgement("symbolic" if run.symbolic else "concrete")

    def stops_only_symbolically(run: Run, arguments: BoundArguments) -> Judgement:
        return Judgement("wanted", stop=run.symbolic)

    assert explore(differs, signature, ENOUGH).end is End.UNDECIDED
    assert explore(stops_only_symbolically, signature, ENOUGH).end is not End.STOPPED


@pytest.mark.soak
def test_boundary_values_are_tried_before_a_claim() -> None:
    found = explore_calls(load("def f(x: int):\n    return float(x)"), raises(OverflowError))
    assert found.end is End.STOPPED
    unseen = explore_calls(load("def f(x: int):\n    return float(x)"), raises(KeyError))
    assert unseen.end is End.UNDECIDED


def test_change_of_state_ends_the_exploration() -> None:
    counts: Counter[str] = Counter()

    def state() -> int:
        counts["asked"] += 1
        return counts["asked"]

    assert explore_calls(load("def f(x: int): return x"), watch=Watch(state=state)).end is End.UNSTABLE


def test_arguments_satisfy_invariants() -> None:
    code = '''
from dataclasses import dataclass
@dataclass
class Point:
    """inv: self.x > 0"""
    x: int
def f(p: Point):
    if p.x <= 0: raise KeyError
'''
    assert explore_calls(load(code), raises(KeyError)).end is End.ALL_PATHS


@pytest.mark.soak
@pytest.mark.parametrize(
    "code",
    [
        "def f(x: int): return x ** 3",
        "def f(xs: list[int]): return sorted(xs)",
        "from decimal import Decimal\ndef f(x: Decimal): return x + 1",
        "from datetime import date\ndef f(x: date): return x.year",
        "import re\ndef f(s: str): return re.match('a+', s)",
    ],
)
def test_models_of_library_types_are_registered(code: str) -> None:
    assert explore_calls(load(code), budget=Budget(seconds=30, paths=5)).decided


def test_annotation_that_is_not_a_type_is_refused() -> None:
    assert resolve_types(load("def f(x: 'nothing'): return x")) is None
    with pytest.raises(NoArguments):
        explore_calls(load("def f(x: 5): return x"))

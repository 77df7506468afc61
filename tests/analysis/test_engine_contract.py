"""What the adapter expects of CrossHair. These fail when an upgrade changes it, before any answer becomes wrong."""

import inspect
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from inspect import BoundArguments
from types import FunctionType
from typing import Any

import pytest
from crosshair import core, options
from crosshair.condition_parser import Conditions
from crosshair.util import ControlFlowException, NotDeterministic

from quilt_mcp.analysis import engine, gate
from quilt_mcp.analysis.exploration import (
    Budget,
    End,
    Exploration,
    Judgement,
    NoArguments,
    Raised,
    Returned,
    Run,
    Undecided,
)
from quilt_mcp.analysis.facade import load_module
from quilt_mcp.analysis.policy import Policy

# CrossHair looks at all subclasses of a type, among them deprecated ones of the standard library
pytestmark = pytest.mark.filterwarnings("ignore")
ENOUGH = Budget(seconds=5, paths=50)


def loaded(code: str) -> FunctionType:
    """The function `f` of code that is this file's own, loaded as the sandbox does it."""
    module = load_module(gate.admit(code, Policy()).source, Policy())
    function = module.__dict__["f"]
    assert isinstance(function, FunctionType)
    return function


def explored(
    function: FunctionType,
    stop: Callable[[Returned | Raised], bool] = lambda _: False,
    budget: Budget = ENOUGH,
    **options_: Any,
) -> Exploration:
    signature = engine.signature_of(function)
    assert signature is not None

    def program(run: Run, arguments: BoundArguments) -> Judgement:
        outcome = run.call(function, *arguments.args, **arguments.kwargs)
        return Judgement(type(outcome).__name__, stop=stop(outcome))

    return engine.explore(program, signature, budget, **options_)


def raises(error: type[Exception]) -> Callable[[Returned | Raised], bool]:
    return lambda outcome: isinstance(outcome, Raised) and isinstance(outcome.error, error)


def test_the_versions_are_those_that_were_examined() -> None:
    assert (version("crosshair-tool"), version("z3-solver")) == ("0.0.112", "5.3.1.0")


def test_the_loop_takes_and_gives_what_the_adapter_relies_on() -> None:
    parameters = list(inspect.signature(core.explore_loop).parameters)
    assert parameters == ["options", "search_root", "run_path", "stop_on_refutation"]
    assert set(core.ExplorationResult.__dataclass_fields__) == {"top_analysis", "exhausted", "iterations"}
    assert set(core.PathOutcome.__dataclass_fields__) == {"analysis", "breakout"}
    wanted = {"per_condition_timeout", "per_path_timeout", "max_iterations", "stats", "analysis_kind", "enabled"}
    assert wanted <= set(options.AnalysisOptionSet.__dataclass_fields__)


def test_control_flow_is_out_of_reach_of_except_exception() -> None:
    assert not issubclass(ControlFlowException, Exception)
    assert issubclass(NotDeterministic, Exception)


def test_contracts_have_the_fields_that_are_read() -> None:
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
    contract = engine.contract_of(loaded(code))
    assert [clause.source for clause in contract.pre] == ["x > 0"]
    assert [clause.source for clause in contract.post] == ["_ == __old__.x"]
    assert (contract.raises, contract.problems) == ((KeyError,), [])
    (pre,) = contract.pre
    assert (pre.evaluate({"x": 1}), pre.evaluate({"x": 0})) == (True, False)


def test_arguments_are_made_up_and_become_concrete() -> None:
    function = loaded("def f(x: int, s: str, *, k: bool):\n    if x == 77 and s == 'abc' and k: raise KeyError")
    found = explored(function, raises(KeyError))
    assert found.end is End.STOPPED
    assert found.arguments is not None
    assert found.arguments.arguments == {"x": 77, "s": "abc", "k": True}
    assert [type(value) for value in found.arguments.arguments.values()] == [int, str, bool]


def test_all_paths_are_told_from_some_paths() -> None:
    straight = explored(loaded("def f(x: int):\n    return x if x > 3 else 0"))
    assert (straight.end, straight.paths, straight.decided) == (End.ALL_PATHS, 2, 2)
    loop = loaded("def f(x: int):\n    while x > 0: x -= 1")
    assert explored(loop, budget=Budget(seconds=60, paths=3)).end is End.PATHS
    assert explored(loop, budget=Budget(seconds=0.3, paths=10**6)).end is End.TIME


def test_what_the_engine_cannot_follow_is_not_decided() -> None:
    signature = engine.signature_of(loaded("def f(x: int): pass"))
    assert signature is not None

    def gives_up(run: Run, arguments: BoundArguments) -> Judgement:
        raise Undecided

    assert engine.explore(gives_up, signature, ENOUGH).end is End.UNDECIDED


def test_the_concrete_run_has_the_last_word() -> None:
    signature = engine.signature_of(loaded("def f(x: int): pass"))
    assert signature is not None

    def differs(run: Run, arguments: BoundArguments) -> Judgement:
        return Judgement("symbolic" if run.symbolic else "concrete")

    def stops_only_symbolically(run: Run, arguments: BoundArguments) -> Judgement:
        return Judgement("wanted", stop=run.symbolic)

    assert engine.explore(differs, signature, ENOUGH).end is End.UNDECIDED
    assert engine.explore(stops_only_symbolically, signature, ENOUGH).end is not End.STOPPED


def test_what_large_numbers_show_is_not_claimed_away() -> None:
    found = explored(loaded("def f(x: int):\n    return float(x)"), raises(OverflowError))
    assert found.end is End.STOPPED
    unseen = explored(loaded("def f(x: int):\n    return float(x)"), raises(KeyError))
    assert unseen.end is End.UNDECIDED


def test_a_change_of_state_ends_the_exploration() -> None:
    counts: Counter[str] = Counter()

    def state() -> int:
        counts["asked"] += 1
        return counts["asked"]

    assert explored(loaded("def f(x: int): return x"), state=state).end is End.UNSTABLE


def test_invariants_hold_for_the_arguments() -> None:
    code = '''
from dataclasses import dataclass
@dataclass
class Point:
    """inv: self.x > 0"""
    x: int
def f(p: Point):
    if p.x <= 0: raise KeyError
'''
    assert explored(loaded(code), raises(KeyError)).end is End.ALL_PATHS


@pytest.mark.parametrize(
    "code",
    [
        "def f(x: int): return x ** 3",
        "def f(s: str): return s.upper()",
        "def f(xs: list[int]): return sorted(xs)",
        "from decimal import Decimal\ndef f(x: Decimal): return x + 1",
        "from datetime import date\ndef f(x: date): return x.year",
        "import re\ndef f(s: str): return re.match('a+', s)",
    ],
)
def test_the_models_of_library_types_are_registered(code: str) -> None:
    assert explored(loaded(code), budget=Budget(seconds=10, paths=5)).decided


def test_an_annotation_that_is_no_type_is_refused() -> None:
    assert engine.signature_of(loaded("def f(x: 'nothing'): return x")) is None
    with pytest.raises(NoArguments):
        explored(loaded("def f(x: 5): return x"))

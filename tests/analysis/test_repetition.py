"""Results are repeated in a second process with another hash seed and time zone, and partial results survive."""

from typing import Any

import pytest

from quilt_mcp.analysis.engine.source_text import evaluate, write_exactly
from quilt_mcp.analysis.jail.runner import run_analysis
from quilt_mcp.analysis.messages import Answer
from quilt_mcp.analysis.processes import Surroundings
from quilt_mcp.analysis.sandbox import Chance, Sandbox
from tests.analysis.engine_runs import check, load
from tests.analysis.sandboxes import SETTINGS, ask, running

# CrossHair uses deprecated parts of the standard library
pytestmark = pytest.mark.filterwarnings("ignore")
# The time zone changes the result, and no rule of the analyser knows it
LOCAL = """
from datetime import datetime
def f(x: int) -> bool:
    '''post: _'''
    return datetime(2024, 1, 1).strftime("%s") == "1704067200"
"""
HOLDS = "def f(x: int) -> int:\n    '''post: _ > x'''\n    return x + 1\n"
BROKEN = "def f(x: int) -> int:\n    '''post: _ != 42'''\n    return x * 2\n"


async def test_verdict_is_repeated_in_a_second_process(sandbox: Sandbox) -> None:
    for code, status in ((HOLDS, "verified"), (BROKEN, "counterexample")):
        answer = await ask(sandbox, code, seconds=60)
        assert (answer["status"], answer["coverage"]["replayed"]) == (status, True)
        assert "records" not in answer


@pytest.mark.soak
@pytest.mark.parametrize("zone", ["UTC0", "AWAY5"], ids=["verified first", "refuted first"])
async def test_verdict_that_the_second_process_does_not_share_is_withdrawn(zone: str) -> None:
    other = {"UTC0": "AWAY5", "AWAY5": "UTC0"}[zone]
    sandbox = Sandbox(SETTINGS, chance=Chance(Surroundings(1, zone), Surroundings(2, other)))
    try:
        answer = await ask(sandbox, LOCAL, seconds=60)
    finally:
        await sandbox.close()
    assert (answer["status"], answer["counterexamples"]) == ("unknown", [])
    assert answer["coverage"]["replayed"] is False
    assert "time zone" in answer["message"]
    assert "confirmed_by_replay" not in answer


@pytest.mark.soak
@pytest.mark.parametrize("tool", ["find_path_to_exception", "compare_functions", "analyze_branches"])
async def test_claims_of_the_other_tools_are_withdrawn_too(tool: str) -> None:
    code = LOCAL.replace("'''post: _'''", "pass") + (
        "def g(x: int) -> int:\n    if f(x):\n        return 1\n    raise KeyError\ndef h(x: int) -> int: return 1\n"
    )
    names = {"function_a": "g", "function_b": "h"} if tool == "compare_functions" else {"function_name": "g"}
    more: dict[str, Any] = {"exception_type": "KeyError", "symbolic_reachability": True}
    async with running() as sandbox:
        answer = await ask(sandbox, code, seconds=60, tool=tool, **names, **more)
    assert answer["status"] in {"not_found", "unknown", "partial"}
    assert answer["coverage"]["replayed"] is False
    assert not any(False in (one["true_reachable"], one["false_reachable"]) for one in answer.get("branches", []))


@pytest.mark.soak
async def test_partial_result_survives_the_kill() -> None:
    code = "def f(x: int) -> int:\n    '''post: True'''\n    return sum(range(x))\n"
    async with running() as sandbox:
        answer = await ask(sandbox, code, seconds=10)
    assert answer["status"] in {"timeout", "unknown"}
    assert answer["coverage"]["concrete_runs"] > 0
    assert answer["coverage_estimate"] is None


@pytest.mark.soak
def test_progress_is_reported_between_the_parts() -> None:
    reports: list[Answer] = []
    loaded = load("def f(x: int) -> int:\n    '''post: True'''\n    while x > 0: x -= 1\n    return x", reports)
    run_analysis({"tool": "symbolic_check", "code": "", "function_name": "f"}, loaded, seconds=10, path_limit=20)
    runs = [one["coverage"]["concrete_runs"] for one in reports]  # type: ignore[index] # a partial answer
    assert runs == sorted(runs)
    assert runs[0] == 0 < runs[-1]


@pytest.mark.soak
def test_coverage_does_not_estimate_the_share_of_an_endless_set() -> None:
    endless = check("def f(x: int) -> int:\n    '''post: True'''\n    while x > 0: x -= 1\n    return x", seconds=10)
    assert endless["coverage_estimate"] is None
    assert endless["coverage"]["all_paths"] is False
    assert endless["coverage"]["paths"] == endless["paths_explored"] > 0
    assert check(HOLDS)["coverage_estimate"] == 1.0


CODE = """
import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
class C(Enum):
    A = "a"
class F(Flag):
    X = 1
    Y = 2
@dataclass(frozen=True)
class P:
    x: int
    inner: object = None
class S:
    def __init__(self, x: int): self.x = x
    def __repr__(self): return f"S({self.x})"
class T:
    def __init__(self, x: int): self.y = x + 1
"""


VALUES = [
    *("None", "True", "-(1 << 900)", "0.1", "-0.0", "math.inf", "math.nan", "1.5j", "'a\\ud800'", "b'\\xff'"),
    *("[1, [2]]", "(1, 'a')", "{1, 2}", "frozenset({1})", "{'a': [1]}", "range(1, 9, 2)", "iter([1, 2])"),
    *("Decimal('1.10')", "Fraction(1, 3)", "date(2024, 2, 29)", "time(1, 2, fold=1)", "timedelta(-1, 5)"),
    *("datetime(2024, 1, 1, tzinfo=timezone.utc)", "C.A", "F.X | F.Y", "F(0)", "P(1, P(2))", "S(3)"),
]


@pytest.mark.parametrize("value", VALUES)
def test_argument_is_the_same_in_another_process(value: str) -> None:
    names = load(CODE).names
    text = write_exactly(eval(value, dict(names)), names)  # noqa: S307 - values of this file
    again = load(CODE).names
    assert text is not None
    assert write_exactly(evaluate(text, again), again) == text


@pytest.mark.parametrize("value", ["(x for x in [])", "T(3)", "[lambda: 1]"])
def test_values_without_source_text_cannot_be_repeated(value: str) -> None:
    names = load(CODE).names
    assert write_exactly(eval(value, dict(names)), names) is None  # noqa: S307 - values of this file

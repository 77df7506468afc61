"""Counterexamples are simple: small numbers, short texts and containers, and still counterexamples."""

import pytest

from tests.analysis.engine_runs import check, compare, search

pytestmark = pytest.mark.filterwarnings("ignore")  # CrossHair uses deprecated parts of the standard library


@pytest.mark.parametrize(
    ("annotation", "condition", "call"),
    [
        ("int", "x > 100", "f(101)"),
        ("int", "x < -5", "f(-6)"),
        ("int", "x >= 2 ** 70", "f(1180591620717411303424)"),
        ("float", "x > 0.3", "f(0.5)"),
        ("str", "'b' in x", "f('b')"),
        ("bytes", "len(x) > 1", "f(b'ab')"),
        ("list[int]", "len(x) > 1 and x[0] > x[1]", "f([0, -1])"),
        ("set[int]", "len(x) > 1", "f({0, 1})"),
        ("dict[str, int]", "'k' in x and x['k'] > 3", "f({'k': 4})"),
        ("tuple[int, str]", "x[0] == 7", "f((7, ''))"),
        ("int | None", "x is None or x > 3", "f(None)"),
        ("list[tuple[int, ...]]", "any(one and one[0] > 4 for one in x)", "f([(5,)])"),
        ("Point", "x.x != x.y", "f(Point(x=1, y=0))"),
        ("Age", "x > 10", "f(11)"),
        ("Exception", "isinstance(x, Exception)", "f(Exception())"),
    ],
)
def test_counterexample_is_simple(annotation: str, condition: str, call: str) -> None:
    code = f"""
from dataclasses import dataclass
from typing import NewType
@dataclass
class Point:
    x: int
    y: int
Age = NewType("Age", int)
def f(x: {annotation}) -> None:
    if {condition}: raise KeyError
"""
    (found,) = search(code, "KeyError")["triggering_inputs"]
    assert found["call"] == call


def test_simple_arguments_meet_the_preconditions() -> None:
    code = "def f(x: int, y: int) -> int:\n    'pre: x > 1000 and y > x\\npost: False'\n    return x\n"
    arguments = check(code.replace("'", '"""').replace("\\n", "\n    "))["counterexamples"][0]["args"]
    assert 1000 < arguments["x"] < arguments["y"] < 2000


def test_simple_arguments_still_distinguish() -> None:
    code = "def a(xs: list[int]): return max(xs, default=0)\ndef b(xs: list[int]): return max(xs[:2], default=0)\n"
    answer = compare(code)
    assert answer["distinguishing_input"]["call"] == "a([0, 0, 1])"

"""Counterexamples are simple: small numbers, short texts and containers, and still counterexamples."""

from decimal import Underflow
from inspect import signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.analysis.engine.concrete import simplify
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


@given(st.lists(st.one_of(st.integers(), st.integers(min_value=2**60)), max_size=6), st.integers(0, 5))
def test_simple_arguments_have_the_same_judgement_and_type(values: list[int], modulus: int) -> None:
    def f(xs: list[int]) -> None: ...

    def keeps(arguments: Any) -> bool:
        return bool(sum(arguments.arguments["xs"]) % (modulus + 2) == sum(values) % (modulus + 2))

    simple = simplify(signature(f, eval_str=True).bind(values), keeps).arguments["xs"]
    assert sum(simple) % (modulus + 2) == sum(values) % (modulus + 2)
    assert len(simple) <= len(values)
    assert sum(map(abs, simple)) <= sum(map(abs, values))
    assert all(type(one) is int for one in simple)


@pytest.mark.parametrize(
    ("found", "needed", "simple"),
    [
        (Underflow(), Exception, Exception),
        (KeyError("a"), Exception, Exception),
        (KeyError("a"), LookupError, KeyError),
        (Exception("a"), Exception, Exception),
    ],
)
def test_exception_becomes_one_of_its_annotation(
    found: Exception, needed: type[Exception], simple: type[Exception]
) -> None:
    def f(error: Exception) -> None: ...

    bound = signature(f, eval_str=True).bind(found)
    kept = simplify(bound, lambda one: isinstance(one.arguments["error"], needed))
    assert type(kept.arguments["error"]) is simple


def test_code_that_counts_its_calls_keeps_the_found_arguments() -> None:
    code = "seen: list[int] = []\ndef f(x: int) -> None:\n    if x == 12345: raise KeyError\n    seen.append(x)\n"
    assert search(code, "KeyError")["status"] == "not_found"

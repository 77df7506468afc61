"""Properties of answers about generated integer functions: Python reproduces counterexamples, and a small search finds
none that the analysis has missed."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.engine_runs import analyse

SMALL = range(-6, 7)
SHORT: dict[str, Any] = {"seconds": 1.0, "paths": 30}  # any claim must hold
EACH = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
EXAMPLES = pytest.mark.parametrize("examples", [15, pytest.param(60, marks=pytest.mark.soak)])
IGNORED = pytest.mark.filterwarnings("ignore")  # CrossHair uses deprecated parts of the standard library

numbers = st.integers(-20, 20).map(str)
names = st.sampled_from(["x", "y"])


def _extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "//", "%"])
    comparisons = st.sampled_from(["<", "<=", "==", "!="])
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, inner, comparisons, inner, inner).map(
            lambda parts: f"({parts[0]} if {parts[1]} {parts[2]} {parts[3]} else {parts[4]})"
        ),
    )


expressions = st.recursive(st.one_of(numbers, names), _extend, max_leaves=6)
postconditions = st.tuples(st.sampled_from(["!=", "<", ">="]), st.one_of(numbers, names)).map(" ".join)
programs = st.tuples(expressions, postconditions).map(
    lambda parts: f'def f(x: int, y: int) -> int:\n    """post: _ {parts[1]}"""\n    return {parts[0]}\n'
)


def satisfies(code: str, x: int, y: int) -> bool:
    """Run the generated function and its postcondition, and return whether it holds."""
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - arithmetic of the generator
    try:
        result = names["f"](x, y)
    except ZeroDivisionError:
        return False
    post = code.split('"""')[1].removeprefix("post: ")
    return bool(eval(post, {"x": x, "y": y, "_": result}))  # noqa: S307 - arithmetic of the generator


def check_claim(code: str) -> None:
    answer = analyse({"tool": "symbolic_check", "code": code, "function_name": "f"}, **SHORT)
    if answer["status"] == "counterexample":
        (found,) = answer["counterexamples"]
        assert not satisfies(code, **{name: int(one) for name, one in found["args"].items()})
    elif answer["status"] == "verified":
        assert all(satisfies(code, x, y) for x in SMALL for y in SMALL)
    else:
        assert answer["status"] in {"timeout", "unknown"}


@IGNORED
@EXAMPLES
def test_counterexamples_reproduce_and_verified_functions_have_none(examples: int) -> None:
    settings(EACH, max_examples=examples)(given(programs)(check_claim))()


def check_comparison(left: str, right: str) -> None:
    code = f"def a(x: int, y: int):\n    return {left}\ndef b(x: int, y: int):\n    return {right}\n"
    answer = analyse({"tool": "compare_functions", "code": code, "function_a": "a", "function_b": "b"}, **SHORT)
    functions: dict[str, Any] = {}
    exec(code, functions)  # noqa: S102 - arithmetic of the generator

    def agree(x: int, y: int) -> bool:
        outcomes = []
        for name in ("a", "b"):
            try:
                outcomes.append(functions[name](x, y))
            except ZeroDivisionError:
                outcomes.append("division")
        return bool(outcomes[0] == outcomes[1])

    if answer["status"] == "different":
        found = answer["distinguishing_input"]["args"]
        assert not agree(**{name: int(one) for name, one in found.items()})  # large ones are texts
    elif answer["status"] == "equivalent":
        assert all(agree(x, y) for x in SMALL for y in SMALL)
    else:
        assert answer["status"] in {"timeout", "unknown"}


@IGNORED
@EXAMPLES
def test_equivalent_functions_agree_and_different_functions_differ(examples: int) -> None:
    settings(EACH, max_examples=examples)(given(expressions, expressions)(check_comparison))()

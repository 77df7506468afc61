"""Property: a counterexample for a pure integer function reproduces when the function is run, and none is missed that a
small search finds."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quilt_mcp.analysis import analyses, gate
from quilt_mcp.analysis.facade import load_module
from quilt_mcp.analysis.loaded import Loaded
from quilt_mcp.analysis.policy import Policy

POLICY = Policy(coverage_threshold=30)
SMALL = range(-6, 7)

numbers = st.integers(-20, 20).map(str)
names = st.sampled_from(["x", "y"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "//", "%"])
    comparisons = st.sampled_from(["<", "<=", "==", "!="])
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, inner, comparisons, inner, inner).map(
            lambda parts: f"({parts[0]} if {parts[1]} {parts[2]} {parts[3]} else {parts[4]})"
        ),
    )


expressions = st.recursive(st.one_of(numbers, names), _grown, max_leaves=6)
postconditions = st.tuples(st.sampled_from(["!=", "<", ">="]), st.one_of(numbers, names)).map(" ".join)
programs = st.tuples(expressions, postconditions).map(
    lambda parts: f'def f(x: int, y: int) -> int:\n    """post: _ {parts[1]}"""\n    return {parts[0]}\n'
)


def analysed(code: str, tool: str, **parameters: Any) -> dict[str, Any]:
    admitted = gate.admit(code, POLICY)
    module = load_module(admitted.source, POLICY)
    loaded = Loaded(module, admitted.source, admitted.tree, lambda _: None)
    return analyses.run({"tool": tool, "code": code, "timeout_seconds": 1.0, **parameters}, loaded, POLICY)


def keeps(code: str, x: int, y: int) -> bool:
    """Whether the generated function keeps its postcondition, by running both."""
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the generator's own arithmetic
    try:
        result = names["f"](x, y)
    except ZeroDivisionError:
        return False
    post = code.split('"""')[1].removeprefix("post: ")
    return bool(eval(post, {"x": x, "y": y, "_": result}))  # noqa: S307 - the same


@pytest.mark.filterwarnings("ignore")  # CrossHair looks at deprecated parts of the library
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
def test_a_counterexample_reproduces_and_verified_has_none(code: str) -> None:
    answer = analysed(code, "symbolic_check", function_name="f")
    if answer["status"] == "counterexample":
        (found,) = answer["counterexamples"]
        assert not keeps(code, **found["args"])
    elif answer["status"] == "verified":
        assert all(keeps(code, x, y) for x in SMALL for y in SMALL)
    else:
        assert answer["status"] in {"timeout", "unknown"}


@pytest.mark.filterwarnings("ignore")  # as above
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(expressions, expressions)
def test_what_is_called_equivalent_agrees_and_what_is_called_different_differs(left: str, right: str) -> None:
    code = f"def a(x: int, y: int):\n    return {left}\ndef b(x: int, y: int):\n    return {right}\n"
    answer = analysed(code, "compare_functions", function_a="a", function_b="b")
    functions: dict[str, Any] = {}
    exec(code, functions)  # noqa: S102 - the generator's own arithmetic

    def agree(x: int, y: int) -> bool:
        outcomes = []
        for name in ("a", "b"):
            try:
                outcomes.append(functions[name](x, y))
            except ZeroDivisionError:
                outcomes.append("division")
        return bool(outcomes[0] == outcomes[1])

    if answer["status"] == "different":
        assert not agree(**answer["distinguishing_input"]["args"])
    elif answer["status"] == "equivalent":
        assert all(agree(x, y) for x in SMALL for y in SMALL)
    else:
        assert answer["status"] in {"timeout", "unknown"}

"""A contract can consist of any of its parts: preconditions, postconditions, exceptions, invariants and asserts."""

from itertools import product
from textwrap import indent

import pytest

from tests.analysis.engine_runs import analyse

pytestmark = pytest.mark.filterwarnings("ignore")  # CrossHair uses deprecated parts of the standard library
PARTS = ("pre", "post", "raises", "inv", "assert")
LINES = {"pre": "pre: x > 0", "post": "post: _ != 5", "raises": "raises: KeyError"}
VALUES = range(-60, 130)


def write(parts: frozenset[str], *, is_method: bool) -> str:
    lines = [line for part, line in LINES.items() if part in parts]
    doc = ["'''", *lines, "'''"] if lines else []
    checks = ["assert x < 100"] if "assert" in parts else []
    leaves = ["self.n -= x"] if is_method else []
    body = indent("\n".join([*doc, *checks, "if x == 7:", "    raise KeyError(x)", *leaves, "return x"]), "    ")
    if not is_method:
        return f"def f(x: int) -> int:\n{body}\n"
    invariant = "    '''\n    inv: self.n > -50\n    '''\n" if "inv" in parts else ""
    start = f"class C:\n{invariant}    def __init__(self, n: int) -> None:\n        self.n = n\n\n"
    return start + indent(f"def f(self, x: int) -> int:\n{body}\n", "    ")


def find_violations(parts: frozenset[str], *, is_method: bool) -> set[str]:
    """Return how calls violate the contract, by brute force."""
    has_lines = bool(parts & LINES.keys())
    found = set[str]()
    if not parts:
        return found
    for x, n in product(VALUES, VALUES if is_method else [0]):
        is_met = x > 0 if "pre" in parts else True
        if "inv" in parts:
            is_met = is_met and n > -50
        if "assert" in parts and x >= 100:
            found |= {"raises AssertionError"} if has_lines and is_met else set()
        elif is_met and x == 7:
            found |= {"raises KeyError"} - ({"raises KeyError"} if "raises" in parts else set())
        elif is_met and "inv" in parts and n - x <= -50:
            found.add("inv: self.n > -50 does not hold after the call")
        elif is_met and x == 5 and "post" in parts:
            found.add("post: _ != 5 does not hold")
    return found


ALL = [
    frozenset(part for part, there in zip(PARTS, chosen, strict=True) if there) for chosen in product([0, 1], repeat=5)
]


@pytest.mark.parametrize("is_method", [False, True], ids=["function", "method"])
def test_each_combination_of_parts_is_a_contract(*, is_method: bool) -> None:
    combinations = [parts for parts in ALL if is_method or "inv" not in parts]
    wrong = {}
    for parts in combinations:
        name = "C.f" if is_method else "f"
        answer = analyse({"tool": "symbolic_check", "code": write(parts, is_method=is_method), "function_name": name})
        violations = find_violations(parts, is_method=is_method)
        told = {one["violation"] for one in answer.get("counterexamples", [])}
        expected = "counterexample" if violations else "verified" if parts else "error"
        if answer["status"] != expected or not told <= violations or bool(told) != bool(violations):
            wrong[tuple(parts)] = answer
    assert len(combinations) == (32 if is_method else 16)
    assert wrong == {}

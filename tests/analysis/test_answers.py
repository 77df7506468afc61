"""What the answers show: the example that says most, arguments as JSON, and calls that can be pasted."""

from typing import Any

import pytest

from quilt_mcp.analysis.results import describe_meaning
from quilt_mcp.analysis.sandbox import Sandbox
from tests.analysis.engine_runs import analyse, check, compare
from tests.analysis.programs import OPEN
from tests.analysis.sandboxes import ask

SHIPPING = """
def f(total: int, country: str) -> int:
    cost = 0 if total > 100 else 10
    while cost > 9:
        cost -= 5 if country == "US" else 3
    return cost
"""


def explore(code: str) -> dict[str, Any]:
    return analyse(
        {"tool": "analyze_branches", "code": code, "function_name": "f", "symbolic_reachability": True}, seconds=20
    )


def test_branches_are_complete_as_soon_as_every_outcome_has_an_example() -> None:
    answer = explore(SHIPPING)
    assert answer["status"] == "complete"
    assert all(one["true_example"] and one["false_example"] for one in answer["branches"])
    assert answer["time_seconds"] < 10  # `while` has paths without end: the search alone would take 15 seconds
    assert "message" not in answer


def test_branches_with_an_outcome_that_no_call_reaches_are_explored_to_the_end() -> None:
    answer = explore("def f(x: int) -> int:\n    return 1 if x * x < 0 else 2\n")
    assert (answer["status"], answer["coverage"]["all_paths"]) == ("complete", True)
    assert answer["branches"][0]["true_reachable"] is False


def test_a_function_without_branches_is_complete_at_once() -> None:
    answer = explore("def f(x: int) -> int:\n    return x\n")
    assert (answer["status"], answer["total_branches"], answer["coverage"]["all_paths"]) == ("complete", 0, False)


HALF = '''
def f(total: int) -> int:
    """
    pre: total >= 0
    post: _ + _ >= total
    """
    return total - int(total / 2)
'''


def test_a_violated_postcondition_comes_before_an_overflow_of_a_huge_number() -> None:
    answer = check(HALF)
    [found] = answer["counterexamples"]
    assert found["violation"].startswith("post:")
    assert len(found["call"]) < 40


def test_an_overflow_is_reported_if_no_postcondition_is_violated() -> None:
    code = 'def f(x: int) -> float:\n    """post: True"""\n    return x / 2\n'
    answer = check(code, seconds=1)  # nothing else is found, so all of the time is used
    [found] = answer["counterexamples"]
    assert found["violation"] == "raises OverflowError"


LIMITED = 'def a(x: int) -> int:\n    """pre: x >= 0"""\n    return x\ndef b(x: int) -> int:\n    return abs(x)\n'


def test_functions_are_compared_for_arguments_that_meet_the_preconditions() -> None:
    assert compare(LIMITED)["status"] == "equivalent"
    assert compare(LIMITED.replace("x >= 0", "x >= -1"))["distinguishing_input"]["call"] == "a(-1)"
    of_both = LIMITED.replace("b(x: int) -> int:\n", "b(x: int) -> int:\n    'pre: __old__.x < 5'\n").replace(
        "abs(x)", "min(x, 4)"
    )
    assert compare(of_both)["status"] == "equivalent"


def test_functions_with_preconditions_that_are_never_met_are_not_compared() -> None:
    answer = compare(LIMITED.replace("x >= 0", "x != x"))
    assert (answer["status"], answer["error_type"]) == ("error", "PreconditionNeverMet")
    assert "Weaken" in answer["message"]


DOCUMENTED = """
class Empty(Exception): pass
def f(x: int) -> int:
    \"\"\"Return x.

    post: _ > 0

    Raises:
        ValueError: x is negative,
            or whatever: prose.
        Empty: x is 0.
        Unknown: never.

    Returns:
        KeyError: no exception, but prose.
    \"\"\"
    if x < 0:
        raise ValueError(x)
    if x == 0:
        raise Empty
    return 1
"""


def test_a_section_of_exceptions_beside_a_contract_declares_them() -> None:
    assert check(DOCUMENTED)["status"] == "verified"
    undeclared = check(DOCUMENTED.replace("raise Empty", "raise KeyError"))
    assert undeclared["counterexamples"][0]["violation"] == "raises KeyError"


def test_a_section_of_exceptions_alone_makes_a_function_without_contract() -> None:
    answer = check(DOCUMENTED.replace("post: _ > 0", ""))
    assert answer["error_type"] == "NoContract"


def test_a_call_can_be_pasted_beside_code_with_another_meaning_for_a_module() -> None:
    code = (
        'from datetime import datetime\ndef f(d: datetime) -> bool:\n    """post: _"""\n    return d.tzinfo is None\n'
    )
    call = check(code)["counterexamples"][0]["call"]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - the code above
    assert eval(call, names) is False  # noqa: S307 - a call of it


SUMS = '''
def f(xs: list[int]) -> int:
    """
    pre: all(x >= 0 for x in xs)
    post: _ >= 0
    """
    total = 0
    for x in xs:
        total += x
        if total == -5:
            return -1
    return total
'''


def test_an_undecided_answer_says_what_is_known() -> None:
    answer = check(SUMS, seconds=6)
    coverage = answer["coverage"]
    assert answer["status"] in OPEN
    assert coverage["lines_not_reached"] == [11]
    assert coverage["all_paths_up_to_length"] >= 1
    meaning = describe_meaning(answer)
    assert f"{coverage['concrete_runs']} runs" in meaning
    assert "not reached: line 11" in meaning
    assert f"up to length {coverage['all_paths_up_to_length']}" in meaning


SHORTEST = '''
def f(xs: list[int]) -> int:
    """
    pre: len(xs) > 0
    post: _ >= 0
    """
    best = 0
    for i in range(len(xs)):
        for j in range(i, len(xs)):
            best = max(best, sum(xs[i : j + 1]))
    return best if best else max(xs)
'''


def test_a_violation_by_the_shortest_list_is_found_at_once() -> None:
    assert check(SHORTEST)["counterexamples"][0]["call"] == "f([-1])"


DIFFERENT = """
def a(x: int) -> int | None:
    if x == 5: raise KeyError
    return None if x < 0 else x
def b(x: int) -> int:
    return x if x != 7 else 8
"""


def test_a_difference_says_for_how_many_arguments_and_shows_other_kinds() -> None:
    answer = compare(DIFFERENT)
    assert 0 < answer["arguments_with_difference"] < answer["arguments_tried"]
    examples = [answer["distinguishing_input"], *answer["further_examples"]]
    assert {one["actual_result"].split(";")[0] for one in examples} >= {"a raises KeyError", "a returns None"}
    assert len(examples) == 3
    assert f"{answer['arguments_with_difference']} of {answer['arguments_tried']}" in describe_meaning(answer)


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        ({"status": "verified"}, "The function keeps its contract for all arguments."),
        ({"status": "error", "error_type": "Busy", "message": "…"}, "Nothing is known about the code"),
        ({"status": "different", "distinguishing_input": {"call": "f(" + "1" * 500 + ")"}}, "the call in `call`"),
        ({"status": "timeout"}, "Nothing is proven, and nothing was found: 0 runs and 0 paths."),
        ({"status": "complete", "branches": [], "analysis_mode": "static"}, "no call was tried"),
    ],
)
def test_meaning_of_an_answer(answer: dict[str, Any], meaning: str) -> None:
    assert meaning in describe_meaning(answer)


RAISING = """
def f(xs: list[int], s: str) -> float:
    if s == "boom":
        raise RuntimeError(s)
    return 1 / xs[0]
"""


def test_without_a_class_each_kind_of_exception_has_an_example() -> None:
    answer = analyse({"tool": "find_path_to_exception", "code": RAISING, "function_name": "f"}, seconds=10)
    kinds = {one["violation"]: one["call"] for one in answer["triggering_inputs"]}
    assert kinds.keys() >= {"raises IndexError", "raises ZeroDivisionError", "raises RuntimeError"}
    assert kinds["raises ZeroDivisionError"] == "f([0], '')"
    assert answer["paths_to_exception"] == len(kinds)
    nothing = analyse({"tool": "find_path_to_exception", "code": CALM, "function_name": "f"})
    assert (nothing["status"], nothing["triggering_inputs"]) == ("unreachable", [])


CALM = "def f(x: int) -> int:\n    return x\n"
ANYTHING = """
import os, asyncio
class C(metaclass=M):
    async def f(self, x):
        async with x as y:
            async for z in y:
                if z: return 1
        try:
            pass
        except* ValueError:
            if x > 3: pass
        return getattr(x, y)
        print(1)
"""


async def test_branches_that_are_only_read_need_no_code_that_runs(sandbox: Sandbox) -> None:
    answer = await ask(sandbox, ANYTHING, seconds=10, tool="analyze_branches", function_name="C.f")
    assert [(one["line"], one["condition"]) for one in answer["branches"]] == [(7, "z"), (11, "x > 3")]
    assert (answer["dead_code_lines"], answer["cyclomatic_complexity"]) == ([13], 5)
    unknown = await ask(sandbox, ANYTHING, seconds=10, tool="analyze_branches", function_name="g")
    assert unknown["error_type"] == "FunctionNotFound"
    cut = await ask(sandbox, "def f(:", seconds=10, tool="analyze_branches")
    assert (cut["error_type"], cut["rule"]) == ("Refused", "syntax")


CART = '''
from dataclasses import dataclass
@dataclass
class Item:
    price_cents: int
    count: int
def f(items: list[Item], discount_percent: int) -> int:
    """
    pre: 0 <= discount_percent <= 100 and all(one.price_cents >= 0 and one.count > 0 for one in items)
    post: _ * 100 <= sum(one.price_cents * one.count for one in items) * (100 - discount_percent)
    """
    total = 0.0
    for item in items:
        total += item.price_cents * item.count * (100 - discount_percent) / 100
    return round(total)
'''


def test_numbers_in_objects_of_a_list_are_small_enough_to_read() -> None:
    [found] = check(CART)["counterexamples"]
    assert found["violation"].startswith("post:")
    assert len(found["call"]) < 100

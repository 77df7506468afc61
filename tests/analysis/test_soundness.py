"""The tools' answers about programs with known results. Each runs in the sandbox, as for a client."""

import asyncio
import json
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from quilt_mcp.analysis.sandbox import Sandbox
from quilt_mcp.analysis.tools import register_analysis_tools
from tests.analysis.measurement import measure
from tests.analysis.pasted import check_form, run_pasted
from tests.analysis.programs import OPEN, PROGRAMS, Program
from tests.analysis.sandboxes import AppWithSandbox

ALL = [(tool, program) for tool, programs in PROGRAMS.items() for program in programs]


USE_ALL_OF_THEIR_TIME = {
    "NaN equals NaN",
    "a float of a product",
    "a set of tuples",
    "bytes are small numbers",
    "split at a comma and join",
    "unpacking with a limit",
}
"""Programs that `make test` leaves to `make soak`. It asks about one other that is not decided in time."""


NEED_CONCRETE_RUNS = {
    "a hashable can be added to one",
    "a negative length",
    "a quotient behind a remainder",
    "an f-string with a width",
    "an iterable has an order",
    "comparing a signalling decimal",
    "decimals have 28 digits",
    "multiplying by an inverse",
    "symmetric difference",
}
"""Programs with a violation that the solver does not find."""

STATE_THAT_NO_NAME_SHOWS = {
    "a keyword of a partial",
    "a list in an lru_cache",
    "a number of the shared generator when the module starts",
    "addresses below a list",
    "no seed in starred arguments",
    "take breaks the invariant",
}


def is_in_every_run(number: int, program: Program) -> bool:
    """Return whether `make test` asks about the program. `make soak` asks about all.

    Most of those whose answer can be undecided are left to it, because they may use all of their time.
    """
    if program.name in NEED_CONCRETE_RUNS | STATE_THAT_NO_NAME_SHOWS:
        return True
    if program.name in USE_ALL_OF_THEIR_TIME:
        return False
    return bool(program.expected) or not program.right & OPEN or number % 36 == 0


CASES = [
    pytest.param(
        *case, id=f"{case[0]}: {case[1].name}", marks=() if is_in_every_run(number, case[1]) else pytest.mark.soak
    )
    for number, case in enumerate(ALL)
]
# Analyses that can stay undecided may use all of their time. The others do not reach their time limits, nor does the
# solver its own on a path, except on a busy machine: then they get more time, once.
OPEN_SECONDS, SECONDS, MORE_SECONDS = 2, 20, 60
DECIDED = {"verified", "counterexample", "found", "unreachable", "equivalent", "different", "complete"}
Answer = dict[str, Any]


@pytest.fixture(scope="module")
def server(sandbox: Sandbox) -> FastMCP:
    """Return a server with the tools."""
    mcp: FastMCP = FastMCP("bare")
    register_analysis_tools(mcp, AppWithSandbox(sandbox))
    return mcp


async def ask(server: FastMCP, tool: str, program: Program) -> Answer:
    seconds = OPEN_SECONDS if program.right & OPEN else SECONDS
    arguments = {"code": program.code, "timeout_seconds": seconds, **program.arguments}
    async with Client(server) as client:
        result = await client.call_tool(tool, arguments)
        if (result.structured_content or {}).get("status") in OPEN - program.right:
            result = await client.call_tool(tool, arguments | {"timeout_seconds": MORE_SECONDS})
    answer = result.structured_content
    assert isinstance(answer, dict)
    return answer


def test_table_is_large_and_its_names_are_unique() -> None:
    names = [(tool, program.name) for tool, program in ALL]
    assert len(names) == len(set(names)) >= 400
    assert sum(is_in_every_run(number, program) for number, (_, program) in enumerate(ALL)) >= 75


@pytest.mark.parametrize(("tool", "program"), CASES)
async def test_answer_is_correct(tool: str, program: Program, server: FastMCP) -> None:
    answer = await ask(server, tool, program)
    right = program.right - OPEN if program.name in NEED_CONCRETE_RUNS else program.right
    assert answer["status"] in right, answer
    for key, value in program.expected.items():
        if key == "branches":
            found = [{part: branch[part] for part in row} for row, branch in zip(value, answer[key], strict=True)]
            assert found == value
        else:
            assert answer[key] == value
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    check_reason(answer)
    check_calls(tool, program, answer)
    if tool != "analyze_branches":
        check_pytests(program, answer)


def check_reason(answer: Answer) -> None:
    """Check that an undecided answer, and one without a test, says why, and that no field contradicts a claim."""
    assert answer["meaning"].endswith(".")
    if answer["status"] in {"verified", "unreachable", "equivalent"}:
        coverage = answer["coverage"]
        assert (coverage["all_paths"], coverage["undecided_paths"], coverage["replayed"]) == (True, 0, True)
        assert answer.get("paths_verified") in {None, answer.get("paths_explored")}
        assert answer.get("coverage_estimate", 1) == 1
    assert answer["status"] in DECIDED | OPEN | {"error"}
    is_complete = answer["status"] in DECIDED and all(one["test"] for one in answer.get("counterexamples", []))
    assert ("message" in answer) is not is_complete or "first call" in answer["message"]
    if answer["status"] in OPEN:
        assert answer["undecided"]
        assert answer["status"] == "timeout" or answer["coverage"]["concrete_runs"] + answer["coverage"]["paths"] > 0
    if answer["status"] == "error":
        assert answer["error_type"].isidentifier()
        assert answer["message"].count(".") >= 2 or "Choose" in answer["message"]  # what is wrong, and what to change


def check_calls(tool: str, program: Program, answer: Answer) -> None:
    """Check in plain Python that a triggering input raises, and that a distinguishing input distinguishes."""
    for call in _calls(tool, answer):
        names: dict[str, Any] = {}
        exec(program.code, names)  # noqa: S102 - a program in the table
        if tool == "find_path_to_exception":
            returned, outcome = _outcome(names, call)
            assert not returned
            assert issubclass(outcome, eval(program.arguments["exception_type"], names))  # noqa: S307 - from the table
            assert answer["confirmed_by_replay"]
        # the result of a call does not show the state of its arguments
        if tool == "compare_functions" and "states" not in answer["distinguishing_input"]["violation"]:
            left, right = _outcome(names, call), _outcome(names, call.replace("a(", "b(", 1))
            assert left != right or type(left[1]) is not type(right[1]) or _describe(left[1]) != _describe(right[1])


def check_pytests(program: Program, answer: Answer) -> None:
    """Check that every counterexample is a pytest that fails. None reaches a part that breaks its invariant."""
    found = [*answer.get("counterexamples", []), *answer.get("triggering_inputs", [])]
    found += [answer["distinguishing_input"]] if answer.get("distinguishing_input") else []
    for test in (one["test"] for one in found if one["test"] or not one["violation"].startswith("inv:")):
        check_form(test)
        assert run_pasted(test, {"submitted": program.code}), test


def _calls(tool: str, answer: Answer) -> list[str]:
    if tool == "analyze_branches":
        return []
    found = [
        *answer.get("counterexamples", []),
        *answer.get("triggering_inputs", []),
        answer.get("distinguishing_input"),
    ]
    return [example["call"] for example in found if example]


def _outcome(names: dict[str, Any], call: str) -> tuple[bool, Any]:
    try:
        return True, eval(call, names)  # noqa: S307 - a call of a program in the table
    except Exception as error:  # noqa: BLE001 - any exception is an outcome
        return False, type(error)


def _describe(value: Any) -> object:
    return vars(value) if hasattr(value, "__dict__") else repr(value)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(5))
def test_no_claim_is_wrong_with_any_seeds_and_time_zone_and_most_violations_are_found(start: int) -> None:
    measured = asyncio.run(measure(start))
    print(f"start {start}: {measured.share:.1%} of the violations found, {measured.by_chance}")  # noqa: T201 - shown
    assert measured.wrong == []
    assert len(measured.by_chance) <= 2
    assert measured.share >= 0.95

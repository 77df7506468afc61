"""The tools' answers about programs with known results. Each runs in the sandbox, as for a client."""

import asyncio
import json
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from quilt_mcp.analysis.tools import register_analysis_tools
from quilt_mcp.app import App
from quilt_mcp.settings import Settings
from tests.analysis.measurement import measure
from tests.analysis.pasted import check_form, run_pasted
from tests.analysis.programs import OPEN, PROGRAMS, Program

pytestmark = pytest.mark.xdist_group("analysis-soundness")  # so that each analysis runs once

ALL = [(tool, program) for tool, programs in PROGRAMS.items() for program in programs]
# Every third program, and those with rows that expect more than a status. `make soak` runs all of them.
CASES = [case for number, case in enumerate(ALL) if number % 3 == 0 or case[1].expected or not case[1].right & OPEN]
# Analyses that can stay undecided may use all of their time. The others do not reach their time limits, nor does the
# solver its own on a path, except on a busy machine: then they get more time, once.
OPEN_SECONDS, SECONDS, MORE_SECONDS = 2, 20, 60
DECIDED = {"verified", "counterexample", "found", "unreachable", "equivalent", "different", "complete"}
Answers = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Return the answer to each program, by tool and name."""
    return asyncio.run(_ask_all())


async def _ask_all() -> Answers:
    mcp: FastMCP = FastMCP("bare")
    app = App(Settings())
    register_analysis_tools(mcp, app)
    found: Answers = {}
    try:
        async with Client(mcp) as client:
            two_at_a_time = asyncio.Semaphore(2)

            async def ask(tool: str, program: Program) -> None:
                seconds = OPEN_SECONDS if program.right & OPEN else SECONDS
                arguments = {"code": program.code, "timeout_seconds": seconds, **program.arguments}
                async with two_at_a_time:
                    result = await client.call_tool(tool, arguments)
                    if (result.structured_content or {}).get("status") in OPEN - program.right:
                        result = await client.call_tool(tool, arguments | {"timeout_seconds": MORE_SECONDS})
                assert result.structured_content is not None
                found[tool, program.name] = result.structured_content

            await asyncio.gather(*(ask(*case) for case in CASES))
    finally:
        await app.close()
    return found


def test_table_is_large_and_its_names_are_unique() -> None:
    names = [(tool, program.name) for tool, program in ALL]
    assert len(names) == len(set(names)) >= 400
    assert len(CASES) >= 150


@pytest.mark.parametrize(("tool", "program"), CASES, ids=[f"{tool}: {program.name}" for tool, program in CASES])
def test_answer_is_correct(tool: str, program: Program, answers: Answers) -> None:
    answer = answers[tool, program.name]
    assert answer["status"] in program.right, answer
    for key, value in program.expected.items():
        if key == "branches":
            found = [{part: branch[part] for part in row} for row, branch in zip(value, answer[key], strict=True)]
            assert found == value
        else:
            assert answer[key] == value


@pytest.mark.parametrize(("tool", "program"), CASES, ids=[f"{tool}: {program.name}" for tool, program in CASES])
def test_undecided_answer_says_why(tool: str, program: Program, answers: Answers) -> None:
    answer = answers[tool, program.name]
    assert answer["status"] in DECIDED | OPEN | {"error"}
    assert ("message" in answer) == (answer["status"] not in DECIDED)
    if answer["status"] == "error":
        assert answer["error_type"].isidentifier()
        assert answer["message"].count(".") >= 2 or "Choose" in answer["message"]  # what is wrong, and what to change


def _calls(tool: str, answer: dict[str, Any]) -> list[str]:
    if tool == "analyze_branches":
        examples = [
            branch.get(f"{word}_example") for branch in answer.get("branches", []) for word in ("true", "false")
        ]
        return [call for call in examples if call]
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


def _programs(wanted: str) -> list[Program]:
    return [program for tool, program in CASES if tool == wanted]


@pytest.mark.parametrize("program", _programs("find_path_to_exception"), ids=lambda program: program.name)
def test_triggering_input_raises_in_plain_python(program: Program, answers: Answers) -> None:
    answer = answers["find_path_to_exception", program.name]
    for call in _calls("find_path_to_exception", answer):
        names: dict[str, Any] = {}
        exec(program.code, names)  # noqa: S102 - a program in the table
        returned, outcome = _outcome(names, call)
        wanted = eval(program.arguments["exception_type"], names)  # noqa: S307 - a name from the table
        assert not returned
        assert issubclass(outcome, wanted)
        assert answer["confirmed_by_replay"]


@pytest.mark.parametrize("program", _programs("compare_functions"), ids=lambda program: program.name)
def test_distinguishing_input_distinguishes_in_plain_python(program: Program, answers: Answers) -> None:
    answer = answers["compare_functions", program.name]
    for call in _calls("compare_functions", answer):
        names: dict[str, Any] = {}
        exec(program.code, names)  # noqa: S102 - a program in the table
        if "states" in answer["distinguishing_input"]["violation"]:
            continue  # the result of the call does not show the state of its arguments
        left, right = _outcome(names, call), _outcome(names, call.replace("a(", "b(", 1))
        assert left != right or type(left[1]) is not type(right[1]) or _describe(left[1]) != _describe(right[1])


def _describe(value: Any) -> object:
    return vars(value) if hasattr(value, "__dict__") else repr(value)


def test_answers_are_json(answers: Answers) -> None:
    assert json.loads(json.dumps(list(answers.values()), allow_nan=False)) == list(answers.values())


_FINDERS = [case for case in CASES if case[0] != "analyze_branches"]


@pytest.mark.parametrize(("tool", "program"), _FINDERS, ids=[f"{tool}: {program.name}" for tool, program in _FINDERS])
def test_every_counterexample_is_a_pytest_that_fails(tool: str, program: Program, answers: Answers) -> None:
    answer = answers[tool, program.name]
    found = [*answer.get("counterexamples", []), *answer.get("triggering_inputs", [])]
    found += [answer["distinguishing_input"]] if answer.get("distinguishing_input") else []
    for example in found:
        assert example["test"], example["call"]
        check_form(example["test"])
        assert run_pasted(example["test"], {"submitted": program.code}), example["test"]


@pytest.mark.soak
@pytest.mark.parametrize("start", range(5))
def test_no_claim_is_wrong_whatever_the_seeds_and_the_time_zone(start: int) -> None:
    measured = asyncio.run(measure(start))
    print(f"start {start}: {measured.share:.0%} of the violations found")  # noqa: T201 - `make soak` shows it
    assert measured.wrong == []

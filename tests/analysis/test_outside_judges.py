"""Judges that are no part of the analyser: Hypothesis about claims, and plain Python about what is found.

`test_second_judge.py` has the command of CrossHair. These tests run the whole table once, with little time for each
program.
"""

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.measurement import FOUND, ZONES, Measurement, measure
from tests.analysis.programs import OPEN, PROGRAMS, Program

CLAIMS = {"symbolic_check": "verified", "find_path_to_exception": "unreachable", "compare_functions": "equivalent"}
EXAMPLES, SECONDS = 300, 6  # of Hypothesis, for each claim
SECONDS_OF_ANALYSIS = 3
WORKERS = 2
ROOT = Path(__file__).parents[2]
_RUN = """
import runpy
names = runpy.run_path("test_it.py")
[test] = [one for name, one in names.items() if name.startswith("test_")]
try:
    test()
except Exception:
    print("violated")
"""


@pytest.fixture(scope="module")
def measured() -> Measurement:
    return asyncio.run(measure(1, SECONDS_OF_ANALYSIS))


def judge(tool: str, program: Program, examples: int = EXAMPLES) -> dict[str, Any]:
    """Return what Hypothesis found: `judged` calls, and a `counterexample` or None. `error`: it has no arguments."""
    sent = {"tool": tool, "code": program.code, "arguments": program.arguments}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.analysis.hypothesis_judge"],
            input=json.dumps({**sent, "seconds": SECONDS, "examples": examples}),
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if not name.startswith("COV")},  # it takes long
            capture_output=True,
            text=True,
            check=False,
            timeout=3 * SECONDS,
        )
    except subprocess.TimeoutExpired:  # a call that does not end
        return {"judged": 0, "counterexample": None, "error": "timeout"}
    if done.returncode:
        return {"judged": 0, "counterexample": None, "error": done.stderr.splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def replay(folder: Path, program: Program, test: str) -> bool:
    """Return whether the test of a finding fails in a new process of plain Python, in another time zone."""
    folder.mkdir()
    (folder / "submitted.py").write_text(program.code, encoding="utf-8")
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _RUN],
        cwd=folder,
        env={"PYTHONHASHSEED": "12345", "TZ": ZONES[3], "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout.endswith("violated\n")


def _list_findings(measured: Measurement) -> list[tuple[str, Program, dict[str, Any]]]:
    return [
        (f"{tool}: {program.name}", program, example)
        for tool, program, answer in measured.answers
        if answer["status"] in FOUND and not program.right <= OPEN and tool != "analyze_branches"
        for example in [
            *answer.get("counterexamples", []),
            *answer.get("triggering_inputs", []),
            *([answer["distinguishing_input"]] if answer.get("distinguishing_input") else []),
        ]
        if example["test"]
    ]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_hypothesis_contradicts_no_claim(measured: Measurement) -> None:
    claims = [(tool, program) for tool, program, answer in measured.answers if answer["status"] == CLAIMS.get(tool)]
    with ThreadPoolExecutor(WORKERS) as pool:
        judged = list(pool.map(lambda one: judge(*one), claims))
    names = [f"{tool}: {program.name}" for tool, program in claims]
    for name, one in zip(names, judged, strict=True):
        if not one["judged"]:
            print(f"not judged: {name}: {one.get('error', 'no arguments')}")  # noqa: T201 - as below
    found = {name: one["counterexample"] for name, one in zip(names, judged, strict=True) if one["counterexample"]}
    sure = sum(one["judged"] >= 1 for one in judged)
    print(f"{len(claims)} claims, {sure} judged by Hypothesis")  # noqa: T201 - `make soak` shows it
    assert (found, measured.wrong) == ({}, [])
    assert sure >= 0.85 * len(claims)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_findings_happen_in_a_new_process_of_plain_python(measured: Measurement, tmp_path: Path) -> None:
    findings = _list_findings(measured)
    with ThreadPoolExecutor(WORKERS) as pool:
        happened = list(
            pool.map(
                lambda at: replay(tmp_path / str(at), findings[at][1], findings[at][2]["test"]), range(len(findings))
            )
        )
    print(f"{len(findings)} tests of findings replayed")  # noqa: T201 - `make soak` shows it
    assert [name for (name, *_), is_real in zip(findings, happened, strict=True) if not is_real] == []
    assert len(findings) >= 400


@pytest.mark.soak
def test_hypothesis_refutes_what_is_wrong() -> None:
    code = "def f(x: int, y: list[str]) -> int:\n    'post: _ > -1000'\n    return x * len(y)\n"
    wrong = Program("wrong", code, frozenset(), {"function_name": "f"})
    assert judge("symbolic_check", wrong)["counterexample"]
    code = "def a(x: float) -> float:\n    return x + 1 - 1\ndef b(x: float) -> float:\n    return x\n"
    wrong = Program("wrong", code, frozenset(), {"function_a": "a", "function_b": "b"})
    assert judge("compare_functions", wrong)["counterexample"]
    code = "def f(x: int) -> int:\n    return 1 // (x - 3)\n"
    wrong = Program("wrong", code, frozenset(), {"function_name": "f", "exception_type": "ArithmeticError"})
    assert judge("find_path_to_exception", wrong)["counterexample"]


def test_a_program_has_one_right_verdict() -> None:
    """So two starts that both decide agree, if none is wrong."""
    programs = [program for tool in CLAIMS for program in PROGRAMS[tool]]
    assert [one.name for one in programs if len(one.right - OPEN) > 1] == []

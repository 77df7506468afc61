"""CrossHair's own command judges what the tools call verified. It has none of the checks of this project."""

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.analysis.programs import PROGRAMS, Program

VERIFIED = [one for one in PROGRAMS["symbolic_check"] if "verified" in one.right and "counterexample" not in one.right]
SECONDS = 1  # for each condition: what the command finds, it finds soon


def judge(program: Program, folder: Path) -> list[str] | None:
    """Return the errors that the command reports about the function; None if it fails on the program.

    An error that needs another result of a library function is no call in plain Python.
    """
    command = shutil.which("crosshair", path=sysconfig.get_path("scripts"))
    assert command
    (folder / "program.py").write_text(program.code, encoding="utf-8")
    limit = f"--per_condition_timeout={SECONDS}"
    done = subprocess.run(
        [command, "check", "--analysis_kind=PEP316", limit, f"program.{program.arguments['function_name']}"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("COV")},  # both want to trace
        capture_output=True,
        text=True,
        check=False,
    )
    if "Traceback" in done.stderr + done.stdout:
        return None
    return [line for line in done.stdout.splitlines() if ": error: " in line and "patch_to_return" not in line]


@pytest.mark.soak
def test_no_verified_function_is_refuted_by_the_command_of_crosshair(tmp_path: Path) -> None:
    found = {one.name: judge(one, tmp_path) for one in VERIFIED}
    assert {name: errors for name, errors in found.items() if errors} == {}
    assert sum(errors is not None for errors in found.values()) >= 0.9 * len(VERIFIED)


@pytest.mark.soak
def test_the_command_of_crosshair_refutes_what_is_wrong(tmp_path: Path) -> None:
    wrong = Program(
        "wrong", 'def f(x: int) -> int:\n    """post: _ > 0"""\n    return x\n', frozenset(), {"function_name": "f"}
    )
    assert judge(wrong, tmp_path)

"""CrossHair's own command judges what the tools claim. It has none of the checks of this project.

What it reports counts if it happens in plain Python: its integers have no class that `functools.singledispatch` knows.
"""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis.errors import UnsatisfiedAssumption

from tests.analysis.hypothesis_judge import MODULE, Judge
from tests.analysis.measurement import FOUND
from tests.analysis.programs import PROGRAMS, Program

CLAIMS = {"symbolic_check": "verified", "find_path_to_exception": "unreachable", "compare_functions": "equivalent"}
CLAIMED = [(tool, one) for tool, claim in CLAIMS.items() for one in PROGRAMS[tool] if claim in one.right - FOUND]
SECONDS = 1  # for each condition: what the command finds, it finds soon
WORKERS = 2
_CALL = re.compile(r"when calling (?P<call>\w+\(.*?\))( \(which returns .*\))?$")
# Functions whose result is false if a claim is wrong
_JUDGED: Mapping[str, str] = {
    "find_path_to_exception": """
def judged({parameters}) -> bool:
    '''post: _'''
    try:
        {function_name}({names})
    except {exception_type}:
        return False
    except Exception:
        return True
    return True
""",
    "compare_functions": """
def judged({parameters}) -> bool:
    '''post: _'''
    import copy
    outcomes = []
    for function in ({function_a}, {function_b}):
        try:
            outcomes.append([function(*copy.deepcopy(({names},)))])
        except Exception as error:
            outcomes.append(type(error))
    return outcomes[0] == outcomes[1]
""",
}


def write_judged(tool: str, program: Program) -> tuple[str, str] | None:
    """Return a module and the name of its function with a contract; None for what the command cannot be asked."""
    if tool == "symbolic_check":
        return program.code, program.arguments["function_name"]
    name = program.arguments.get("function_name", program.arguments.get("function_a", ""))
    tree = ast.parse(program.code)
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name]
    # NaN is equal to itself for `compare_functions`; a precondition would have to be that of the new function
    if not found or "pre:" in program.code or (tool == "compare_functions" and "float" in program.code):
        return None
    given = found[0].args
    if given.vararg or given.kwarg or given.kwonlyargs or not given.args:
        return None
    names = ", ".join(one.arg for one in given.args)
    judged = _JUDGED[tool].format(parameters=ast.unparse(given), names=names, **program.arguments)
    return f"{program.code}\n{judged}", "judged"


def judge(tool: str, program: Program, folder: Path) -> list[str] | None:
    """Return the errors that the command reports about the function; None if it fails on the program.

    An error that needs another result of a library function is no call in plain Python.
    """
    command = shutil.which("crosshair", path=sysconfig.get_path("scripts"))
    assert command
    written = write_judged(tool, program)
    if written is None:
        return None
    folder.mkdir()
    (folder / "program.py").write_text(written[0], encoding="utf-8")
    limit = f"--per_condition_timeout={SECONDS}"
    done = subprocess.run(
        [command, "check", "--analysis_kind=PEP316", limit, f"program.{written[1]}"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("COV")},  # both want to trace
        capture_output=True,
        text=True,
        check=False,
    )
    if "Traceback" in done.stderr + done.stdout:
        return None
    return [line for line in done.stdout.splitlines() if ": error: " in line and "patch_to_return" not in line]


def happens(tool: str, program: Program, error: str) -> bool:
    """Return whether the call that an error names violates the contract in plain Python, or cannot be repeated."""
    written, call = write_judged(tool, program), _CALL.search(error)
    if written is None or call is None:
        return True
    code, name = written
    try:
        plain = Judge({"tool": "symbolic_check", "code": code, "arguments": {"function_name": name}})
        bound = inspect.signature(plain.module[name])
        arguments = eval(call["call"], {**plain.module, name: lambda *args: bound.bind(*args).arguments})  # noqa: S307 - of the table
        plain.judge(arguments)
    except UnsatisfiedAssumption:
        return False
    except Exception:  # noqa: BLE001 - the call violates the contract, or its text is no call of the function
        return True
    finally:
        sys.modules.pop(MODULE, None)
    return False


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_no_claim_is_refuted_by_the_command_of_crosshair(tmp_path: Path) -> None:
    with ThreadPoolExecutor(WORKERS) as pool:
        judged = list(pool.map(lambda at: judge(*CLAIMED[at], tmp_path / str(at)), range(len(CLAIMED))))
    found = [(claimed, error) for claimed, errors in zip(CLAIMED, judged, strict=True) for error in errors or ()]
    assert [(tool, one.name, error) for (tool, one), error in found if happens(tool, one, error)] == []
    print(f"{sum(errors is not None for errors in judged)} of {len(CLAIMED)} claims judged")  # noqa: T201 - shown
    assert sum(errors is not None for errors in judged) >= 0.8 * len(CLAIMED)


@pytest.mark.soak
def test_the_command_of_crosshair_refutes_what_is_wrong(tmp_path: Path) -> None:
    code = 'def f(x: int) -> int:\n    """post: _ > 0"""\n    return 10 // x\n'
    arguments = {"function_name": "f"}
    wrong = Program("wrong", code, frozenset(), arguments)
    [error] = judge("symbolic_check", wrong, tmp_path / "check") or []
    assert happens("symbolic_check", wrong, error)
    assert not happens("symbolic_check", wrong, error.replace("f(11)", "f(3)"))
    wrong = Program("wrong", code, frozenset(), {**arguments, "exception_type": "ZeroDivisionError"})
    assert judge("find_path_to_exception", wrong, tmp_path / "raises")
    code = "def a(x: int) -> int:\n    return x\ndef b(x: int) -> int:\n    return abs(x)\n"
    wrong = Program("wrong", code, frozenset(), {"function_a": "a", "function_b": "b"})
    assert judge("compare_functions", wrong, tmp_path / "pair")

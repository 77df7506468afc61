"""`python -m tests.support.second_try` on toy projects: exit status and messages."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.processes import children
from tests.support.second_try import LAST_RUN, main

ROOT = Path(__file__).parent.parent.parent
PASSES = "def test_passes():\n    pass\n"
FAILS_ONCE = """
from pathlib import Path
def test_fails_once():
    trace = Path(__file__).with_suffix(".seen")
    seen = trace.exists()
    trace.touch()
    assert seen, "the first time"
"""
FAILS = "def test_fails():\n    assert not 'always'\n"
ENDLESS = """
import time
from pathlib import Path
def test_endless():
    Path(__file__).with_suffix(".on").touch()
    time.sleep(600)
"""
SIX = FAILS_ONCE.replace(
    "def test_fails_once():", "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_six(n):"
)
SIX = SIX.replace('".seen"', 'f".seen{n}"')


def toy(directory: Path, **modules: str) -> Path:
    """Write a project with one test module for each argument."""
    directory.mkdir(exist_ok=True)
    (directory / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for name, text in modules.items():
        (directory / f"test_{name}.py").write_text(text, encoding="utf-8")
    return directory


def start(*directories: Path, workers: int) -> subprocess.Popen[str]:
    plugins = ["-p", "xdist", "-p", "pytest_reportlog.plugin", "-q"]
    command = [sys.executable, "-m", "tests.support.second_try", "--workers", str(workers)]
    command += [*map(str, directories), "--", *plugins]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the plugins of this project take longer than a toy's tests
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def run(*directories: Path, workers: int = 0) -> tuple[int, str]:
    process = start(*directories, workers=workers)
    output, _ = process.communicate()
    return process.returncode, output


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.soak)])  # each worker is a process more
def test_a_test_that_fails_once_passes_and_is_printed_last_with_its_message(tmp_path: Path, workers: int) -> None:
    first = toy(tmp_path / "first", passes=PASSES, once=FAILS_ONCE)
    status, output = run(first, toy(tmp_path / "second", passes=PASSES), workers=workers)
    assert status == 0, output
    _, _, end = output.partition("Passed on the second try:\n")
    assert end.splitlines() == ["  test_once.py::test_fails_once", "    AssertionError: the first time"]
    assert "2 passed" not in output.split("Second try of 1 in")[1].partition("Passed on")[0]  # only the one that failed


@pytest.mark.soak
def test_an_error_in_a_fixture_gets_a_second_try_too(tmp_path: Path) -> None:
    fixture = FAILS_ONCE.replace("def test_fails_once", "import pytest\n@pytest.fixture\ndef thing")
    status, output = run(toy(tmp_path, once=fixture + "def test_uses_it(thing):\n    pass\n"))
    assert status == 0, output
    assert output.endswith("  test_once.py::test_uses_it\n    in setup; AssertionError: the first time\n")


@pytest.mark.soak
def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    status, output = run(toy(tmp_path, passes=PASSES, once=FAILS_ONCE, fails=FAILS))
    assert status == 1
    assert output.endswith("Failed on the second try: test_fails.py::test_fails.\n")


@pytest.mark.soak
def test_a_test_that_is_skipped_on_its_second_try_has_not_passed(tmp_path: Path) -> None:
    skips = FAILS_ONCE.replace("assert seen", "import pytest\n    if seen: pytest.skip('now')\n    assert seen")
    status, output = run(toy(tmp_path, once=skips))
    assert status == 1
    assert output.endswith("Failed on the second try: test_once.py::test_fails_once.\n")


@pytest.mark.soak
def test_six_failures_get_no_second_try(tmp_path: Path) -> None:
    status, output = run(toy(tmp_path, passes=PASSES, six=SIX))
    assert status == 1
    assert output.endswith("No second try: 6 tests failed, and at most 5 get one.\n")


@pytest.mark.soak
def test_the_limit_counts_the_failures_of_all_directories(tmp_path: Path) -> None:
    five = SIX.replace("range(6)", "range(5)")
    status, output = run(toy(tmp_path / "first", five=five), toy(tmp_path / "second", once=FAILS_ONCE))
    assert status == 1
    assert output.endswith("No second try: 6 tests failed, and at most 5 get one.\n")


@pytest.mark.soak
def test_a_module_that_cannot_be_collected_fails_the_run(tmp_path: Path) -> None:
    status, output = run(toy(tmp_path, passes=PASSES, broken="import no_such_module\n"), workers=2)
    assert status != 0
    assert "test_broken.py could not be collected" in output.splitlines()[-1]
    assert "Second try of" not in output


@pytest.mark.soak
def test_a_crashed_worker_fails_the_run(tmp_path: Path) -> None:
    crash = FAILS_ONCE.replace("assert seen", "import os\n    seen or os._exit(3)\n    assert seen")
    status, output = run(toy(tmp_path, passes=PASSES, once=crash), workers=2)
    assert status != 0
    assert output.endswith("No second try: a worker crashed during test_once.py::test_fails_once.\n")


@pytest.mark.soak
def test_ctrl_c_ends_the_run(tmp_path: Path) -> None:
    process = start(toy(tmp_path, passes=PASSES, endless=ENDLESS), workers=0)
    while process.poll() is None and not (tmp_path / "test_endless.on").exists():
        time.sleep(0.05)
    for number in (process.pid, *children(process.pid)):  # a terminal sends the signal to all
        os.kill(number, signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGINT
    assert output.endswith("No second try: interrupted.\n")


@pytest.mark.soak
def test_the_ten_slowest_tests_the_cpu_seconds_and_what_was_skipped_are_printed(tmp_path: Path) -> None:
    skips = "import pytest\n@pytest.mark.parametrize('n', range(12))\ndef test_skips(n):\n    pytest.skip('no nginx')\n"
    status, output = run(toy(tmp_path, passes=PASSES, skips=skips))
    assert status == 0
    figures, *slowest = output[output.index("CPU seconds") :].split("\n\n")[0].splitlines()
    assert figures == "CPU seconds (budget: 240). The slowest tests:"
    assert len(slowest) == 10
    assert output.endswith("Skipped:\n  12 x no nginx\n")


def test_a_run_above_the_budget_is_a_warning_until_the_next(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for seconds, shown in ((239.0, ""), (241.0, "the last `make test` took 241 CPU seconds, and the budget is 240.")):
        (tmp_path / ".pytest_cache").mkdir(exist_ok=True)
        (tmp_path / LAST_RUN).write_text(json.dumps({"cpu_seconds": seconds}), encoding="utf-8")
        assert main(["--last", str(tmp_path)]) == 0
        assert shown in capfd.readouterr().out
    assert run(toy(tmp_path, passes=PASSES))[0] == 0
    assert main(["--last", str(tmp_path)]) == 0
    assert capfd.readouterr().out == ""


@pytest.mark.soak
@pytest.mark.parametrize("modules", [{}, {"nothing": "x = 1\n"}], ids=["no file", "no test"])
def test_a_suite_without_tests_fails(modules: dict[str, str], tmp_path: Path) -> None:
    status, output = run(toy(tmp_path, **modules))
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert output.endswith("No second try: pytest ended with exit status 5.\n")

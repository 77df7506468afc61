"""Run test suites in parallel. Tests that fail run once more, alone and in one process.

    python -m tests.support.second_try [--workers N] DIRECTORY... [-- PYTEST ARGUMENTS]
    python -m tests.support.second_try --last DIRECTORY

With `--last`, nothing runs: it prints a warning if the last run of this directory took more than the budget.
Each directory contains a pytest configuration. The exit status is 0 if every test passed on its first or second try.
Otherwise it is that of the pytest run that decided. What needed a second try is printed last: each is a defect.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MOST_SECOND_TRIES = 5
"""In all directories together. More failures than that have a common cause."""

CPU_SECONDS = 240
"""The budget of all suites together: two minutes on two cores."""

LAST_RUN = Path(".pytest_cache", "last-run.json")
"""What the last run took, in the last of its directories."""

AGAIN = ("--last-failed", "--last-failed-no-failures", "none", "-n", "0")


@dataclass
class Run:
    """What a pytest run reported.

    Attributes:
        status: the exit status, or 130 after Ctrl-C.
        failed: the message of the first failure of each test that failed.
        passed: the tests that ran and passed.
        broken: why the run says nothing about single tests: a collection error, a crashed worker or an interruption. Of
            all suites together: why they failed.
        seconds: the duration of each test, with its fixtures.
        skipped: the reasons for which tests were skipped.
    """

    status: int
    failed: dict[str, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    broken: str | None = None
    seconds: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites of the directories that the command line names."""
    parser = argparse.ArgumentParser(prog="second_try", description="Run test suites; failed tests run once more.")
    parser.add_argument("--workers", type=int, default=2, help="processes of the first try")
    parser.add_argument("--last", action="store_true", help="say whether the last run kept to the budget")
    parser.add_argument("directories", nargs="+", type=Path)
    given = list(sys.argv[1:] if arguments is None else arguments)
    split = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:split])
    if options.last:
        return check_last_run(options.directories[-1])
    started, total, status = time.monotonic(), Run(0), 0
    for directory in options.directories:
        status = status or run_suite(directory, options.workers, given[split + 1 :], total)
    cpu = report(total, time.monotonic() - started)
    file = options.directories[-1] / LAST_RUN
    if file.parent.is_dir():
        file.write_text(json.dumps({"cpu_seconds": cpu}), encoding="utf-8")
    return status


def report(total: Run, seconds: float) -> float:
    """Print what the run took, what it skipped, what needed a second try and why it failed. Return the CPU seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    slowest = [f"  {length:6.1f} s  {test}" for test, length in total.seconds.most_common(10)]
    say(f"{seconds:.0f} s, {cpu:.0f} CPU seconds (budget: {CPU_SECONDS}). The slowest tests:", *slowest)
    if total.skipped:
        say("Skipped:", *(f"  {count} x {reason}" for reason, count in total.skipped.most_common()))
    if total.failed:
        say("Passed on the second try:", *(f"  {test}\n    {message}" for test, message in total.failed.items()))
    if total.broken:
        say(total.broken)
    return cpu


def check_last_run(directory: Path) -> int:
    """Print a warning if the last run took more than the budget. A machine can be slow, so it is no failure."""
    if (directory / LAST_RUN).exists():
        cpu = json.loads((directory / LAST_RUN).read_text(encoding="utf-8"))["cpu_seconds"]
        if cpu > CPU_SECONDS:
            say(f"Warning: the last `make test` took {cpu:.0f} CPU seconds, and the budget is {CPU_SECONDS}.")
    return 0


def run_suite(directory: Path, workers: int, arguments: Sequence[str], total: Run) -> int:
    """Run one suite and return its exit status.

    Args:
        directory: the directory of its pytest configuration.
        workers: the processes of the first try.
        arguments: further arguments of both tries.
        total: what the suites so far took and skipped, and what passed on its second try; extended.
    """
    first = run_pytest(directory, "--cache-clear", "-n", str(workers), "--dist", "worksteal", *arguments)
    total.seconds += first.seconds
    total.skipped += first.skipped
    if first.status == pytest.ExitCode.OK:
        return 0
    if first.status != pytest.ExitCode.TESTS_FAILED or first.broken or not first.failed:
        reason = first.broken or f"pytest ended with exit status {first.status}"
        total.broken = f"No second try: {reason}."
        return first.status
    if len(total.failed) + len(first.failed) > MOST_SECOND_TRIES:
        count = len(total.failed) + len(first.failed)
        total.broken = f"No second try: {count} tests failed, and at most {MOST_SECOND_TRIES} get one."
        return first.status
    say(f"Second try of {len(first.failed)} in {directory}:")
    second = run_pytest(directory, *AGAIN, *arguments)
    again = [test for test in first.failed if test not in second.passed]
    if again or second.status != pytest.ExitCode.OK:
        listed = ", ".join(again) or second.broken or f"pytest ended with exit status {second.status}"
        total.broken = f"Failed on the second try: {listed}."
        return second.status or pytest.ExitCode.TESTS_FAILED
    total.failed.update(first.failed)
    return 0


def say(*lines: str) -> None:
    """Print lines after an empty one, before the output of the next pytest run."""
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    sys.stdout.flush()


def run_pytest(directory: Path, *arguments: str) -> Run:
    """Run pytest in a directory. After Ctrl-C, wait for it to end: it got the signal, too."""
    with tempfile.TemporaryDirectory() as place:
        log = Path(place) / "reports.jsonl"
        command = [sys.executable, "-m", "pytest", f"--report-log={log}", *arguments]
        interrupted = False
        with subprocess.Popen(command, cwd=directory, env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
            while process.returncode is None:
                try:
                    process.wait()
                except KeyboardInterrupt:
                    interrupted = True
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    run = Run(128 + signal.SIGINT if interrupted else process.returncode)
    for report in map(json.loads, lines):
        read_report(report, run)
    if interrupted:
        run.broken = "interrupted"
    run.passed -= run.failed.keys()
    return run


def read_report(report: dict[str, Any], run: Run) -> None:
    """Note what one line of the report log says."""
    kind, outcome, test = report["$report_type"], report.get("outcome"), report.get("nodeid", "")
    if kind == "TestReport":
        run.seconds[test] += report["duration"]
    if outcome == "skipped":
        run.skipped[describe_skip(report)] += 1
    if kind == "CollectReport" and outcome == "failed":
        run.broken = f"{test or 'the suite'} could not be collected"
    elif kind == "TestReport" and outcome == "failed":
        if report["when"] == "???":  # how pytest-xdist reports a worker that ended during a test
            run.broken = f"a worker crashed during {test}"
        run.failed.setdefault(test, "; ".join(describe(report)))
    elif kind == "TestReport" and outcome == "passed" and report["when"] == "call":
        run.passed.add(test)


def describe_skip(report: dict[str, Any]) -> str:
    """The reason, without the place of the call."""
    longrepr = report["longrepr"]
    return str(longrepr[-1] if isinstance(longrepr, list) else longrepr).removeprefix("Skipped: ")


def describe(report: dict[str, Any]) -> Iterator[str]:
    """The phase, if it is not the test itself, and the first line of the message."""
    if report["when"] != "call":
        yield f"in {report['when']}"
    longrepr = report["longrepr"]
    crash = longrepr.get("reprcrash") if isinstance(longrepr, dict) else None
    yield str(crash["message"] if crash else longrepr).strip().partition("\n")[0][:300]


if __name__ == "__main__":
    sys.exit(main())

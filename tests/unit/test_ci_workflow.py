"""The CI workflow: minimal rights, pinned actions, no expression in a shell, and a closing job that waits for all."""

import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
yaml = importlib.import_module("yaml")  # it has no type information
WORKFLOW: dict[str, Any] = yaml.safe_load(TEXT)
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
CLOSING = "all-succeeded"


def steps() -> Iterator[dict[str, Any]]:
    for job in JOBS.values():
        yield from job["steps"]


def scripts() -> list[str]:
    return [step["run"] for step in steps() if "run" in step]


def test_no_job_may_do_more_than_read_the_code() -> None:
    assert WORKFLOW["permissions"] == {}
    rights = {name: job["permissions"] for name, job in JOBS.items()}
    assert rights == {name: {} if name == CLOSING else {"contents": "read"} for name in JOBS}


def test_no_checkout_leaves_the_token_behind() -> None:
    checkouts = [step for step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len(JOBS) - 1
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_every_action_is_pinned_to_a_commit_with_its_version_beside() -> None:
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)] == []
    assert len(re.findall(r"uses: \S+ # v\d+\.\d+\.\d+$", TEXT, re.MULTILINE)) == len(used)


def test_no_expression_is_written_into_a_shell() -> None:
    assert [script for script in scripts() if "${{" in script] == []


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = [
        call.split() for script in scripts() for call in re.findall(r"\bmake ((?:--?)?[a-z][a-z -]*[a-z])", script)
    ]
    targets = {word for words in called for word in words if not word.startswith("-")}
    assert targets >= {"check", "test", "contract", "setup", "golden", "mcp-list", "bench-compare"}
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_the_tests_run_on_every_python_that_the_package_supports() -> None:
    classifiers = re.findall(
        r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8")
    )
    assert JOBS["test"]["strategy"]["matrix"]["python-version"] == classifiers


def test_the_closing_job_always_runs_and_looks_at_every_other_job() -> None:
    closing = JOBS[CLOSING]
    assert closing["if"] == "always()"
    assert closing["needs"] == [name for name in JOBS if name != CLOSING]
    results = closing["steps"][0]["env"]["RESULTS"]
    assert re.findall(r"\$\{\{ needs\.([\w-]+)\.result \}\}", results) == closing["needs"]


@pytest.mark.parametrize(
    ("event", "results", "passes"),
    [
        ("pull_request", "success success success success success", True),
        ("push", "success success success skipped skipped", True),
        ("pull_request", "success success success skipped success", False),
        ("pull_request", "success success success failure success", False),
        ("pull_request", "success success success success failure", False),
        ("push", "success success failure skipped skipped", False),
        ("push", "cancelled success success skipped skipped", False),
        ("push", "success skipped success skipped skipped", False),
    ],
)
def test_the_closing_job_fails_unless_all_succeeded(event: str, results: str, passes: bool) -> None:  # noqa: FBT001 - a case
    step = JOBS[CLOSING]["steps"][0]
    given = iter(results.split())
    choice = "${{ github.event_name == 'pull_request' && 'success' || 'skipped' }}"
    assert choice in step["env"]["WANTED"]
    environment = {
        "RESULTS": re.sub(r"\$\{\{.*?\}\}", lambda _: next(given), step["env"]["RESULTS"]),
        "WANTED": step["env"]["WANTED"].replace(choice, "success" if event == "pull_request" else "skipped"),
    }
    done = subprocess.run(["/bin/sh", "-ec", step["run"]], env=environment, check=False)
    assert (done.returncode == 0) is passes


def test_the_summary_compares_with_the_whole_history_and_decides_the_job() -> None:
    job = JOBS["golden-summary"]
    assert job["if"] == "github.event_name == 'pull_request'"
    assert job["steps"][0]["with"]["fetch-depth"] == 0
    step = job["steps"][-1]
    assert step["shell"] == "bash"  # runs with pipefail
    script, _, rest = step["run"].removeprefix("python ").partition(" ")
    assert (ROOT / script).is_file()
    assert rest == '"$BASE" HEAD | tee -a "$GITHUB_STEP_SUMMARY"'


def test_the_benchmarks_show_ratios_to_the_base_in_the_summary() -> None:
    job = JOBS["benchmarks"]
    assert job["if"] == "github.event_name == 'pull_request'"
    assert job["steps"][0]["with"]["fetch-depth"] == 0
    step = job["steps"][-1]
    assert step["shell"] == "bash"  # runs with pipefail
    assert step["run"] == 'make --silent bench-compare BASE="$BASE" | tee -a "$GITHUB_STEP_SUMMARY"'


def test_a_failed_contract_offers_a_patch() -> None:
    write, offer = JOBS["parity"]["steps"][-2:]
    assert write["if"] == "failure()"
    assert "git diff --cached --binary > golden.patch" in write["run"]
    assert offer["if"].startswith("failure()")
    assert offer["with"]["path"] == "golden.patch"

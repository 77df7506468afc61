"""The composite GitHub Action: its step as GitHub runs it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML has no types

from tests.repository import STATUS, Repository
from tests.test_start import START, write

ACTION = Path(__file__).parent.parent / "action.yml"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize("comment", [True, False])
@pytest.mark.parametrize("change", [True, False])
def test_the_step_writes_the_summary_and_fails_for_unannounced_changes(
    repository: Repository, *, change: bool, comment: bool
) -> None:
    if change:
        del repository.files[STATUS]["data"]["expires"]
    repository.commit("head")
    document: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    [step] = document["runs"]["steps"]
    summary = repository.root / "summary.md"
    # an interpreter without packages: the command must need only the standard library
    python = repository.root / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    gh = repository.root / "gh"
    gh.write_text('#!/bin/sh\necho "$1 $2 $3" > commented\ncat "$7" >> commented\n', encoding="utf-8")
    gh.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{repository.root}{os.pathsep}{os.environ['PATH']}",
        "BASE": "base",
        "HEAD": "head",
        "HTML": "review.html",
        "START": "",
        "BUILD": "true",
        "COMMENT": "true" if comment else "false",
        "GH_TOKEN": "",
        "PULL": "7",
        "PYTHON": str(python),
        "SOURCE": str(ACTION.parent / "src"),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, cwd=repository.root, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert (done.returncode, "`data.expires` is gone" in done.stdout) == (int(change), change)
    assert summary.read_text(encoding="utf-8") == done.stdout
    assert (repository.root / "review.html").exists()
    commented = repository.root / "commented"
    assert (commented.read_text(encoding="utf-8") if comment else "") == (
        f"pr comment 7\n{done.stdout}" if comment else ""
    )
    assert commented.exists() is comment
    assert {name for name in environment if name in step["env"]} == step["env"].keys()


def test_the_step_can_start_both_revisions(repository: Repository) -> None:
    """With the interpreter that has the package."""
    [step] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]
    repository.files = {"server.py": write("")}
    repository.commit("first", parent="")
    repository.files = {"server.py": write("does not search")}
    repository.commit("second")
    values = {"BASE": "first", "HEAD": "second", "HTML": "", "START": START, "BUILD": "true", "COMMENT": "false"}
    values |= {"PYTHON": sys.executable, "SOURCE": str(ACTION.parent / "src"), "GITHUB_STEP_SUMMARY": os.devnull}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    environment = os.environ | values
    done = subprocess.run(command, cwd=repository.root, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "### `search`\n\n- *breaking*: the tool is gone" in done.stdout) == (1, True), done


def test_the_hook_runs_a_command_that_exists(repository: Repository) -> None:
    hooks: list[dict[str, Any]] = yaml.safe_load((ACTION.parent / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    [hook] = hooks
    repository.commit("origin/main")
    repository.commit("head")
    words: list[str] = [*hook["entry"].split(), *hook["args"]]
    assert (words[:2], repository.diff(*words[2:]).returncode) == (["mcp-parity", "diff"], 0)

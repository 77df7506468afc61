"""The composite GitHub Action: its step as GitHub runs it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML has no types

from tests.repository import STATUS, Repository

ACTION = Path(__file__).parent.parent / "action.yml"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize("change", [True, False])
def test_the_step_writes_the_summary_and_fails_for_unannounced_changes(repository: Repository, *, change: bool) -> None:
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
    environment = os.environ | {
        "BASE": "base",
        "HEAD": "head",
        "HTML": "review.html",
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
    assert {name for name in environment if name in step["env"]} == step["env"].keys()

"""Tests that install packages are skipped only if the package index cannot be reached."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.distribution.building import run_or_skip

NOWHERE = "http://127.0.0.1:9"
"""Port 9 of this machine refuses connections."""
COMMANDS = {
    "pip": [sys.executable, "-m", "pip", "--isolated", "download", "--retries=1", f"--index-url={NOWHERE}", "one"],
    "uv": ["uv", "--no-config", "pip", "install", "--target=.", f"--default-index={NOWHERE}", "one"],
    "npm": ["npm", "install", f"--registry={NOWHERE}", "--fetch-retries=0", "--prefix=.", "one"],
}


@pytest.mark.soak
@pytest.mark.parametrize("tool", COMMANDS)
def test_an_index_that_cannot_be_reached_skips(tool: str, tmp_path: Path) -> None:
    if shutil.which(COMMANDS[tool][0]) is None:
        pytest.skip(f"{tool} is not installed")
    with pytest.raises(pytest.skip.Exception):
        run_or_skip(*COMMANDS[tool], cwd=tmp_path, environment={"UV_HTTP_RETRIES": "0", "PIP_FIND_LINKS": ""})


@pytest.mark.soak
@pytest.mark.parametrize(
    "program", ["raise SystemExit(1)", "raise SystemExit('error: no matching distribution found for one')"]
)
def test_every_other_failure_fails(program: str) -> None:
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="exit status 1") as outcome:
        run_or_skip(sys.executable, "-c", program)
    assert outcome.type is pytest.fail.Exception  # a skipped test would be no failure here

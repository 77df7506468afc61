"""The gate of pull requests, over changes of the source: it is red for what breaks clients, and green for the rest.

Each row changes a clone, writes its goldens of home as `make golden` does, and compares the two revisions.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.server_process import ROOT

pytestmark = pytest.mark.soak

API_KEYS, ERRORS = "services/api_keys.py", "core/errors.py"
WORKFLOWS, WORKFLOW_ROWS = "workflows/service.py", "workflows/resources.py"
SURFACES, AUTH = "core/surfaces.py", "services/auth_metadata.py"

COMPARE = (str(Path(sys.executable).with_name("mcp-parity")), "diff", "HEAD~1")


@dataclass(frozen=True)
class Change:
    """A text of a file, what stands there instead, and a line of the summary."""

    file: str
    old: str
    new: str
    shown: str


BREAKS = {
    "a field has another name": Change(
        API_KEYS, '"api_keys": page.rows', '"keys": page.rows', "`data.api_keys` is gone"
    ),
    "a field is gone": Change(API_KEYS, '"count": page.total, ', "", "`data.count` is gone"),
    "a number is a text": Change(API_KEYS, '"count": page.total', '"count": str(page.total)', "`data.count` is string"),
    "a list is null": Change(API_KEYS, '"api_keys": page.rows', '"api_keys": None', "`data.api_keys` is null"),
    "another name of an error": Change(ERRORS, 'error = "InvalidURI"', 'error = "UnknownURI"', "UnknownURI"),
    "another code of an error": Change(ERRORS, "INVALID_PARAMS = -32602", "INVALID_PARAMS = -32600", "-32600"),
    "an argument is required": Change(
        WORKFLOWS, 'name: Name, description: Purpose = "",', "name: Name, description: Purpose,", "`description`"
    ),
    "an argument is shorter": Change(
        WORKFLOWS,
        "min_length=1, max_length=NAME_LENGTH)]\nPurpose",
        "min_length=1, max_length=9)]\nPurpose",
        "maxLength",
    ),
    "a resource has another URI": Change(
        WORKFLOW_ROWS,
        '        "workflow://workflows",\n',
        '        "workflow://all-workflows",\n',
        "workflow://workflows",
    ),
    "a tool that reads says that it writes": Change(
        SURFACES,
        "read_only_hint=True, idempotent_hint=True",
        "read_only_hint=False, idempotent_hint=True",
        "readOnlyHint",
    ),
}
HARMLESS = {
    "a field is new": Change(API_KEYS, '"count": page.total', '"total": page.total, "count": page.total', "is new"),
    "another value": Change(
        AUTH, '"region": stack.region or public.get("region"),', '"region": "eu-central-1",', "*value*"
    ),
    "a description": Change(WORKFLOWS, 'description="Its title."', 'description="Its short title."', "*description*"),
    "an argument may be longer": Change(
        WORKFLOWS,
        "min_length=1, max_length=NAME_LENGTH)]\nPurpose",
        "min_length=1, max_length=9_999)]\nPurpose",
        "maxLength",
    ),
    "a comment": Change(WORKFLOWS, "DEPENDENCIES)] | ", "DEPENDENCIES)] | ", "No changes for clients."),
}


def run(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    places = [folder / "src", folder / "mcp-parity" / "src"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places)), "GOLDEN_PART": "home"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def change(folder: Path, planted: Change) -> None:
    """Change a file of a new clone, write the goldens, and commit."""
    clone = run(folder.parent, "git", "clone", "--quiet", str(ROOT), str(folder))
    assert clone.returncode == 0, clone.stderr
    path = folder / "src" / "quilt_mcp" / planted.file
    text = path.read_text("utf-8")
    assert text.count(planted.old) == 1, f"the text to change stands {text.count(planted.old)} times in {planted.file}"
    path.write_text(text.replace(planted.old, planted.new), "utf-8")
    files = [f"tests/contract/test_{name}.py" for name in ("parity", "inventory", "discovery", "bad_input")]
    update = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:randomly",
        "--snapshot-update",
        "-m",
        "not install",
    ]
    run(folder, *update, "-k", "inventory", "tests/contract/test_parity.py")
    run(folder, *update, *files)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    done = run(folder, "git", *who, "commit", "--quiet", "--all", "--allow-empty", "--message", "Change")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", BREAKS)
def test_the_gate_is_red_for_a_break_until_the_changelog_names_it(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    change(folder, BREAKS[name])
    found = run(folder, *COMPARE)
    assert found.returncode == 1, found.stdout + found.stderr
    assert BREAKS[name].shown in found.stdout
    assert "Do not merge yet" in found.stdout


@pytest.mark.parametrize("name", HARMLESS)
def test_the_gate_is_green_for_a_change_that_breaks_no_client(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    change(folder, HARMLESS[name])
    found = run(folder, *COMPARE)
    assert (found.returncode, HARMLESS[name].shown in found.stdout) == (0, True), found.stdout + found.stderr

"""A stranger adds the resource of CONTRIBUTING to a copy of the repository: one function, one row, and two commands."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support.pages import blocks
from tests.support.server_process import ROOT

GENERATED = ("README.md", "docs/", "golden/", "tests/fixtures/mcp-list.csv", "src/quilt_mcp/tools/resource_access.py")
"""What `make mcp-list golden` writes, beside the function and the row."""
NOT_COPIED = ("__pycache__", ".*_cache", ".git", ".hypothesis", ".venv", "dist", "bench-results")
JUDGES = (
    "tests/app/test_two_stacks.py",
    "tests/contract/test_answer_types.py",
    "tests/contract/test_discovery.py",
    "tests/contract/test_inventory.py",
    "tests/core/test_new_resource.py",
    "tests/core/test_registry.py",
    "tests/project/test_architecture.py",
    "tests/project/test_docs.py",
    "tests/project/test_seeds.py",
    "tests/project/test_style.py",
)
"""The tests that look at all resources, beside those of the contract, and but for the limits of bytes."""


class Copy:
    """A copy of the repository in which a stranger works."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "copy"
        shutil.copytree(ROOT, self.directory, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
        self.before = self.read()

    def read(self) -> dict[str, bytes]:
        files = {path.relative_to(self.directory): path for path in self.directory.rglob("*") if path.is_file()}
        return {
            name.as_posix(): path.read_bytes()
            for name, path in files.items()
            if not any(fnmatch(part, pattern) for part in name.parts for pattern in NOT_COPIED)
        }

    def list_changes(self) -> set[str]:
        """Return the paths of the files that differ from the repository."""
        now = self.read()
        return {path for path in now.keys() | self.before.keys() if now.get(path) != self.before.get(path)}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy, with the package of the copy."""
        environment = (
            os.environ | {"PYTHONPATH": str(self.directory / "src"), "PYTHONDONTWRITEBYTECODE": "1"} | variables
        )
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def test(self, *arguments: str, **variables: str) -> None:
        """Run tests in the copy, which must pass."""
        done = self.run("-m", "pytest", "-q", "-n", "0", "-p", "no:randomly", *arguments, **variables)
        assert done.returncode == 0, done.stdout[-4000:]

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace text that a file contains once."""
        file = self.directory / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, old
        file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


@pytest.fixture
def added(copy: Copy) -> set[str]:
    """Add the function and the row of the example in CONTRIBUTING. Return the paths of the two files."""
    [example] = [one.text for one in blocks(ROOT / "CONTRIBUTING.md") if one.language == "python"]
    code, _, server = example.partition("\n\nrow = ")
    function = re.sub(r"from (?:fastmcp|quilt_mcp\.core\.(?:manager|registry|surfaces)) import .*\n", "", code)
    module, resources = "src/quilt_mcp/services/greetings.py", "src/quilt_mcp/services/resources.py"
    (copy.directory / module).write_text(f"{function}\n", encoding="utf-8")
    line = textwrap.indent(f"{server.splitlines()[0]},\n", "    ")
    copy.edit(resources, "\n]\n\n\nasync def", f"\n{line}]\n\n\nasync def")
    imported = "from quilt_mcp.services.settings import"
    copy.edit(resources, imported, f"from quilt_mcp.services.greetings import hello, names\n{imported}")
    return {module, resources}


@pytest.mark.soak
def test_the_resource_of_contributing_needs_no_other_edit(copy: Copy, added: set[str]) -> None:
    contract = ("tests/contract/test_parity.py", "tests/contract/test_discovery.py")
    copy.test("--snapshot-update", "-k", "inventory", "tests/contract/test_parity.py")
    written = copy.run("-m", "tests.support.docs")
    assert (written.returncode, written.stderr) == (0, "")
    copy.test("--snapshot-update", *contract, GOLDEN_PART="home")
    copy.test(*contract, *JUDGES, GOLDEN_PART="home")
    changed = copy.list_changes()
    assert added < changed
    assert {path for path in changed - added if not path.startswith(GENERATED)} == set()
    assert {"golden/data/demo/hello/ada.json", "docs/answers/demo.md"} <= changed


@pytest.mark.soak
def test_a_row_without_an_example_is_named_in_one_line(copy: Copy, added: set[str]) -> None:
    copy.edit("src/quilt_mcp/services/resources.py", ', name="Hello", values={"name": names})', ', name="Hello")')
    copy.test("--snapshot-update", "-k", "inventory", "tests/contract/test_parity.py")
    written = copy.run("-m", "tests.support.docs")
    assert written.returncode == 1
    assert written.stderr == "demo://hello/{name} has no example: `values` of its row must list values of name.\n"

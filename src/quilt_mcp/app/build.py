"""Finds the commit that this installation was built from."""

import json
import re
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
FILE = "commit.txt"
"""Written beside this module by src/build_commit.py, when a wheel is built."""
PACKAGE = Path(__file__).resolve().parents[1]
GIT_SECONDS = 10.0


def find_commit(package: Path = PACKAGE) -> str | None:
    """Return the commit of the sources; None if it is not known.

    It is in a file of the wheel, in the metadata of an installation from a repository, or in the checkout that runs.
    This can start git, so call it once.

    Args:
        package: the directory of the package.
    """
    file = package / "app" / FILE
    written = file.read_text(encoding="ascii", errors="replace") if file.is_file() else None
    return _check(written) or _read_metadata() or _ask_git(package)


def describe_version(version: str) -> str:
    """Return the version with the commit, for people."""
    return f"quilt-mcp {version} ({find_commit() or 'unknown commit'})"


def _check(text: object) -> str | None:
    found = text.strip() if isinstance(text, str) else ""
    return found if COMMIT.fullmatch(found) else None


def _read_metadata() -> str | None:
    """Return the commit that pip installed from a repository (PEP 610)."""
    try:
        origin: object = json.loads(distribution("quilt-mcp").read_text("direct_url.json") or "null")
    except (PackageNotFoundError, ValueError):
        return None
    source = origin.get("vcs_info") if isinstance(origin, dict) else None
    return _check(source.get("commit_id")) if isinstance(source, dict) else None


def _ask_git(package: Path) -> str | None:
    """Return the commit of a checkout of this project. An environment can also be inside of another repository."""
    root = package.parents[1]
    if package != root / "src" / "quilt_mcp" or not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:  # the command is constant, but for the path of this file
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=GIT_SECONDS)  # noqa: S603 - as above
    except (OSError, subprocess.SubprocessError):
        return None
    return _check(ran.stdout)

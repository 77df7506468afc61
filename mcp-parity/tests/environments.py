"""Environments with the built wheel and other packages, for tests that use mcp-parity as a stranger does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent


def build_wheel(directory: Path) -> Path:
    """Build the wheel; skip the test if the network does not have what that needs."""
    _pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(directory), str(PROJECT))
    [wheel] = directory.glob("mcp_parity-*.whl")
    return wheel


class Environment:
    """A virtual environment that contains only what is installed into it."""

    def __init__(self, directory: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
        self.python = str(directory / "bin" / "python")
        self._path = os.environ["PATH"]

    def install(self, *requirements: str) -> None:
        """Install packages; skip the test if the network does not have them."""
        _pip(self.python, "install", *requirements)

    def add_commands_of(self, other: "Environment") -> None:
        """Let this environment find the commands of another."""
        self._path = os.pathsep.join((str(Path(other.python).parent), self._path))

    def pytest(self, directory: Path, *arguments: str) -> tuple[int, str]:
        """Run pytest in a directory."""
        command = [self.python, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env=os.environ | {"PATH": self._path},
        )
        return done.returncode, done.stdout + done.stderr


def _pip(python: str, *arguments: str) -> None:
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        pytest.skip(f"pip {' '.join(arguments[-2:])}: {reason}")

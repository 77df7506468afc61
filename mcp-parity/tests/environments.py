"""Environments with the built wheel and other packages, for tests that use mcp-parity as a stranger does."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
UV = shutil.which("uv")
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def build_wheel(directory: Path) -> Path:
    """Build the wheel; skip the test if the network does not have what that needs."""
    if UV:
        _install([UV, "build", "--quiet", "--wheel", "--out-dir", str(directory), str(PROJECT)])
    else:
        _install([sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", str(directory), str(PROJECT)])
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
        if UV:
            _install([UV, "pip", "install", "--quiet", "--python", self.python, *requirements])
        else:
            _install([self.python, *PIP, "install", *requirements])

    def add_commands_of(self, other: "Environment") -> None:
        """Let this environment find the commands of another."""
        self._path = os.pathsep.join((str(Path(other.python).parent), self._path))

    def pytest(self, directory: Path, *arguments: str) -> tuple[int, str]:
        """Run pytest in a directory."""
        return self.run(directory, "pytest", "-p", "no:cacheprovider", *arguments)

    def run(self, directory: Path, module: str, *arguments: str) -> tuple[int, str]:
        """Run a module as a command in a directory. Return the exit status and the output."""
        command = [self.python, "-m", module, *arguments]
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            env=os.environ | {"PATH": os.pathsep.join((str(Path(self.python).parent), self._path))},
        )
        return done.returncode, done.stdout + done.stderr


def install_with_npm(directory: Path, package: str) -> None:
    """Install a package of npm into a directory; skip the test without npm, or if the network does not have it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    _install([npm, "install", "--silent", "--no-audit", "--no-fund", package], directory)


def _install(command: list[str], directory: Path | None = None) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        pytest.skip(f"{' '.join(command[-3:])}: {reason}")

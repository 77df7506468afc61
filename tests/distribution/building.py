"""Builds packages as `make mcpb` and `make wheels` do, and starts what they contain."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.support.server_process import ROOT
from tests.support.waiting import SECONDS

SCRIPT = ROOT / ".github" / "scripts" / "packages.py"
INSTALL_SECONDS = 900
WORKFLOWS = "workflow://workflows"


def run_script(*arguments: str | Path) -> None:
    """Run the script that builds packages for MCP clients."""
    subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)], check=True)


def run_or_skip(*command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Run a command that installs packages, and return its output. Skip the test if the network does not have them."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason"])[-1]
        pytest.skip(f"{Path(words[0]).name} {' '.join(words[1:3])}: {reason}")
    return done.stdout


def create_environment(directory: Path, *requirements: str | Path) -> Path:
    """Install packages into a new virtual environment. Return the directory of its commands."""
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    commands = directory / ("Scripts" if sys.platform == "win32" else "bin")
    run_or_skip(commands / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return commands


async def ask_over_stdio(
    command: str, arguments: list[str], home: Path, *, cwd: Path | None = None, **environment: str
) -> tuple[list[str], dict[str, Any]]:
    """Start a server for a user with an empty home. Return the names of its tools, and a resource."""
    given = {"HOME": str(home), "XDG_DATA_HOME": str(home), "PATH": os.environ["PATH"]} | environment
    transport = StdioTransport(
        command, arguments, given, str(cwd) if cwd else None, keep_alive=False, log_file=home / "server.log"
    )
    async with Client(transport, timeout=SECONDS, init_timeout=SECONDS) as client:
        tools = sorted(tool.name for tool in await client.list_tools())
        [contents] = await client.read_resource(WORKFLOWS)
    return tools, json.loads(contents.text)

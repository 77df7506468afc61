"""Builds packages as `make mcpb` and `make wheels` do, and starts what they contain."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tests.support.server_process import ROOT
from tests.support.waiting import SECONDS

SCRIPT = ROOT / ".github" / "scripts" / "packages.py"
INSTALL_SECONDS = 900
WORKFLOWS = "workflow://workflows"
UNREACHABLE = re.compile(
    r"Failed to establish a new connection|name resolution|Network is unreachable"  # pip
    r"|NewConnectionError|ConnectTimeoutError|ProxyError"  # pip
    r"|error sending request for url|dns error|client error \(Connect\)"  # uv
    r"|ECONNREFUSED|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ETIMEDOUT"  # npm
)
"""What the tools print if the package index cannot be reached. A test checks it with the tools that are installed."""


def run_script(*arguments: str | Path, status: int = 0) -> None:
    """Run the script that builds packages for MCP clients, in this process: its imports take most of the time."""
    with (
        patch.object(sys, "argv", [str(SCRIPT), *map(str, arguments)]),
        patch.object(sys, "path", [str(SCRIPT.parent), *sys.path]),
        pytest.raises(SystemExit) as ended,
    ):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == status


def run_or_skip(*command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Run a command that installs packages, and return its output. Skip the test if the index cannot be reached."""
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
        command_line = f"{Path(words[0]).name} {' '.join(words[1:3])}"
        if problem := UNREACHABLE.search(done.stderr):
            pytest.skip(f"{command_line}: {problem.group()}")
        pytest.fail(f"{command_line}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def create_environment(directory: Path, *requirements: str | Path) -> Path:
    """Install packages into a new virtual environment. Return the directory of its commands."""
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    commands = directory / ("Scripts" if sys.platform == "win32" else "bin")
    run_or_skip(commands / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return commands


async def ask_over_stdio(
    command: str,
    arguments: list[str],
    home: Path,
    *,
    uri: str = WORKFLOWS,
    cwd: Path | None = None,
    **environment: str,
) -> tuple[list[str], dict[str, Any]]:
    """Start a server for a user with an empty home. Return the names of its tools, and a resource.

    The client reads the resource in both ways and compares the answers.
    """
    given = {"HOME": str(home), "XDG_DATA_HOME": str(home), "PATH": os.environ["PATH"]} | environment
    transport = StdioTransport(
        command, arguments, given, str(cwd) if cwd else None, keep_alive=False, log_file=home / "server.log"
    )
    async with Client(transport, timeout=SECONDS, init_timeout=SECONDS) as client:
        tools = sorted(tool.name for tool in await client.list_tools())
        [contents] = await client.read_resource(uri)
        called = await client.call_tool("get_resource", {"uri": uri})
    resource = json.loads(contents.text)
    assert called.structured_content is not None
    assert called.structured_content["data"] == resource
    return tools, resource

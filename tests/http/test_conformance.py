"""The official conformance suite of MCP, against the server. Needs npx, and a registry or a cache of npm."""

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands.install import executable
from tests.support.server_process import run_http

NPX = shutil.which("npx")
PACKAGES = ("--package=node@22", "--package=@modelcontextprotocol/conformance@0.2.0-alpha.12")
INSTALL_SECONDS, RUN_SECONDS = 120, 600
NEEDS_TEST_SERVER = {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}
"""Checks that call tools which only a test server has."""
INPUT = ("ignore-extra-params", "missing-input-response", "unsupported-methods", "validate-input")
ALWAYS = {
    *(
        "completion-complete",
        "dns-rebinding-protection",
        "prompts-list",
        "resources-list",
        "server-sse-multiple-streams",
    ),
    *("tools-call-error", "tools-call-simple-text", "tools-list"),
}
SCENARIOS = {
    "2025-11-25": ALWAYS | {"ping", "server-initialize", "server-session-lifecycle", "server-sse-polling"},
    "2026-07-28": ALWAYS
    | {f"input-required-result-{name}" for name in INPUT}
    | {"caching", "http-header-validation", "sep-2164-resource-not-found", "server-stateless"},
}
"""The scenarios of each revision that need no tools, prompts or resources of a test server, and no log messages."""
EMPTY = {
    "2025-11-25": {"server-session-lifecycle", "server-sse-multiple-streams", "server-sse-polling"},
    "2026-07-28": set[str](),
}
"""Those without a check for a server without sessions."""
WITHOUT_EXTRAS = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ("crosshair", "z3") else find(name, *more)
from quilt_mcp.commands.cli import main
sys.exit(main(sys.argv[1:]))
"""


async def run_suite(*arguments: str, directory: Path, seconds: float) -> str | None:
    """Run the suite; return its output, or None if it could not be installed or did not end in time."""
    process = await asyncio.create_subprocess_exec(
        str(NPX),
        *("--yes", "--prefer-offline", *PACKAGES, "--", "conformance", *arguments),
        cwd=directory,
        env=os.environ | {"NO_PROXY": "127.0.0.1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)  # npx and what it runs
        await process.wait()
        return None
    return output.decode(errors="replace")


def checks_of(directory: Path, scenario: str) -> list[dict[str, Any]]:
    [folder] = directory.glob(f"server-{scenario}-2*")
    found: list[dict[str, Any]] = json.loads((folder / "checks.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.soak
@pytest.mark.skipif(NPX is None or sys.platform == "win32", reason="npx is not installed")
@pytest.mark.parametrize("command", [(executable(),), (sys.executable, "-c", WITHOUT_EXTRAS)], ids=["all", "no extras"])
@pytest.mark.parametrize("revision", SCENARIOS)
async def test_the_server_conforms_to_the_protocol(revision: str, command: tuple[str, ...], tmp_path: Path) -> None:
    version = await run_suite("--version", directory=tmp_path, seconds=INSTALL_SECONDS)
    if version is None or "0.2.0" not in version:
        pytest.skip("the conformance suite cannot be installed")
    environment = os.environ | {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "QUILT_MCP_DRAIN_SECONDS": "0"}
    async with run_http((*command, "serve", "--demo"), environment, tmp_path) as server:
        url, results = f"http://127.0.0.1:{server.port}/mcp", tmp_path / "results"
        arguments = ("server", "--url", url, "--requirements", revision, "--output-dir", str(results))
        output = await run_suite(*arguments, directory=tmp_path, seconds=RUN_SECONDS)
        assert output is not None
        found = {scenario: checks_of(results, scenario) for scenario in SCENARIOS[revision]}
        failures = {
            (scenario, check["id"]): check.get("errorMessage")
            for scenario, checks in found.items()
            for check in checks
            if check["status"] == "FAILURE" and check["id"] not in NEEDS_TEST_SERVER
        }
        assert failures == {}
        checked = {scenario for scenario, checks in found.items() if any(one["status"] == "SUCCESS" for one in checks)}
        assert found.keys() - checked == EMPTY[revision]
        assert "Traceback" not in server.log

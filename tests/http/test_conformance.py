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

from tests.support.server_process import serve_http

NPX = shutil.which("npx")
PACKAGES = ("--package=node@22", "--package=@modelcontextprotocol/conformance@0.2.0-alpha.12")
REVISION = "2026-07-28"
INSTALL_SECONDS, RUN_SECONDS = 120, 600
NEEDS_TEST_SERVER = {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}
"""Checks that call tools which only a test server has."""
INPUT = ("ignore-extra-params", "missing-input-response", "unsupported-methods", "validate-input")
SCENARIOS = {
    *(f"input-required-result-{name}" for name in INPUT),
    *("caching", "completion-complete", "dns-rebinding-protection", "http-header-validation", "prompts-list"),
    *("resources-list", "sep-2164-resource-not-found", "server-sse-multiple-streams", "server-stateless"),
    *("tools-call-error", "tools-call-simple-text", "tools-list"),
}
"""The scenarios of the revision that need no tools, prompts or resources of a test server."""


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
async def test_the_server_conforms_to_the_protocol(tmp_path: Path) -> None:
    version = await run_suite("--version", directory=tmp_path, seconds=INSTALL_SECONDS)
    if version is None or "0.2.0" not in version:
        pytest.skip("the conformance suite cannot be installed")
    async with serve_http(tmp_path, "--demo") as server:
        url, results = f"http://127.0.0.1:{server.port}/mcp", tmp_path / "results"
        arguments = ("server", "--url", url, "--requirements", REVISION, "--output-dir", str(results))
        output = await run_suite(*arguments, directory=tmp_path, seconds=RUN_SECONDS)
        assert output is not None
        found = {scenario: checks_of(results, scenario) for scenario in SCENARIOS}
        failures = {
            (scenario, check["id"]): check.get("errorMessage")
            for scenario, checks in found.items()
            for check in checks
            if check["status"] == "FAILURE" and check["id"] not in NEEDS_TEST_SERVER
        }
        assert failures == {}
        assert all(any(check["status"] == "SUCCESS" for check in checks) for checks in found.values())
        assert "Traceback" not in server.log

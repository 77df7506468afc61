"""What the server does on Windows, as far as Linux can show it: our modules do without what only Unix has."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

import quilt_mcp
from tests.contract.cases import RESOURCES
from tests.support.server_process import ROOT
from tests.support.sources import list_modules, read
from tests.support.waiting import SECONDS
from tests.support.without_unix import MODULES, NAMES

PACKAGE = Path(quilt_mcp.__file__).parent
COMMAND = ("-m", "tests.support.without_unix")
SANDBOX = ("analysis/jail/", "analysis/engine/", "analysis/processes.py")
"""What runs only after the check that this is Linux."""
CHECKED = {
    "commands/entry.py: signal.SIGHUP",
    "commands/http_server.py: signal.SIGHUP",
    "commands/stdio.py: select.poll",
    "http/server.py: resource.",
    "http/metrics.py: fcntl.",
    "services/preview/child.py: resource.",
}
"""What runs only after a check of `sys.platform`."""


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HOME": str(directory), "XDG_DATA_HOME": str(directory), "COLUMNS": "200"}
    words = [sys.executable, *COMMAND, *arguments]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def imported_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the modules that a module imports, and the names that it uses of other modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, ""
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr


def test_only_the_sandbox_uses_what_windows_does_not_have() -> None:
    words = {*MODULES, "add_signal_handler"}.union(*NAMES.values())
    used = {
        f"{place}: {module}.{name}"
        for path in list_modules(PACKAGE)
        if not (place := path.relative_to(PACKAGE).as_posix()).startswith(SANDBOX)
        if not words.isdisjoint(re.findall(r"\w+", read(path)))  # it takes longer to parse a module
        for module, name in imported_names(ast.parse(read(path)))
        if (module in MODULES and not name) or name in NAMES.get(module, ()) or name == "add_signal_handler"
    }
    assert used == CHECKED


def test_what_is_hidden_exists_here() -> None:
    assert sys.platform == "linux" or pytest.skip("these names are those of Linux")
    for module, names in NAMES.items():
        known = set(dir(__import__(module)))
        assert len(names & known) > len(names) / 2
    assert {"fork", "getuid", "O_NOFOLLOW"} <= NAMES["os"]


@pytest.mark.soak
async def test_it_serves_over_stdio_and_reads_every_resource_and_an_example_of_every_template(tmp_path: Path) -> None:
    environment = os.environ | {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    transport = StdioTransport(
        sys.executable,
        [*COMMAND, "serve", "--demo"],
        environment,
        str(ROOT),
        keep_alive=False,
        log_file=tmp_path / "log",
    )
    async with Client(transport, timeout=SECONDS, init_timeout=SECONDS) as client:
        listed = {str(resource.uri) for resource in await client.list_resources()}
        templates = {template.uri_template for template in await client.list_resource_templates()}
        assert {row.uri for row in RESOURCES} <= listed | templates
        for row in RESOURCES:
            assert await client.read_resource(row.example_uri or row.uri), row.uri
        written = await client.call_tool("workflow_create", {"workflow_id": "one", "name": "One"})
        assert written.structured_content is not None
        refused = await client.call_tool(
            "symbolic_check",
            {"code": "def f(x: int) -> int:\n    return x", "function_name": "f"},
            raise_on_error=False,
        )
    assert "Linux" in json.dumps(refused.structured_content)
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")


@pytest.mark.soak
def test_the_demo_compares_both_surfaces(tmp_path: Path) -> None:
    done = run(tmp_path, "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_workers_are_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    done = run(tmp_path, "serve", "--transport", "http", "--workers", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--workers needs Linux or macOS: omit it, and run one server per port" in done.stderr

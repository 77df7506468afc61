"""The command line: arguments, exit statuses, startup errors and imports."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import cycle
from typing import Any, get_args

import pytest

from quilt_mcp import __version__
from quilt_mcp.app.build import find_commit
from quilt_mcp.app.domain import Domain
from quilt_mcp.app.settings import Group, SettingsGroup
from quilt_mcp.commands.cli import complete_demo, list_commands, main
from quilt_mcp.commands.demo import PEOPLE
from quilt_mcp.commands.install import executable
from quilt_mcp.console.worlds import World
from quilt_mcp.demo import world as demo
from quilt_mcp.server import create_server
from tests.support.toys import toy

HEAVY = {"boto3", "botocore", "quilt3", "moto", "requests"}
COMMANDS_WITH_SERVER = (
    ["serve"],
    ["serve", "--transport", "http", "--port", "0"],
    ["serve", "--transport", "http", "--port", "0", "--workers", "2"],
    ["get", "auth://status"],
    ["list"],
    ["doctor"],
)


def start(
    *command: str, stdout: int = subprocess.PIPE, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    variables = os.environ | dict(environment or {})
    return subprocess.run(command, env=variables, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return start(executable(), *arguments, environment=environment)


def imported_by(*imports: str) -> list[set[str]]:
    """Return the top-level modules that a process has imported after each of these imports."""
    shown = "print(*{name.partition('.')[0] for name in sys.modules})"
    code = "; ".join(["import sys", *(f"import {modules}; {shown}" for modules in imports)])
    return [set(line.split()) for line in start(sys.executable, "-c", code).stdout.splitlines()]


def read_refusal(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(command) == 2
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert (captured.out, line.startswith("quilt-mcp: ")) == ("", True)
    return line.removeprefix("quilt-mcp: ")


def test_help_names_every_command_and_each_has_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    bare = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == bare
    assert all(f" {name} " in bare for name in list_commands())
    for command in list_commands():
        assert main([command, "--help"]) == 0
        assert f"Usage: quilt-mcp {command}" in capsys.readouterr().out


@pytest.mark.parametrize("command", [(executable(),), (sys.executable, "-m", "quilt_mcp")], ids=["script", "module"])
def test_the_version_needs_no_valid_settings(command: tuple[str, ...]) -> None:
    invalid = {"QUILT_MCP_DEADLINE_SECONDS": "abc", "FASTMCP_LOG_LEVEL": "abc"}
    found = start(*command, "--version", environment=invalid)
    assert (found.returncode, found.stdout) == (0, f"quilt-mcp {__version__} ({find_commit() or 'unknown commit'})\n")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nonsense"], "nonsense"),
        (["get", "--nonsense"], "--nonsense"),
        (["get", "auth://status", "auth://status"], "auth://status"),
        (["get", "auth://status", "--demo", "mars"], "mars"),
        (["demo", "--world", "mars"], "signed_out"),
        (["serve", "--port", "eighty"], "eighty"),
        (["serve", "--port", "65536"], "65536"),
        (["serve", "--port"], "--port"),
        (["serve", "--port", "0"], "--transport http"),
        (["serve", "--host", "192.0.2.1", "--demo"], "--transport http"),
        (["serve", "--transport", "carrier-pigeon"], "stdio"),
        (["install", "emacs"], "claude-desktop"),
        (["install", "cursor", "--env", "NOVALUE"], "KEY=VALUE"),
    ],
    ids=" ".join,
)
def test_an_invalid_argument_gives_one_line(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert word in read_refusal(arguments, capsys)


DEADLINE, MEMORY = "QUILT_MCP_DEADLINE_SECONDS", "QUILT_MCP_ANALYSIS_MEMORY_LIMIT_MB"
ONE_VARIABLE = "Invalid environment variable {}: "
INVALID_SETTINGS: list[tuple[dict[str, str], str]] = [
    ({DEADLINE: "abc"}, ONE_VARIABLE.format(DEADLINE)),
    ({"quilt_mcp_log_level": "abc"}, ONE_VARIABLE.format("quilt_mcp_log_level")),
    # those with two names are reported by the name that is set
    ({"SYMBOLIC_MEMORY_LIMIT_MB": "abc"}, ONE_VARIABLE.format("SYMBOLIC_MEMORY_LIMIT_MB")),
    ({"symbolic_code_size_limit": "1"}, ONE_VARIABLE.format("symbolic_code_size_limit")),
    ({"SYMBOLIC_MEMORY_LIMIT_MB": "512", MEMORY: "abc"}, ONE_VARIABLE.format(MEMORY)),
    ({DEADLINE: "1", "QUILT_MCP_PROBE_SECONDS": "2"}, "Invalid settings: QUILT_MCP_PROBE_SECONDS "),
]


@pytest.mark.parametrize(
    ("command", "given", "line"),
    [(command, *case) for command, case in zip(COMMANDS_WITH_SERVER, INVALID_SETTINGS, strict=True)],
)
def test_an_invalid_setting_gives_one_line(
    command: list[str],
    given: dict[str, str],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    assert read_refusal(command, capsys).startswith(line)


class ShopSettings(SettingsGroup):
    group = Group("Shop", "")

    opening: str = "9"


NO_FILE = "QUILT_MCP_STATIC_TOKENS is neither a valid value nor a readable file."
INVALID_DOMAINS: dict[str, list[dict[str, Any]]] = {
    "The setting opening needs no_such_library: install the extra `shopping`, or unset it.": [
        {"name": "shop", "settings": ShopSettings, "libraries": ("no_such_library",), "extra": "shopping"}
    ],
    "The domains shop and market both claim shop://.": [
        {"name": name, "resources": [toy(f"shop://{name}", dict)]} for name in ("shop", "market")
    ],
}


@pytest.mark.parametrize(("command", "line"), [*zip(COMMANDS_WITH_SERVER, cycle((*INVALID_DOMAINS, NO_FILE)))])
def test_an_invalid_domain_or_sign_in_gives_one_line(
    line: str, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """tests/app/test_main.py has more of the domains."""
    monkeypatch.setenv("QUILT_MCP_OPENING", "10")
    if line == NO_FILE:
        monkeypatch.setenv("QUILT_MCP_STATIC_TOKENS", "/none")
    else:
        domains = [Domain(**{"resources": []} | one) for one in INVALID_DOMAINS[line]]
        monkeypatch.setattr("quilt_mcp.commands.startup.create_server", lambda: create_server(domains=domains))
    assert read_refusal(command, capsys) == line


def test_an_invalid_setting_of_fastmcp_gives_one_line() -> None:
    found = run("list", FASTMCP_LOG_LEVEL="abc")
    assert (found.returncode, found.stdout) == (2, "")
    assert "FASTMCP_LOG_LEVEL" in found.stderr
    assert found.stderr.count("\n") == 1


def test_without_docstrings_the_error_names_the_option() -> None:
    found = start(sys.executable, "-OO", "-c", "from quilt_mcp.commands.entry import main; raise SystemExit(main())")
    assert (found.returncode, found.stdout) == (2, "")
    assert "unset -OO or PYTHONOPTIMIZE=2" in found.stderr


@pytest.mark.soak
@pytest.mark.parametrize("library", ["graphql", "moto", "trustme"])
def test_without_a_library_of_the_demo_the_error_names_the_extra(library: str) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; from quilt_mcp.commands.cli import main; "
    found = start(sys.executable, "-c", code + "main(['doctor'])")
    assert "demo world not installed; install the extra `demo`" in " ".join(found.stdout.split())
    found = start(sys.executable, "-c", code + "sys.exit(main(['get', '--demo']))")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("quilt-mcp: The demo world is not installed: install the extra `demo`: `")
    assert found.stderr.endswith("]'`.\n")
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "completed"),
    [
        (["get", "--demo"], ["get", "--demo=admin"]),
        (["get", "--demo", "--json"], ["get", "--demo=admin", "--json"]),
        (["get", "--demo", "auth://status"], ["get", "--demo=admin", "auth://status"]),
        (["get", "auth://status", "--demo", "member"], ["get", "auth://status", "--demo", "member"]),
        (["get", "--demo=member"], ["get", "--demo=member"]),
        ([], []),
    ],
)
def test_the_default_demo_world_is_admin(given: list[str], completed: list[str]) -> None:
    assert list(complete_demo(given)) == completed


def test_the_options_list_every_world() -> None:
    assert get_args(World) == tuple(demo.PEOPLE)
    assert tuple(PEOPLE) == tuple(demo.PEOPLE)


def test_the_parser_imports_no_heavy_libraries() -> None:
    of_command, of_parser = imported_by("quilt_mcp.commands.cli", "quilt_mcp.console.parser")
    assert not of_command & {*HEAVY, "fastmcp", "pydantic", "cyclopts"}
    assert "cyclopts" in of_parser
    assert not of_parser & {*HEAVY, "fastmcp", "pydantic"}


SERVE = """
import gc, sys
from quilt_mcp.commands.entry import main
sys.argv = ["quilt-mcp", "serve"]
main()
print(gc.isenabled(), *{name.partition(".")[0] for name in sys.modules})
"""


def test_the_first_answers_over_stdio_need_no_libraries_beside_those_of_fastmcp() -> None:
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    asked = {"initialize": initialize, "resources/read": {"uri": "metadata://templates"}}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}) + "\n"
        for number, (method, parameters) in enumerate(asked.items())
    ]
    found = subprocess.run(
        [sys.executable, "-c", SERVE], input="".join(lines), capture_output=True, text=True, check=True
    )
    assert ["result" in json.loads(line) for line in found.stdout.splitlines()] == [True, True]
    collects, *imported = found.stderr.splitlines()[-1].split()
    assert not {*HEAVY, "cyclopts", "attr", "griffe", "sqlalchemy", "limits", "prometheus_client"} & {*imported}
    first = subprocess.run([sys.executable, "-c", SERVE], input=lines[0], capture_output=True, text=True, check=True)
    assert (collects, "fastmcp" in imported, "key_value" in first.stderr.split()) == ("True", True, False)


@pytest.mark.soak
@pytest.mark.parametrize("arguments", [["list", "--json"], ["--help"]], ids=" ".join)
def test_a_closed_stdout_gives_no_traceback(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    found = start(executable(), *arguments, stdout=writing)
    os.close(writing)
    assert (found.returncode != 0, found.stderr) == (True, "")

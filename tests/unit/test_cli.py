"""The command line: what it takes, its exit statuses, and what it imports."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import get_args

import pytest

from quilt_mcp import __version__
from quilt_mcp.cli import COMMANDS, complete_demo, main
from quilt_mcp.commands.demo import PEOPLE
from quilt_mcp.commands.install import executable
from quilt_mcp.commands.options import World
from quilt_mcp.demo.world import WORLDS

HEAVY = {"boto3", "botocore", "quilt3", "moto", "requests"}


def started(
    *command: str, stdout: int = subprocess.PIPE, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    variables = os.environ | dict(environment or {})
    return subprocess.run(command, env=variables, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a person starts it."""
    return started(executable(), *arguments, environment=environment)


def imported_by(modules: str) -> set[str]:
    """The top-level modules in a process that has imported these."""
    code = f"import sys, {modules}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    return set(started(sys.executable, "-c", code).stdout.split())


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    bare = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == bare
    assert all(f" {name} " in bare for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"Usage: quilt-mcp {command}" in capsys.readouterr().out


def test_the_version_needs_no_sound_setting() -> None:
    found = run("--version", QUILT_MCP_DEADLINE_SECONDS="abc", FASTMCP_LOG_LEVEL="abc")
    assert (found.returncode, found.stdout) == (0, f"quilt-mcp {__version__}\n")


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
        (["serve", "--transport", "carrier-pigeon"], "stdio"),
        (["install"], "CLIENT"),
        (["install", "emacs"], "claude-desktop"),
        (["install", "cursor", "--env", "NOVALUE"], "KEY=VALUE"),
    ],
    ids=" ".join,
)
def test_a_wrong_argument_gets_one_line(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("quilt-mcp: ")
    assert captured.err.count("\n") == 1
    assert word in captured.err


@pytest.mark.parametrize("command", ["list", "serve"])
@pytest.mark.parametrize("variable", ["QUILT_MCP_DEADLINE_SECONDS", "quilt_mcp_log_level"])
def test_a_broken_setting_gets_one_line(
    command: str, variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "abc")
    assert main([command]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"quilt-mcp: The environment variable {variable} is wrong: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"SYMBOLIC_MEMORY_LIMIT_MB": "abc"}, "SYMBOLIC_MEMORY_LIMIT_MB"),
        ({"symbolic_code_size_limit": "1"}, "symbolic_code_size_limit"),
        (
            {"SYMBOLIC_MEMORY_LIMIT_MB": "512", "QUILT_MCP_ANALYSIS_MEMORY_LIMIT_MB": "abc"},
            "QUILT_MCP_ANALYSIS_MEMORY_LIMIT_MB",
        ),
    ],
)
def test_a_broken_setting_with_two_names_is_told_by_the_one_that_is_set(
    given: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    assert main(["list"]) == 2
    assert f"The environment variable {named} is wrong: " in capsys.readouterr().err


def test_settings_that_do_not_fit_together_get_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUILT_MCP_DEADLINE_SECONDS", "1")
    monkeypatch.setenv("QUILT_MCP_PROBE_SECONDS", "2")
    assert main(["list"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("quilt-mcp: The environment is wrong: QUILT_MCP_PROBE_SECONDS ")
    assert error.count("\n") == 1


def test_a_broken_setting_of_fastmcp_gets_one_line() -> None:
    found = run("list", FASTMCP_LOG_LEVEL="abc")
    assert (found.returncode, found.stdout) == (2, "")
    assert "FASTMCP_LOG_LEVEL" in found.stderr
    assert found.stderr.count("\n") == 1


def test_without_moto_the_demo_world_says_what_to_install() -> None:
    code = "import sys; sys.modules['moto'] = None; from quilt_mcp.cli import main; sys.exit(main(['get', '--demo']))"
    found = started(sys.executable, "-c", code)
    assert (found.returncode, found.stdout) == (2, "")
    said = "quilt-mcp: The demo world is not installed: run `make install EXTRAS=demo` in the source directory\n"
    assert found.stderr == said


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
def test_demo_without_a_world_means_admin(given: list[str], completed: list[str]) -> None:
    assert list(complete_demo(given)) == completed


def test_the_options_know_every_world() -> None:
    assert get_args(World) == WORLDS
    assert tuple(PEOPLE) == WORLDS


def test_the_parser_imports_neither_the_server_nor_the_world() -> None:
    found = imported_by("quilt_mcp.cli")
    assert "cyclopts" in found
    assert not found & {*HEAVY, "fastmcp", "pydantic"}


def test_the_server_starts_without_the_heavy_libraries() -> None:
    found = imported_by("quilt_mcp.main, quilt_mcp.commands.serve")
    assert "fastmcp" in found
    assert not found & HEAVY


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """The writing end of a pipe from which nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("arguments", [["list", "--json"], ["--help"]], ids=" ".join)
def test_a_closed_stdout_gives_no_traceback(arguments: list[str], closed_pipe: int) -> None:
    found = started(executable(), *arguments, stdout=closed_pipe)
    assert found.returncode != 0
    assert found.stderr == ""


def test_output_for_no_terminal_is_plain_and_not_wrapped() -> None:
    found = run("list", COLUMNS="20", NO_COLOR="1")
    assert "\x1b" not in found.stdout
    [row] = [
        line for line in found.stdout.splitlines() if line.startswith("workflow://workflows/{workflow_id}/status ")
    ]
    assert row.split("  ")[-1].strip() == "workflow_id"
    assert " Workflow Status " in row

"""`quilt-mcp install`, in a temporary home directory."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.clients import CLIENTS
from quilt_mcp.commands.install import executable
from tests.support.client_home import home, started

__all__ = ["home", "started"]
pytestmark = pytest.mark.usefixtures("started")

OTHER = {"command": "/usr/bin/other", "args": ["--fast"]}


@pytest.fixture
def cursor(home: Path) -> Path:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"theme": "größer", "mcpServers": {"other": OTHER}}), encoding="utf-8")
    return path


def content(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def test_the_entry_starts_this_server(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "cursor", "--env", "A=1=2", "--env", "B="]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "mcpServers": {"quilt": {"command": executable(), "args": ["serve"], "env": {"A": "1=2", "B": ""}}}
    }
    assert str(home / ".cursor" / "mcp.json") in captured.err
    assert Path(executable()).is_absolute()
    assert list(home.iterdir()) == []


LINUX = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "zed": ".config/zed/settings.json",
    "gemini-cli": ".gemini/settings.json",
}
KEYS = {"vscode": "servers", "zed": "context_servers"}


@pytest.mark.skipif(sys.platform != "linux", reason="these paths are those of Linux")
@pytest.mark.parametrize("client", LINUX)
def test_a_missing_file_is_created_and_removed(client: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", client, "--write", "--demo"]) == 0
    [path] = [path for path in home.rglob("*") if path.is_file()]
    assert path == home / LINUX[client]
    written = content(path)
    entry = written[KEYS.get(client, "mcpServers")]["quilt"]
    assert written == {KEYS.get(client, "mcpServers"): {"quilt": entry}}
    assert (entry.pop("type", None), entry) == (
        "stdio" if client == "vscode" else None,
        {"command": executable(), "args": ["serve", "--demo", "admin"]},
    )
    assert f"+++ {path}\n" in capsys.readouterr().out
    assert main(["install", client, "--remove"]) == 0
    assert not path.exists()
    assert f"Removed the server quilt from {path}." in capsys.readouterr().out


def test_zed_has_another_directory_on_macos(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "elsewhere"))
    assert CLIENTS["zed"].find_files() == [home / "elsewhere" / "zed" / "settings.json"]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert CLIENTS["zed"].find_files() == [home / ".config" / "zed" / "settings.json"]


def test_the_change_is_shown_before_it_is_written(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "cursor", "--write", "--env", "A=1"]) == 0
    capsys.readouterr()
    before = cursor.read_bytes()
    assert main(["install", "cursor", "--env", "A=2"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["mcpServers"]["quilt"]["env"] == {"A": "2"}
    assert cursor.read_bytes() == before
    assert main(["install", "cursor", "--write", "--env", "A=2"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line[:1] in "+-"] == [
        f"--- {cursor}",
        f"+++ {cursor}",
        '-        "A": "1"',
        '+        "A": "2"',
    ]
    assert "other" not in shown  # it can contain secrets
    assert shown.index("+++") < shown.index("Added the server")


def test_removing_restores_the_file(cursor: Path) -> None:
    original = cursor.read_bytes()
    cursor.chmod(0o640)
    for arguments in (["--env", "A=1"], ["--demo"], []):
        assert main(["install", "cursor", "--write", *arguments]) == 0
    installed = cursor.read_bytes()
    assert main(["install", "cursor", "--remove"]) == 0
    assert cursor.read_bytes() == original
    assert cursor.stat().st_mode & 0o777 == 0o640
    assert installed in [path.read_bytes() for path in cursor.parent.iterdir()]


def test_removing_keeps_later_changes(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "cursor", "--write"]) == 0
    cursor.write_text(cursor.read_text("utf-8").replace("--fast", "--slow"), "utf-8")
    assert main(["install", "cursor", "--remove"]) == 0
    assert content(cursor) == {"theme": "größer", "mcpServers": {"other": OTHER | {"args": ["--slow"]}}}
    files = set(cursor.parent.iterdir())
    capsys.readouterr()
    assert main(["install", "cursor", "--remove"]) == 0
    assert capsys.readouterr().out == f"{cursor} has no server quilt.\n"
    assert set(cursor.parent.iterdir()) == files


@pytest.mark.parametrize("words", [["--env", "A=1"], ["--demo"]])
def test_removing_takes_no_other_option(words: list[str], cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "cursor", "--remove", *words]) == 2
    assert capsys.readouterr().err == "quilt-mcp: --remove takes neither --env nor --demo.\n"


def test_what_a_client_adds_to_the_entry_is_kept(cursor: Path) -> None:
    added = {"disabled": False, "autoApprove": ["get_resource"], "timeout": 1e2, "env": {"A": "0", "B": "1"}}
    old = {"command": r"C:\old\quilt-mcp.EXE", "args": ["serve", "--demo"], **added}
    cursor.write_text(json.dumps({"mcpServers": {"quilt": old}}), "utf-8")
    assert main(["install", "cursor", "--write", "--env", "A=1"]) == 0
    expected = {"command": executable(), "args": ["serve"], **added, "env": {"A": "1", "B": "1"}}
    assert content(cursor) == {"mcpServers": {"quilt": expected}}


def test_the_first_copy_of_the_file_is_kept(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = cursor.read_bytes()
    cursor.chmod(0o640)
    for arguments, name in ((["--env", "A=1"], "mcp.json.bak"), (["--env", "A=2"], "mcp.json.bak-2")):
        before = cursor.read_bytes()
        capsys.readouterr()
        assert main(["install", "cursor", "--write", *arguments]) == 0
        copy = cursor.with_name(name)
        assert f"The previous file: {copy}\n" in capsys.readouterr().out
        assert (copy.read_bytes(), copy.stat().st_mode & 0o777) == (before, 0o640)
    assert main(["install", "cursor", "--write"]) == 0  # changes nothing, so it needs no copy
    assert "The previous file" not in capsys.readouterr().out
    assert cursor.with_name("mcp.json.bak").read_bytes() == original
    assert {path.name for path in cursor.parent.iterdir()} == {"mcp.json", "mcp.json.bak", "mcp.json.bak-2"}


def test_a_symbolic_link_to_the_file_is_kept(cursor: Path, home: Path) -> None:
    kept = home / "dotfiles.json"
    cursor.rename(kept)
    cursor.symlink_to(kept)
    assert main(["install", "cursor", "--write"]) == 0
    assert cursor.is_symlink()
    assert content(kept)["mcpServers"].keys() == {"other", "quilt"}


def test_a_path_that_cannot_be_written_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".cursor").write_text("in the way")
    assert main(["install", "cursor", "--write"]) == 1
    assert str(home / ".cursor") in capsys.readouterr().err


def test_removing_leaves_no_symbolic_link_without_a_target(home: Path) -> None:
    assert main(["install", "claude-code", "--write"]) == 0
    link, kept = home / ".claude.json", home / "dotfiles.json"
    link.rename(kept)
    link.symlink_to(kept)
    assert main(["install", "claude-code", "--remove"]) == 0
    assert (link.readlink(), content(kept)) == (kept, {})


def test_a_named_pipe_beside_the_file_is_not_read_as_a_copy(cursor: Path) -> None:
    os.mkfifo(cursor.with_name("mcp.json.bak"))
    original = cursor.read_bytes()
    assert main(["install", "cursor", "--write"]) == 0
    assert main(["install", "cursor", "--remove"]) == 0
    assert cursor.read_bytes() == original


@pytest.mark.soak
@pytest.mark.parametrize("is_installed", [False, True], ids=["new", "installed before"])
def test_nothing_is_written_if_the_server_cannot_start(home: Path, *, is_installed: bool) -> None:
    wrong = {"QUILT_MCP_LIST_PAGE_SIZE": "x"}
    file = home / ".cursor" / "mcp.json"
    if is_installed:  # the entry keeps its variables
        file.parent.mkdir()
        file.write_text(
            json.dumps({"mcpServers": {"quilt": {"command": "/old/quilt-mcp", "args": ["serve"], "env": wrong}}})
        )
    before = file.read_bytes() if is_installed else None
    options = [] if is_installed else [f"--env={name}={value}" for name, value in wrong.items()]
    command = [executable(), "install", "cursor", "--write", *options]
    of_shell = {"SYMBOLIC_MEMORY_LIMIT_MB": "x"}  # which the client does not have
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | of_shell)
    problem = "the server does not start with this entry: Invalid environment variable QUILT_MCP_LIST_PAGE_SIZE: "
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith(f"{file} was not changed: {problem}")
    assert found.stderr.count("\n") == 1
    assert (file.read_bytes() if file.exists() else None) == before

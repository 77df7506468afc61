"""`quilt-mcp install`, in a temporary home directory."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands import install
from quilt_mcp.commands.cli import main
from quilt_mcp.commands.install import executable

OTHER = {"command": "/usr/bin/other", "args": ["--fast"]}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Record which servers would be started. tests/contract/test_first_answers.py starts one."""
    calls: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(install, "keep_first_answers", lambda command, variables: calls.append((command, variables)))
    return calls


@pytest.fixture
def cursor(home: Path) -> Path:
    """Cursor's configuration with one server and one setting."""
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


@pytest.mark.parametrize(
    ("client", "name"),
    [("claude-desktop", "claude_desktop_config.json"), ("claude-code", ".claude.json"), ("cursor", "mcp.json")],
)
def test_a_missing_file_is_created(client: str, name: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", client, "--write", "--demo"]) == 0
    [path] = [path for path in home.rglob("*") if path.is_file()]
    assert path.name == name
    assert content(path)["mcpServers"]["quilt"]["args"] == ["serve", "--demo", "admin"]
    assert str(path) in capsys.readouterr().out


def test_everything_else_in_the_file_is_kept(cursor: Path) -> None:
    before = cursor.read_bytes()
    cursor.chmod(0o640)
    assert main(["install", "cursor", "--write"]) == 0
    after = content(cursor)
    assert after["theme"] == "größer"
    assert after["mcpServers"]["other"] == OTHER
    assert after["mcpServers"]["quilt"]["command"] == executable()
    assert cursor.stat().st_mode & 0o777 == 0o640
    assert cursor.with_name("mcp.json.bak").read_bytes() == before
    assert {path.name for path in cursor.parent.iterdir()} == {"mcp.json", "mcp.json.bak"}


def test_installing_again_keeps_the_environment(cursor: Path) -> None:
    assert main(["install", "cursor", "--write", "--env", "A=1", "--env", "B=1", "--demo"]) == 0
    assert main(["install", "cursor", "--write", "--env", "B=2"]) == 0
    assert content(cursor)["mcpServers"]["quilt"] == {
        "command": executable(),
        "args": ["serve"],
        "env": {"A": "1", "B": "2"},
    }


def test_the_first_copy_of_the_file_is_kept(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = cursor.read_bytes()
    for arguments, name in ((["--env", "A=1"], "mcp.json.bak"), (["--env", "A=2"], "mcp.json.bak-2")):
        before = cursor.read_bytes()
        capsys.readouterr()
        assert main(["install", "cursor", "--write", *arguments]) == 0
        copy = cursor.with_name(name)
        assert f"The previous file: {copy}\n" in capsys.readouterr().out
        assert copy.read_bytes() == before
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


@pytest.mark.parametrize("text", ["{ // no JSON\n}", "[]", '{"mcpServers": []}'])
def test_an_invalid_file_is_not_changed(text: str, cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.write_text(text)
    assert main(["install", "cursor", "--write"]) == 1
    assert cursor.read_text() == text
    assert list(cursor.parent.iterdir()) == [cursor]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert str(cursor) in captured.err


def test_an_empty_file_with_a_byte_order_mark_is_valid(cursor: Path) -> None:
    cursor.write_bytes(b"\xef\xbb\xbf\n")
    assert main(["install", "cursor", "--write"]) == 0
    assert content(cursor)["mcpServers"].keys() == {"quilt"}


def test_a_path_that_cannot_be_written_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".cursor").write_text("in the way")
    assert main(["install", "cursor", "--write"]) == 1
    assert str(home / ".cursor") in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.parametrize("is_installed", [False, True], ids=["new", "installed before"])
def test_nothing_is_written_if_the_server_cannot_start(home: Path, *, is_installed: bool) -> None:
    wrong = {"QUILT_MCP_LIST_PAGE_SIZE": "x"}
    file = home / ".cursor" / "mcp.json"
    if is_installed:  # the entry keeps its variables
        file.parent.mkdir()
        file.write_text(json.dumps({"mcpServers": {"quilt": {"command": "old", "env": wrong}}}))
    before = file.read_bytes() if is_installed else None
    options = [] if is_installed else [f"--env={name}={value}" for name, value in wrong.items()]
    command = [executable(), "install", "cursor", "--write", *options]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    problem = "the server does not start with this entry: Invalid environment variable QUILT_MCP_LIST_PAGE_SIZE: "
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith(f"{file} was not changed: {problem}")
    assert found.stderr.count("\n") == 1
    assert (file.read_bytes() if file.exists() else None) == before

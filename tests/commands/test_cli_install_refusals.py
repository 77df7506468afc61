"""What `quilt-mcp install` refuses: one line on stderr, and nothing is written."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands import install
from quilt_mcp.commands.cli import main
from tests.support.client_home import home, remove_home, started

__all__ = ["home", "started"]
pytestmark = pytest.mark.usefixtures("started")

OURS = {"command": "/old/quilt-mcp", "args": ["serve"]}
OTHERS: dict[str, dict[str, Any]] = {
    "address": {"url": "https://mcp.example.com/mcp"},
    "address of Windsurf": {"serverUrl": "https://mcp.example.com/mcp"},
    "another command": {"command": "uvx", "args": ["other", "serve"]},
    "a server of this name without arguments": {"command": "quilt-mcp"},
    "a server of this name with other arguments": {"command": "quilt-mcp", "args": ["--stdio"]},
    "an address beside a command": {**OURS, "url": "https://mcp.example.com/mcp"},
    "another transport": {**OURS, "type": "http"},
}


@pytest.fixture
def cursor(home: Path) -> Path:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    return path


def list_files(directory: Path) -> dict[Path, bytes | str]:
    return {
        path: str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in directory.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def check_refusal(path: Path, words: str, capsys: pytest.CaptureFixture[str], *, client: str = "cursor") -> None:
    """Check that each form of the command refuses a file."""
    directory = path.parent
    before = list_files(directory)
    for options in (["--write"], ["--remove"]):
        assert main(["install", client, *options]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"{path} was not changed: {words}"), captured.err
        assert captured.err.count("\n") == 1
        assert list_files(directory) == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{ // no JSON\n}", "it is not valid JSON (Expecting property name enclosed in double quotes: line 1 column 3"),
        ('{"a": 1,}', "it is not valid JSON ("),
        ('{\n  "a": [1 2]\n}', "it is not valid JSON (Expecting ',' delimiter: line 2 column 11"),
        ('{"a": NaN}', "it is not valid JSON (NaN is not a JSON value"),
        ('{"a": "\t"}', "it is not valid JSON (Invalid control character at: line 1 column 8"),
        ('{"a": 1} x', "it is not valid JSON (Extra data: line 1 column 10"),
        ('{"a" 1}', "it is not valid JSON"),
        ('{"a": 1', "it is not valid JSON"),
        ("{a: 1}", "it is not valid JSON"),
        ("[]", "it is not a JSON object"),
        ('{"mcpServers": []}', "its mcpServers is not a JSON object"),
        ('{"mcpServers": {"quilt": "x"}}', "its mcpServers.quilt is not a JSON object"),
        ('{"a": 1, "a": 2}', 'it has the name "a" twice: remove one of the two'),
        ('{"mcpServers": {}, "mcpServers": {}}', 'it has the name "mcpServers" twice'),
        ('{"mcpServers": {"quilt": {}, "\\u0071uilt": {}}}', 'its mcpServers has the name "quilt" twice'),
        ('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}", "it is not valid JSON (it has too many levels)"),
        ('{"a": ' * 200_000 + "1" + "}" * 200_000, "it is not valid JSON (it has too many levels)"),
    ],
)
def test_a_file_with_another_content(text: str, words: str, cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.write_text(text)
    check_refusal(cursor, words, capsys)


@pytest.mark.parametrize("server", OTHERS.values(), ids=OTHERS)
def test_another_server_of_the_same_name(
    server: dict[str, Any], cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor.write_text(json.dumps({"mcpServers": {"quilt": server}}))
    check_refusal(cursor, "its mcpServers.quilt is another server: rename or remove it, then", capsys)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"A": "x", "PORT": 1}, "its mcpServers.quilt.env.PORT is not a string: put the value in double quotes"),
        ([], "its mcpServers.quilt.env is not a JSON object"),
    ],
)
def test_variables_that_are_not_texts(
    environment: Any, words: str, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor.write_text(json.dumps({"mcpServers": {"quilt": {**OURS, "env": environment}}}))
    check_refusal(cursor, words, capsys)


@pytest.mark.parametrize("content", ["{}".encode("utf-16"), b'{"a": "\xff"}'])
def test_another_encoding(content: bytes, cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.write_bytes(content)
    check_refusal(cursor, f"it is not UTF-8 (at byte {content.index(0xFF)}): save it as UTF-8", capsys)


def test_an_entry_that_is_not_utf_8(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.write_text("{}")
    assert main(["install", "cursor", "--write", "--env", "A=\udcff"]) == 1
    assert capsys.readouterr().err == f"{cursor} was not changed: the entry contains bytes that are not UTF-8\n"
    assert list_files(cursor.parent) == {cursor: b"{}"}


def test_a_link_without_a_target(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.symlink_to("missing.json")
    check_refusal(cursor, "it is a symbolic link to missing.json, which does not exist: create", capsys)


def test_a_directory_that_is_a_link_without_a_target(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".cursor").symlink_to("missing")
    check_refusal(home / ".cursor" / "mcp.json", f"{home / '.cursor'} is a symbolic link to missing, which", capsys)


def test_a_link_to_itself(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.symlink_to(cursor)
    check_refusal(cursor, "it is a symbolic link that leads to itself: remove the link", capsys)


def test_a_directory_in_the_place_of_the_file(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.mkdir()
    check_refusal(cursor, "it is not a file", capsys)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_in_the_place_of_the_file(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(cursor)
    check_refusal(cursor, "it is not a file", capsys)


def test_a_read_only_file(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.write_text(json.dumps({"mcpServers": {"quilt": OURS}}))
    cursor.chmod(0o444)
    check_refusal(cursor, "it is read-only: make it writable, then run this command again", capsys)
    assert main(["install", "cursor"]) == 0  # prints the entry
    assert cursor.stat().st_mode & 0o777 == 0o444


def test_a_file_that_another_program_changes(
    cursor: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor.write_text("{}")
    monkeypatch.setattr(install, "check_start", lambda command, variables: cursor.write_text('{"a": 1}'))
    assert main(["install", "cursor", "--write"]) == 1
    words = "another program changed it at the same time: run this command again"
    assert capsys.readouterr().err == f"{cursor} was not changed: {words}\n"
    assert list_files(cursor.parent) == {cursor: b'{"a": 1}'}


def check_home_is_missing(client: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--write"], ["--remove"]):
        assert main(["install", client, *options]) == 2
        words = (
            "quilt-mcp: You have no home directory. Set HOME to the absolute path of a directory that you may write.\n"
        )
        assert capsys.readouterr() == ("", words)
    assert list_files(home) == {}


@pytest.mark.parametrize("client", ["cursor", "vscode", "zed"])
def test_no_home_directory(
    client: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    remove_home(monkeypatch)
    check_home_is_missing(client, home, capsys)


@pytest.mark.parametrize("path", ["", "relative"])
def test_a_home_directory_without_an_absolute_path(
    path: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", path)
    check_home_is_missing("cursor", home, capsys)


def test_a_path_with_spaces_and_letters_of_other_languages(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No refusal: the command and the file can be anywhere."""
    place = home / "Größe 数" / "a b"
    place.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(place))
    command = place / "quilt-mcp"
    monkeypatch.setattr(install, "executable", lambda: str(command))
    assert main(["install", "cursor", "--write"]) == 0
    file = place / ".cursor" / "mcp.json"
    assert json.loads(file.read_text("utf-8"))["mcpServers"]["quilt"]["command"] == str(command)
    assert f"Added the server quilt to {file}." in capsys.readouterr().out

"""What `quilt-mcp install` refuses: one line on stderr, and nothing is written."""

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands import install
from quilt_mcp.commands.cli import main
from tests.commands.test_no_home import LINE
from tests.support.client_home import home, remove_home, started

__all__ = ["home", "started"]
pytestmark = pytest.mark.usefixtures("started")

OURS: dict[str, Any] = {"command": "/old/quilt-mcp", "args": ["serve"]}
OTHERS: tuple[dict[str, Any], ...] = (
    *({name: "https://mcp.example.com/mcp"} for name in ("url", "serverUrl")),  # the second is that of Windsurf
    *({"command": "uvx", "args": arguments} for arguments in (["other", "serve"], ["serve"])),
    {"command": "quilt-mcp"},
    {"command": "quilt-mcp", "args": ["--stdio"]},
    OURS | {"url": "https://mcp.example.com/mcp"},
    OURS | {"type": "http"},
)


def with_server(entry: dict[str, Any]) -> str:
    return json.dumps({"mcpServers": {"quilt": entry}})


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


def check_refusal(path: Path, words: str, capsys: pytest.CaptureFixture[str], *, prints: bool = False) -> None:
    directory = path.parent
    before = list_files(directory)
    for option in ("--write", "--remove"):
        assert main(["install", "cursor", option]) == 1
        captured = capsys.readouterr()
        assert (bool(captured.out), captured.err.count("\n")) == (prints, 1)
        assert captured.err.startswith(f"{path} was not changed: {words}"), captured.err
        assert list_files(directory) == before


TEXTS: dict[str | bytes, str] = {
    "{ # no JSON\n}": "it is not valid JSON (Expecting property name enclosed in double quotes: line 1 column 3",
    '{"a": 1,}': "it is not valid JSON (",
    '{\n  "a": [1 2]\n}': "it is not valid JSON (Expecting ',' delimiter: line 2 column 11",
    '{"a": NaN}': "it is not valid JSON (NaN is not a JSON value",
    '{"a": "\t"}': "it is not valid JSON (Invalid control character at: line 1 column 8",
    '{"a": 1} x': "it is not valid JSON (Extra data: line 1 column 10",
    **dict.fromkeys(('{"a" 1}', '{"a": 1', "{a: 1}"), "it is not valid JSON"),
    "[]": "it is not a JSON object",
    '{"mcpServers": []}': "its mcpServers is not a JSON object",
    '{"mcpServers": {"quilt": "x"}}': "its mcpServers.quilt is not a JSON object",
    '{"a": 1, "a": 2}': 'it has the name "a" twice: remove one of the two',
    '{"mcpServers": {}, "mcpServers": {}}': 'it has the name "mcpServers" twice',
    '{"mcpServers": {"quilt": {}, "\\u0071uilt": {}}}': 'its mcpServers has the name "quilt" twice',
    '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}": "it is not valid JSON (it has too many levels)",
    '{"a": ' * 200_000 + "1" + "}" * 200_000: "it is not valid JSON (it has too many levels)",
    with_server(OURS | {"env": {"A": "x", "PORT": 1}}): (
        "its mcpServers.quilt.env.PORT is not a string: put the value in double quotes"
    ),
    with_server(OURS | {"env": []}): "its mcpServers.quilt.env is not a JSON object",
    **dict.fromkeys(map(with_server, OTHERS), "its mcpServers.quilt is another server: rename or remove it, then"),
    "{}".encode("utf-16"): "it is not UTF-8 (at byte 0): save it as UTF-8",
    b'{"a": "\xff"}': "it is not UTF-8 (at byte 7): save it as UTF-8",
}


@pytest.mark.parametrize(("text", "words"), TEXTS.items(), ids=lambda value: str(value)[:40])
def test_a_file_with_another_content(
    text: str | bytes, words: str, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor.write_bytes(text.encode() if isinstance(text, str) else text)
    check_refusal(cursor, words, capsys)


PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a link without a target": (
        lambda path: path.symlink_to("missing.json"),
        "it is a symbolic link to missing.json, which does not exist: create",
    ),
    "a link to itself": (
        lambda path: path.symlink_to(path),
        "it is a symbolic link that leads to itself: remove the link",
    ),
    "a directory": (Path.mkdir, "it is not a file"),
} | ({"a named pipe": (os.mkfifo, "it is not a file")} if hasattr(os, "mkfifo") else {})


@pytest.mark.parametrize(("create", "words"), PLACES.values(), ids=PLACES)
def test_something_else_in_the_place_of_the_file(
    create: Callable[[Path], object], words: str, cursor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(cursor)
    check_refusal(cursor, words, capsys)


def test_an_entry_that_is_not_utf_8(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.write_text("{}")
    assert main(["install", "cursor", "--write", "--env", "A=\udcff"]) == 1
    assert capsys.readouterr().err == f"{cursor} was not changed: the entry contains bytes that are not UTF-8\n"
    assert list_files(cursor.parent) == {cursor: b"{}"}


def test_a_directory_that_is_a_link_without_a_target(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".cursor").symlink_to("missing")
    check_refusal(home / ".cursor" / "mcp.json", f"{home / '.cursor'} is a symbolic link to missing, which", capsys)


def test_a_read_only_file(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.write_text(json.dumps({"mcpServers": {"quilt": OURS}}))
    cursor.chmod(0o444)
    check_refusal(cursor, "it is read-only: make it writable, then run this command again", capsys)
    assert main(["install", "cursor"]) == 0  # prints the entry
    assert cursor.stat().st_mode & 0o777 == 0o444


def test_a_full_disk_leaves_no_part_of_a_copy(cursor: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor.write_text(with_server(OURS))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        check_refusal(cursor, "[Errno 27] File too large", capsys, prints=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_another_program_changes(
    cursor: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor.write_text("{}")
    monkeypatch.setattr(install, "check_start", lambda command, variables: cursor.write_text('{"a": 1}'))
    assert main(["install", "cursor", "--write"]) == 1
    words = "another program changed it at the same time: run this command again"
    assert capsys.readouterr().err == f"{cursor} was not changed: {words}\n"
    assert list_files(cursor.parent) == {cursor: b'{"a": 1}'}


@pytest.mark.parametrize(
    ("client", "path"),
    [*((client, None) for client in ("cursor", "vscode", "zed")), *(("cursor", one) for one in ("", "x", "/dev/null"))],
)
def test_no_home_directory_with_an_absolute_path(
    client: str, path: str | None, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    if path is None:
        remove_home(monkeypatch)
    else:
        monkeypatch.setenv("HOME", path)
    for options in ([], ["--write"], ["--remove"]):
        assert main(["install", client, *options]) == 2
        assert capsys.readouterr() == ("", LINE)
    assert list_files(home) == {}


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

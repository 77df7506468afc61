"""The files of the clients that `quilt-mcp install` knows, their languages, and the clients of this machine."""

import io
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyjson5
import pytest
import yaml

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.clients import CLIENTS, ClientName
from quilt_mcp.commands.doctor import find_next, list_connected
from quilt_mcp.commands.install import executable
from tests.support.client_home import home, started

__all__ = ["home", "started"]
pytestmark = pytest.mark.usefixtures("started")

COMMAND = executable()
PLAIN = {"command": COMMAND, "args": ["serve"], "env": {"A": "1"}}
WRITTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "codex": (".codex/config.toml", {"mcp_servers": {"quilt": {"startup_timeout_sec": 60, **PLAIN}}}),
    "copilot-cli": (
        ".copilot/mcp-config.json",
        {"mcpServers": {"quilt": {"type": "local", "tools": ["*"], **PLAIN}}},
    ),
    "jetbrains": (".config/github-copilot/intellij/mcp.json", {"servers": {"quilt": {"type": "stdio", **PLAIN}}}),
    "cline": (".cline/data/settings/cline_mcp_settings.json", {"mcpServers": {"quilt": PLAIN}}),
    "opencode": (
        ".config/opencode/opencode.json",
        {
            "mcp": {
                "quilt": {
                    "type": "local",
                    "enabled": True,
                    "timeout": 60_000,
                    "command": [COMMAND, "serve"],
                    "environment": {"A": "1"},
                }
            }
        },
    ),
    "goose": (
        ".config/goose/config.yaml",
        {
            "extensions": {
                "quilt": {
                    "name": "quilt",
                    "type": "stdio",
                    "enabled": True,
                    "timeout": 300,
                    "cmd": COMMAND,
                    "args": ["serve"],
                    "envs": {"A": "1"},
                }
            }
        },
    ),
    "kiro": (".kiro/settings/mcp.json", {"mcpServers": {"quilt": PLAIN}}),
    "lm-studio": (".lmstudio/mcp.json", {"mcpServers": {"quilt": PLAIN}}),
}


def read(text: str, suffix: str) -> Any:
    return {".toml": tomllib.loads, ".yaml": yaml.safe_load}.get(suffix, pyjson5.loads)(text)


@pytest.mark.skipif(sys.platform != "linux", reason="these paths are those of Linux")
@pytest.mark.parametrize("client", WRITTEN)
def test_a_new_file_has_the_form_of_the_client(
    client: ClientName, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, expected = WRITTEN[client]
    path = home / name
    assert main(["install", client, "--env", "A=1"]) == 0
    captured = capsys.readouterr()
    assert read(captured.out, path.suffix) == expected
    assert str(path) in captured.err
    assert main(["install", client, "--env", "A=1", "--write"]) == 0
    assert [file for file in home.rglob("*") if file.is_file()] == [path]
    assert read(path.read_text("utf-8"), path.suffix) == expected
    before = path.read_bytes()
    assert main(["install", client, "--write"]) == 0  # the variables stay
    assert path.read_bytes() == before
    assert main(["install", client, "--remove"]) == 0
    assert not path.exists()


TOML = """# My settings
model = "gpt-5"   # the newest

[mcp_servers.other]   # keep
command = "x"
args = ["a",
  "b"]  # two

[tui]
theme = "dark"
"""
YAML = """# My settings
GOOSE_MODEL: gpt-5
extensions:
  # the first one
  developer:
    enabled: true   # always
    type: builtin

  other:
    cmd: "x"
    args: [a, b]
# the end
GOOSE_MODE: auto
"""
CHANGED = ("null", "{}", "= {")
"""Parts of lines that must change: an entry on the same line."""
TEXTS = {
    "toml": ("codex", TOML),
    "toml without servers": ("codex", 'model = "a"\n'),
    "toml without a line end": ("codex", 'model = "a"'),
    "toml with CRLF": ("codex", TOML.replace("\n", "\r\n")),
    "toml with a byte order mark": ("codex", f"\ufeff{TOML}"),
    "toml with an inline table": ("codex", 'mcp_servers = {other = {command = "x"}}\n'),
    "toml with dotted keys": ("codex", 'mcp_servers.other.command = "x"\n'),
    "empty toml": ("codex", ""),
    "yaml": ("goose", YAML),
    "yaml without extensions": ("goose", "GOOSE_MODEL: gpt-5\n"),
    "yaml without a line end": ("goose", "GOOSE_MODEL: gpt-5"),
    "yaml with null": ("goose", "extensions:\nGOOSE_MODEL: gpt-5\n"),
    "yaml with an empty mapping": ("goose", "extensions: {}\nGOOSE_MODEL: gpt-5\n"),
    "yaml with CRLF": ("goose", YAML.replace("\n", "\r\n")),
    "yaml with wide indentation": ("goose", "extensions:\n        other:\n                cmd: x\n"),
    "null": ("cursor", '{"mcpServers": null, "a": 1}\n'),
    "null alone": ("kiro", '{\n  "mcpServers": null\n}'),
    "comments": ("cursor", '{\n  // mine\n  "mcpServers": {\n    /* other */ "other": {"command": "x"}\n  }\n}\n'),
    "comments and commas": (
        "opencode",
        '{\n  "$schema": "x", // mine\n  "mcp": {\n    "other": {"type": "local"},\n  },\n}\n',
    ),
}


@pytest.mark.parametrize(("client", "text"), TEXTS.values(), ids=TEXTS)
def test_the_rest_of_a_file_is_kept_and_restored(client: ClientName, text: str, home: Path) -> None:
    path = CLIENTS[client].find_files()[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    assert main(["install", client, "--write", "--env", "A=1"]) == 0
    written = path.read_bytes().decode()
    kept = [line for line in text.split("\n") if line.strip() and not any(one in line for one in CHANGED)]
    assert [line for line in kept if line not in written.split("\n") and line.rstrip(",\r") not in written] == []
    assert ("\r\n" in text) == ("\r\n" in written)
    assert written.count("\n") == written.count("\r\n") or "\r\n" not in text
    values = read(written.removeprefix("\ufeff"), path.suffix)
    before = read(text.removeprefix("\ufeff") or "", path.suffix) if text else {}
    servers = values.pop(CLIENTS[client].servers)
    others = before.pop(CLIENTS[client].servers, None) or {}
    assert (values, {name: one for name, one in servers.items() if name != "quilt"}) == (before, others)
    assert main(["install", client, "--write"]) == 0
    assert path.read_bytes().decode() == written
    assert main(["install", client, "--write", "--env", "A=2"]) == 0
    assert main(["install", client, "--remove"]) == 0
    assert path.read_bytes().decode() == text


@pytest.mark.parametrize(("client", "text"), [("codex", TOML), ("goose", YAML)])
def test_removing_without_a_copy_keeps_the_rest(client: ClientName, text: str, home: Path) -> None:
    path = CLIENTS[client].find_files()[0]
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert main(["install", client, "--write"]) == 0
    for copy in path.parent.glob("*.bak*"):
        copy.unlink()
    assert main(["install", client, "--remove"]) == 0
    assert path.read_text().replace("\n", "") == text.replace("\n", "")


REFUSED = {
    "model = ": ("codex", "it is not valid TOML"),
    "[mcp_servers]\nquilt = 1\n": ("codex", "is not a table"),
    "mcp_servers = 1\n": ("codex", "its mcp_servers is not a table"),
    '[mcp_servers.quilt]\nurl = "https://mcp.example.com"\n': ("codex", "its mcp_servers.quilt is another server"),
    "a: [": ("goose", "it is not valid YAML (line "),
    "- a\n": ("goose", "it is not a mapping"),
    "extensions: [a]\n": ("goose", "its extensions is not a mapping"),
    "extensions: {other: {cmd: x}}\n": ("goose", "add the lines that it prints without --write by hand"),
    "extensions:\n  quilt: {}\n  quilt: {}\n": ("goose", "its extensions.quilt is another server"),
    "extensions:\n  quilt:\n    cmd: x\n    args: [serve]\n": ("goose", "its extensions.quilt is another server"),
}


@pytest.mark.parametrize(("text", "client", "words"), [(text, *rest) for text, rest in REFUSED.items()])
def test_a_form_that_cannot_be_changed_is_refused_and_the_lines_to_add_are_printed(
    text: str, client: ClientName, words: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = CLIENTS[client].find_files()[0]
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert main(["install", client, "--write"]) == 1
    assert words in capsys.readouterr().err
    assert list(path.parent.iterdir()) == [path]
    assert path.read_text() == text
    assert main(["install", client]) == 1
    printed = read(capsys.readouterr().out, path.suffix)
    assert COMMAND in str(printed)


@pytest.mark.parametrize("entries", [5_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_large_files_are_changed(home: Path, entries: int) -> None:
    (home / ".cursor").mkdir()
    path = home / ".cursor" / "mcp.json"
    text = json.dumps({"history": ["x" * 100] * entries, "mcpServers": {"other": {}}}, indent=1)
    path.write_text(text)
    assert main(["install", "cursor", "--write"]) == 0
    assert json.loads(path.read_text())["mcpServers"]["quilt"]["args"] == ["serve"]
    assert main(["install", "cursor", "--remove"]) == 0
    assert path.read_text() == text


@pytest.fixture
def windows(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directories of Claude Desktop as a package for Windows, and its usual one."""
    local = home / "AppData" / "Local"
    (local / "Packages" / "Claude_pzs8sxrjxfjjc").mkdir(parents=True)
    monkeypatch.setenv("LOCALAPPDATA", str(local))
    monkeypatch.setattr("quilt_mcp.commands.clients.sys.platform", "win32")
    return local


def test_each_place_of_claude_desktop_on_windows_is_written_and_doctor_names_a_second_one(
    windows: Path, home: Path
) -> None:
    packaged = windows / "Packages" / "Claude_pzs8sxrjxfjjc" / "LocalCache" / "Roaming" / "Claude"
    usual = home / ".config" / "Claude"
    name = "claude_desktop_config.json"
    assert main(["install", "claude-desktop", "--write"]) == 0
    assert list(home.rglob(name)) == [packaged / name]
    usual.mkdir(parents=True)
    [check] = list_connected()
    assert str(packaged / name) in check["detail"]
    assert f"not in {usual / name}: run `quilt-mcp install claude-desktop --write`" in check["detail"]
    (usual / name).write_text("{ not JSON")
    assert main(["install", "claude-desktop", "--write"]) == 1  # the other one is written
    (usual / name).write_text("{}")
    assert main(["install", "claude-desktop", "--write"]) == 0
    assert json.loads((usual / name).read_text()) == json.loads((packaged / name).read_text())
    assert find_next(list_connected()) == "quilt-mcp get permissions://discover"
    assert main(["install", "claude-desktop", "--remove"]) == 0
    assert not (packaged / name).exists()


def test_clients_with_several_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extension = home / ".config" / "Code" / "User" / "globalStorage" / "saoudrizwan.claude-dev" / "settings"
    command = home / ".cline" / "data" / "settings"
    for directory in (extension, command):
        directory.mkdir(parents=True)
    name = "cline_mcp_settings.json"
    assert CLIENTS["cline"].find_files() == [extension / name, command / name]
    (home / ".cache" / "lm-studio").mkdir(parents=True)
    assert CLIENTS["lm-studio"].find_files() == [home / ".cache" / "lm-studio" / "mcp.json"]
    opencode = home / ".config" / "opencode"
    opencode.mkdir()
    (opencode / "opencode.jsonc").write_text("{}")
    assert CLIENTS["opencode"].find_files() == [opencode / "opencode.jsonc"]
    monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
    assert CLIENTS["codex"].find_files() == [home / "codex" / "config.toml"]


class Terminal(io.StringIO):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_without_a_name_the_clients_of_the_machine_are_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install"]) == 0
    assert "No MCP client was found" in capsys.readouterr().out
    (home / ".cursor").mkdir()
    (home / ".claude.json").write_text("{}")
    assert main(["install"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "MCP clients on this machine:",
        "  quilt-mcp install claude-code --write",
        "  quilt-mcp install cursor --write",
    ]
    assert (home / ".claude.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("answer", "status", "changed"),
    [("\n", 0, set()), ("", 0, set()), ("2\n", 0, {"cursor"}), ("all\n", 0, {"cursor", "claude"}), ("3\n", 2, set())],
)
def test_in_a_terminal_it_asks(
    answer: str, status: int, changed: set[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".cursor").mkdir()
    (home / ".claude.json").write_text("{}")
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stdout", Terminal())
    assert main(["install", "--demo"]) == status
    files = {"cursor": home / ".cursor" / "mcp.json", "claude": home / ".claude.json"}
    assert {name for name, path in files.items() if path.exists() and "quilt" in path.read_text()} == changed

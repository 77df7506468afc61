"""The MCP clients that `quilt-mcp install` knows: their files, and the form that a server has in them."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, NotRequired, TypedDict

import platformdirs

from quilt_mcp.app.home import ask_for_directory, find_home

Values = dict[str, object]
"""What a file contains."""


class ConfigError(Exception):
    """A file cannot be read or changed as the configuration of an MCP client."""


ClientName = Literal[
    "claude-desktop",
    "claude-code",
    "codex",
    "copilot-cli",
    "cursor",
    "vscode",
    "jetbrains",
    "cline",
    "windsurf",
    "zed",
    "gemini-cli",
    "opencode",
    "goose",
    "kiro",
    "lm-studio",
]

START_SECONDS = 60
"""How long a client may wait for the server, where it has a limit that is too short for a slow machine."""


class Entry(TypedDict):
    """How a client starts a server."""

    command: str
    args: list[str]
    env: NotRequired[dict[str, str]]


class Client(NamedTuple):
    """The configuration of a client.

    Args:
        find_files: returns the paths of the files with the servers of the user. Each of them can be the one that the
            client reads.
        servers: the name of the object with the servers.
        extra: what a new entry has besides the command, its arguments and its environment.
        language: that of the files.
        has_comments: whether the client accepts comments in JSON.
        has_last_commas: whether the client accepts a comma after the last value in JSON.
        command: the name of the command.
        environment: the name of the environment.
        has_one_list: whether the command and its arguments are one list.
    """

    find_files: Callable[[], list[Path]]
    servers: str = "mcpServers"
    extra: Mapping[str, object] = {}
    language: Literal["json", "toml", "yaml"] = "json"
    has_comments: bool = False
    has_last_commas: bool = False
    command: str = "command"
    environment: str = "env"
    has_one_list: bool = False

    def describe(self, entry: Entry) -> dict[str, object]:
        """Return an entry in the form of the client, without what only a new entry has."""
        words = [entry["command"], *entry["args"]]
        form: dict[str, object] = {self.command: words}
        if not self.has_one_list:
            form = {self.command: words[0], "args": words[1:]}
        return form | ({self.environment: entry["env"]} if "env" in entry else {})

    def read_words(self, form: Mapping[str, object]) -> list[str] | None:
        """Return the command and the arguments of an entry; None if it has none that this client would start."""
        command, arguments = form.get(self.command), form.get("args")
        words = command if self.has_one_list else [command, *(arguments if isinstance(arguments, list) else [])]
        return words if isinstance(words, list) and words and all(isinstance(word, str) for word in words) else None

    def find_present_files(self) -> list[Path]:
        """Return the files that exist, or whose directory the client has made."""
        return [path for path in self.find_files() if path.exists() or (path.parent.is_dir() and _is_own(path.parent))]


def _is_own(directory: Path) -> bool:
    """Return whether a directory belongs to one client: the home directory has files of several."""
    return directory not in {find_home(), find_home() / ".config"}


def _in_home(*names: str) -> Callable[[], list[Path]]:
    return lambda: [find_home().joinpath(*names)]


def _in_config(app: str, *names: str) -> Callable[[], list[Path]]:
    return lambda: [
        ask_for_directory(lambda: platformdirs.user_config_path(app, appauthor=False, roaming=True)).joinpath(*names)
    ]


def _in_dot_config(app: str, *names: str) -> Callable[[], list[Path]]:
    """Return the place of clients that use ~/.config on macOS too; on Windows, the usual one with other names."""
    return lambda: [Path(os.environ.get("XDG_CONFIG_HOME") or find_home() / ".config").joinpath(app, *names)]


def _find_claude_desktop() -> list[Path]:
    """Return the usual place, and those of the package for Windows (MSIX), which reads a copy of its own."""
    name = "claude_desktop_config.json"
    [usual] = _in_config("Claude", name)()
    local = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None
    packages = sorted(Path(local).glob("Packages/Claude_*")) if local else []
    own = [package / "LocalCache" / "Roaming" / "Claude" / name for package in packages]
    return [*own, *([usual] if usual.parent.is_dir() or not own else [])]


def _find_zed() -> list[Path]:
    """Return Zed's file. On macOS it is in ~/.config, and on Linux its directory has a name in lower case."""
    if sys.platform == "darwin":
        return [find_home() / ".config" / "zed" / "settings.json"]
    return _in_config("Zed" if os.name == "nt" else "zed", "settings.json")()


def _find_codex() -> list[Path]:
    return [Path(os.environ.get("CODEX_HOME") or find_home() / ".codex") / "config.toml"]


def _find_jetbrains() -> list[Path]:
    """Return the file of GitHub Copilot. All IDEs of JetBrains share it, and its directory has the name of one."""
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return [Path(local, "github-copilot", "intellij", "mcp.json")]
    return _in_dot_config("github-copilot", "intellij", "mcp.json")()


def _find_cline() -> list[Path]:
    """Return the files of the extension for VS Code and of the command: those whose directories exist."""
    name = "cline_mcp_settings.json"
    [extension] = _in_config("Code", "User", "globalStorage", "saoudrizwan.claude-dev", "settings", name)()
    [command] = _in_home(".cline", "data", "settings", name)()
    return [path for path in (extension, command) if path.parent.is_dir()] or [command]


def _find_opencode() -> list[Path]:
    """Return the file that exists: opencode reads both names."""
    [plain] = _in_dot_config("opencode", "opencode.json")()
    with_comments = plain.with_suffix(".jsonc")
    return [with_comments if with_comments.exists() and not plain.exists() else plain]


def _find_goose() -> list[Path]:
    if os.name == "nt":
        return _in_config("Block", "goose", "config", "config.yaml")()
    return _in_dot_config("goose", "config.yaml")()


def _find_lm_studio() -> list[Path]:
    """Return the file in its directory; early versions made another one, which is still read."""
    found = [find_home() / ".lmstudio", find_home() / ".cache" / "lm-studio"]
    return [path / "mcp.json" for path in found if path.is_dir()] or [found[0] / "mcp.json"]


CLIENTS: dict[ClientName, Client] = {
    "claude-desktop": Client(_find_claude_desktop),
    "claude-code": Client(_in_home(".claude.json")),
    "codex": Client(_find_codex, "mcp_servers", {"startup_timeout_sec": START_SECONDS}, language="toml"),
    "copilot-cli": Client(_in_home(".copilot", "mcp-config.json"), extra={"type": "local", "tools": ["*"]}),
    "cursor": Client(_in_home(".cursor", "mcp.json"), has_comments=True),
    "vscode": Client(
        _in_config("Code", "User", "mcp.json"), "servers", {"type": "stdio"}, has_comments=True, has_last_commas=True
    ),
    "jetbrains": Client(_find_jetbrains, "servers", {"type": "stdio"}),
    "cline": Client(_find_cline),
    "windsurf": Client(_in_home(".codeium", "windsurf", "mcp_config.json")),
    "zed": Client(_find_zed, "context_servers", has_comments=True, has_last_commas=True),
    "gemini-cli": Client(_in_home(".gemini", "settings.json"), has_comments=True),
    "opencode": Client(
        _find_opencode,
        "mcp",
        {"type": "local", "enabled": True, "timeout": START_SECONDS * 1000},
        has_comments=True,
        has_last_commas=True,
        environment="environment",
        has_one_list=True,
    ),
    "goose": Client(
        _find_goose,
        "extensions",
        {"name": "quilt", "type": "stdio", "enabled": True, "timeout": 300},
        language="yaml",
        command="cmd",
        environment="envs",
    ),
    "kiro": Client(_in_home(".kiro", "settings", "mcp.json")),
    "lm-studio": Client(_find_lm_studio),
}


def render_json(value: object) -> list[str]:
    """Return the lines of a value, as a client's file has them."""
    return json.dumps(value, ensure_ascii=False, indent=2).splitlines()

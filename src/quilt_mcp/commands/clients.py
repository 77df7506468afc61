"""The MCP clients that `quilt-mcp install` knows: where their files are, and what these accept."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import platformdirs

from quilt_mcp.app.home import ask_for_directory, find_home

ClientName = Literal["claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "gemini-cli"]


class Client(NamedTuple):
    """The configuration of a client.

    Args:
        find_file: returns the path of the file with the servers of the user.
        servers: the name of the object with the servers.
        extra: what an entry has besides the command, its arguments and its environment.
        has_comments: whether the client accepts comments.
        has_last_commas: whether the client accepts a comma after the last value.
    """

    find_file: Callable[[], Path]
    servers: str = "mcpServers"
    extra: Mapping[str, str] = {}
    has_comments: bool = False
    has_last_commas: bool = False


def _in_home(*names: str) -> Callable[[], Path]:
    return lambda: find_home().joinpath(*names)


def _in_config(app: str, *names: str) -> Callable[[], Path]:
    return lambda: ask_for_directory(
        lambda: platformdirs.user_config_path(app, appauthor=False, roaming=True)
    ).joinpath(*names)


def _find_zed() -> Path:
    """Return Zed's file. On macOS it is in ~/.config, and on Linux its directory has a name in lower case."""
    if sys.platform == "darwin":
        return find_home() / ".config" / "zed" / "settings.json"
    return _in_config("Zed" if os.name == "nt" else "zed", "settings.json")()


CLIENTS: dict[ClientName, Client] = {
    "claude-desktop": Client(_in_config("Claude", "claude_desktop_config.json")),
    "claude-code": Client(_in_home(".claude.json")),
    "cursor": Client(_in_home(".cursor", "mcp.json")),
    "vscode": Client(
        _in_config("Code", "User", "mcp.json"), "servers", {"type": "stdio"}, has_comments=True, has_last_commas=True
    ),
    "windsurf": Client(_in_home(".codeium", "windsurf", "mcp_config.json")),
    "zed": Client(_find_zed, "context_servers", has_comments=True, has_last_commas=True),
    "gemini-cli": Client(_in_home(".gemini", "settings.json"), has_comments=True),
}

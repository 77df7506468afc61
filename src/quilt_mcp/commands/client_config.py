"""The JSON file in which an MCP client keeps its servers."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

SERVERS = "mcpServers"


class ConfigError(Exception):
    """The file is not what an MCP client writes."""


def add_server(path: Path, name: str, entry: dict[str, Any]) -> Path | None:
    """Add a server to a client's configuration, or replace it; all else in the file stays, and the server's old `env`.

    Args:
        path: the file; made if there is none.
        name: the server's name in it.
        entry: `command`, `args` and maybe `env`.

    Returns:
        The copy of the file as it was, or None if there was none.

    Raises:
        ConfigError: the file is not a JSON object, or its servers are not.
        OSError: it cannot be read or written.
    """
    target = path.resolve()  # a link to the file stays a link
    config = _read(target)
    servers = config.setdefault(SERVERS, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"its {SERVERS} is not a JSON object")
    environment = _environment(servers.get(name)) | entry.get("env", {})
    servers[name] = entry | ({"env": environment} if environment else {})
    backup = _back_up(target)
    _replace(target, json.dumps(config, ensure_ascii=False, indent=2) + "\n")
    return backup


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    try:
        config = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"it is not JSON ({error})") from error
    if not isinstance(config, dict):
        raise ConfigError("it is not a JSON object")
    return config


def _environment(server: Any) -> dict[str, str]:
    environment = server.get("env") if isinstance(server, dict) else None
    return environment if isinstance(environment, dict) else {}


def _back_up(path: Path) -> Path | None:
    if not path.exists():
        return None
    backup = path.with_name(f"{path.name}.bak")
    shutil.copy2(path, backup)
    return backup


def _replace(path: Path, text: str) -> None:
    """Write beside the file, then move it over: a client never reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    written = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if path.exists():
            shutil.copymode(path, written)
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)

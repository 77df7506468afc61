"""`quilt-mcp install`: the entry for this server in the configuration file of an MCP client."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Annotated, Literal, NotRequired, TypedDict, cast

import platformdirs
from cyclopts import CycloptsError, Parameter

from quilt_mcp.commands.cli import MISUSED
from quilt_mcp.commands.first_answers import is_setting
from quilt_mcp.commands.handshake import make_first_messages
from quilt_mcp.commands.options import Demo
from quilt_mcp.commands.output import complain, show, show_json

COMMAND = "quilt-mcp"
START_SECONDS = 60
SERVER_NAME = "quilt"
SERVERS = "mcpServers"

Client = Literal["claude-desktop", "claude-code", "cursor"]
FILES: dict[Client, Callable[[], Path]] = {
    "claude-desktop": lambda: (
        platformdirs.user_config_path("Claude", appauthor=False, roaming=True) / "claude_desktop_config.json"
    ),
    "claude-code": lambda: Path.home() / ".claude.json",
    "cursor": lambda: Path.home() / ".cursor" / "mcp.json",
}

Which = Annotated[Client, Parameter(help="The MCP client.")]
Variables = Annotated[
    list[str] | None,
    Parameter(name="--env", negative="", help="KEY=VALUE: an environment variable of the server. Can be repeated."),
]
Write = Annotated[
    bool,
    Parameter(negative="", show_default=False, help="Write the entry to the file, and keep a copy of the old file."),
]


class Entry(TypedDict):
    """How a client starts a server."""

    command: str
    args: list[str]
    env: NotRequired[dict[str, str]]


class ConfigError(Exception):
    """The file is not a valid configuration of an MCP client."""


def install(client: Which, /, *, env: Variables = None, demo: Demo = None, write: Write = False) -> int:
    """Print the entry that lets an MCP client start quilt-mcp, and the file for it; or write the file."""
    path, variables = FILES[client](), _parse_variables(env or [])
    entry: Entry = {"command": executable(), "args": ["serve", "--demo", demo] if demo else ["serve"]}
    if variables:
        entry["env"] = variables
    if not write:
        complain(f"Add this to {path}, or run this command with --write. Then restart {client}.")
        show_json({SERVERS: {SERVER_NAME: entry}})
        return 0
    try:
        environment = _find_environment(_find_servers(_read_config(path.resolve())).get(SERVER_NAME)) | variables
        keep_first_answers([entry["command"], *entry["args"]], environment)
        backup = add_server(path, SERVER_NAME, entry)
    except (ConfigError, OSError) as error:
        complain(f"{path} was not changed: {error}")
        return 1
    show(f"Added the server {SERVER_NAME} to {path}. Restart {client}.")
    if backup:
        show(f"The previous file: {backup}")
    return 0


def keep_first_answers(command: Sequence[str], variables: Mapping[str, str]) -> None:
    """Start the server once for each kind of protocol, so that its first answers are known at the next start.

    Failures other than those of arguments and settings are left to the start by the client, which shows them.

    Args:
        command: as the client calls it.
        variables: of the client's configuration. A client does not have the settings of this shell.

    Raises:
        ConfigError: the server refuses an argument or a setting.
    """
    environment = {name: value for name, value in os.environ.items() if not is_setting(name)} | dict(variables)
    for lines in make_first_messages():
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(  # noqa: S603 - the command that the client will run
                command, input=lines, capture_output=True, env=environment, timeout=START_SECONDS, check=False
            )
            if done.returncode == MISUSED:
                problem = done.stderr.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("quilt-mcp: ")
                raise ConfigError(f"the server does not start with this entry: {problem}")


def executable() -> str:
    """Return the absolute path of the command quilt-mcp: clients do not have this shell's PATH."""
    beside_python = shutil.which(COMMAND, path=sysconfig.get_path("scripts"))
    return str(Path(beside_python or shutil.which(COMMAND) or sys.argv[0]).absolute())


def add_server(path: Path, name: str, entry: Entry) -> Path | None:
    """Add a server to a client's configuration, or replace it. Keeps everything else, and the server's old `env`.

    Args:
        path: the file; created if it does not exist.
        name: the name of the server.
        entry: how the client starts it. Gets the old `env`.

    Returns:
        A copy of the previous file; None if there was none, or if nothing changes.

    Raises:
        ConfigError: the file or its list of servers is not a JSON object.
        OSError: the file cannot be read or written.
    """
    target = path.resolve()  # a symbolic link to the file stays one
    config = _read_config(target)
    servers = _find_servers(config)
    environment = _find_environment(servers.get(name)) | entry.get("env", {})
    if environment:
        entry["env"] = environment
    servers[name] = entry
    text = json.dumps(config, ensure_ascii=False, indent=2) + "\n"
    if target.exists() and target.read_text(encoding="utf-8") == text:
        return None
    backup = _back_up(target)
    _replace(target, text)
    return backup


def _parse_variables(pairs: list[str]) -> dict[str, str]:
    variables = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not key or not separator:
            raise CycloptsError(msg=f"--env needs KEY=VALUE, not {pair!r}.")
        variables[key] = value
    return variables


def _read_config(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    try:
        config = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ConfigError(f"it is not valid JSON ({error})") from error
    if not isinstance(config, dict):
        raise ConfigError("it is not a JSON object")
    return config


def _find_servers(config: dict[str, object]) -> dict[str, object]:
    servers = config.setdefault(SERVERS, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"its {SERVERS} is not a JSON object")
    return servers


def _find_environment(server: object) -> dict[str, str]:
    environment = server.get("env") if isinstance(server, dict) else None
    return cast("dict[str, str]", environment) if isinstance(environment, dict) else {}


def _back_up(path: Path) -> Path | None:
    if not path.exists():
        return None
    names = (f"{path.name}.bak{f'-{number}' if number > 1 else ''}" for number in count(1))
    backup = next(one for one in map(path.with_name, names) if not one.exists())  # the first is the user's own file
    shutil.copy2(path, backup)
    return backup


def _replace(path: Path, text: str) -> None:
    """Write a temporary file and rename it, so that clients never read an incomplete file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

"""`quilt-mcp install`: the entry for this server in an MCP client's configuration."""

import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from cyclopts import CycloptsError, Parameter

from quilt_mcp.commands.client_config import ConfigError, add_server
from quilt_mcp.commands.options import Demo
from quilt_mcp.commands.output import complain, show, show_json

SERVER_NAME = "quilt"
COMMAND = "quilt-mcp"

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
    Parameter(name="--env", negative="", help="KEY=VALUE in the server's environment; may be repeated."),
]
Write = Annotated[
    bool, Parameter(negative="", show_default=False, help="Write it; the file as it was stays beside it as .bak.")
]


def install(client: Which, /, *, env: Variables = None, demo: Demo = None, write: Write = False) -> int:
    """Print the entry that makes an MCP client start quilt-mcp, and the file that it belongs in; or write it."""
    path, variables = FILES[client](), _variables(env or [])
    arguments = ["serve", "--demo", demo] if demo else ["serve"]
    entry: dict[str, Any] = {"command": executable(), "args": arguments} | ({"env": variables} if variables else {})
    if not write:
        complain(f"Put this into {path}, or call this command with --write; then restart {client}.")
        show_json({"mcpServers": {SERVER_NAME: entry}})
        return 0
    try:
        backup = add_server(path, SERVER_NAME, entry)
    except (ConfigError, OSError) as error:
        complain(f"{path} is left as it was: {error}")
        return 1
    show(f"{path} has the server {SERVER_NAME} now. Restart {client}.")
    if backup:
        show(f"The file as it was: {backup}")
    return 0


def executable() -> str:
    """The absolute path of the command quilt-mcp: a client does not have this shell's PATH."""
    beside_python = shutil.which(COMMAND, path=sysconfig.get_path("scripts"))
    return str(Path(beside_python or shutil.which(COMMAND) or sys.argv[0]).absolute())


def _variables(pairs: list[str]) -> dict[str, str]:
    variables = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not key or not separator:
            raise CycloptsError(msg=f"--env takes KEY=VALUE, and {pair!r} is none.")
        variables[key] = value
    return variables

"""`quilt-mcp install`: the entry for this server in the configuration file of an MCP client."""

import difflib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from quilt_mcp.app.build import advise_permanent_install
from quilt_mcp.commands.cli import MISUSED
from quilt_mcp.commands.client_config import CLIENTS, COMMAND, SERVER_NAME, ClientName, ConfigText, Entry
from quilt_mcp.commands.client_file import ClientFile, ConfigError
from quilt_mcp.commands.misuse import Misuse
from quilt_mcp.commands.options import Demo
from quilt_mcp.commands.output import complain, show, show_json

START_SECONDS = 60
SETTINGS = ("QUILT_", "FASTMCP_", "MCP_", "SYMBOLIC_")
"""Prefixes of the environment variables that settings are read from."""

Which = Annotated[ClientName, Parameter(help="The MCP client.")]
Variables = Annotated[
    list[str] | None,
    Parameter(name="--env", negative="", help="KEY=VALUE: an environment variable of the server. Can be repeated."),
]
Write = Annotated[
    bool,
    Parameter(negative="", show_default=False, help="Show the change, write the file, and keep a copy of the old one."),
]
Remove = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Remove the entry from the file, and keep a copy. The file is as before if nothing else has changed.",
    ),
]


def install(
    client: Which, /, *, env: Variables = None, demo: Demo = None, write: Write = False, remove: Remove = False
) -> int:
    """Print the entry that lets an MCP client start quilt-mcp, and the file for it; or write the file."""
    if advice := advise_permanent_install(Path(executable())):
        raise Misuse(
            f"This command runs from a cache that can be deleted. Run `{advice}`, then `quilt-mcp install` again."
        )
    variables = _parse_variables(env or [])
    if remove and (variables or demo):
        raise Misuse("--remove takes neither --env nor --demo.")
    entry: Entry = {"command": executable(), "args": ["serve", "--demo", demo] if demo else ["serve"]}
    if variables:
        entry["env"] = variables
    path = CLIENTS[client].find_file()
    try:
        if remove:
            _remove(client, path)
        else:
            _add(client, path, entry, is_written=write)
    except (ConfigError, OSError) as error:
        complain(f"{path} was not changed: {error}")
        return 1
    return 0


def _add(client: ClientName, path: Path, entry: Entry, *, is_written: bool) -> None:
    file = ClientFile(path)
    before = ConfigText(file.text, CLIENTS[client], executable())
    text = before.add(entry)
    after = ConfigText(text, CLIENTS[client], executable())
    if not is_written:
        complain(f"Add this to {path}, or run this command with --write. Then restart {client}.")
        show_json(_nest(client, after))
        return
    file.check_writable()
    check_start([entry["command"], *entry["args"]], after.environment)
    if text == file.text:
        show(f"{path} already has this server.")
        return
    show_change(client, path, before, after)
    copy = file.replace(text)
    show(f"Added the server {SERVER_NAME} to {path}. Restart {client}.")
    show_copy(copy)


def _remove(client: ClientName, path: Path) -> None:
    file = ClientFile(path)
    before = ConfigText(file.text, CLIENTS[client], executable())
    if before.entry is None:
        show(f"{path} has no server {SERVER_NAME}.")
        return
    file.check_writable()
    text = before.remove(file.read_copies())
    show_change(client, path, before, ConfigText(text or "", CLIENTS[client], executable()))
    copy = file.replace(text)
    show(f"Removed the server {SERVER_NAME} from {path}. Restart {client}.")
    show_copy(copy)


def show_change(client: ClientName, path: Path, before: ConfigText, after: ConfigText) -> None:
    """Print the change of the entry as a unified diff. The rest of the file can contain secrets of other servers."""
    old, new = (
        json.dumps(_nest(client, config), ensure_ascii=False, indent=2).splitlines() if config.entry else []
        for config in (before, after)
    )
    show(*difflib.unified_diff(old, new, str(path), str(path), n=max(len(old), len(new)), lineterm=""))


def show_copy(copy: Path | None) -> None:
    """Print where the copy of a file is."""
    if copy:
        show(f"The previous file: {copy}")


def _nest(client: ClientName, config: ConfigText) -> dict[str, object]:
    return {CLIENTS[client].servers: {SERVER_NAME: config.entry}}


def check_start(command: Sequence[str], variables: Mapping[str, str]) -> None:
    """Start the server, which ends at once because its stdin is empty.

    Failures other than those of arguments and settings are left to the start by the client, which shows them.

    Args:
        command: as the client calls it.
        variables: of the client's configuration. A client does not have the settings of this shell.

    Raises:
        ConfigError: the server refuses an argument or a setting.
    """
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith(SETTINGS)}
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(  # noqa: S603 - the command that the client will run
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment | dict(variables),
            timeout=START_SECONDS,
            check=False,
        )
        if done.returncode == MISUSED:
            problem = done.stderr.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("quilt-mcp: ")
            raise ConfigError(f"the server does not start with this entry: {problem}")


def executable() -> str:
    """Return the absolute path of the command quilt-mcp: clients do not have this shell's PATH."""
    beside_python = shutil.which(COMMAND, path=sysconfig.get_path("scripts"))
    return str(Path(beside_python or shutil.which(COMMAND) or sys.argv[0]).absolute())


def _parse_variables(pairs: list[str]) -> dict[str, str]:
    variables = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not key or not separator:
            raise Misuse(f"--env needs KEY=VALUE, not {pair!r}.")
        variables[key] = value
    return variables

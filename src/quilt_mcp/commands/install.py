"""`quilt-mcp install`: read the configuration file of an MCP client, keep a copy, and replace it with a new entry."""

import difflib
import errno
import glob
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from quilt_mcp.app.build import advise_permanent_install
from quilt_mcp.commands.client_config import COMMAND, SERVER_NAME, ConfigText, render
from quilt_mcp.commands.clients import CLIENTS, ClientName, ConfigError, Entry
from quilt_mcp.commands.json_config import BLANK
from quilt_mcp.console.output import complain, show
from quilt_mcp.console.parser import Demo
from quilt_mcp.console.process import Misuse, is_of_stdout

START_SECONDS = 60
SETTINGS = ("QUILT_", "FASTMCP_", "MCP_", "SYMBOLIC_")
"""Prefixes of the environment variables that settings are read from."""

Which = Annotated[
    ClientName | None, Parameter(help="The MCP client. Default: those that are found, which you choose from.")
]
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
    client: Which = None, /, *, env: Variables = None, demo: Demo = None, write: Write = False, remove: Remove = False
) -> int:
    """Print the entry that lets an MCP client start quilt-mcp, and the file for it; or write the file.

    Without a client, find those of this machine, and ask which of their files to write. Without a terminal, list them.
    """
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
    if client:
        return _change(client, entry, is_written=write, is_removed=remove)
    chosen = _choose(is_removed=remove)
    return max([_change(one, entry, is_written=True, is_removed=remove) for one in chosen], default=0)


def _change(client: ClientName, entry: Entry, *, is_written: bool, is_removed: bool) -> int:
    """Change all files of a client, or print its entry once. One file that cannot be changed does not stop the others.

    Returns:
        The exit status.
    """
    files, status = CLIENTS[client].find_files(), 0
    for path in files if is_written or is_removed else files[:1]:
        try:
            if is_removed:
                _remove(client, path)
            else:
                _add(client, path, entry, is_written=is_written)
        except (ConfigError, OSError) as error:
            if isinstance(error, OSError) and is_of_stdout(error):
                raise
            complain(f"{path} was not changed: {error}")
            if not (is_written or is_removed):
                complain("Add this by hand:")
                show("\n".join(render(CLIENTS[client], {**CLIENTS[client].extra, **CLIENTS[client].describe(entry)})))
            status = 1
    return status


def find_clients() -> list[ClientName]:
    """Return the clients of this machine: those whose file, or directory, is there."""
    return [name for name, client in CLIENTS.items() if client.find_present_files()]


def _choose(*, is_removed: bool) -> list[ClientName]:
    """Ask which clients to change; without a terminal, list them and change none."""
    found = find_clients()
    if not found:
        show("No MCP client was found. Name one:", *(f"  quilt-mcp install {name}" for name in CLIENTS))
        return []
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        option = "--remove" if is_removed else "--write"
        show("MCP clients on this machine:", *(f"  quilt-mcp install {name} {option}" for name in found))
        return []
    show("MCP clients on this machine:", *(f"  {number} {name}" for number, name in enumerate(found, 1)))
    verb = "Remove from" if is_removed else "Connect"
    try:
        answer = input(f"{verb} which? Numbers such as 1,3, or all; Enter for none: ")
    except EOFError:
        answer = ""
    words = answer.replace(",", " ").split()
    if words == ["all"]:
        return found
    wrong = [word for word in words if not (word.isdecimal() and 1 <= int(word) <= len(found))]
    if wrong:
        raise Misuse(f"{wrong[0]!r} is not a number from 1 to {len(found)}.")
    return [found[int(word) - 1] for word in dict.fromkeys(words)]


def _add(client: ClientName, path: Path, entry: Entry, *, is_written: bool) -> None:
    file = ClientFile(path)
    before = ConfigText(file.text, CLIENTS[client], executable())
    text = before.add(entry)
    after = ConfigText(text, CLIENTS[client], executable())
    if not is_written:
        complain(f"Add this to {path}, or run this command with --write. Then restart {client}.")
        show("\n".join(render(CLIENTS[client], after.entry or {})))
        return
    file.check_writable()
    check_start([entry["command"], *entry["args"]], after.environment)
    if text == file.text:
        show(f"{path} already has this server.")
        return
    _replace(client, file, before, text, f"Added the server {SERVER_NAME} to {path}.")


def _remove(client: ClientName, path: Path) -> None:
    file = ClientFile(path)
    before = ConfigText(file.text, CLIENTS[client], executable())
    if before.entry is None:
        show(f"{path} has no server {SERVER_NAME}.")
        return
    file.check_writable()
    text = before.remove(file.read_copies())
    _replace(client, file, before, text, f"Removed the server {SERVER_NAME} from {path}.")


def _replace(client: ClientName, file: "ClientFile", before: ConfigText, text: str | None, done: str) -> None:
    """Print the change of the entry as a unified diff, and write the file. Its rest can contain other secrets."""
    after, path = ConfigText(text or "", CLIENTS[client], executable()), str(file.path)
    old, new = (render(CLIENTS[client], config.entry) if config.entry else [] for config in (before, after))
    show(*difflib.unified_diff(old, new, path, path, n=max(len(old), len(new)), lineterm=""))
    copy = file.replace(text)
    show(f"{done} Restart {client}.", *([f"The previous file: {copy}"] if copy else []))


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
        if done.returncode == Misuse.status:
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


WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class ClientFile:
    """A configuration file, as it is now.

    Args:
        path: where the client reads it. A symbolic link to the file stays one.

    Attributes:
        text: its content, with its byte order mark; empty if there is no file.

    Raises:
        ConfigError: the path leads to no file, or to one that is not UTF-8.
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_link = path.is_symlink()
        self._target = _follow_links(path)
        self._content = _read(self._target)
        try:
            self.text = (self._content or b"").decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"it is not UTF-8 (at byte {error.start}): save it as UTF-8") from error

    def check_writable(self) -> None:
        """Check that the file is not write-protected: renaming another file to its name needs no right to write it.

        Raises:
            ConfigError: the file is write-protected.
        """
        if self._content is not None and not (
            self._target.stat().st_mode & WRITABLE and os.access(self._target, os.W_OK)
        ):
            raise ConfigError("it is read-only: make it writable, then run this command again")

    def read_copies(self) -> Iterator[str]:
        """Yield the texts of the copies that `replace` made, and of other files with such names."""
        pattern = f"{glob.escape(self._target.name)}.bak*"
        for path in sorted(filter(Path.is_file, self._target.parent.glob(pattern))):
            with suppress(OSError, UnicodeDecodeError):  # not a copy
                yield path.read_bytes().decode()

    def replace(self, text: str | None) -> Path | None:
        """Write the file, or delete it if the text is None. A symbolic link keeps its target, with nothing in it.

        Returns:
            A copy of the previous file; None if there was none.

        Raises:
            ConfigError: the file has changed since it was read.
            OSError: the file cannot be written.
        """
        if _read(self._target) != self._content:
            raise ConfigError("another program changed it at the same time: run this command again")
        copy = self._copy()
        if text is None and not self._is_link:
            self._target.unlink()
        else:
            _write(self._target, (BLANK if text is None and self.path.suffix == ".json" else text or "").encode())
        return copy

    def _copy(self) -> Path | None:
        """Copy the file to a new name, unless there is such a copy. The first copy is the user's own file."""
        if self._content is None:
            return None
        names = (f"{self._target.name}.bak{f'-{number}' if number > 1 else ''}" for number in count(1))
        for copy in map(self._target.with_name, names):
            if not os.path.lexists(copy):
                try:
                    shutil.copy(self._target, copy)
                except OSError:  # a full disk: the part would look like the user's file
                    copy.unlink(missing_ok=True)
                    raise
                return copy
            if copy.is_file() and copy.read_bytes() == self._content:
                return copy
        raise AssertionError("the names have no end")


def _follow_links(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path, strict=True))
    except FileNotFoundError:
        for place in (path, *path.parents):
            if place.is_symlink() and not place.exists():
                where = "it" if place == path else str(place)
                raise ConfigError(
                    f"{where} is a symbolic link to {place.readlink()}, which does not exist: "
                    "create that file or directory, or remove the link"
                ) from None
        return path
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ConfigError("it is a symbolic link that leads to itself: remove the link") from error


def _read(path: Path) -> bytes | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError("it is not a file")
    return path.read_bytes()


def _write(path: Path, content: bytes) -> None:
    """Write a temporary file and rename it, so that clients never read an incomplete file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

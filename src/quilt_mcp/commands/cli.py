"""The command `quilt-mcp`."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, cast, get_args

from pydantic_core import ValidationError

from quilt_mcp.app.home import NoHomeError, find_data_directory
from quilt_mcp.console.process import INTERRUPTED, Misuse, Unable, discard_stdout, is_of_stdout
from quilt_mcp.console.worlds import World

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings

PIPE_CLOSED = 141  # the exit status: 128 plus the signal
DEFAULT_WORLD = "admin"
STDIO = re.compile(f"serve(?: --demo[ =]({'|'.join(get_args(World))}))?")
"""The command lines that `quilt-mcp install` writes."""

COMMANDS = {
    "serve": ("quilt_mcp.commands.serve:serve", "Serve Quilt's resources to MCP clients, with your Quilt login."),
    "get": ("quilt_mcp.commands.get:get", "Read a resource, such as auth://status."),
    "list": ("quilt_mcp.commands.get:list_resources", "List the resources."),
    "search": ("quilt_mcp.commands.search:search", "Search packages and requirements for words."),
    "demo": ("quilt_mcp.commands.demo:demo", "Read every resource of a demo world on both surfaces and compare."),
    "doctor": ("quilt_mcp.commands.doctor:doctor", "Check configuration, sign-in and network, and suggest fixes."),
    "install": (
        "quilt_mcp.commands.install:install",
        "Print or write the configuration of an MCP client for this server.",
    ),
}
"""The place and the summary of each command. A command is imported when it is called."""
WITHOUT_DATA_DIRECTORY = {"install"}
"""The commands that import neither FastMCP nor quilt3. The imports of these look for the user's data directory."""


def list_commands() -> Mapping[str, tuple[str, str]]:
    """Return the place and the summary of each command, also of those of the installed domains.

    Raises:
        Misuse: a domain cannot be loaded, or has a command that exists.
    """
    server, startup = import_module("quilt_mcp.server"), import_module("quilt_mcp.commands.startup")
    with startup.explaining():
        added: Mapping[str, tuple[str, str]] = server.list_commands(server.find_domains())
    for name in added.keys() & COMMANDS.keys():
        raise Misuse(f"A domain has the command {name}, which quilt-mcp has.")
    return {**COMMANDS, **added}


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command line, by default `sys.argv`.

    Returns:
        The exit status: 0 for success, 1 for a failure that the output describes, 2 for an invalid argument or setting,
        130 for an interrupt.
    """
    try:
        words = list(complete_demo(sys.argv[1:] if tokens is None else tokens))
        if words and words[0] in COMMANDS.keys() - WITHOUT_DATA_DIRECTORY:
            find_data_directory()
        status = _run(words)
        sys.stdout.flush()
    except (Misuse, NoHomeError) as error:
        return _report(str(error), getattr(error, "status", Misuse.status))
    except ValidationError as error:
        if error.title != "Settings":  # not a setting, so a bug
            raise
        return _report(import_module("quilt_mcp.settings").describe_setting(error, _find_settings))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        discard_stdout()
        return PIPE_CLOSED
    except OSError as error:
        if not is_of_stdout(error):
            raise
        discard_stdout()
        sys.stderr.write(f"stdout: {error.strerror}.\n")
        return Unable.status
    return status or 0


def _run(words: Sequence[str]) -> int | None:
    """Run a command. What clients start does not wait for the import of the parser, and of the server over HTTP."""
    if started := STDIO.fullmatch(" ".join(words)):
        return cast("int", import_module("quilt_mcp.commands.stdio").serve_stdio(started[1]))
    commands: Mapping[str, tuple[str, str]] = COMMANDS
    if not words or words[0] not in COMMANDS.keys() | {"--version"}:
        with suppress(*() if words and not words[0].startswith("-") else (NoHomeError,)):  # help needs no directory
            commands = list_commands()
    try:
        return cast("int | None", import_module("quilt_mcp.console.parser").run(words, commands))
    except FileNotFoundError as error:
        if error.filename is not None:
            raise
        raise Unable(f"{error.strerror}.") from error  # there is no directory for temporary files


def _find_settings() -> type["BaseSettings"]:
    server = import_module("quilt_mcp.server")
    found: type[BaseSettings] = server.settings_class(server.find_domains())
    return found


def complete_demo(tokens: Sequence[str]) -> Iterator[str]:
    """Return the tokens, with the default world after each --demo without a world. A URI is not a world."""
    for place, word in enumerate(tokens):
        following = tokens[place + 1 : place + 2]
        has_world = any(not one.startswith("-") and "://" not in one for one in following)
        yield word if word != "--demo" or has_world else f"--demo={DEFAULT_WORLD}"


def _report(message: str, status: int = Misuse.status) -> int:
    sys.stderr.write(f"quilt-mcp: {' '.join(message.split())}\n")
    return status

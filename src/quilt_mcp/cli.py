"""The command `quilt-mcp`. Each of its commands is a module of its own that is imported only when it is called."""

import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module

from cyclopts import App, CycloptsError
from pydantic_core import ValidationError

from quilt_mcp import __version__

MISUSED, INTERRUPTED, PIPE_CLOSED = 2, 130, 141  # exit statuses; the last two are 128 plus the signal
SETTINGS_PREFIXES = ("QUILT_MCP_", "FASTMCP_")
DEFAULT_WORLD = "admin"

COMMANDS = {
    "serve": ("serve:serve", "Serve your Quilt login to an MCP client."),
    "get": ("get:get", "Read a resource, such as auth://status."),
    "list": ("get:list_resources", "List the resources."),
    "demo": ("demo:demo", "Read every resource of a demo world in both ways; compare."),
    "doctor": ("doctor:doctor", "Check configuration, sign-in and network, and advise."),
    "install": ("install:install", "Print, or write, what connects an MCP client to this server."),
    "requirements": ("requirements:app", "Import, export, migrate and inspect the requirements database."),
}


def create_app() -> App:
    """The parser of the command line; calling it with tokens runs a command and answers its exit status."""
    app = App(
        name="quilt-mcp",
        help="Quilt's resources for every MCP client.\n\nTo try it without a Quilt login: quilt-mcp demo",
        version=f"quilt-mcp {__version__}",
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for place, (name, (target, summary)) in enumerate(COMMANDS.items()):
        app.command(f"quilt_mcp.commands.{target}", name=name, help=summary, sort_key=place)
    return app


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command line, `sys.argv` unless given, and answer the exit status.

    0 is success, 1 a failure that the output tells, 2 a wrong argument or setting, 130 an interrupt.
    """
    try:
        status = create_app()(list(complete_demo(sys.argv[1:] if tokens is None else tokens)))
        sys.stdout.flush()
    except CycloptsError as error:
        return _misused(str(error))
    except ValidationError as error:
        if error.title != "Settings":  # that of no setting: a bug
            raise
        return _misused(describe_setting(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered would fail again when Python flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return status or 0


def complete_demo(tokens: Sequence[str]) -> Iterator[str]:
    """The tokens, with the default world after each --demo that has none; a URI that follows is no world."""
    for place, word in enumerate(tokens):
        following = tokens[place + 1 : place + 2]
        has_world = any(not one.startswith("-") and "://" not in one for one in following)
        yield word if word != "--demo" or has_world else f"--demo={DEFAULT_WORLD}"


def describe_setting(error: ValidationError) -> str:
    """Which environment variable holds a broken setting, and what is wrong with it."""
    first = error.errors()[0]
    if not first["loc"]:  # two settings that do not fit together; the message names them
        return f"The environment is wrong: {first['msg'].removeprefix('Value error, ')}."
    name = str(first["loc"][0]).upper()
    if name.startswith(SETTINGS_PREFIXES[0]):  # a setting that another variable sets too
        known = import_module("quilt_mcp.settings").variables_like(name)
    else:
        known = [f"{prefix}{name}" for prefix in SETTINGS_PREFIXES]
    set_here = {variable.upper(): variable for variable in os.environ}
    variable = next((set_here[one] for one in known if one in set_here), name)
    return f"The environment variable {variable} is wrong: {first['msg']}."


def _misused(message: str) -> int:
    sys.stderr.write(f"quilt-mcp: {' '.join(message.split())}\n")
    return MISUSED

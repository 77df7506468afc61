"""The parser of the command line, and what several commands take."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from quilt_mcp.console.process import Misuse
from quilt_mcp.console.worlds import World

Demo = Annotated[
    World | None,
    Parameter(name="--demo", help="Use a demo world instead of your Quilt login; without a value, admin."),
]
AsJSON = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON.")]


Commands = Mapping[str, tuple[str, str]]
"""By name, the place of each command, such as `package.module:function`, and its summary."""


def create_app(commands: Commands) -> App:
    """Create the parser. Calling it with tokens imports a command, runs it and returns the exit status."""
    app = App(
        name="quilt-mcp",
        help="Quilt's resources for every MCP client.\n\nTo try it without a Quilt login: quilt-mcp demo",
        version=lambda: str(import_module("quilt_mcp.app.build").describe_version()),
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    app.register_install_completion_command(help="Complete commands and URIs in your shell (bash, zsh, fish).")
    for place, (name, (target, summary)) in enumerate(commands.items()):
        app.command(target, name=name, help=summary, sort_key=place)
    return app


def run(words: Sequence[str], commands: Commands) -> int | None:
    """Parse a command line, run the command and return its exit status.

    Raises:
        Misuse: an argument is not valid.
    """
    try:
        status: int | None = create_app(commands)(words)
    except CycloptsError as error:
        raise Misuse(str(error)) from error
    return status

"""The parser of the command line, and what several commands take. A command is imported when it is called."""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from quilt_mcp import __version__
from quilt_mcp.commands.cli import COMMANDS
from quilt_mcp.commands.entry import Misuse

World = Literal["admin", "member", "signed_out", "empty"]
"""The worlds of quilt_mcp.commands.demo.world, which is too expensive to import for their names."""

Demo = Annotated[
    World | None,
    Parameter(name="--demo", help="Use a demo world instead of your Quilt login; without a value, admin."),
]
AsJSON = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON.")]


def create_app() -> App:
    """Create the parser. Calling it with tokens runs a command and returns the exit status."""
    app = App(
        name="quilt-mcp",
        help="Quilt's resources for every MCP client.\n\nTo try it without a Quilt login: quilt-mcp demo",
        version=lambda: str(import_module("quilt_mcp.app.build").describe_version(__version__)),
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for place, (name, (target, summary)) in enumerate(COMMANDS.items()):
        app.command(f"quilt_mcp.commands.{target}", name=name, help=summary, sort_key=place)
    return app


def run(words: Sequence[str]) -> int | None:
    """Parse a command line, run the command and return its exit status.

    Raises:
        Misuse: an argument is not valid.
    """
    try:
        status: int | None = create_app()(words)
    except CycloptsError as error:
        raise Misuse(str(error)) from error
    return status

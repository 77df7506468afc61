"""The output of commands: tables for people or JSON for programs to stdout, and problems to stderr."""

import json
import sys
from collections.abc import Mapping
from typing import IO

from rich.console import Console, RenderableType
from rich.status import Status

from quilt_mcp.commands.tables import UNLIMITED


def show(*parts: RenderableType) -> None:
    """Print for people, with colors if stdout is a terminal that supports them."""
    console = console_on(sys.stdout)
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    # Rich pads every line of a table with blanks.
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show_json(value: Mapping[str, object]) -> None:
    """Print an object as JSON."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def complain(*lines: str) -> None:
    """Print lines to stderr."""
    for line in lines:
        console_on(sys.stderr).print(line, soft_wrap=True)


def waiting(words: str) -> Status:
    """Return a context that shows progress if stderr is a terminal."""
    return console_on(sys.stderr).status(words)


def console_on(stream: IO[str]) -> Console:
    """Return a console that prints text as it is, without Rich's markup."""
    console = Console(file=stream, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNLIMITED
    return console

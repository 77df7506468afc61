"""What the commands write: tables for a person, or JSON for a program, to stdout; what went wrong to stderr."""

import json
import sys
from typing import Any

from rich.console import Console, RenderableType
from rich.status import Status

from quilt_mcp.commands.tables import UNLIMITED


def show(*parts: RenderableType) -> None:
    """Print for a person, in colour if stdout is a terminal that wants it."""
    console = console_on(sys.stdout)
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    # Rich fills every line of a table with blanks.
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show_json(value: dict[str, Any]) -> None:
    """Print an object for a program."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def complain(*lines: str) -> None:
    """Print lines to stderr."""
    for line in lines:
        console_on(sys.stderr).print(line, soft_wrap=True)


def waiting(words: str) -> Status:
    """A context that shows, if stderr is a terminal, that something is going on."""
    return console_on(sys.stderr).status(words)


def console_on(stream: Any) -> Console:
    """A console on a stream. It prints text as it is, and not as Rich's markup."""
    console = Console(file=stream, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNLIMITED
    return console

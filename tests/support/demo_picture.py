"""What the documents show of the demo: the picture docs/demo.svg, without what differs between two runs."""

import io
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from unittest.mock import patch

from rich.console import Console
from rich.text import Text

from quilt_mcp.commands.cli import main

READ = "requirements://requirements?limit=4"
COLUMNS = 84
TERMINAL = {"TERM": "xterm", "TTY_COMPATIBLE": "1", "NO_COLOR": "1", "COLUMNS": str(COLUMNS)}
"""The environment in which Rich takes any stream for a terminal."""
_ROW = re.compile(r"(\S+://\S+) +(\d+ ms|refused) +(\d+ ms|refused) +(yes|NO) +\d+")


@cache
def output_of(*command: str) -> str:
    """Run a `quilt-mcp` command, once, and return what it printed to stdout."""
    with redirect_stdout(io.StringIO()) as stdout, redirect_stderr(io.StringIO()):
        main(command)
    return stdout.getvalue()


def terminal_lines() -> list[str]:
    """Return the lines that the picture shows: one URI of each scheme, without times and sizes, and a list."""
    lines = output_of("demo").splitlines()
    rows = [match.groups() for line in lines if (match := _ROW.fullmatch(line.strip()))]
    first = {uri.partition("://")[0]: (uri, *rest) for uri, *rest in reversed(rows)}
    shown = sorted(first.values())
    width = max(len(row[0]) for row in shown)
    table = [
        _columns(width, uri, _without_time(resource), _without_time(tool), parity)
        for uri, resource, tool, parity in shown
    ]
    heading = _columns(width, "URI", "resource", "tool", "parity")
    verdict = next(line for line in lines if line.startswith(("All ", f"{len(rows) - 1} of ")))
    more = f"… and {len(rows) - len(shown)} more"
    return [
        "$ quilt-mcp demo",
        lines[0],
        "",
        heading,
        "─" * len(heading),
        *table,
        more,
        "",
        verdict,
        "",
        f"$ quilt-mcp get '{READ}' --demo",
        *_read_list(),
    ]


@cache
def _read_list() -> list[str]:
    """Return what the terminal shows of a list. It breaks lines that are too long."""
    with patch.dict(os.environ, TERMINAL):
        lines = Text.from_ansi(output_of("get", READ, "--demo")).plain.splitlines()
    return [line[at : at + COLUMNS] for line in lines for at in range(0, max(len(line), 1), COLUMNS)]


def picture() -> str:
    """Return the picture as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in terminal_lines():
        console.print(_styled(line), soft_wrap=True)
    svg = console.export_svg(title="quilt-mcp", unique_id="quilt-mcp")
    return re.sub(r"\s*@font-face \{[^}]*\}", "", svg)  # fonts from another host, which pages do not load


def _columns(width: int, uri: str, resource: str, tool: str, parity: str) -> str:
    return f"{uri:<{width}}  {resource:>8}  {tool:>7}  {parity:>6}"


def _without_time(cell: str) -> str:
    return "read" if cell.endswith("ms") else cell


def _styled(line: str) -> Text:
    text = Text(line)
    if line.startswith("$ "):
        text.stylize("bold green")
    text.highlight_regex(r"\byes\b|^All .*", "green")
    text.highlight_regex(r"\brefused\b", "yellow")
    text.highlight_regex(r"[a-z]+://\S+", "cyan")
    text.highlight_regex(r"─+|^URI .*|^… .*|^Not shown.*", "dim")
    return text

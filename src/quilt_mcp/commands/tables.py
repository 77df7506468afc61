"""JSON objects of any shape as tables for a person."""

from collections.abc import Collection, Iterable
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

UNLIMITED = 10_000  # columns where there is no edge: nothing is wrapped
WIDEST = 200  # columns; a wider table is hard to follow even where there is no edge
NOTHING: tuple[Any, ...] = (None, "", [], {})
INDENT = (0, 0, 0, 2)
# What data holds must not steer the terminal: control characters are shown as pictures, but for tab and newline.
VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | dict.fromkeys(
    range(127, 160), "\ufffd"
)


def document(data: dict[str, Any]) -> RenderableType:
    """An object: first its plain fields, then a section for each field that holds objects."""
    plain = {key: value for key, value in data.items() if not _holds_objects(value)}
    parts: list[RenderableType] = [_fields(plain)] if plain else []
    for key, value in data.items():
        if _holds_objects(value):
            parts += ["", Text(key, "bold"), Padding(_section(value), INDENT)]
    return Group(*parts)


def table_of(*headings: str, numbers: Collection[str] = ()) -> Table:
    """An empty table; the columns that `numbers` names are set flush right.

    The first column, which tells the rows apart, keeps its lines whole.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place, heading in enumerate(headings):
        justify: Literal["left", "right"] = "right" if heading in numbers else "left"
        table.add_column(Text(heading), overflow="fold", no_wrap=place == 0, justify=justify)
    return table


def cell(value: Any) -> Text:
    """A value as text; a list has a line for each element."""
    return Text(_words(value).translate(VISIBLE), overflow="fold")


class Rows:
    """Objects of one kind: a table with a row for each, or a block for each where the table would be too wide.

    Args:
        rows: the objects; what stands under the key "" names its object.
    """

    def __init__(self, rows: Iterable[dict[str, Any]]) -> None:
        self._rows = list(rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table()
        natural = console.measure(table, options=options.update(max_width=UNLIMITED)).maximum
        if natural <= min(options.max_width, WIDEST):
            yield table
        else:
            yield from self._blocks()

    def _blocks(self) -> Iterable[RenderableType]:
        for place, row in enumerate(self._rows):
            if place:
                yield ""
            fields = _fields({key: value for key, value in row.items() if key})
            if "" in row:
                yield cell(row[""])
            yield Padding(fields, INDENT) if "" in row else fields

    def _table(self) -> Table:
        headings = list(dict.fromkeys(key for row in self._rows for key in row))
        table = table_of(*headings)
        for row in self._rows:
            table.add_row(*(cell(row.get(heading)) for heading in headings))
        return table


def _holds_objects(value: Any) -> bool:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return bool(value) and (isinstance(value, dict) or any(isinstance(one, dict) for one in values))


def _section(value: Any) -> RenderableType:
    if isinstance(value, list):
        return Rows(one if isinstance(one, dict) else {"": one} for one in value)
    if all(isinstance(one, dict) for one in value.values()):
        return Rows({"": key} | one for key, one in value.items())
    return document(value)


def _fields(fields: dict[str, Any]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for key, value in fields.items():
        grid.add_row(Text(key), cell(value))
    return grid


def _words(value: Any) -> str:
    if value in NOTHING:
        return "-"
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{key}: {_words(one)}" for key, one in value.items())
        case list():
            return "\n".join(_words(one) for one in value)
    return str(value)

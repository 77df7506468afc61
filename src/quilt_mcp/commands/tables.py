"""Tables for JSON objects of any shape."""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, TypeGuard

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from quilt_mcp.commands.cells import cell
from quilt_mcp.commands.trees import is_tree, tree_of

UNLIMITED = 10_000  # columns if the output is not a terminal: nothing is wrapped
MAX_TABLE = 200  # columns; wider tables are hard to read even if they fit
JSONObject = Mapping[str, object]

INDENT = (0, 0, 0, 2)


def document(data: JSONObject) -> RenderableType:
    """Return an object's plain fields, followed by a section for each field that contains objects."""
    plain = {key: value for key, value in data.items() if not _contains_objects(value)}
    parts: list[RenderableType] = [_fields(plain)] if plain else []
    for key, value in data.items():
        if _contains_objects(value):
            parts += ["", Text(key, "bold"), Padding(_section(value), INDENT)]
    return Group(*parts)


def table_of(*headings: str, numbers: Collection[str] = ()) -> Table:
    """Return an empty table. The columns in `numbers` are right-aligned.

    The first column, which identifies the rows, is not wrapped.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place, heading in enumerate(headings):
        justify: Literal["left", "right"] = "right" if heading in numbers else "left"
        table.add_column(Text(heading), overflow="fold", no_wrap=place == 0, justify=justify)
    return table


class Rows:
    """Objects of one kind: a table with one row each, or one block each if the table would be too wide.

    Args:
        rows: the objects. The key "" is for the name of an object.
    """

    def __init__(self, rows: Iterable[JSONObject]) -> None:
        self._rows = list(rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self._table()
        natural = console.measure(table, options=options.update(max_width=UNLIMITED)).maximum
        if natural <= min(options.max_width, MAX_TABLE):
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


def _contains_objects(value: object) -> TypeGuard[dict[str, object] | list[object]]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return bool(value) and (isinstance(value, dict) or any(isinstance(one, dict) for one in values))


def _section(value: dict[str, object] | list[object]) -> RenderableType:
    if is_tree(value):
        return tree_of(value)
    if isinstance(value, list):
        return Rows(one if isinstance(one, dict) else {"": one} for one in value)
    named = [{"": key} | one for key, one in value.items() if isinstance(one, dict)]
    return Rows(named) if len(named) == len(value) else document(value)


def _fields(fields: JSONObject) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for key, value in fields.items():
        grid.add_row(Text(key), cell(value))
    return grid

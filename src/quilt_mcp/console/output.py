"""The output of commands: for people or as JSON to stdout, and problems to stderr.

People get tables for JSON objects of any shape, and trees for what contains more of them. Data must not control the
terminal.
"""

import json
import os
import pydoc
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import IO, Any, Literal, NamedTuple, TypeGuard, cast

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.status import Status
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from quilt_mcp.console.columns import FEW, choose_columns, list_keys, name_columns


def show(*parts: RenderableType) -> None:
    """Print for people, with colors if stdout is a terminal that supports them."""
    sys.stdout.writelines(f"{line}\n" for line in _draw(console_on(sys.stdout), parts))


def show_pages(*parts: RenderableType, after: Sequence[str] = ()) -> None:
    """Print for people. In a terminal that is too low, let them page, with their pager or `less`.

    Args:
        parts: what is printed.
        after: lines that follow and are not wrapped, such as commands to paste.
    """
    console = console_on(sys.stdout)
    lines = [*_draw(console, parts), *(line.translate(VISIBLE) for line in after)]
    if console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty() and len(lines) >= console.height:
        os.environ.setdefault("LESS", "FRX")  # colors, and no pager for what fits, as git sets it
        pydoc.pager("\n".join(lines) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _draw(console: Console, parts: Iterable[RenderableType]) -> list[str]:
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    return [line.rstrip() for line in captured.get().splitlines()]  # Rich pads every line of a table with blanks


def show_json(value: Mapping[str, object]) -> None:
    shown = {code: f"\\u{code:04x}" for code in VISIBLE}
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2).translate(shown) + "\n")


def complain(*lines: str) -> None:
    console_on(sys.stderr).print(*lines, sep="\n", soft_wrap=True)


def waiting(words: str) -> Status:
    """Return a context that shows progress if stderr is a terminal."""
    return console_on(sys.stderr).status(words)


class _PlainConsole(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for one in super().render(renderable, options):  # names in data and texts of errors too
            yield one if one.control else one._replace(text=one.text.translate(VISIBLE))


def console_on(stream: IO[str]) -> Console:
    """Return a console that prints text as it is, without Rich's markup."""
    console = _PlainConsole(file=stream, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = UNLIMITED
    return console


EMPTY: tuple[object, ...] = (None, "", [], {})
# Data must not control the terminal: a symbol is shown for what does, and for what ends a line or turns its direction.
VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | dict.fromkeys(
    (*range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A)), "\ufffd"
)


def cell(value: object) -> Text:
    """Return a value as text. A list has one line per element."""
    return Text(_format(value).translate(VISIBLE), overflow="fold")


def _word(name: str, style: str = "") -> Text:
    return Text(name.translate(VISIBLE), style)


def _format(value: object) -> str:
    if value in EMPTY:
        return "-"
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{key}: {_format(one)}" for key, one in value.items())
        case list():
            return "\n".join(_format(one) for one in value)
    return str(value)


def _format_line(value: object) -> str:
    """Return a value as one line."""
    return " ".join((", ".join(map(_format, value)) if isinstance(value, list) and value else _format(value)).split())


MAX_LABEL = 120
"""Maximum length of a text in a label. `--json` prints all of it."""
_NAMES = ("reference_id", "title", "name", "description")
"""The fields of a label, in this order: a description only if there is no title or name."""


def is_tree(value: object) -> TypeGuard[list[object]]:
    """Return whether it is a list of objects that have reference IDs, and some of them contain lists of objects."""
    rows = _objects(value)
    return all("reference_id" in row for row in rows) and any(map(_branches, rows))


def tree_of(rows: list[object]) -> Tree:
    """Return a tree with a node for each object, and below it a branch for each of its lists of objects."""
    root = Tree("", hide_root=True, guide_style="dim")
    _grow(root, rows)
    return root


def _grow(parent: Tree, rows: object) -> None:
    for row in _objects(rows):
        node = parent.add(_label(row))
        for key, below in _branches(row).items():
            total = row.get(f"{key}_count")
            heading = f"{key}: {len(below)} of {total}" if isinstance(total, int) and total > len(below) else key
            _grow(node.add(_word(heading, "bold")), below)


def _objects(value: object) -> list[Mapping[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _branches(row: Mapping[str, object]) -> dict[str, list[Mapping[str, object]]]:
    return {key: objects for key, value in row.items() if (objects := _objects(value))}


def _label(row: Mapping[str, object]) -> Text:
    named = [str(row[key]) for key in _NAMES if row.get(key)][:2] or [f"{key}: {row[key]}" for key in row]
    text = "  ".join(" ".join(one.split()) for one in named)
    label = cell(text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…")
    return label.append(f"  {row['status']}", "dim") if row.get("status") else label


UNLIMITED = 10_000  # columns if the output is not a terminal: nothing is wrapped
MAX_TABLE = 200  # columns; wider tables are hard to read even if they fit
GAP = 2  # between two columns
MIN_NAME = 24
"""The columns that other columns leave to a name."""
JSONObject = Mapping[str, object]

INDENT = (0, 0, 0, 2)


class Layout(NamedTuple):
    """How lists of objects are shown.

    Attributes:
        fields: the columns of their tables. By default, those that tell most.
        is_brief: whether a table that is too wide has fewer columns. Otherwise each object becomes a block.
    """

    fields: tuple[str, ...] = ()
    is_brief: bool = True


def document(data: JSONObject, layout: Layout = Layout()) -> RenderableType:  # noqa: B008 - it cannot change
    """Return an object's plain fields, followed by a section for each field that contains objects."""
    if is_grid(data):
        rest = {key: value for key, value in data.items() if key not in {"columns", "rows"}}
        return Group(grid_of(data), "", _fields(rest))
    plain = {key: value for key, value in data.items() if not _contains_objects(value)}
    parts: list[RenderableType] = [_fields(plain)] if plain else []
    for key, value in data.items():
        if _contains_objects(value):
            parts += ["", _word(key, "bold"), Padding(_section(value, layout), INDENT)]
    return Group(*parts)


def is_grid(data: JSONObject) -> bool:
    """Return whether it is the start of a table: columns with names and types, and a list of values for each row."""
    columns, rows = _objects(data.get("columns")), data.get("rows")
    is_named = all("name" in column and "type" in column for column in columns)
    return bool(columns) and is_named and isinstance(rows, list) and all(isinstance(row, list) for row in rows)


def grid_of(data: JSONObject) -> Table:
    """Return the table. The types are below the names."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in _objects(data["columns"]):
        table.add_column(
            Text.assemble(_word(str(column["name"])), "\n", _word(str(column["type"]), "dim")), overflow="fold"
        )
    for row in cast("list[list[object]]", data["rows"]):
        table.add_row(*map(cell, row))
    return table


def table_of(*headings: str, numbers: Collection[str] = ()) -> Table:
    """Return an empty table. The columns in `numbers` are right-aligned.

    The first column, which identifies the rows, is not wrapped.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for place, heading in enumerate(headings):
        justify: Literal["left", "right"] = "right" if heading in numbers else "left"
        table.add_column(_word(heading), overflow="fold", no_wrap=place == 0, justify=justify)
    return table


class Rows:
    """Objects of one kind: a table with one row each.

    If the table would be too wide, it has the columns that tell most, and few objects are one block each.

    Args:
        rows: the objects. The key "" is for the name of an object.
        layout: how they are shown.
    """

    def __init__(self, rows: Iterable[JSONObject], layout: Layout = Layout()) -> None:  # noqa: B008 - it cannot change
        self._rows = list(rows)
        self._layout = layout

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._layout.fields:
            yield self._brief(self._layout.fields, options.max_width)
            return
        table = self._table()
        natural = console.measure(table, options=options.update(max_width=UNLIMITED)).maximum
        if natural <= min(options.max_width, MAX_TABLE):
            yield table
        elif self._layout.is_brief and len(self._rows) >= FEW:
            columns = self._fit(options.max_width)
            yield self._brief(columns, options.max_width)
            hidden = [key for key in list_keys(self._rows) if key not in columns]
            also = f"Not shown (--fields, --json): {', '.join(hidden)}"
            yield Text(also.translate(VISIBLE), "dim", no_wrap=True, overflow="ellipsis")
        else:
            yield from self._blocks()

    def _fit(self, width: int) -> list[str]:
        """Return the columns that fit beside the beginnings of the names."""
        names = name_columns(self._rows)
        columns, left = list(names), width + GAP - sum(min(self._measure(key), MIN_NAME) + GAP for key in names)
        for key in choose_columns(self._rows)[len(names) :]:
            left -= self._measure(key) + GAP
            if left < 0:
                break
            columns.append(key)
        return columns

    def _measure(self, key: str) -> int:
        lines = (key, *(_format_line(row.get(key)) for row in self._rows))
        return max(cell_len(line.translate(VISIBLE)) for line in lines)

    def _brief(self, columns: Sequence[str], width: int) -> Table:
        """Return a table with one line for each object. Names are cut first, then the widest column, until all fit."""
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        widths, names = [self._measure(key) for key in columns], name_columns(self._rows)
        while sum(widths) + GAP * len(widths) > width + GAP and max(widths) > 1:
            long = [at for at, one in enumerate(widths) if columns[at] in names and one > MIN_NAME]
            widths[max(long or range(len(widths)), key=widths.__getitem__)] -= 1
        for key, one in zip(columns, widths, strict=True):
            table.add_column(_word(key), overflow="ellipsis", no_wrap=True, width=one)
        for row in self._rows:
            table.add_row(*(Text(_format_line(row.get(key)).translate(VISIBLE)) for key in columns))
        return table

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
    return bool(value) if isinstance(value, dict) else bool(_objects(value))


def _section(value: dict[str, object] | list[object], layout: Layout) -> RenderableType:
    """Return a tree, rows or a document. In rows, "" is the key of an object's name, or of what is no object."""
    if is_tree(value):
        return tree_of(value)
    if isinstance(value, list):
        return Rows((one if isinstance(one, dict) else {"": one} for one in value), layout)
    named = [{"": key} | one for key, one in value.items() if isinstance(one, dict)]
    return Rows(named, layout) if len(named) == len(value) else document(value, layout)


def _fields(fields: JSONObject) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for key, value in fields.items():
        grid.add_row(_word(key), cell(value))
    return grid


_ARROWS = {"outgoing": "→", "incoming": "←"}


Traced = Mapping[str, Any]


def is_trace(data: Traced) -> bool:
    return {"start", "links", "cycles"} <= data.keys()


def trace_tree(data: Traced) -> RenderableType:
    """Return the links of a page of a trace as a tree, followed by its cycles and its other fields."""
    start = data["start"]
    tree = Tree(_name(start), guide_style="dim")
    nodes = {start["reference_id"]: tree}
    for link in data["links"]:
        source = link["from_reference_id"]
        if source not in nodes:  # it is on an earlier page
            nodes[source] = tree.add(cell(source))
        node = nodes[source].add(_label_link(link))
        if not link.get("is_repeated"):
            nodes[link["entity"]["reference_id"]] = node
    rest = {key: value for key, value in data.items() if key not in {"start", "links", "cycles"}}
    return Group(tree, "", *map(_cycle, data["cycles"]), document(rest))


def _label_link(link: Traced) -> Text:
    kind = f"{link['relationship_type']} {_ARROWS[link['direction']]}" if "direction" in link else link["link"]
    label = cell(kind)
    label.stylize("dim")
    return label.append(" ").append_text(_name(link["entity"], is_repeated=link.get("is_repeated", False)))


def _name(entity: Traced, *, is_repeated: bool = False) -> Text:
    label = cell(f"{entity['reference_id']} {' '.join(entity['title'].split())}")
    if is_repeated:
        label.append("  (see above)", "dim")
    elif "continue_at" in entity:
        label.append(f"  … {entity['continue_at']}", "dim")
    return label


def _cycle(cycle: Traced) -> Text:
    steps = zip(cycle["relationship_types"], cycle["path"][1:], strict=True)
    rest = "" if cycle["is_complete"] else f" … ({cycle['length']} relationships)"
    return cell(f"cycle: {cycle['path'][0]}{''.join(f' {name} → {target}' for name, target in steps)}{rest}")

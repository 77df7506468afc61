"""The rows of a table as JSON: texts and lists are cut, and what JSON does not have becomes a text."""

import json
import math
from collections.abc import Iterable, Sequence

MOST_COLUMNS = 100
LONGEST_CELL = 500
"""The characters of a text in a cell."""
MOST_ITEMS = 20
"""The items of a list or of a structure in a cell."""
DEEPEST = 4
ROOM = 20_000
"""The characters of all rows in JSON."""


def fill_rows(rows: Iterable[Sequence[object]], most: int) -> tuple[list[list[object]], bool]:
    """Return the rows that fit, and whether a cell is cut."""
    shown, room, is_cut = list[list[object]](), ROOM, False
    for row in rows:
        cells = [show_value(value) for value in row]
        room -= len(json.dumps([value for value, _ in cells]))
        if len(shown) == most or (shown and room < 0):
            break
        shown.append([value for value, _ in cells])
        is_cut = is_cut or any(cut for _, cut in cells)
    return shown, is_cut


def show_value(value: object, depth: int = DEEPEST) -> tuple[object, bool]:
    """Return a value of a table as JSON, and whether it is cut."""
    match value:
        case None | bool() | int():
            return value, False
        case float():
            return (value, False) if math.isfinite(value) else (str(value), False)
        case bytes():
            return f"{len(value)} bytes", True
        case dict() | list() | tuple():
            return _show_nested(value, depth)
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text[:LONGEST_CELL], len(text) > LONGEST_CELL


def _show_nested(value: dict[object, object] | list[object] | tuple[object, ...], depth: int) -> tuple[object, bool]:
    if not depth:
        return "…", True
    is_cut = len(value) > MOST_ITEMS
    if isinstance(value, dict):
        found = {str(key)[:LONGEST_CELL]: show_value(one, depth - 1) for key, one in list(value.items())[:MOST_ITEMS]}
        return {key: one for key, (one, _) in found.items()}, is_cut or any(cut for _, cut in found.values())
    shown = [show_value(one, depth - 1) for one in value[:MOST_ITEMS]]
    return [one for one, _ in shown], is_cut or any(cut for _, cut in shown)

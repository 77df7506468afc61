"""Trees for lists of JSON objects that have reference IDs and contain lists of objects."""

from collections.abc import Mapping
from typing import TypeGuard

from rich.text import Text
from rich.tree import Tree

from quilt_mcp.commands.cells import cell

JSONObject = Mapping[str, object]

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
            _grow(node.add(Text(_heading(key, below, row.get(f"{key}_count")), "bold")), below)


def _objects(value: object) -> list[JSONObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _branches(row: JSONObject) -> dict[str, list[JSONObject]]:
    return {key: objects for key, value in row.items() if (objects := _objects(value))}


def _heading(key: str, below: list[JSONObject], total: object) -> str:
    return f"{key}: {len(below)} of {total}" if isinstance(total, int) and total > len(below) else key


def _label(row: JSONObject) -> Text:
    named = [str(row[key]) for key in _NAMES if row.get(key)][:2] or [f"{key}: {row[key]}" for key in row]
    text = "  ".join(" ".join(one.split()) for one in named)
    label = cell(text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…")
    return label.append(f"  {row['status']}", "dim") if row.get("status") else label

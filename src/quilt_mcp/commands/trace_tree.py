"""Traces of requirements as trees."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from quilt_mcp.commands.cells import cell
from quilt_mcp.commands.tables import document

JSONObject = Mapping[str, Any]
_ARROWS = {"outgoing": "→", "incoming": "←"}


def is_trace(data: JSONObject) -> bool:
    """Return whether it is the answer of a trace."""
    return {"start", "links", "cycles"} <= data.keys()


def trace_tree(data: JSONObject) -> RenderableType:
    """Return the links of a page of a trace as a tree, followed by its cycles and its other fields."""
    start = data["start"]
    tree = Tree(_name(start), guide_style="dim")
    nodes = {start["reference_id"]: tree}
    for link in data["links"]:
        source = link["from_reference_id"]
        if source not in nodes:  # it is on an earlier page
            nodes[source] = tree.add(cell(source))
        node = nodes[source].add(_label(link))
        if not link.get("is_repeated"):
            nodes[link["entity"]["reference_id"]] = node
    rest = {key: value for key, value in data.items() if key not in {"start", "links", "cycles"}}
    return Group(tree, "", *map(_cycle, data["cycles"]), document(rest))


def _label(link: JSONObject) -> Text:
    kind = f"{link['relationship_type']} {_ARROWS[link['direction']]}" if "direction" in link else link["link"]
    label = cell(kind)
    label.stylize("dim")
    return label.append(" ").append_text(_name(link["entity"], is_repeated=link.get("is_repeated", False)))


def _name(entity: JSONObject, *, is_repeated: bool = False) -> Text:
    label = cell(f"{entity['reference_id']} {' '.join(entity['title'].split())}")
    if is_repeated:
        label.append("  (see above)", "dim")
    elif "continue_at" in entity:
        label.append(f"  … {entity['continue_at']}", "dim")
    return label


def _cycle(cycle: JSONObject) -> Text:
    steps = zip(cycle["relationship_types"], cycle["path"][1:], strict=True)
    rest = "" if cycle["is_complete"] else f" … ({cycle['length']} relationships)"
    return cell(f"cycle: {cycle['path'][0]}{''.join(f' {name} → {target}' for name, target in steps)}{rest}")

"""Traces: what can be reached from an entity, breadth-first.

Each page reads the trace again, up to the maximum number of links, so that it has the total and all cycles. So a page
costs a few statements for each step, and never more rows than that maximum allows.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from quilt_mcp.core import cursors
from quilt_mcp.requirements.briefs import BriefReader
from quilt_mcp.requirements.cycles import Relation, find_cycles
from quilt_mcp.requirements.kinds import Kind
from quilt_mcp.requirements.overview_answers import Cycle, Trace, TracedEntity, TraceLink
from quilt_mcp.requirements.tables import BY_KIND
from quilt_mcp.requirements.trace_links import FoundLinks, Link, LinkReader, Node, build_node

MAX_LINKS = 2000
"""Maximum number of links of a trace."""
MAX_CYCLES = 20
"""Maximum number of cycles that a page names."""
MAX_PATH = 50
"""Maximum number of relationships that are listed of a cycle."""


@dataclass(frozen=True, slots=True)
class Step:
    """A link of a trace.

    Attributes:
        distance: of the target from the start, along this link.
        link: the link.
        is_repeated: whether an earlier link leads to the same target.
    """

    distance: int
    link: Link
    is_repeated: bool

    @property
    def key(self) -> str:
        """Sorts the links of a trace."""
        return f"{self.distance:02d}{self.link.position}"


@dataclass
class Walk:
    """The entities that were reached from a start.

    Attributes:
        nodes: the entities by ID, nearest first.
        steps: the links, in the order of their keys.
        continues: whether links of an entity are left out; None if that was not read. By ID, for those that are not
            complete.
        is_full: whether links are left out because there are too many.
    """

    nodes: dict[str, Node]
    steps: list[Step] = field(default_factory=list)
    continues: dict[str, bool | None] = field(default_factory=dict)
    is_full: bool = False


async def read_trace(
    reader: BriefReader, kind: Kind, entity_id: str, *, depth: int, after: str, limit: int, tag: str
) -> Trace:
    """Read a page of the trace of an entity that the caller may see.

    Args:
        reader: reads for the caller.
        kind: the entity's kind.
        entity_id: the entity's ID.
        depth: maximum number of steps.
        after: the key of the last link before the page; empty for the first page.
        limit: maximum number of links of the page.
        tag: of the cursors.
    """
    [row] = await reader.execute(reader.select(kind).where(BY_KIND[kind.name].c.id == entity_id))
    result = await walk(reader, build_node(kind, row, is_below=True), depth)
    return _make_page(result, depth=depth, after=after, limit=limit, tag=tag)


async def walk(reader: BriefReader, start: Node, depth: int, *, max_links: int = MAX_LINKS) -> Walk:
    """Follow the links of an entity.

    Args:
        reader: reads for the caller.
        start: the entity.
        depth: maximum number of steps from it.
        max_links: maximum number of links.
    """
    # Each link is found from both ends, so rows can be links that are listed. If there are more rows than this, there
    # are more links than the maximum allows.
    links = LinkReader(reader, max_rows=max_links + 1)
    result, listed, ends = Walk({start.id: start}), set[str](), [start]
    for distance in range(1, depth + 1):
        found = await links.read_links(ends, result.nodes)
        reached = _add_links(result, found, listed, distance, max_links)
        _note_rest(result, ends, found, listed)
        ends = reached
        if result.is_full or not ends:
            break
    if ends:
        _note_rest(result, ends, await links.read_links(ends, result.nodes), listed)
    return result


def _add_links(result: Walk, found: FoundLinks, listed: set[str], distance: int, max_links: int) -> list[Node]:
    """Add the links that are new. Return the entities that are reached for the first time."""
    reached = []
    for link in found.links:
        if link.edge in listed:
            continue
        if len(result.steps) == max_links:
            result.is_full = True
            break
        listed.add(link.edge)
        target = result.nodes.get(link.target.id)
        if target is None:
            target = result.nodes[link.target.id] = link.target
            reached.append(target)
            result.steps.append(Step(distance, link, is_repeated=False))
        else:
            result.steps.append(Step(distance, replace(link, target=target), is_repeated=True))
    return reached


def _note_rest(result: Walk, ends: list[Node], found: FoundLinks, listed: set[str]) -> None:
    """Note which of these entities have links that the trace lacks."""
    unlisted = {link.source.id for link in found.links if link.edge not in listed}
    for node in ends:
        if node.id in unlisted:
            result.continues[node.id] = True
        elif found.read_until is not None and node.position >= found.read_until:
            result.continues[node.id] = None


def _make_page(result: Walk, *, depth: int, after: str, limit: int, tag: str) -> Trace:
    first = bisect_right(result.steps, after, key=lambda step: step.key)
    steps = result.steps[first : first + limit]
    is_last = first + limit >= len(result.steps)
    start = next(iter(result.nodes.values()))
    shown = {step.link.relationship_id for step in steps}
    relations = [_make_relation(step.link) for step in result.steps if step.link.relationship_id]
    cycles = find_cycles(relations)
    on_page = [cycle for cycle in cycles if cycle[-1].id in shown]
    return {
        "start": _describe(start, result.continues),
        "depth": depth,
        "entity_count": len(result.nodes),
        "count": len(result.steps),
        "links": [_describe_step(step, result.continues) for step in steps],
        "cycle_count": len(cycles),
        "page_cycle_count": len(on_page),
        "cycles": [_describe_cycle(cycle, result.nodes) for cycle in on_page[:MAX_CYCLES]],
        "cycles_rest": _make_uri(start, depth, after, tag) if len(on_page) > MAX_CYCLES else None,
        "cut_by": ("size" if result.is_full else "depth") if result.continues else None,
        "next_cursor": None if is_last else cursors.encode(steps[-1].key, tag),
    }


def _make_relation(link: Link) -> Relation:
    source, target = link.source.id, link.target.id
    if link.direction == "incoming":
        source, target = target, source
    return Relation(str(link.relationship_id), source, target, str(link.relationship_type))


def _describe(node: Node, continues: Mapping[str, bool | None]) -> TracedEntity:
    described: TracedEntity = {**node.brief}  # type: ignore[typeddict-item]  # mypy misses what is not required
    if node.id in continues:
        described["continues"] = continues[node.id]
        described["continue_at"] = _name_trace(node)
    return described


def _name_trace(node: Node) -> str:
    return f"requirements://{node.kind.segment}/{node.brief['reference_id']}/trace"


def _make_uri(start: Node, depth: int, after: str, tag: str) -> str:
    """Return the URI of a page with so few links that it names all its cycles: a link closes at most one."""
    cursor = f"&cursor={cursors.encode(after, tag)}" if after else ""
    return f"{_name_trace(start)}?depth={depth}{cursor}&limit={MAX_CYCLES}"


def _describe_step(step: Step, continues: Mapping[str, bool | None]) -> TraceLink:
    link = step.link
    described: TraceLink = {
        "distance": step.distance,
        "from_reference_id": link.source.brief["reference_id"],
        "link": link.name,
        "entity": _describe(link.target, continues),
    }
    if link.direction and link.relationship_type and link.relationship_id:
        described["direction"] = link.direction
        described["relationship_type"] = link.relationship_type
        described["relationship_id"] = link.relationship_id
    if step.is_repeated:
        described["is_repeated"] = True
    return described


def _describe_cycle(cycle: list[Relation], nodes: Mapping[str, Node]) -> Cycle:
    listed = cycle[:MAX_PATH]
    path = [cycle[0].source, *(one.target for one in listed)]
    return {
        "length": len(cycle),
        "path": [nodes[one].brief["reference_id"] for one in path],
        "relationship_types": [one.type for one in listed],
        "is_complete": len(listed) == len(cycle),
        "closed_by": cycle[-1].id,
    }

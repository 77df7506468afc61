"""Traces: what can be reached from an entity, breadth-first.

Each page reads the trace again, up to the maximum number of links, so that it has the total and all cycles. So a page
costs a few statements for each step, and never more rows than that maximum allows.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

from sqlalchemy import ColumnElement

from quilt_mcp.core import cursors
from quilt_mcp.core.cuts import PAGE_CHARACTERS, fit
from quilt_mcp.requirements.answers import BriefEntity, Cycle, Trace, TracedEntity, TraceLink
from quilt_mcp.requirements.conditions import match_any
from quilt_mcp.requirements.model import ACCEPTANCE_CRITERIA, BY_NAME, EPIC, KINDS, REQUIREMENT, USER_STORY, Kind
from quilt_mcp.requirements.reads import Reader, build_brief
from quilt_mcp.requirements.tables import (
    BY_KIND,
    AnyRow,
    Statement,
    relationship_types,
    requirement_relationships,
    requirements,
)


class Relation(NamedTuple):
    """A relationship."""

    id: str
    source: str
    target: str
    type: str


def find_cycles(relations: Sequence[Relation]) -> list[list[Relation]]:
    """Find cycles such that each cycle of the relations contains the last relation of one of them.

    There can be exponentially many cycles. These are at most as many as the relations. Cycles of one type are found
    first, because they contradict what such a type means; then those of several types.
    """
    by_type = [[one for one in relations if one.type == name] for name in sorted({one.type for one in relations})]
    cycles = [cycle for of_type in by_type for cycle in _search(of_type)]
    closing = {cycle[-1].id for cycle in cycles}
    return cycles + list(_search(one for one in relations if one.id not in closing))


def _search(relations: Iterable[Relation]) -> Iterator[list[Relation]]:
    """Search depth-first. A relation that leads back to a requirement of the current path closes a cycle."""
    outgoing: defaultdict[str, list[Relation]] = defaultdict(list)
    for one in relations:
        outgoing[one.source].append(one)
    done: set[str] = set()
    for start in list(outgoing):
        path: list[Relation] = []
        at = {start: 0}  # the requirements of the path, with the number of relations that lead to them
        pending = [iter(outgoing[start])] if start not in done else []
        while pending:
            relation = next(pending[-1], None)
            if relation is None:
                pending.pop()
                left = path.pop().target if path else start
                del at[left]
                done.add(left)
            elif relation.target in at:
                yield [*path[at[relation.target] :], relation]
            elif relation.target not in done:
                path.append(relation)
                at[relation.target] = len(path)
                pending.append(iter(outgoing.get(relation.target, ())))


LinkName = Literal["parent", "criterion", "child", "requirement", "relationship"]
Direction = Literal["outgoing", "incoming"]
_NAMES: tuple[LinkName, ...] = get_args(LinkName)
_DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
_DOWNWARDS: list[tuple[Kind, Kind, LinkName]] = [
    (EPIC, USER_STORY, "child"),
    (USER_STORY, ACCEPTANCE_CRITERIA, "child"),
    (USER_STORY, REQUIREMENT, "child"),
    (ACCEPTANCE_CRITERIA, REQUIREMENT, "requirement"),
]


@dataclass(frozen=True, slots=True)
class Node:
    """An entity of a trace.

    Attributes:
        kind: its kind.
        brief: the entity.
        parent_id: the ID of its parent; None for an epic.
        criterion_id: the ID of the acceptance criterion that it refers to, if any.
        is_below: whether it is the start or a descendant of the start. Only these are followed down.
    """

    kind: Kind
    brief: BriefEntity
    parent_id: str | None
    criterion_id: str | None
    is_below: bool

    @property
    def id(self) -> str:
        return self.brief["id"]

    @property
    def position(self) -> str:
        """Sorts the entities of one distance from the start."""
        return f"{KINDS.index(self.kind)}{self.id.replace('-', '')}"


@dataclass(frozen=True, slots=True)
class Link:
    """A link, in the direction in which it was followed."""

    source: Node
    target: Node
    name: LinkName
    direction: Direction | None = None
    relationship_type: str | None = None
    relationship_id: str | None = None

    @property
    def edge(self) -> str:
        """Identifies the link, from whichever end it was followed."""
        if self.relationship_id:
            return self.relationship_id
        meaning = "parent" if self.name in {"parent", "child"} else "criterion"
        return " ".join([meaning, *sorted((self.source.id, self.target.id))])

    @property
    def position(self) -> str:
        """Sorts the links of one distance from the start."""
        order = f"{_NAMES.index(self.name)}{int(self.direction == 'incoming')}{KINDS.index(self.target.kind)}"
        key = (self.relationship_id or self.target.id).replace("-", "")
        return f"{self.source.position}{order}{key}"


@dataclass(frozen=True, slots=True)
class FoundLinks:
    """The links of some entities.

    Attributes:
        links: in the order of their positions. A link between two of the entities is there twice.
        read_until: the position of the first entity of which links can be missing; None if all links were read.
    """

    links: list[Link]
    read_until: str | None


class LinkReader:
    """Reads the links of entities, with a constant number of statements."""

    def __init__(self, reader: Reader, max_rows: int) -> None:
        self._reader = reader
        self._max_rows = max_rows

    def read_links(self, nodes: Sequence[Node], known: Mapping[str, Node]) -> FoundLinks:
        by_id = {node.id: node for node in nodes}
        found = [FoundLinks(self._read_upwards(nodes, known), None)]
        found += [self._read_downwards(by_id, *kinds_and_name) for kinds_and_name in _DOWNWARDS]
        found += [self._read_relationships(by_id, direction) for direction in _DIRECTIONS]
        links = sorted((link for one in found for link in one.links), key=lambda link: link.position)
        return FoundLinks(links, min((one.read_until for one in found if one.read_until), default=None))

    def _read_upwards(self, nodes: Sequence[Node], known: Mapping[str, Node]) -> list[Link]:
        """Read the links to parents, and from requirements to their acceptance criteria."""
        wanted: list[tuple[Node, LinkName, Kind, str]] = []
        for node in nodes:
            if node.kind.parent and node.parent_id:
                wanted.append((node, "parent", BY_NAME[node.kind.parent], node.parent_id))
            if node.criterion_id:
                wanted.append((node, "criterion", ACCEPTANCE_CRITERIA, node.criterion_id))
        targets = dict(known)
        for kind in (EPIC, USER_STORY, ACCEPTANCE_CRITERIA):
            ids = [target for _, _, its_kind, target in wanted if its_kind is kind and target not in targets]
            targets |= {node.id: node for node in self._read_nodes(kind, ids)}
        return [Link(node, targets[target], name) for node, name, _, target in wanted if target in targets]

    def _read_nodes(self, kind: Kind, ids: Iterable[str]) -> list[Node]:
        wanted = sorted(set(ids))
        if not wanted:
            return []
        is_wanted = match_any(BY_KIND[kind.name].c.id, wanted, self._reader.dialect)
        rows = self._reader.execute(self._reader.select_briefs(kind).where(is_wanted))
        return [build_node(kind, row, is_below=False) for row in rows]

    def _read_downwards(self, nodes: Mapping[str, Node], upper: Kind, lower: Kind, name: LinkName) -> FoundLinks:
        """Read the links from one kind down to another, of the start and its descendants only."""
        ids = [node.id for node in nodes.values() if node.kind is upper and node.is_below]
        columns = BY_KIND[lower.name].c
        statement = self._reader.select_briefs(lower)
        rows, until = self._read_rows(nodes, statement, ids, columns[f"{upper.name}_id"], columns.id)
        links = [Link(nodes[row.source_id], build_node(lower, row, is_below=True), name) for row in rows]
        return FoundLinks(links, until)

    def _read_relationships(self, nodes: Mapping[str, Node], direction: Direction) -> FoundLinks:
        ids = [node.id for node in nodes.values() if node.kind is REQUIREMENT]
        columns, types = requirement_relationships.c, relationship_types.c
        this, other = columns.source_requirement_id, columns.target_requirement_id
        if direction == "incoming":
            this, other = other, this
        statement = self._reader.select_briefs(
            REQUIREMENT, columns.id.label("relationship_id"), types.name.label("relationship_type")
        ).select_from(
            requirement_relationships.join(relationship_types, types.id == columns.relationship_type_id).join(
                requirements, requirements.c.id == other
            )
        )
        rows, until = self._read_rows(nodes, statement, ids, this, columns.id)
        links = [
            Link(
                nodes[row.source_id],
                build_node(REQUIREMENT, row, is_below=False),
                "relationship",
                direction,
                row.relationship_type,
                row.relationship_id,
            )
            for row in rows
        ]
        return FoundLinks(links, until)

    def _read_rows(
        self,
        nodes: Mapping[str, Node],
        statement: Statement,
        ids: list[str],
        source: ColumnElement[str],
        key: ColumnElement[str],
    ) -> tuple[list[AnyRow], str | None]:
        """Read the rows of the links of some entities. Return also where the maximum of rows was reached."""
        if not ids:
            return [], None
        of_nodes = match_any(source, ids, self._reader.dialect)
        ordered = statement.add_columns(source.label("source_id")).where(of_nodes).order_by(source, key)
        rows = self._reader.execute(ordered.limit(self._max_rows))
        return rows, nodes[rows[-1].source_id].position if len(rows) == self._max_rows else None


def build_node(kind: Kind, row: AnyRow, *, is_below: bool) -> Node:
    """Build an entity of a trace from a row with its brief columns."""
    return Node(kind, build_brief(kind, row), row.parent_id, row.criterion_id, is_below)


MAX_LINKS = 2000
"""Maximum number of links of a trace."""
ROOM = PAGE_CHARACTERS * 3 // 4
"""Characters of the links of a page. The cycles that they close are named beside them."""
MAX_CYCLES = 20
"""Maximum number of cycles that a page names."""
MAX_PATH = 50
"""Maximum number of relationships that are listed of a cycle."""


@dataclass(frozen=True, slots=True)
class Step:
    """A link of a trace."""

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


def read_trace(reader: Reader, kind: Kind, entity_id: str, *, depth: int, cursor: str | None, limit: int) -> Trace:
    """Read a page of at most `limit` links of the trace of an entity that the caller may see."""
    tag = cursors.compute_tag("trace", entity_id, depth, reader.scope)
    after = cursors.decode(cursor, tag) if cursor else ""
    [row] = reader.execute(reader.select_briefs(kind).where(BY_KIND[kind.name].c.id == entity_id))
    result = walk(reader, build_node(kind, row, is_below=True), depth)
    return _make_page(result, depth=depth, after=after, limit=limit, tag=tag)


def walk(reader: Reader, start: Node, depth: int, *, max_links: int = MAX_LINKS) -> Walk:
    # Each link is found from both ends, so rows can be links that are listed. If there are more rows than this, there
    # are more links than the maximum allows.
    links = LinkReader(reader, max_rows=max_links + 1)
    result, listed, ends = Walk({start.id: start}), set[str](), [start]
    for distance in range(1, depth + 1):
        found = links.read_links(ends, result.nodes)
        reached = _add_links(result, found, listed, distance, max_links)
        _note_rest(result, ends, found, listed)
        ends = reached
        if result.is_full or not ends:
            break
    if ends:
        _note_rest(result, ends, links.read_links(ends, result.nodes), listed)
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
    links = fit([_describe_step(step, result.continues) for step in result.steps[first : first + limit]], ROOM)
    steps = result.steps[first : first + len(links)]
    is_last = first + len(links) >= len(result.steps)
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
        "links": links,
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

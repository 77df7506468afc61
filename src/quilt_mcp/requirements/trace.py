"""Traces: what can be reached from an entity, breadth-first.

The first page walks the whole trace, up to the maximum number of links, and its cursor carries the totals. A later page
walks only to its own end: whether a link is new depends on all links before it, which are too many for a cursor. If the
trace has cycles, or if the maximum cuts it and the page is near its end, a later page walks everything again. A walk
reads IDs, with a few statements for each step. What an answer shows is read for its entities alone.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Literal, NamedTuple, get_args
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Integer, Table, any_, bindparam, func, select
from sqlalchemy.dialects import postgresql

from quilt_mcp.core import cursors
from quilt_mcp.core.cuts import PAGE_CHARACTERS, fit
from quilt_mcp.requirements.answers import BriefEntity, Cycle, Trace, TracedEntity, TraceLink
from quilt_mcp.requirements.conditions import match_any
from quilt_mcp.requirements.model import ACCEPTANCE_CRITERIA, BY_NAME, EPIC, KINDS, REQUIREMENT, USER_STORY, Kind
from quilt_mcp.requirements.reads import Reader, brief_columns, build_brief
from quilt_mcp.requirements.tables import (
    BY_KIND,
    AnyColumn,
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
_PLACES = {kind.name: place for place, kind in enumerate(KINDS)}
_ORDERS = {name: place for place, name in enumerate(_NAMES)}
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
        id: its ID.
        parent_id: the ID of its parent; None for an epic.
        criterion_id: the ID of the acceptance criterion that it refers to, if any.
        is_below: whether it is the start or a descendant of the start. Only these are followed down.
        position: sorts the entities of one distance from the start.
    """

    kind: Kind
    id: str
    parent_id: str | None
    criterion_id: str | None
    is_below: bool
    position: str


class Link(NamedTuple):
    """A link, in the direction in which it was followed.

    Attributes:
        edge: identifies the link, from whichever end it was followed.
        position: sorts the links of one distance from the start.
    """

    source: Node
    target: Node
    name: LinkName
    edge: str
    position: str
    direction: Direction | None = None
    relationship_type: str | None = None
    relationship_id: str | None = None


def make_link(source: Node, target: Node, name: LinkName) -> Link:
    """Return the link between a parent and its child, or between a requirement and its acceptance criterion."""
    meaning = "parent" if name in {"parent", "child"} else "criterion"
    ends = f"{source.id} {target.id}" if source.id < target.id else f"{target.id} {source.id}"
    position = f"{source.position}{_ORDERS[name]}0{target.position}"
    return Link(source, target, name, f"{meaning} {ends}", position)


def make_relationship(source: Node, target: Node, direction: Direction, row: AnyRow) -> Link:
    order = f"{_ORDERS['relationship']}{int(direction == 'incoming')}{_PLACES[target.kind.name]}"
    position = f"{source.position}{order}{row.relationship_id.replace('-', '')}"
    found, kind = row.relationship_id, row.relationship_type
    return Link(source, target, "relationship", found, position, direction, kind, found)


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
    """Reads the links of entities, with a constant number of statements. Of the entities, it reads only the IDs."""

    def __init__(self, reader: Reader, max_rows: int) -> None:
        self._reader = reader
        self._max_rows = max_rows

    def read_links(self, nodes: Sequence[Node], known: Mapping[str, Node]) -> FoundLinks:
        by_id = {node.id: node for node in nodes}
        found = [FoundLinks(self._read_upwards(nodes, known), None)]
        found += [self._read_downwards(by_id, *kinds_and_name) for kinds_and_name in _DOWNWARDS]
        found += [self._read_relationships(by_id, direction) for direction in _DIRECTIONS]
        links = sorted((link for one in found for link in one.links), key=attrgetter("position"))
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
            ids = {target for _, _, its_kind, target in wanted if its_kind is kind and target not in targets}
            if ids:
                rows = self._execute(sorted(ids), _select_nodes, kind)
                targets |= {row.id: build_node(kind, row, is_below=False) for row in rows}
        return [make_link(node, targets[target], name) for node, name, _, target in wanted if target in targets]

    def _read_downwards(self, nodes: Mapping[str, Node], upper: Kind, lower: Kind, name: LinkName) -> FoundLinks:
        """Read the links from one kind down to another, of the start and its descendants only."""
        ids = [node.id for node in nodes.values() if node.kind is upper and node.is_below]
        rows, until = self._read_rows(nodes, ids, _select_below, lower, f"{upper.name}_id")
        links = [make_link(nodes[row.source_id], build_node(lower, row, is_below=True), name) for row in rows]
        return FoundLinks(links, until)

    def _read_relationships(self, nodes: Mapping[str, Node], direction: Direction) -> FoundLinks:
        ids = [node.id for node in nodes.values() if node.kind is REQUIREMENT]
        rows, until = self._read_rows(nodes, ids, _select_related, direction)
        links = [
            make_relationship(nodes[row.source_id], build_node(REQUIREMENT, row, is_below=False), direction, row)
            for row in rows
        ]
        return FoundLinks(links, until)

    def _read_rows(
        self, nodes: Mapping[str, Node], ids: list[str], select_rows: Callable[..., Statement], *of: object
    ) -> tuple[list[AnyRow], str | None]:
        """Read the rows of the links of some entities. Return also where the maximum of rows was reached."""
        if not ids:
            return [], None
        rows = self._execute(ids, select_rows, *of)
        return rows, nodes[rows[-1].source_id].position if len(rows) == self._max_rows else None

    def _execute(self, ids: Sequence[str], select_rows: Callable[..., Statement], *of: object) -> list[AnyRow]:
        """Execute the statement for these IDs and the projects of the caller."""
        reader = self._reader
        projects = reader.scope.projects
        found = Parameters(reader.dialect, len(ids) == 1, projects is not None, len(projects or ()) == 1)
        return reader.execute(select_rows(*of, found), found.bind(ids, projects or (), self._max_rows))


class Parameters(NamedTuple):
    """What the text of a statement of a trace depends on. Its values are parameters."""

    dialect: str
    has_one_id: bool
    is_limited: bool
    has_one_project: bool

    def match(self, column: AnyColumn, name: str, *, is_one: bool) -> ColumnElement[bool]:
        """Return the condition that a column of UUIDs has one of the values of a parameter, as `match_any` does."""
        if is_one:
            return column == bindparam(name, type_=column.type)
        if self.dialect == "postgresql":
            return column == any_(bindparam(name, type_=ARRAY(postgresql.UUID(as_uuid=False))))
        listed = func.json_each(bindparam(name)).table_valued("value")
        return column.in_(select(listed.c.value))

    def restrict(self, table: Table) -> list[ColumnElement[bool]]:
        is_one = self.has_one_project
        return [self.match(table.c.project_id, "projects", is_one=is_one)] if self.is_limited else []

    def bind(self, ids: Sequence[str], projects: Sequence[str], most: int) -> dict[str, object]:
        """Return the values of the parameters."""
        return {
            "ids": self._bind(ids, is_one=self.has_one_id),
            "projects": self._bind(projects, is_one=self.has_one_project),
            "most": most,
        }

    def _bind(self, ids: Sequence[str], *, is_one: bool) -> object:
        if is_one:
            return ids[0]
        return [*ids] if self.dialect == "postgresql" else json.dumps([one.replace("-", "") for one in ids])


# To create these statements takes longer than to execute them, and a trace executes up to a hundred.


@cache
def _select_nodes(kind: Kind, parameters: Parameters) -> Statement:
    """Return the SELECT of the entities of a kind with these IDs."""
    table = BY_KIND[kind.name]
    is_wanted = parameters.match(table.c.id, "ids", is_one=parameters.has_one_id)
    return select(*_node_columns(kind)).where(is_wanted, *parameters.restrict(table))


@cache
def _select_below(lower: Kind, column: str, parameters: Parameters) -> Statement:
    """Return the SELECT of the entities of a kind that refer to these IDs in a column."""
    table = BY_KIND[lower.name]
    source = table.c[column]
    statement = select(*_node_columns(lower), source.label("source_id"))
    of_nodes = parameters.match(source, "ids", is_one=parameters.has_one_id)
    rows = statement.where(of_nodes, *parameters.restrict(table)).order_by(source, table.c.id)
    return rows.limit(bindparam("most", type_=Integer))


@cache
def _select_related(direction: Direction, parameters: Parameters) -> Statement:
    """Return the SELECT of the relationships that lead from, or to, the requirements with these IDs."""
    columns, types = requirement_relationships.c, relationship_types.c
    source, other = columns.source_requirement_id, columns.target_requirement_id
    if direction == "incoming":
        source, other = other, source
    joined = requirement_relationships.join(relationship_types, types.id == columns.relationship_type_id)
    statement = select(
        *_node_columns(REQUIREMENT),
        columns.id.label("relationship_id"),
        types.name.label("relationship_type"),
        source.label("source_id"),
    ).select_from(joined.join(requirements, requirements.c.id == other))
    of_nodes = parameters.match(source, "ids", is_one=parameters.has_one_id)
    rows = statement.where(of_nodes, *parameters.restrict(requirements)).order_by(source, columns.id)
    return rows.limit(bindparam("most", type_=Integer))


def _node_columns(kind: Kind) -> list[ColumnElement[object]]:
    return [column for column in brief_columns(kind) if column.key in {"id", "parent_id", "criterion_id"}]


def build_node(kind: Kind, row: AnyRow, *, is_below: bool) -> Node:
    """Build an entity of a trace from a row with its ID and those of its parent and of its acceptance criterion."""
    position = f"{_PLACES[kind.name]}{row.id.replace('-', '')}"
    return Node(kind, row.id, row.parent_id, row.criterion_id, is_below, position)


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


@dataclass(frozen=True, slots=True)
class Totals:
    """What the first page counts, and its cursor carries.

    Attributes:
        links, entities, cycles: how many there are.
        last: the number of steps to the last link.
        cut_by: why links are left out, if any are.
    """

    links: int
    entities: int
    cycles: int
    last: int
    cut_by: Literal["depth", "size"] | None

    def is_known(self, distance: int) -> bool:
        """Return whether the links of entities at a distance are all in the trace, or left out because of the depth."""
        return not self.cycles and (self.cut_by != "size" or distance < self.last - 1)


_CUTS: tuple[Literal["depth", "size"] | None, ...] = (None, "depth", "size")
_CURSOR = [int, UUID, int, UUID, int, int, int, int, int]


def _encode(key: str, totals: Totals, tag: str) -> str:
    """Return the cursor of the page that follows a link: the parts of its key, and the totals, in few characters."""
    parts = int(key[:3]), UUID(key[3:35]), int(key[35:38]), UUID(key[38:])
    numbers = totals.links, totals.entities, totals.cycles, totals.last, _CUTS.index(totals.cut_by)
    return cursors.encode_values([*parts, *numbers], tag)


def _decode(cursor: str | None, tag: str) -> tuple[str, Totals | None]:
    if cursor is None:
        return "", None
    head, source, order, target, links, entities, cycles, last, cut = cursors.decode_values(cursor, tag, _CURSOR)
    if source is None or target is None or cut >= len(_CUTS):
        raise cursors.make_invalid()
    return f"{head:03d}{source.hex}{order:03d}{target.hex}", Totals(links, entities, cycles, last, _CUTS[cut])


def read_trace(
    reader: Reader,
    kind: Kind,
    entity_id: str,
    *,
    depth: int,
    cursor: str | None,
    limit: int,
    max_links: int = MAX_LINKS,
    room: int = ROOM,
) -> Trace:
    """Read a page of at most `limit` links of the trace of an entity that the caller may see."""
    tag = cursors.compute_tag("trace", entity_id, depth, reader.scope)
    after, totals = _decode(cursor, tag)
    [row] = reader.execute(reader.select_briefs(kind).where(BY_KIND[kind.name].c.id == entity_id))
    start = build_node(kind, row, is_below=True)
    page = Page(after, limit, totals) if totals else None
    result = walk(reader, start, depth, max_links=max_links, page=page)
    pages = _Pages(reader, result, start, depth, tag, after, totals)
    return pages.make(limit, cursor, room)


@dataclass(frozen=True, slots=True)
class Page:
    """A page after the first.

    Attributes:
        after: the key of the last link before it.
        limit: the maximum number of its links.
        totals: of the trace.
    """

    after: str
    limit: int
    totals: Totals

    def find_targets(self, result: Walk, distance: int) -> set[str] | None:
        """Return the entities of the page if the walk has reached its end, and nothing farther can be left out."""
        first = find_first(result, self.after)
        steps = result.steps[first : first + self.limit]
        is_reached = len(result.steps) > first + self.limit and self.totals.is_known(distance)
        return {step.link.target.id for step in steps} if is_reached else None


def find_first(result: Walk, after: str) -> int:
    """Return the place of the first link that follows a key."""
    return bisect_right(result.steps, after, key=attrgetter("key"))


def walk(reader: Reader, start: Node, depth: int, *, max_links: int = MAX_LINKS, page: Page | None = None) -> Walk:
    """Walk from an entity: as far as the depth and the maximum allow, or only to the end of a page."""
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
        if page and (targets := page.find_targets(result, distance)) is not None:
            # at the last distance, the links of entities that are not on the page say nothing about it
            ends = [node for node in ends if node.id in targets] if distance == depth else []
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
            result.steps.append(Step(distance, link._replace(target=target), is_repeated=True))
    return reached


def _note_rest(result: Walk, ends: list[Node], found: FoundLinks, listed: set[str]) -> None:
    """Note which of these entities have links that the trace lacks."""
    unlisted = {link.source.id for link in found.links if link.edge not in listed}
    for node in ends:
        if node.id in unlisted:
            result.continues[node.id] = True
        elif found.read_until is not None and node.position >= found.read_until:
            result.continues[node.id] = None


def _make_relation(link: Link) -> Relation:
    source, target = link.source.id, link.target.id
    if link.direction == "incoming":
        source, target = target, source
    return Relation(str(link.relationship_id), source, target, str(link.relationship_type))


class _Pages:
    """Makes a page of a walk. Of its entities, it reads what the answer shows."""

    def __init__(  # noqa: PLR0917 - one caller
        self, reader: Reader, result: Walk, start: Node, depth: int, tag: str, after: str, totals: Totals | None
    ) -> None:
        self._reader, self._result, self._start = reader, result, start
        self._depth, self._tag, self._after = depth, tag, after
        relations = [_make_relation(step.link) for step in result.steps if step.link.relationship_id]
        self._cycles = find_cycles(relations) if totals is None or totals.cycles else []
        self._totals = totals or Totals(
            len(result.steps),
            len(result.nodes),
            len(self._cycles),
            result.steps[-1].distance if result.steps else 0,
            _CUTS[1 + result.is_full] if result.continues else None,
        )
        self._briefs: dict[str, BriefEntity] = {}

    def make(self, limit: int, cursor: str | None, room: int) -> Trace:
        result, totals = self._result, self._totals
        first = find_first(result, self._after)
        chosen = result.steps[first : first + limit]
        self._read_briefs({self._start.id} | {node.id for step in chosen for node in step.link[:2]})
        links = fit([self._describe_step(step) for step in chosen], room)
        steps = chosen[: len(links)]
        shown = {step.link.relationship_id for step in steps}
        on_page = [cycle for cycle in self._cycles if cycle[-1].id in shown]
        named = on_page[:MAX_CYCLES]
        self._read_briefs({one.source for cycle in named for one in cycle[: MAX_PATH + 1]})
        is_last = first + len(links) >= len(result.steps)
        return {
            "start": self._describe(self._start),
            "depth": self._depth,
            "entity_count": totals.entities,
            "count": totals.links,
            "links": links,
            "cycle_count": totals.cycles,
            "page_cycle_count": len(on_page),
            "cycles": [self._describe_cycle(cycle) for cycle in named],
            "cycles_rest": self._make_uri(cursor) if len(on_page) > MAX_CYCLES else None,
            "cut_by": totals.cut_by,
            "next_cursor": None if is_last else _encode(steps[-1].key, totals, self._tag),
        }

    def _read_briefs(self, wanted: set[str]) -> None:
        """Read entities of the trace in one line each, unless they have been read."""
        nodes = [self._result.nodes[one] for one in sorted(wanted - self._briefs.keys())]
        for kind in KINDS:
            if ids := [node.id for node in nodes if node.kind is kind]:
                is_wanted = match_any(BY_KIND[kind.name].c.id, ids, self._reader.dialect)
                rows = self._reader.execute(self._reader.select_briefs(kind).where(is_wanted))
                self._briefs |= {row.id: build_brief(kind, row) for row in rows}

    def _describe(self, node: Node) -> TracedEntity:
        described: TracedEntity = {**self._briefs[node.id]}  # type: ignore[typeddict-item]  # mypy misses what is not required
        if node.id in self._result.continues:
            described["continues"] = self._result.continues[node.id]
            described["continue_at"] = self._name_trace(node)
        return described

    def _name_trace(self, node: Node) -> str:
        return f"requirements://{node.kind.segment}/{self._briefs[node.id]['reference_id']}/trace"

    def _make_uri(self, cursor: str | None) -> str:
        """Return the URI of a page with so few links that it names all its cycles: a link closes at most one."""
        more = f"&cursor={cursor}" if cursor else ""
        return f"{self._name_trace(self._start)}?depth={self._depth}{more}&limit={MAX_CYCLES}"

    def _describe_step(self, step: Step) -> TraceLink:
        link = step.link
        described: TraceLink = {
            "distance": step.distance,
            "from_reference_id": self._briefs[link.source.id]["reference_id"],
            "link": link.name,
            "entity": self._describe(link.target),
        }
        if link.direction and link.relationship_type and link.relationship_id:
            described["direction"] = link.direction
            described["relationship_type"] = link.relationship_type
            described["relationship_id"] = link.relationship_id
        if step.is_repeated:
            described["is_repeated"] = True
        return described

    def _describe_cycle(self, cycle: list[Relation]) -> Cycle:
        listed = cycle[:MAX_PATH]
        path = [cycle[0].source, *(one.target for one in listed)]
        return {
            "length": len(cycle),
            "path": [self._briefs[one]["reference_id"] for one in path],
            "relationship_types": [one.type for one in listed],
            "is_complete": len(listed) == len(cycle),
            "closed_by": cycle[-1].id,
        }

"""The SQL of traces: the links of some entities."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement

from quilt_mcp.requirements.access import match_any
from quilt_mcp.requirements.briefs import BriefReader, build_brief
from quilt_mcp.requirements.kinds import ACCEPTANCE_CRITERIA, BY_NAME, EPIC, KINDS, REQUIREMENT, USER_STORY, Kind
from quilt_mcp.requirements.overview_answers import BriefEntity
from quilt_mcp.requirements.tables import (
    BY_KIND,
    AnyRow,
    Statement,
    relationship_types,
    requirement_relationships,
    requirements,
)

LinkName = Literal["parent", "criterion", "child", "requirement", "relationship"]
Direction = Literal["outgoing", "incoming"]
_NAMES: tuple[LinkName, ...] = ("parent", "criterion", "child", "requirement", "relationship")
_DIRECTIONS: tuple[Direction, ...] = ("outgoing", "incoming")
_DOWNWARDS = [
    (EPIC, USER_STORY),
    (USER_STORY, ACCEPTANCE_CRITERIA),
    (USER_STORY, REQUIREMENT),
    (ACCEPTANCE_CRITERIA, REQUIREMENT),
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
        """The entity's ID."""
        return self.brief["id"]

    @property
    def position(self) -> str:
        """Sorts the entities of one distance from the start."""
        return f"{KINDS.index(self.kind)}{self.id.replace('-', '')}"


@dataclass(frozen=True, slots=True)
class Link:
    """A link, in the direction in which it was followed.

    Attributes:
        source: from this entity.
        target: to this entity.
        name: what the target is to the source.
        direction: of a relationship; None for other links.
        relationship_type: the name of a relationship's type; None for other links.
        relationship_id: of a relationship; None for other links.
    """

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
    """Reads the links of entities, with a constant number of statements.

    Args:
        reader: reads for the caller.
        max_rows: maximum number of rows of each statement.
    """

    def __init__(self, reader: BriefReader, max_rows: int) -> None:
        self._reader = reader
        self._max_rows = max_rows

    async def read_links(self, nodes: Sequence[Node], known: Mapping[str, Node]) -> FoundLinks:
        """Read the links of some entities.

        Args:
            nodes: the entities.
            known: entities that need not be read again, by ID.
        """
        by_id = {node.id: node for node in nodes}
        found = [FoundLinks(await self._read_upwards(nodes, known), None)]
        found += [await self._read_downwards(by_id, parent, kind) for parent, kind in _DOWNWARDS]
        found += [await self._read_relationships(by_id, direction) for direction in _DIRECTIONS]
        links = sorted((link for one in found for link in one.links), key=lambda link: link.position)
        return FoundLinks(links, min((one.read_until for one in found if one.read_until), default=None))

    async def _read_upwards(self, nodes: Sequence[Node], known: Mapping[str, Node]) -> list[Link]:
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
            targets |= {node.id: node for node in await self._read_nodes(kind, ids)}
        return [Link(node, targets[target], name) for node, name, _, target in wanted if target in targets]

    async def _read_nodes(self, kind: Kind, ids: Iterable[str]) -> list[Node]:
        wanted = sorted(set(ids))
        if not wanted:
            return []
        is_wanted = match_any(BY_KIND[kind.name].c.id, wanted, self._reader.dialect)
        rows = await self._reader.execute(self._reader.select(kind).where(is_wanted))
        return [build_node(kind, row, is_below=False) for row in rows]

    async def _read_downwards(self, nodes: Mapping[str, Node], parent: Kind, kind: Kind) -> FoundLinks:
        """Read the links from the start and its descendants to their children, and to requirements of criteria."""
        ids = [node.id for node in nodes.values() if node.kind is parent and node.is_below]
        name: LinkName = "child" if kind.parent == parent.name else "requirement"
        table = BY_KIND[kind.name]
        statement = self._reader.select(kind)
        rows, until = await self._read_rows(nodes, statement, ids, table.c[f"{parent.name}_id"], table.c.id)
        return FoundLinks(
            [Link(nodes[row.source_id], build_node(kind, row, is_below=True), name) for row in rows], until
        )

    async def _read_relationships(self, nodes: Mapping[str, Node], direction: Direction) -> FoundLinks:
        ids = [node.id for node in nodes.values() if node.kind is REQUIREMENT]
        columns, types = requirement_relationships.c, relationship_types.c
        this, other = columns.source_requirement_id, columns.target_requirement_id
        if direction == "incoming":
            this, other = other, this
        statement = self._reader.select(
            REQUIREMENT, columns.id.label("relationship_id"), types.name.label("relationship_type")
        ).select_from(
            requirement_relationships.join(relationship_types, types.id == columns.relationship_type_id).join(
                requirements, requirements.c.id == other
            )
        )
        rows, until = await self._read_rows(nodes, statement, ids, this, columns.id)
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

    async def _read_rows(
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
        rows = await self._reader.execute(ordered.limit(self._max_rows))
        return rows, nodes[rows[-1].source_id].position if len(rows) == self._max_rows else None


def build_node(kind: Kind, row: AnyRow, *, is_below: bool) -> Node:
    """Build an entity of a trace from a row with its brief columns."""
    return Node(kind, build_brief(kind, row), row.parent_id, row.criterion_id, is_below)

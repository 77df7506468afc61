"""What the requirements:// resources read: SQL for entities, pages, hierarchies and relationships.

Every statement carries the caller's scope; what it does not see is not found, as if it did not exist.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Table, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.errors import NotFound
from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.access import Scope, among, visible
from quilt_mcp.requirements.ids import EntityId
from quilt_mcp.requirements.kinds import Kind
from quilt_mcp.requirements.payloads import RELATIONSHIP_COLUMNS, TYPE_COLUMNS, as_json, entity_columns
from quilt_mcp.requirements.tables import (
    BY_KIND,
    relationship_types,
    requirement_relationships,
    requirement_types,
    requirements,
)
from quilt_mcp.trace import calling

MOST_DESCENDANTS = 2000
"""How many stories, criteria and requirements a hierarchy holds at most, of each."""
MOST_RELATIONSHIPS = 500
"""How many relationships in each direction are answered at most."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a list, and how many the list has."""

    rows: list[dict[str, Any]]
    total: int
    last_id: str | None
    """The id of the last row if more follow; else None."""


class Reader:
    """Reads for one caller, over one connection."""

    def __init__(self, connection: AsyncConnection, scope: Scope) -> None:
        self.connection = connection
        self.scope = scope

    async def entity(self, kind: Kind, entity_id: EntityId) -> dict[str, Any]:
        """One entity, by one statement.

        Raises:
            NotFound: there is none, or the caller does not see it.
        """
        table = BY_KIND[kind.name]
        statement = select(*entity_columns(kind)).where(table.c[entity_id.column] == entity_id.value)
        [*found] = await self._rows(statement.where(*self._visible(table)))
        if not found:
            raise NotFound(
                f"There is no {kind.title} {entity_id.value}.",
                details="It does not exist, or you are no member of its project.",
                suggested_actions=[f"Read requirements://{kind.segment} to see which there are."],
            )
        return as_json(found[0])

    async def page(self, kind: Kind, *, after: str, limit: int, parent: str | None = None) -> Rows:
        """Entities by id, those of one parent or all."""
        table = BY_KIND[kind.name]
        conditions = self._visible(table)
        if parent is not None:
            conditions.append(table.c[str(kind.parent_column)] == parent)
        return await self._page(table, select(*entity_columns(kind)), conditions, after, limit)

    async def types(self, *, after: str, limit: int) -> Rows:
        """The types of requirement, by id."""
        return await self._page(requirement_types, select(*TYPE_COLUMNS), [], after, limit)

    async def hierarchy(self, epic: dict[str, Any]) -> dict[str, Any]:
        """The epic with its stories, and each of these with its acceptance criteria and requirements, all by id."""
        stories = await self._children(kinds.USER_STORY, [epic["id"]])
        ids = [story["id"] for story in stories[:MOST_DESCENDANTS]]
        criteria = await self._children(kinds.ACCEPTANCE_CRITERIA, ids) if ids else []
        wanted = await self._children(kinds.REQUIREMENT, ids) if ids else []
        complete = max(len(stories), len(criteria), len(wanted)) <= MOST_DESCENDANTS
        grouped = [_by_story(found[:MOST_DESCENDANTS]) for found in (criteria, wanted)]
        nested = [
            story | {"acceptance_criteria": grouped[0][story["id"]], "requirements": grouped[1][story["id"]]}
            for story in stories[:MOST_DESCENDANTS]
        ]
        return epic | {"user_stories": nested, "is_complete": complete}

    async def relationships(self, requirement: dict[str, Any]) -> dict[str, Any]:
        """The requirement with its relationships in both directions, by id, each with the name of its type."""
        columns = requirement_relationships.c
        outgoing = await self._related(columns.source_requirement_id, columns.target_requirement_id, requirement["id"])
        incoming = await self._related(columns.target_requirement_id, columns.source_requirement_id, requirement["id"])
        return requirement | {
            "source_relationships": outgoing[:MOST_RELATIONSHIPS],
            "target_relationships": incoming[:MOST_RELATIONSHIPS],
            "is_complete": max(len(outgoing), len(incoming)) <= MOST_RELATIONSHIPS,
        }

    async def references(self, kind: Kind, prefix: str, limit: int) -> list[str]:
        """The first reference ids, in their order, that begin so."""
        table = BY_KIND[kind.name]
        column = table.c.reference_id
        conditions = [column >= prefix, column < prefix + "\x7f", *self._visible(table)]
        rows = await self._rows(select(column).where(*conditions).order_by(column).limit(limit))
        return [row.reference_id for row in rows]

    async def titles(self, kind: Kind, *, after: str, limit: int) -> list[Row[Any]]:
        """Id, reference_id and the beginning of the title (of the description, where there is none), by id."""
        table = BY_KIND[kind.name]
        title = table.c.title if kind.statuses else func.substr(table.c.description, 1, kinds.TITLE_LENGTH)
        statement = select(table.c.id, table.c.reference_id, title.label("title")).where(*self._visible(table))
        return await self._rows(_after(statement, table, after).limit(limit))

    async def _page(
        self, table: Table, statement: Select[Any], conditions: list[ColumnElement[bool]], after: str, limit: int
    ) -> Rows:
        [counted] = await self._rows(select(func.count().label("total")).select_from(table).where(*conditions))
        rows = await self._rows(_after(statement.where(*conditions), table, after).limit(limit + 1))
        last = rows[limit - 1].id if len(rows) > limit else None
        return Rows([as_json(row) for row in rows[:limit]], counted.total, last)

    async def _children(self, kind: Kind, parents: list[str]) -> list[dict[str, Any]]:
        table = BY_KIND[kind.name]
        of_parents = among(table.c[str(kind.parent_column)], parents, self.connection.dialect.name)
        statement = select(*entity_columns(kind)).where(of_parents, *self._visible(table)).order_by(table.c.id)
        rows = await self._rows(statement.limit(MOST_DESCENDANTS + 1))
        return [as_json(row) for row in rows]

    async def _related(
        self, this: ColumnElement[str], other: ColumnElement[str], requirement_id: str
    ) -> list[dict[str, Any]]:
        joined = requirement_relationships.join(
            relationship_types, relationship_types.c.id == requirement_relationships.c.relationship_type_id
        ).join(requirements, requirements.c.id == other)
        statement = (
            select(
                *RELATIONSHIP_COLUMNS,
                requirements.c.reference_id.label("related_reference_id"),
                requirements.c.title.label("related_title"),
            )
            .select_from(joined)
            .where(this == requirement_id, *self._visible(requirements))
            .order_by(requirement_relationships.c.id)
            .limit(MOST_RELATIONSHIPS + 1)
        )
        return [as_json(row) for row in await self._rows(statement)]

    def _visible(self, table: Table) -> list[ColumnElement[bool]]:
        if self.scope.projects is None:  # also that of an existing database, whose tables have no such column
            return []
        return visible(table.c.project_id, self.scope, self.connection.dialect.name)

    async def _rows(self, statement: Select[Any]) -> list[Row[Any]]:
        with calling("sql", "select"):
            return list(await self.connection.execute(statement))


def _after(statement: Select[Any], table: Table, after: str) -> Select[Any]:
    """The rows after an id; the column is the table's own, for that of a SELECT may be another that has its name."""
    return (statement.where(table.c.id > after) if after else statement).order_by(table.c.id)


def _by_story(rows: list[dict[str, Any]]) -> defaultdict[str, list[dict[str, Any]]]:
    grouped: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[row["user_story_id"]].append(row)
    return grouped

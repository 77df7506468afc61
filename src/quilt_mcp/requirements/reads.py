"""The SQL of requirements:// resources: entities and pages. `hierarchies.py` and `relationships.py` have the rest.

Each statement is limited to the caller's scope. Rows outside it are treated as if they did not exist.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, FromClause, Table, bindparam, func, literal_column, select, text

from quilt_mcp.core.errors import NotFound
from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements import kinds, shapes
from quilt_mcp.requirements.answers import (
    AcceptanceCriterion,
    BriefEntity,
    Requirement,
    RequirementType,
)
from quilt_mcp.requirements.conditions import Scope, restrict
from quilt_mcp.requirements.kinds import REQUIREMENT, Kind
from quilt_mcp.requirements.parameters import EntityId, Position, advise_list
from quilt_mcp.requirements.shapes import Shape
from quilt_mcp.requirements.tables import (
    BY_KIND,
    AnyRow,
    Statement,
    requirement_types,
    users,
)


class _Named(NamedTuple):
    """The source of a name: the column with the ID, and the table and the column with the name."""

    id_column: str
    table: Table
    column: str


_NAMES = {
    "creator_name": _Named("creator_id", users, "username"),
    "assignee_name": _Named("assignee_id", users, "username"),
    "author_name": _Named("author_id", users, "username"),
    "created_by_name": _Named("created_by", users, "username"),
    "type_name": _Named("type_id", requirement_types, "name"),
}
_MAY_READ_USERS = (
    "SELECT pg_catalog.has_column_privilege('users', 'id', 'SELECT') "
    "AND pg_catalog.has_column_privilege('users', 'username', 'SELECT')"
)


def may_read_users(connection: Connection) -> bool:
    """Return whether the database user may read the names of users. Queries once for each connection of the pool.

    Without this privilege the names of users are null. Everything else can be read, for example in a database of the
    earlier requirements system.
    """
    if connection.dialect.name != "postgresql":
        return True
    pooled = connection.info
    if _MAY_READ_USERS not in pooled:
        with calling("sql", "select"):
            pooled[_MAY_READ_USERS] = bool(connection.scalar(text(_MAY_READ_USERS)))
    return bool(pooled[_MAY_READ_USERS])


@cache  # to create the subqueries takes longer than to read an entity
def select_columns(table: Table, columns: tuple[str, ...], *, has_users: bool) -> tuple[ColumnElement[object], ...]:
    """Return the columns of an answer: those of the table, and the names beside its IDs.

    Args:
        table: the table.
        columns: the keys of the answer.
        has_users: whether the names of users can be read; if not, they are null.
    """
    return tuple(table.c[key] if key in table.c else select_name(table, key, has_users=has_users) for key in columns)


def select_name(table: Table, key: str, *, has_users: bool) -> ColumnElement[object]:
    """Return the column with the name beside an ID of a table, such as `creator_name`."""
    named = _NAMES[key]
    if named.table is users and not has_users:
        return literal_column("NULL").label(key)
    is_same = named.table.c.id == table.c[named.id_column]
    return select(named.table.c[named.column]).where(is_same).correlate(table).scalar_subquery().label(key)


A = TypeVar("A")
Child = TypeVar("Child", AcceptanceCriterion, Requirement)

_TYPE_COLUMNS = [requirement_types.c.id, requirement_types.c.name, requirement_types.c.description]


_NULL: ColumnElement[object] = literal_column("NULL")
MAX_SHOWN = 120
"""Maximum length of a description that is shown as a title."""
_FEW = 8
"""SQLite reads an eighth of the rows by an index about as fast as all rows in their order."""


@dataclass(frozen=True, slots=True)
class Rows(Generic[A]):
    """Some rows of a list.

    Attributes:
        rows: in the order of their IDs.
        total: the number of rows of the list.
        last_id: the ID of the last of these rows; None if it is the last row of the list.
    """

    rows: list[A]
    total: int
    last_id: str | None


class Title(NamedTuple):
    """An entity as `resources/list` shows it."""

    id: str
    reference_id: str
    title: str
    """The beginning of the description, if the kind has no titles."""
    updated_at: datetime | None


class Reader:
    """Reads for one caller over one connection.

    Args:
        connection: to the database.
        scope: what the caller may see.
        has_users: whether the names of users can be read.
        is_existing: whether it is a database of the earlier requirements system: without projects and search index.

    Attributes:
        connection: as given, as are `scope`, `has_users` and `is_existing`.
    """

    def __init__(
        self, connection: Connection, scope: Scope, *, has_users: bool = True, is_existing: bool = False
    ) -> None:
        self.connection = connection
        self.scope = scope
        self.has_users = has_users
        self.is_existing = is_existing

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.connection.dialect.name

    def find_id(self, kind: Kind, entity_id: EntityId) -> str:
        """Return the UUID of an entity.

        Raises:
            NotFound: the entity does not exist, or the caller may not see it.
        """
        table = BY_KIND[kind.name]
        statement = select(table.c.id).where(table.c[entity_id.column] == bindparam("value"))
        row = self._find(kind, entity_id, statement)
        return str(row.id)

    def read_entity(self, shape: Shape[A], entity_id: EntityId) -> A:
        """Read one entity, with one statement.

        Raises:
            NotFound: the entity does not exist, or the caller may not see it.
        """
        statement = _select_entity(shape, entity_id.column, has_users=self.has_users)
        return shape.build(self._find(shape.kind, entity_id, statement))

    def read_page(self, shape: Shape[A], position: Position, *, limit: int, parent: str | None = None) -> Rows[A]:
        """Read a page of the entities of one parent, or of all of the kind."""
        table = BY_KIND[shape.kind.name]
        conditions = self.restrict(table)
        if parent is not None:
            conditions.append(table.c[str(shape.kind.parent_column)] == parent)
        rows, total, last_id = self._read_page(table, self.columns_of(shape), conditions, position, limit)
        return Rows([shape.build(row) for row in rows], total, last_id)

    def read_types(self, position: Position, *, limit: int) -> Rows[RequirementType]:
        """Read a page of the requirement types."""
        rows, total, last_id = self._read_page(requirement_types, _TYPE_COLUMNS, [], position, limit)
        return Rows([shapes.build_type(row) for row in rows], total, last_id)

    def list_references(self, kind: Kind, prefix: str, limit: int) -> list[str]:
        """List the first reference IDs that start with a prefix, sorted."""
        table = BY_KIND[kind.name]
        column: ColumnElement[str] = table.c.reference_id
        if self.dialect == "postgresql":
            column = column.collate("C")  # the tables of the earlier system can have a collation of a language
        conditions = [column >= prefix, column < prefix + "\x7f", *self.restrict(table)]
        rows = self.execute(select(table.c.reference_id).where(*conditions).order_by(column).limit(limit))
        return [row.reference_id for row in rows]

    def list_titles(self, kind: Kind, *, after: str, limit: int) -> list[Title]:
        """List the entities that follow an ID."""
        table = BY_KIND[kind.name]
        title = table.c.title if kind.statuses else func.substr(table.c.description, 1, kinds.TITLE_LENGTH)
        columns = (table.c.id, table.c.reference_id, title.label("title"), table.c.updated_at)
        statement = select(*columns).where(*self.restrict(table))
        return [Title(*row) for row in self.execute(_start_after(statement, table, after).limit(limit))]

    def _find(self, kind: Kind, entity_id: EntityId, statement: Statement) -> AnyRow:
        """Return the row that a SELECT with the parameter `value` finds."""
        visible = self.restrict(BY_KIND[kind.name])
        limited = statement.where(*visible) if visible else statement
        for row in self.execute(limited, {"value": entity_id.value}):
            return row
        raise NotFound(
            f"{kind.title} {entity_id.value} not found.",
            details="It does not exist, or you are not a member of its project.",
            suggested_actions=[advise_list(kind)],
        )

    def _read_page(
        self,
        table: Table,
        columns: Iterable[ColumnElement[object]],
        conditions: list[ColumnElement[bool]],
        position: Position,
        limit: int,
    ) -> tuple[list[AnyRow], int, str | None]:
        [after] = position.after
        statement = _start_after(select(*columns).where(*conditions), table, after)
        rows = self.execute(statement.limit(limit + 1))
        if position.totals:
            [total] = position.totals
        else:  # what is counted stays the same on every page, and costs a big list much more than a page
            total = len(rows) if len(rows) <= limit and not after else self.count(table, conditions)
        return rows[:limit], total, rows[limit - 1].id if len(rows) > limit else None

    def columns_of(self, shape: Shape[A]) -> tuple[ColumnElement[object], ...]:
        """Return the columns that a shape reads."""
        return select_columns(BY_KIND[shape.kind.name], shape.columns, has_users=self.has_users)

    def name_of(self, table: Table, key: str) -> ColumnElement[object]:
        """Return the column with the name beside an ID of a table, such as `creator_name`."""
        return select_name(table, key, has_users=self.has_users)

    def restrict(self, table: Table) -> list[ColumnElement[bool]]:
        """Return the WHERE conditions that limit the rows of a table to the scope."""
        if self.scope.projects is None:  # as in a database of the earlier system, where tables have no project_id
            return []
        return restrict(table.c.project_id, self.scope, self.dialect)

    def count(self, rows: FromClause, conditions: Sequence[ColumnElement[bool]]) -> int:
        """Count the rows that fulfil the conditions."""
        [counted] = self.execute(select(func.count().label("total")).select_from(rows).where(*conditions))
        return int(counted.total)

    def select_briefs(self, kind: Kind, *more: ColumnElement[object]) -> Statement:
        """Return the SELECT of all entities of a kind that the caller may see, in one line each."""
        return select(*brief_columns(kind), *more).where(*self.restrict(BY_KIND[kind.name]))

    def count_entities(self, kind: Kind, conditions: Sequence[ColumnElement[bool]], *, by_index: bool = True) -> int:
        """Return the number of entities of a kind that meet these conditions and that the caller may see.

        Args:
            kind: the kind.
            conditions: the conditions.
            by_index: see `conditions.restrict`.
        """
        table = BY_KIND[kind.name]
        visible = restrict(table.c.project_id, self.scope, self.dialect, by_index=by_index)
        return self.count(table, [*visible, *conditions])

    def sees_many(self, kind: Kind, count: int) -> bool:
        """Return whether this number is a large part of all entities of a kind, also of those outside the scope."""
        return count * _FEW > self.count(BY_KIND[kind.name], [])

    def execute(self, statement: Statement, parameters: Mapping[str, object] | None = None) -> list[AnyRow]:
        """Return the rows of a statement. The caller restricts it."""
        with calling("sql", "select"):
            return [*self.connection.execute(statement, parameters).all()]


@cache  # to create this statement, and to look it up among the compiled, takes longer than to execute it
def _select_entity(shape: Shape[Any], column: str, *, has_users: bool) -> Statement:
    """Return the SELECT of the entity for which a column has the value of the parameter `value`."""
    table = BY_KIND[shape.kind.name]
    columns = select_columns(table, shape.columns, has_users=has_users)
    return select(*columns).where(table.c[column] == bindparam("value"))


def _start_after(statement: Statement, table: Table, after: str) -> Statement:
    """Limit a statement to the rows that follow an ID. The column is the table's: the SELECT can have another `id`."""
    return (statement.where(table.c.id > after) if after else statement).order_by(table.c.id)


def brief_columns(kind: Kind) -> list[ColumnElement[object]]:
    """Return the columns that `build_brief` needs, and the IDs of the parent and of the acceptance criterion."""
    table = BY_KIND[kind.name]
    shown = table.c.title if kind.statuses else func.substr(table.c.description, 1, MAX_SHOWN)
    return [
        table.c.id,
        table.c.reference_id,
        shown.label("title"),
        table.c.status if kind.statuses else _NULL.label("status"),
        table.c.priority if kind.statuses else _NULL.label("priority"),
        (table.c[kind.parent_column] if kind.parent_column else _NULL).label("parent_id"),
        (table.c.acceptance_criteria_id if kind is REQUIREMENT else _NULL).label("criterion_id"),
    ]


def build_brief(kind: Kind, row: AnyRow) -> BriefEntity:
    """Build the answer from a row with the brief columns of a kind."""
    return {
        "id": row.id,
        "reference_id": row.reference_id,
        "type": kind.name,
        "title": row.title,
        "status": row.status,
        "priority": row.priority,
    }

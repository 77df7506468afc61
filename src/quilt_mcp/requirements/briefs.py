"""Entities in one line, as traces and coverage show them, and the SQL that reads them."""

from collections.abc import Iterable

from sqlalchemy import ColumnElement, Connection, Table, func, literal_column, select

from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements.answers import BriefEntity
from quilt_mcp.requirements.conditions import Scope, restrict
from quilt_mcp.requirements.kinds import REQUIREMENT, Kind
from quilt_mcp.requirements.tables import BY_KIND, AnyRow, Statement

_NULL: ColumnElement[object] = literal_column("NULL")
MAX_SHOWN = 120
"""Maximum length of a description that is shown as a title."""
_FEW = 8
"""SQLite reads an eighth of the rows by an index about as fast as all rows in their order."""


class BriefReader:
    """Reads for one caller over one connection. Rows outside the scope are treated as if they did not exist.

    Attributes:
        connection: to the database.
        scope: what the caller may see.
    """

    def __init__(self, connection: Connection, scope: Scope) -> None:
        self.connection = connection
        self.scope = scope

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.connection.dialect.name

    def select(self, kind: Kind, *more: ColumnElement[object]) -> Statement:
        """Return the SELECT of all entities of a kind that the caller may see."""
        return select(*brief_columns(kind), *more).where(*self.restrict(BY_KIND[kind.name]))

    def restrict(self, table: Table) -> list[ColumnElement[bool]]:
        """Return the WHERE conditions that limit a table of entities to the scope."""
        return restrict(table.c.project_id, self.scope, self.dialect)

    def execute(self, statement: Statement) -> list[AnyRow]:
        """Return the rows of a SELECT."""
        with calling("sql", "select"):
            return [*(self.connection.execute(statement)).all()]

    def count(self, kind: Kind, conditions: Iterable[ColumnElement[bool]], *, by_index: bool = True) -> int:
        """Return the number of entities of a kind that meet these conditions and that the caller may see.

        Args:
            kind: the kind.
            conditions: the conditions.
            by_index: see `access.restrict`.
        """
        project_id = BY_KIND[kind.name].c.project_id
        return self._count(kind, [*restrict(project_id, self.scope, self.dialect, by_index=by_index), *conditions])

    def sees_many(self, kind: Kind, count: int) -> bool:
        """Return whether this number is a large part of all entities of a kind, also of those outside the scope."""
        return count * _FEW > self._count(kind, [])

    def _count(self, kind: Kind, conditions: Iterable[ColumnElement[bool]]) -> int:
        counted = select(func.count().label("number")).select_from(BY_KIND[kind.name])
        [row] = self.execute(counted.where(*conditions))
        return int(row.number)


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

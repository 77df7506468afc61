"""The SQL of filters and orders: WHERE conditions and ORDER BY keys for the entities of one kind."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import ColumnElement, UnaryExpression, func, literal_column, or_
from sqlalchemy.sql.operators import custom_op

from quilt_mcp.requirements.access import match_any
from quilt_mcp.requirements.filters import Sort, SortKey
from quilt_mcp.requirements.kinds import Kind
from quilt_mcp.requirements.tables import BY_KIND, AnyColumn

Conditions = list[ColumnElement[bool]]
SORTED_LENGTH = 60
"""The number of characters of a title that determine its place. They fit into a cursor in every script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Filters with resolved names. Equal selections select the same rows, so cursors name the selection.

    Attributes:
        status: statuses.
        priority: priorities, 1 to 4.
        assignee_ids: IDs of users.
        includes_unassigned: whether entities without an assignee match too.
        type_ids: IDs of requirement types.
        project_ids: IDs of projects that the caller may see.
        updated_since: the earliest time of the last change.
        sort: the order; None for the default order of the list.
    """

    status: tuple[str, ...] = ()
    priority: tuple[int, ...] = ()
    assignee_ids: tuple[str, ...] = ()
    includes_unassigned: bool = False
    type_ids: tuple[str, ...] = ()
    project_ids: tuple[str, ...] = ()
    updated_since: datetime | None = None
    sort: Sort | None = None

    def __bool__(self) -> bool:
        """Return whether it filters or sorts at all."""
        return any(getattr(self, one.name) for one in fields(self))

    def limit(self, kind: Kind, dialect: str, *, hidden: Collection[str] = ()) -> Conditions | None:
        """Return the WHERE conditions on the table of a kind; None if no entity of the kind can match.

        They do not contain what the caller may see: add `Reader.restrict`.

        Args:
            kind: the kind.
            dialect: `sqlite` or `postgresql`.
            hidden: the columns with indexes that SQLite must not use.
        """
        columns = BY_KIND[kind.name].c
        conditions: Conditions = []
        wanted: tuple[tuple[str, object], ...] = (
            ("status", self.status),
            ("priority", self.priority),
            ("assignee_id", self.assignee_ids or self.includes_unassigned),
            ("type_id", self.type_ids),
        )
        if any(values and name not in columns for name, values in wanted):
            return None

        def find(name: str) -> AnyColumn:
            return hide(columns[name], dialect) if name in hidden else columns[name]

        if self.status:
            conditions.append(_match(find("status"), self.status))
        if self.priority:
            conditions.append(_match(find("priority"), self.priority))
        if self.assignee_ids or self.includes_unassigned:
            assignee = find("assignee_id")
            of_users = [match_any(assignee, self.assignee_ids, dialect)] if self.assignee_ids else []
            conditions.append(or_(*of_users, *([assignee.is_(None)] if self.includes_unassigned else [])))
        if self.type_ids:
            conditions.append(match_any(find("type_id"), self.type_ids, dialect))
        if self.project_ids:
            conditions.append(match_any(find("project_id"), self.project_ids, dialect))
        if self.updated_since:
            conditions.append(find("updated_at") >= self.updated_since)
        return conditions


def sort_columns(kind: Kind, key: SortKey, dialect: str) -> list[AnyColumn]:
    """Return what to order a kind by, most significant first; empty if the kind does not have the key.

    The ID must follow as the last one. Titles are compared by the code points of their beginning, and reference IDs by
    their length first, so that REQ-999 precedes REQ-1000. The indexes have the same expressions, without bound
    parameters.
    """
    columns = BY_KIND[kind.name].c
    if key not in columns:
        return []
    if key == "reference_id":
        return [func.length(columns.reference_id), _by_code_points(columns.reference_id, dialect)]
    if key == "title":
        beginning = func.substr(columns.title, literal_column("1"), literal_column(str(SORTED_LENGTH)))
        return [_by_code_points(beginning, dialect)]
    return [columns[key]]


def _by_code_points(text: AnyColumn, dialect: str) -> AnyColumn:
    """Return a text with the only collation that both databases have. It is the default of SQLite."""
    return text.collate("C") if dialect == "postgresql" else text


def hide(column: AnyColumn, dialect: str) -> AnyColumn:
    """Return an expression with the values of a column, for which SQLite uses no index."""
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type) if dialect == "sqlite" else column


def _match(column: AnyColumn, values: tuple[object, ...]) -> ColumnElement[bool]:
    # one value as an equation: SQLite reads an index in order only for those
    return column == values[0] if len(values) == 1 else column.in_(values)

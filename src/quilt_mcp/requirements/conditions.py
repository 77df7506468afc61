"""The conditions of each query: the projects of which the caller is a member, and the filters."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Double,
    Table,
    UnaryExpression,
    any_,
    func,
    literal,
    literal_column,
    or_,
    select,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.operators import custom_op

from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements.failures import UnknownUser
from quilt_mcp.requirements.model import ADMINISTRATOR, EPIC, POSITION, USER_STORY, Kind
from quilt_mcp.requirements.parameters import Sort, SortKey
from quilt_mcp.requirements.tables import BY_KIND, AnyColumn, project_members, user_stories, users


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller may see.

    Attributes:
        caller: identifies the caller.
        projects: the sorted IDs of the caller's projects; None if the caller sees all projects.
    """

    caller: str
    projects: tuple[str, ...] | None = None


def restrict(project_id: ColumnElement[str], scope: Scope, dialect: str) -> list[ColumnElement[bool]]:
    """Return the WHERE conditions that limit rows to a scope; none if the scope includes all projects."""
    if scope.projects is None:  # as in a database of the earlier system, where tables have no project_id
        return []
    return [match_any(project_id, scope.projects, dialect)]


def match_any(column: ColumnElement[str], ids: Iterable[str], dialect: str) -> ColumnElement[bool]:
    """Return the condition that a column of UUIDs has one of these values. They are one bound parameter."""
    ids = list(ids)
    if len(ids) == 1:  # SQLite reads an index in order only for an equation
        return column == ids[0]
    if dialect == "postgresql":
        return column == any_(literal(ids, ARRAY(postgresql.UUID(as_uuid=False))))
    listed = func.json_each(json.dumps([UUID(one).hex for one in ids])).table_valued("value")
    return column.in_(select(listed.c.value))


def load_scope(connection: Connection, caller: str, username: str | None, *, has_projects: bool) -> Scope:
    """Load what a caller may see. Without a username it is an administrator; without projects, all see everything."""
    everything = Scope(caller, projects=None)
    if username is None or not has_projects:
        return everything
    statement = (
        select(users.c.role, project_members.c.project_id)
        .outerjoin_from(users, project_members, project_members.c.user_id == users.c.id)
        .where(users.c.username == username)
    )
    with calling("sql", "select"):
        rows = connection.execute(statement).all()
    if not rows:
        raise UnknownUser("You are not a user of the requirements database.")
    if rows[0].role == ADMINISTRATOR:
        return everything
    # the one row of a user without projects has no project
    return Scope(caller, tuple(sorted(str(row.project_id) for row in rows if row.project_id is not None)))


Conditions = list[ColumnElement[bool]]
SORTED_LENGTH = 60
"""The number of characters of a title that determine its place. They fit into a cursor in every script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Filters with resolved names. Equal selections select the same rows, so cursors name the selection."""

    status: tuple[str, ...] = ()
    priority: tuple[int, ...] = ()
    assignee_ids: tuple[str, ...] = ()
    includes_unassigned: bool = False
    type_ids: tuple[str, ...] = ()
    project_ids: tuple[str, ...] = ()
    updated_since: datetime | None = None
    created_since: datetime | None = None
    kinds: tuple[str, ...] = ()
    epic_id: str | None = None
    sort: Sort | None = None

    def limit(
        self, kind: Kind, scope: Scope, dialect: str, *, indexed: Collection[str | None] | None = None
    ) -> Conditions | None:
        """Return the WHERE conditions on the table of a kind; None if no entity of the kind can match.

        SQLite uses only the indexes of these columns, if any are given.
        """
        columns = BY_KIND[kind.name].c
        conditions: Conditions = []
        wanted: tuple[tuple[str, object], ...] = (
            ("status", self.status),
            ("priority", self.priority),
            ("assignee_id", self.assignee_ids or self.includes_unassigned),
            ("type_id", self.type_ids),
        )
        if any(value and name not in columns for name, value in wanted) or (self.kinds and kind.name not in self.kinds):
            return None

        def find(name: str) -> AnyColumn:
            return columns[name] if indexed is None or name in indexed else hide(columns[name], dialect)

        for name, values in (("status", self.status), ("priority", self.priority)):
            if values:
                conditions.append(_match(find(name), values))
        if self.assignee_ids or self.includes_unassigned:
            assignee = find("assignee_id")
            of_users = [match_any(assignee, self.assignee_ids, dialect)] if self.assignee_ids else []
            conditions.append(or_(*of_users, *([assignee.is_(None)] if self.includes_unassigned else [])))
        for name, ids in (("type_id", self.type_ids), ("project_id", self.project_ids)):
            if ids:
                conditions.append(match_any(find(name), ids, dialect))
        times = (("updated_at", self.updated_since), ("created_at", self.created_since))
        conditions += [find(name) >= since for name, since in times if since]
        if self.epic_id:
            conditions.append(is_below(kind, self.epic_id))
        return conditions + restrict(find("project_id"), scope, dialect)


def is_below(kind: Kind, epic_id: str) -> ColumnElement[bool]:
    """Return the condition that an entity of a kind belongs to an epic, or is it."""
    columns = BY_KIND[kind.name].c
    if kind is EPIC:
        return columns.id == epic_id
    of_epic = user_stories.c.epic_id == epic_id
    return of_epic if kind is USER_STORY else columns.user_story_id.in_(select(user_stories.c.id).where(of_epic))


def place_column(table: Table, *, is_existing: bool) -> AnyColumn:
    """Return the position of the entities of a table. In a database of the earlier system, it is their number.

    The ID must follow it in an order.
    """
    if not is_existing:
        return table.c[POSITION]
    number = func.substring(table.c.reference_id, literal_column("'[0-9]{1,15}$'"))
    return func.coalesce(sql_cast(number, Double()), literal_column("0"))


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

"""Authorization: each query is limited to the projects of which the caller is a member."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, UnaryExpression, any_, func, literal, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.operators import custom_op

from quilt_mcp.core.tracing import calling
from quilt_mcp.requirements.errors import UnknownUser
from quilt_mcp.requirements.kinds import ADMINISTRATOR
from quilt_mcp.requirements.tables import AnyRow, project_members, users


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller may see.

    Attributes:
        caller: identifies the caller.
        projects: the sorted IDs of the caller's projects; None if the caller sees all projects.
    """

    caller: str
    projects: tuple[str, ...] | None = None


def restrict(
    project_id: ColumnElement[str], scope: Scope, dialect: str, *, by_index: bool = True
) -> list[ColumnElement[bool]]:
    """Return the WHERE conditions that limit rows to a scope; none if the scope includes all projects.

    Args:
        project_id: the column with the project of a row.
        scope: what the caller may see.
        dialect: of the database.
        by_index: whether SQLite may find the rows by their project. If not, it reads all rows in their order, which
            is faster if the scope includes many of them.
    """
    if scope.projects is None:
        return []
    if dialect == "sqlite" and not by_index:
        project_id = UnaryExpression(project_id, operator=custom_op("+"), type_=project_id.type)
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


async def load_scope(connection: AsyncConnection, caller: str, username: str | None, *, has_projects: bool) -> Scope:
    """Read what a caller may see now.

    Args:
        connection: to the database that the caller reads.
        caller: identifies the caller.
        username: the caller's name in the database; None for a caller with the rights of an administrator.
        has_projects: whether the database has projects. If not, every caller sees everything.

    Raises:
        UnknownUser: the database has no such user.
    """
    if username is None or not has_projects:
        return Scope(caller)
    statement = (
        select(users.c.role, project_members.c.project_id)
        .outerjoin_from(users, project_members, project_members.c.user_id == users.c.id)
        .where(users.c.username == username)
    )
    with calling("sql", "select"):
        rows = (await connection.execute(statement)).all()
    if not rows:
        raise UnknownUser("You are not a user of the requirements database.")
    return Scope(caller, _collect_projects(rows))


def _collect_projects(rows: Sequence[AnyRow]) -> tuple[str, ...] | None:
    if rows[0].role == ADMINISTRATOR:
        return None
    return tuple(sorted(str(row.project_id) for row in rows if row.project_id is not None))

"""Who sees what: the projects of which the caller is a member decide, in every query."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, any_, func, literal, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.errors import UnknownUser
from quilt_mcp.requirements.kinds import ADMINISTRATOR
from quilt_mcp.requirements.tables import project_members, users
from quilt_mcp.trace import calling


@dataclass(frozen=True, slots=True)
class Scope:
    """What a caller may see.

    Attributes:
        caller: sets this caller apart from every other.
        projects: the ids of its projects, sorted; None where it sees all.
    """

    caller: str
    projects: tuple[str, ...] | None = None


def visible(project_id: ColumnElement[str], scope: Scope, dialect: str) -> list[ColumnElement[bool]]:
    """The condition on a row's project, to be put into a WHERE; none where the scope is everything."""
    return [] if scope.projects is None else [among(project_id, scope.projects, dialect)]


def among(column: ColumnElement[str], ids: Iterable[str], dialect: str) -> ColumnElement[bool]:
    """Whether a column of UUIDs is one of these. They are one bound parameter, however many they are."""
    if dialect == "postgresql":
        return column == any_(literal(list(ids), ARRAY(postgresql.UUID(as_uuid=False))))
    listed = func.json_each(json.dumps([UUID(one).hex for one in ids])).table_valued("value")
    return column.in_(select(listed.c.value))


async def scope_of(connection: AsyncConnection, caller: str, username: str | None, *, has_projects: bool) -> Scope:
    """What a caller may see now.

    Args:
        connection: of the database that is asked.
        caller: sets this caller apart from every other.
        username: its name in the database; None for the database's own administrator.
        has_projects: whether the database knows projects; if not, everyone who is signed in sees all.

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
        raise UnknownUser("You are no user of the requirements database.")
    return Scope(caller, _projects(rows))


def _projects(rows: Iterable[Any]) -> tuple[str, ...] | None:
    found = [(row.role, row.project_id) for row in rows]
    if found[0][0] == ADMINISTRATOR:
        return None
    return tuple(sorted(str(project) for _, project in found if project is not None))

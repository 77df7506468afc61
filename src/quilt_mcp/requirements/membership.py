"""Writing projects, users and who is a member of what; with connections of `Database.writing`."""

from collections.abc import Sequence

from sqlalchemy import delete, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.kinds import DEFAULT_PROJECT_ID
from quilt_mcp.requirements.writing import new_id, times_now


async def create_project(
    connection: AsyncConnection, name: str, description: str | None = None, project_id: str | None = None
) -> str:
    """Create a project and answer its id."""
    project_id = project_id or new_id()
    row = {"id": project_id, "name": name, "description": description, **times_now()}
    await connection.execute(insert(tables.projects), row)
    return project_id


async def create_user(  # noqa: PLR0913 - the columns of a user
    connection: AsyncConnection,
    username: str,
    email: str,
    *,
    role: str = "User",
    user_id: str | None = None,
    projects: Sequence[str] = (DEFAULT_PROJECT_ID,),
) -> str:
    """Create a user, a member of these projects, and answer its id."""
    user_id = user_id or new_id()
    row = {"id": user_id, "username": username, "email": email, "role": role, **times_now()}
    await connection.execute(insert(tables.users), row)
    for project_id in projects:
        await add_member(connection, user_id, project_id)
    return user_id


async def add_member(connection: AsyncConnection, user_id: str, project_id: str, role: str = "Editor") -> None:
    """Make a user a member of a project; one who is one already gets this role."""
    await remove_member(connection, user_id, project_id)
    row = {"user_id": user_id, "project_id": project_id, "role": role}
    await connection.execute(insert(tables.project_members), row)


async def remove_member(connection: AsyncConnection, user_id: str, project_id: str) -> None:
    """End a membership, if there is one."""
    columns = tables.project_members.c
    statement = delete(tables.project_members)
    await connection.execute(statement.where(columns.user_id == user_id, columns.project_id == project_id))

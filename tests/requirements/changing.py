"""Changes a database in tests, over a connection of `Database.writing`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import MIGRATIONS
from quilt_mcp.requirements.kinds import DEFAULT_PROJECT_ID, KINDS, Kind
from quilt_mcp.requirements.search.index import index_entries
from quilt_mcp.requirements.tables import Values
from quilt_mcp.requirements.writing import create_entities, make_entry, make_times, new_id

END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'quilt-mcp'"
"""Ends all connections of this project to a PostgreSQL server."""


async def reindex(connection: AsyncConnection) -> None:
    """Write the search entries of all entities again, in the order of their IDs."""
    for kind in KINDS:
        table = tables.BY_KIND[kind.name]
        rows = (await connection.execute(select(table).order_by(table.c.id))).all()
        await index_entries(connection, [make_entry(kind, row._asdict()) for row in rows])


async def remove_tables(connection: AsyncConnection) -> None:
    """Remove all tables, over a connection of `Database.migrating`."""
    if connection.dialect.name == "postgresql":
        await connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        await connection.exec_driver_sql("CREATE SCHEMA public")
        return
    await connection.run_sync(tables.metadata.drop_all)
    for name in ("search_words", "search_entries", MIGRATIONS.version_table):
        await connection.exec_driver_sql(f"DROP TABLE {name}")


async def create_entity(connection: AsyncConnection, kind: Kind, **values: object) -> Values:
    """Create one entity; see `create_entities`."""
    return (await create_entities(connection, kind, [values]))[0]


async def update_entity(connection: AsyncConnection, kind: Kind, entity_id: str, **changes: object) -> None:
    """Change columns of an entity, and write the search index again."""
    table = tables.BY_KIND[kind.name]
    await connection.execute(update(table).where(table.c.id == entity_id).values(changes))
    await reindex(connection)


async def delete_entity(connection: AsyncConnection, kind: Kind, entity_id: str) -> None:
    """Delete an entity."""
    table = tables.BY_KIND[kind.name]
    await connection.execute(delete(table).where(table.c.id == entity_id))


async def relate(connection: AsyncConnection, source: str, type_name: str, target: str, created_by: str) -> None:
    """Create a relationship between two requirements."""
    types = tables.relationship_types.c
    row = {
        "id": new_id(),
        "source_requirement_id": source,
        "target_requirement_id": target,
        "relationship_type_id": await connection.scalar(select(types.id).where(types.name == type_name)),
        "created_by": created_by,
        "created_at": datetime.now(UTC),
    }
    await connection.execute(insert(tables.requirement_relationships), row)


async def create_project(connection: AsyncConnection, name: str, description: str | None = None) -> str:
    """Create a project. Return its ID."""
    row = {"id": new_id(), "name": name, "description": description, **make_times()}
    await connection.execute(insert(tables.projects), row)
    return str(row["id"])


async def create_user(
    connection: AsyncConnection, username: str, email: str, *, projects: Sequence[str] = (DEFAULT_PROJECT_ID,)
) -> str:
    """Create a user who is a member of these projects. Return the user's ID."""
    row = {"id": new_id(), "username": username, "email": email, "role": "User", **make_times()}
    await connection.execute(insert(tables.users), row)
    for project_id in projects:
        member = {"user_id": row["id"], "project_id": project_id, "role": "Editor"}
        await connection.execute(insert(tables.project_members), member)
    return str(row["id"])

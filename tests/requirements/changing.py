"""Changes a database in tests, over a connection of `Database.writing`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select, update

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import MIGRATIONS
from quilt_mcp.requirements.model import DEFAULT_PROJECT_ID, KINDS, Kind
from quilt_mcp.requirements.tables import Values
from quilt_mcp.requirements.writing import create_entities, index_entities, make_times, new_id

END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'quilt-mcp'"
"""Ends all connections of this project to a PostgreSQL server."""


def reindex(connection: Connection) -> None:
    """Write the search entries of all entities again, in the order of their IDs."""
    for kind in KINDS:
        table = tables.BY_KIND[kind.name]
        rows = connection.execute(select(table).order_by(table.c.id)).all()
        index_entities(connection, kind, [row._asdict() for row in rows])


def remove_tables(connection: Connection) -> None:
    """Remove all tables, over a connection of `Database.migrating`."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
        return
    tables.metadata.drop_all(connection)
    for name in ("search_words", "search_entries", MIGRATIONS.version_table):
        connection.exec_driver_sql(f"DROP TABLE {name}")


def create_entity(connection: Connection, kind: Kind, **values: object) -> Values:
    """Create one entity; see `create_entities`."""
    return create_entities(connection, kind, [values])[0]


def update_entity(connection: Connection, kind: Kind, entity_id: str, **changes: object) -> None:
    """Change columns of an entity, and write the search index again."""
    table = tables.BY_KIND[kind.name]
    connection.execute(update(table).where(table.c.id == entity_id).values(changes))
    reindex(connection)


def delete_entity(connection: Connection, kind: Kind, entity_id: str) -> None:
    """Delete an entity."""
    table = tables.BY_KIND[kind.name]
    connection.execute(delete(table).where(table.c.id == entity_id))


def relate(connection: Connection, source: str, type_name: str, target: str, created_by: str) -> None:
    """Create a relationship between two requirements."""
    types = tables.relationship_types.c
    row = {
        "id": new_id(),
        "source_requirement_id": source,
        "target_requirement_id": target,
        "relationship_type_id": connection.scalar(select(types.id).where(types.name == type_name)),
        "created_by": created_by,
        "created_at": datetime.now(UTC),
    }
    connection.execute(insert(tables.requirement_relationships), row)


def create_project(connection: Connection, name: str, description: str | None = None) -> str:
    """Create a project. Return its ID."""
    row = {"id": new_id(), "name": name, "description": description, **make_times()}
    connection.execute(insert(tables.projects), row)
    return str(row["id"])


def create_user(
    connection: Connection, username: str, email: str, *, projects: Sequence[str] = (DEFAULT_PROJECT_ID,)
) -> str:
    """Create a user who is a member of these projects. Return the user's ID."""
    row = {"id": new_id(), "username": username, "email": email, "role": "User", **make_times()}
    connection.execute(insert(tables.users), row)
    for project_id in projects:
        member = {"user_id": row["id"], "project_id": project_id, "role": "Editor"}
        connection.execute(insert(tables.project_members), member)
    return str(row["id"])

"""Examines the tables of a database: ours, none, those of the earlier requirements system, or others."""

from collections.abc import Collection
from pathlib import Path

from sqlalchemy import Connection, Inspector, column, func, inspect, select, table

from quilt_mcp.app.database.schema import Migrations, Schema, missing_columns
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.failures import FAILURES

MIGRATIONS = Migrations(
    folder=Path(__file__).parent / "migrations",
    version_table="requirements_schema_version",
    revisions=("0001",),
)
MIGRATE = "Run `quilt-mcp requirements migrate` in a terminal, with the same QUILT_MCP_DATABASE_URL."
CREATED_BY_USE = "Nothing: the first read or import creates the tables."
"""The next step for an SQLite file without tables, or without a file."""

_EXISTING = {
    table.name: set(table.columns.keys()) - {"project_id"}
    for table in (
        *tables.BY_KIND.values(),
        tables.users,
        tables.requirement_types,
        tables.relationship_types,
        tables.requirement_relationships,
    )
}
"""The columns of the earlier requirements system, by table."""
_RENAMED_FROM, _RENAMED = "last_modified", "updated_at"


def examine(connection: Connection) -> Schema:
    """Examine the tables with a new connection. Changes nothing."""
    inspector = inspect(connection)
    found = set(inspector.get_table_names())
    if schema := MIGRATIONS.find_schema(connection, found):
        return schema
    if not found & set(tables.metadata.tables):
        return Schema("empty")
    missing = missing_columns(inspector, _EXISTING)
    if _is_too_early(inspector, missing):
        return Schema("too_early", problem=_find_migration(connection, found))
    if missing or connection.dialect.name != "postgresql":
        return Schema("unknown", problem=", ".join(missing) or "a PostgreSQL database")
    return Schema("existing")


def _is_too_early(inspector: Inspector, missing: Collection[str]) -> bool:
    """Return whether the tables are older than migration 4 of the earlier system, which renamed a column of each."""
    lacking = {name.removesuffix(f".{_RENAMED}") for name in missing if name.endswith(f".{_RENAMED}")}
    return (
        len(lacking) == len(missing)
        and lacking >= {entities.name for entities in tables.BY_KIND.values()}
        and all(_RENAMED_FROM in {str(one["name"]) for one in inspector.get_columns(name)} for name in lacking)
    )


def _find_migration(connection: Connection, found: Collection[str]) -> str | None:
    """Return the migration of the earlier system that the tables have; None if the user may not read it."""
    name = "schema_migrations"
    if name not in found or not connection.scalar(select(func.has_table_privilege(name, "SELECT"))):
        return None
    version = connection.scalar(select(func.max(column("version"))).select_from(table(name)))
    return version and f"its migration is {version}"


def require_readable(schema: Schema) -> None:
    """Check that the tables can be read.

    Raises:
        ResourceExecutionError: there are none, or they are of another version or another program.
    """
    if schema.state in {"current", "existing"}:
        return
    if schema.state == "empty":
        raise ResourceExecutionError("The requirements database has no tables yet.", suggested_actions=[MIGRATE])
    if schema.state == "unknown":
        raise FAILURES.make_foreign(schema.problem)
    if schema.state == "too_early":
        raise ResourceExecutionError(
            "The requirements database belongs to the earlier requirements system, before its migration 4.",
            details=schema.problem,
            suggested_actions=[
                "Migrate it with that system to its migration 4 or later. quilt-mcp never changes its tables.",
                "Or set QUILT_MCP_DATABASE_URL to another database.",
            ],
        )
    if schema.state == "newer":
        raise FAILURES.make_newer(str(schema.revision), MIGRATIONS.newest)
    raise ResourceExecutionError(
        "The requirements database was written by an older version of quilt-mcp.",
        details=f"schema {schema.revision}; this version needs {MIGRATIONS.newest}",
        suggested_actions=[MIGRATE],
    )

"""Examines the tables of a workflow database: our version, or tables of another program."""

from pathlib import Path

from sqlalchemy import Connection, inspect

from quilt_mcp.app.database.schema import Migrations, Schema, missing_columns
from quilt_mcp.workflows.failures import FAILURES, SCHEMA
from quilt_mcp.workflows.tables import metadata

MIGRATIONS = Migrations(
    folder=Path(__file__).parent / "migrations",
    version_table="workflows_schema_version",
    revisions=("0001",),
)
_COLUMNS = {table.name: set(table.columns.keys()) for table in metadata.sorted_tables}
_MARKS = {
    "sqlite": "PRAGMA user_version",
    "postgresql": f"SELECT max(number) FROM {SCHEMA}.schema_version",  # noqa: S608 - a constant
}
"""The statements that read the schema version of tables that were created without Alembic."""
_EXISTING = {"sqlite": 2, "postgresql": 1}
"""The last such version. It had the tables of revision 0001."""


def examine(connection: Connection) -> Schema:
    """Return what a connection sees. Changes nothing.

    Raises:
        ResourceExecutionError: the tables are of a newer version or another program.
    """
    dialect = connection.dialect.name
    # Named, because the search path leaves out a schema that the user may not use.
    schema = SCHEMA if dialect == "postgresql" else None
    inspector = inspect(connection)
    tables = inspector.get_table_names(schema)
    if found := MIGRATIONS.find_schema(connection, tables, schema):
        if found.state == "newer":
            raise FAILURES.make_newer(str(found.revision), MIGRATIONS.newest)
        return found
    if not set(tables) - {MIGRATIONS.version_table}:
        return Schema("empty")
    has_mark = dialect == "sqlite" or "schema_version" in tables
    mark = connection.exec_driver_sql(_MARKS[dialect]).scalar() if has_mark else 0
    if "workflows" in tables and mark and mark > _EXISTING[dialect]:
        raise FAILURES.make_newer(str(mark), str(_EXISTING[dialect]))
    without_owners = mark == 1 and dialect == "sqlite"
    expected = {name: columns - ({"owner"} if without_owners else set()) for name, columns in _COLUMNS.items()}
    missing = missing_columns(inspector, expected, schema)
    if missing or not mark:
        raise FAILURES.make_foreign(", ".join(missing) or "the schema version")
    return Schema("outdated" if without_owners else "existing")

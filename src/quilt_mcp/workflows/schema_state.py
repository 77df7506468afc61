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


def examine(connection: Connection) -> Schema:
    """Return what a connection sees. Changes nothing.

    Raises:
        ResourceExecutionError: the tables are of a newer version or another program.
    """
    # Named, because the search path leaves out a schema that the user may not use.
    schema = SCHEMA if connection.dialect.name == "postgresql" else None
    inspector = inspect(connection)
    tables = inspector.get_table_names(schema)
    if found := MIGRATIONS.find_schema(connection, tables, schema):
        if found.state == "newer":
            raise FAILURES.make_newer(str(found.revision), MIGRATIONS.newest)
        return found
    if not set(tables) - {MIGRATIONS.version_table}:
        return Schema("empty")
    missing = missing_columns(inspector, _COLUMNS, schema)
    raise FAILURES.make_foreign(", ".join(missing) or "the schema version")

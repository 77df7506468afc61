"""Creates the tables, or takes over those that quilt-mcp wrote before it used Alembic.

Earlier versions marked their tables: SQLite files with `user_version` 1 (without owners) or 2, PostgreSQL with the
table `schema_version`. The tables of this revision are those of the last such version, so the same marks are set here:
quilt-mcp processes of both versions can use the database at the same time. A revision that changes the tables in a way
that the earlier version cannot use must increment both marks.
"""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None

SCHEMA = "quilt_mcp_workflows"
KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
POSITION = sa.BigInteger().with_variant(sa.Integer, "sqlite")
NULLABLE_KEYS = {"steps": ("owner", "workflow_id", "id"), "log": ("owner", "workflow_id", "step_id")}
"""The columns that were nullable in PostgreSQL, although they never were null."""


def upgrade(op: Operations) -> None:
    """Create or take over the tables."""
    if op.get_bind().dialect.name == "sqlite":
        _upgrade_sqlite(op)
    else:
        _upgrade_postgresql(op)


def downgrade(op: Operations) -> None:
    """Remove the tables with their rows."""
    _tables().drop_all(op.get_bind())
    if op.get_bind().dialect.name == "sqlite":
        op.execute("PRAGMA user_version = 0")
    else:
        op.execute("DROP TABLE schema_version")


def _upgrade_sqlite(op: Operations) -> None:
    version = op.get_bind().exec_driver_sql("PRAGMA user_version").scalar()
    if version == 1:
        _add_owners(op)
    elif version == 0:
        _tables().create_all(op.get_bind())
    op.execute("PRAGMA user_version = 2")


def _upgrade_postgresql(op: Operations) -> None:
    connection = op.get_bind()
    if connection.scalar(sa.text("SELECT to_regclass('schema_version') IS NULL")):
        _tables().create_all(connection)
        op.execute("CREATE TABLE schema_version (number INTEGER NOT NULL)")
        op.execute("INSERT INTO schema_version VALUES (1)")
        return
    for table, columns in NULLABLE_KEYS.items():
        for column in columns:
            op.alter_column(table, column, nullable=False)


def _add_owners(op: Operations) -> None:
    """Copy the rows of version 1. Such a file belonged to the local user."""
    op.execute("DROP INDEX workflows_by_update")
    op.execute("DROP INDEX log_of_workflow")
    tables = _tables()
    for name in tables.tables:
        op.rename_table(name, f"{name}_1")
    tables.create_all(op.get_bind())
    for table in tables.sorted_tables:
        columns = ", ".join(column.name for column in table.columns if column.name != "owner")
        op.execute(f"INSERT INTO {table.name} (owner, {columns}) SELECT 'local', {columns} FROM {table.name}_1")  # noqa: S608 - constants
    for table in reversed(tables.sorted_tables):
        op.drop_table(f"{table.name}_1")


def _tables() -> sa.MetaData:
    metadata = sa.MetaData()
    workflows = sa.Table("workflows", metadata, *_keys("owner", "id", primary_key=True), *_workflow_columns())
    sa.Index("workflows_by_update", workflows.c.owner, workflows.c.updated_at.desc(), workflows.c.id)
    sa.Table(
        "steps",
        metadata,
        sa.Column("position", POSITION, sa.Identity(always=True), primary_key=True),
        *_keys("owner", "workflow_id", "id"),
        *_texts("description", "step_type", "dependencies", "metadata", "created_at", "status"),
        *_texts("started_at", "completed_at", "error_message", "result", nullable=True),
        sa.UniqueConstraint("owner", "workflow_id", "id"),
        sa.ForeignKeyConstraint(["owner", "workflow_id"], ["workflows.owner", "workflows.id"]),
    )
    sa.Table(
        "log",
        metadata,
        sa.Column("position", POSITION, sa.Identity(always=True), primary_key=True),
        *_keys("owner", "workflow_id", "step_id"),
        *_texts("timestamp", "status_change"),
        *_texts("message", nullable=True),
        sa.ForeignKeyConstraint(["owner", "workflow_id", "step_id"], ["steps.owner", "steps.workflow_id", "steps.id"]),
        sa.Index("log_of_workflow", "owner", "workflow_id", "position"),
    )
    return metadata


def _workflow_columns() -> list[sa.Column[str]]:
    return [
        *_texts("name", "description", "metadata", "created_at"),
        *_keys("updated_at"),
        *_texts("status"),
        *_texts("started_at", "completed_at", nullable=True),
    ]


def _texts(*names: str, nullable: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=nullable) for name in names]


def _keys(*names: str, primary_key: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, KEY, nullable=False, primary_key=primary_key) for name in names]

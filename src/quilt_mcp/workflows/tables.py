"""The tables, one definition for SQLite and PostgreSQL. `migrations/` creates them.

Workflows, steps and log entries have rows of their own, not one document per workflow: so the list of all workflows is
one query over a few columns, and an update writes only the rows that change. Points in time are text: ISO 8601 in UTC,
to the second, with a `Z`.

Each row belongs to an owner, the caller that created it. Two owners can use the same id.
"""

import json

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)

metadata = MetaData()

Key = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that is compared and sorted by its characters, regardless of the language of the database."""
Position = BigInteger().with_variant(Integer, "sqlite")


class JSONText(TypeDecorator[object]):
    """A JSON value as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:  # noqa: ARG002 - of SQLAlchemy
        """Return the text to store."""
        return None if value is None else json.dumps(value, ensure_ascii=False)

    def process_result_value(self, value: str | None, dialect: Dialect) -> object:  # noqa: ARG002 - of SQLAlchemy
        """Return the stored value."""
        return None if value is None else json.loads(value)


workflows = Table(
    "workflows",
    metadata,
    Column("owner", Key, primary_key=True),
    Column("id", Key, primary_key=True),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("metadata", JSONText, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("updated_at", Key, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", Text),
    Column("completed_at", Text),
)
Index("workflows_by_update", workflows.c.owner, workflows.c.updated_at.desc(), workflows.c.id)

steps = Table(
    "steps",
    metadata,
    Column("position", Position, Identity(always=True), primary_key=True),
    Column("owner", Key, nullable=False),
    Column("workflow_id", Key, nullable=False),
    Column("id", Key, nullable=False),
    Column("description", Text, nullable=False),
    Column("step_type", Text, nullable=False),
    Column("dependencies", JSONText, nullable=False),
    Column("metadata", JSONText, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", Text),
    Column("completed_at", Text),
    Column("error_message", Text),
    Column("result", JSONText),
    UniqueConstraint("owner", "workflow_id", "id"),
    ForeignKeyConstraint(["owner", "workflow_id"], ["workflows.owner", "workflows.id"]),
)

log = Table(
    "log",
    metadata,
    Column("position", Position, Identity(always=True), primary_key=True),
    Column("owner", Key, nullable=False),
    Column("workflow_id", Key, nullable=False),
    Column("step_id", Key, nullable=False),
    Column("timestamp", Text, nullable=False),
    Column("status_change", Text, nullable=False),
    Column("message", Text),
    ForeignKeyConstraint(["owner", "workflow_id", "step_id"], ["steps.owner", "steps.workflow_id", "steps.id"]),
    Index("log_of_workflow", "owner", "workflow_id", "position"),
)

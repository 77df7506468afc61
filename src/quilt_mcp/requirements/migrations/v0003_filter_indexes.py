"""Creates the indexes of filters and orders.

After its first columns and the ID, each has the other columns that most filters need, so that rows that do not match
are skipped without being read.
"""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"

PLANNED = ("epics", "user_stories", "requirements")
"""The tables of entities that have a title, a status, a priority and an assignee."""
TITLE = {"sqlite": "substr(title, 1, 60)", "postgresql": 'substr(title, 1, 60) COLLATE "C"'}


def upgrade(op: Operations) -> None:
    """Create the indexes."""
    for table, name, parts in _indexes(op.get_bind().dialect.name):
        op.create_index(name, table, [sa.text(part) for part in parts])


def downgrade(op: Operations) -> None:
    """Remove the indexes."""
    for table, name, _ in _indexes(op.get_bind().dialect.name):
        op.drop_index(name, table)


def _indexes(dialect: str) -> list[tuple[str, str, list[str]]]:
    """Return the table, the name and the parts of each index."""
    planned = {
        "project": "project_id, id, status, priority",
        "assignee": "assignee_id, id, status, priority",
        "status": "status, priority, id",
        "priority": "priority, id, status",
        "created": "created_at, id, status, priority",
        "updated": "updated_at, id, status, priority, project_id, assignee_id",
        "number": "length(reference_id), reference_id, id, status, priority",
    }
    criteria = {
        "created": "created_at, id",
        "updated": "updated_at, id, project_id",
        "number": "length(reference_id), reference_id, id",
    }
    wanted = {
        **dict.fromkeys(PLANNED, planned),
        "requirements": planned | {"type": "type_id, id, status, priority"},
        "acceptance_criteria": criteria,
    }
    found = [
        (table, f"ix_{table}_by_{name}", parts.split(", "))
        for table, indexes in wanted.items()
        for name, parts in indexes.items()
    ]
    return found + [(table, f"ix_{table}_by_title", [TITLE[dialect], "id", "status", "priority"]) for table in PLANNED]

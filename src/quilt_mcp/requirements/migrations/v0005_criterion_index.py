"""Adds the project to the index of the requirements of an acceptance criterion.

Coverage then finds the criteria without requirements that a caller may see in the index alone.
"""

from alembic.operations import Operations

revision = "0005"
down_revision = "0004"

TABLE = "requirements"
BEFORE = ("ix_requirements_acceptance_criteria_id", ["acceptance_criteria_id"])
AFTER = ("ix_requirements_acceptance_criteria_id_project_id", ["acceptance_criteria_id", "project_id"])


def upgrade(op: Operations) -> None:
    """Replace the index."""
    _replace(op, BEFORE[0], *AFTER)


def downgrade(op: Operations) -> None:
    """Restore the index."""
    _replace(op, AFTER[0], *BEFORE)


def _replace(op: Operations, before: str, name: str, columns: list[str]) -> None:
    op.create_index(name, TABLE, columns)
    op.drop_index(before, TABLE)

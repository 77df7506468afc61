"""Creates the tables.

Nothing is released yet, so a change of the schema changes this migration, which takes the tables from `store.py`. The
first release copies them here: a later migration starts from what users have.
"""

from alembic.operations import Operations

from quilt_mcp.workflows.store import metadata

revision = "0001"
down_revision = None


def upgrade(op: Operations) -> None:
    """Create the tables."""
    metadata.create_all(op.get_bind())

"""The index of the search. `migrating.upgrade` fills it where there are entities already."""

from alembic import op

from quilt_mcp.requirements.search_index import create_search_index, drop_search_index

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the index."""
    create_search_index(op.get_bind())


def downgrade() -> None:
    """Drop the index."""
    drop_search_index(op.get_bind())

"""Migrates the requirements database with Alembic, forwards and back."""

import logging

from sqlalchemy import Connection

from quilt_mcp.app.database import migrating
from quilt_mcp.app.database.schema import Schema
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.schema_state import MIGRATIONS, examine, require_readable
from quilt_mcp.requirements.writing import reindex

logger = logging.getLogger(__name__)

_WITHOUT_SEARCH = "0001"
"""The revision that has rows but no search index. Later migrations keep the index."""


async def upgrade(database: Database, revision: str = MIGRATIONS.newest) -> Schema:
    """Migrate to a revision, and return what was there before.

    Does nothing if the tables have that revision. A failure leaves everything as it was.

    Raises:
        Unavailable: the database cannot be reached, is too slow or too busy.
        ResourceExecutionError: the tables are not ours, or of a newer version.
    """
    async with database.migrating() as connection:
        before = await connection.run_sync(_upgrade, revision)
        if before.revision == _WITHOUT_SEARCH and revision == MIGRATIONS.newest:
            await reindex(connection)
        return before


async def downgrade(database: Database, revision: str = "base") -> None:
    """Migrate back to a revision. `base` removes all tables with their rows.

    Raises:
        Unavailable: the database cannot be reached, is too slow or too busy.
        ResourceExecutionError: the tables are not ours, or of a newer version.
    """
    async with database.migrating() as connection:
        await connection.run_sync(_downgrade, revision)


def _upgrade(connection: Connection, revision: str) -> Schema:
    before = examine(connection)  # in the transaction: another process can have migrated meanwhile
    if before.state not in {"empty", "outdated", "current"}:
        _refuse(before)
    if before.revision != revision:
        migrating.upgrade(connection, MIGRATIONS, revision)
        logger.info("requirements database migrated from %s to %s", before.revision or "nothing", revision)
    return before


def _downgrade(connection: Connection, revision: str) -> None:
    before = examine(connection)
    if before.state not in {"outdated", "current"}:
        _refuse(before)
    migrating.downgrade(connection, MIGRATIONS, revision)
    logger.info("requirements database migrated from %s back to %s", before.revision, revision)


def _refuse(schema: Schema) -> None:
    require_readable(schema)
    raise ResourceExecutionError(
        "This database belongs to another requirements system. quilt-mcp does not migrate it.",
        suggested_actions=["Set QUILT_MCP_DATABASE_URL to an empty database."],
    )

"""Migrates the requirements database with Alembic."""

import logging

from sqlalchemy import Connection

from quilt_mcp.app.database import migrating
from quilt_mcp.app.database.schema import Schema
from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements.database import MIGRATIONS, Database, examine, require_readable

logger = logging.getLogger(__name__)


def upgrade(database: Database) -> Schema:
    """Migrate to the newest revision, and return what was there before.

    Does nothing if the tables have that revision. A failure leaves everything as it was.

    Raises:
        Unavailable: the database cannot be reached, is too slow or too busy.
        ResourceExecutionError: the tables are not ours, or of a newer version.
    """
    with database.migrating() as connection:
        return _upgrade(connection)


def _upgrade(connection: Connection) -> Schema:
    before = examine(connection)  # in the transaction: another process can have migrated meanwhile
    if before.state not in {"empty", "outdated", "current"}:
        _refuse(before)
    if before.revision != MIGRATIONS.newest:
        migrating.upgrade(connection, MIGRATIONS)
        logger.info("requirements database migrated from %s to %s", before.revision or "nothing", MIGRATIONS.newest)
    return before


def _refuse(schema: Schema) -> None:
    require_readable(schema)
    raise ResourceExecutionError(
        "This database belongs to another requirements system. quilt-mcp does not migrate it.",
        suggested_actions=["Set QUILT_MCP_DATABASE_URL to an empty database."],
    )

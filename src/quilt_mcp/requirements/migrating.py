"""Creating the tables and changing them from one version to the next, and back, with Alembic."""

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from quilt_mcp.errors import ResourceExecutionError
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.schema_state import REVISIONS, Schema, examine, require_readable
from quilt_mcp.requirements.writing import reindex

HEAD, BASE = REVISIONS[-1], "base"
_SCRIPTS = Path(__file__).parent / "migrations"

logger = logging.getLogger(__name__)


async def upgrade(database: Database, revision: str = HEAD) -> Schema:
    """Bring the tables to a revision, the newest unless given, and answer what was there before.

    Nothing happens if they are there already; a failure leaves everything as it was.

    Raises:
        Unavailable: the database cannot be reached, is too slow or too busy.
        ResourceExecutionError: it is not ours, or a newer version's.
    """
    async with database.migrating() as connection:
        before = await connection.run_sync(_upgrade, revision)
        if before.state == "outdated" and revision == HEAD:
            await reindex(connection)
        return before


async def downgrade(database: Database, revision: str = BASE) -> None:
    """Take the tables back to a revision; to none at all, with everything in them, unless one is given.

    Raises:
        Unavailable: the database cannot be reached, is too slow or too busy.
        ResourceExecutionError: it is not ours, or a newer version's.
    """
    async with database.migrating() as connection:
        await connection.run_sync(_downgrade, revision)


def _upgrade(connection: Connection, revision: str) -> Schema:
    before = examine(connection)  # in the transaction: another process may have been quicker
    if before.state not in {"empty", "outdated", "current"}:
        _refuse(before)
    if before.revision != revision:
        command.upgrade(_config(connection), revision)
        logger.info("requirements database migrated from %s to %s", before.revision or "nothing", revision)
    return before


def _downgrade(connection: Connection, revision: str) -> None:
    before = examine(connection)
    if before.state not in {"outdated", "current"}:
        _refuse(before)
    command.downgrade(_config(connection), revision)
    logger.info("requirements database migrated from %s back to %s", before.revision, revision)


def _refuse(schema: Schema) -> None:
    require_readable(schema)
    raise ResourceExecutionError(
        "This database belongs to another requirements system: it is read as it is, and never migrated.",
        suggested_actions=["Name an empty database in QUILT_MCP_DATABASE_URL to start one of quilt-mcp's own."],
    )


def _config(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config

"""Creates the indexes of filters after an import, which takes less time than to update them for each row."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements.tables import BY_KIND, AnyRow

_INDEXES = text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND name GLOB 'ix_*_by_*' ORDER BY name")


@asynccontextmanager
async def defer_indexes(connection: AsyncConnection) -> AsyncIterator[None]:
    """Drop the indexes of filters, and create them when the block ends, in the transaction of the connection.

    Does nothing if entities exist, and in PostgreSQL, where other connections could not read the tables meanwhile.
    """
    indexes: Sequence[AnyRow] = ()
    if connection.dialect.name == "sqlite" and not await _has_entities(connection):
        indexes = (await connection.execute(_INDEXES)).all()
    for index in indexes:
        await connection.exec_driver_sql(f"DROP INDEX {index.name}")
    yield
    for index in indexes:
        await connection.exec_driver_sql(index.sql)


async def _has_entities(connection: AsyncConnection) -> bool:
    for table in BY_KIND.values():
        if (await connection.execute(table.select().limit(1))).first():
            return True
    return False

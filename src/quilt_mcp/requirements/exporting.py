"""Exporting a database as records, which an import reads."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from sqlalchemy import Table, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.record_files import COLUMNS
from quilt_mcp.requirements.records import TABLES
from quilt_mcp.requirements.tables import metadata

_AT_ONCE = 1000
_WITH_TIMES = {kind.name for kind in kinds.KINDS} | {"relationship"}
_OF_PROJECTS = {"project", "member"}


async def export_records(database: Database) -> AsyncGenerator[dict[str, Any]]:
    """Every row as a record, as of one moment: by kind, each after those that it refers to, and by id.

    A database of the earlier requirements system has no projects: its records belong to the default one. Who does not
    take all records closes the generator, for it holds a connection.

    Raises:
        ResourceFailure: as `Database.reading`.
    """
    async with database.reading() as connection:
        for kind, name in TABLES.items():
            if not (database.is_existing and kind in _OF_PROJECTS):
                async for row in _rows(connection, metadata.tables[name], _columns(kind, database)):
                    yield {"kind": kind, **row}


def _columns(kind: str, database: Database) -> list[str]:
    left_out = set() if kind in _WITH_TIMES else {"created_at", "updated_at"}
    if database.is_existing or kind not in {kinds.EPIC.name, "member"}:
        left_out.add("project_id")  # all others have their parent's
    return [column for column in COLUMNS if column in metadata.tables[TABLES[kind]].c and column not in left_out]


async def _rows(connection: AsyncConnection, table: Table, names: list[str]) -> AsyncIterator[dict[str, Any]]:
    key = list(table.primary_key)
    statement = select(*(table.c[name] for name in names)).order_by(*key).limit(_AT_ONCE)
    after: list[Any] = []
    while True:
        page = statement.where(tuple_(*key) > tuple_(*after)) if after else statement
        rows = (await connection.execute(page)).mappings().all()
        for row in rows:
            yield dict(row)
        if len(rows) < _AT_ONCE:
            return
        after = [rows[-1][column.name] for column in key]

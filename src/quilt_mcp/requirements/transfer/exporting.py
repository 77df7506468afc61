"""Exports a database as records that an import can read."""

from collections.abc import AsyncGenerator, AsyncIterator

from sqlalchemy import Table, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.tables import Values, metadata
from quilt_mcp.requirements.transfer.record_writer import COLUMNS
from quilt_mcp.requirements.transfer.records import TABLES

_BATCH = 1000
_OF_PROJECTS = {"project", "member"}


async def export_records(database: Database) -> AsyncGenerator[Values]:
    """Yield every row as a record, in one snapshot, sorted by kind and ID. Records follow those that they refer to.

    A database of the earlier requirements system has no projects, so its records belong to the default project. The
    generator keeps a connection open: close it if you do not read all records.

    Raises:
        ResourceFailure: as `Database.reading`.
    """
    async with database.reading() as connection:
        for kind, name in TABLES.items():
            if not (database.is_existing and kind in _OF_PROJECTS):
                async for row in _read_rows(connection, metadata.tables[name], _list_columns(kind, database)):
                    yield {"kind": kind, **row}


def _list_columns(kind: str, database: Database) -> list[str]:
    # the others have the project of their parent
    has_project = not database.is_existing and kind in {kinds.EPIC.name, "member"}
    columns = metadata.tables[TABLES[kind]].c
    return [column for column in COLUMNS if column in columns and (column != "project_id" or has_project)]


async def _read_rows(connection: AsyncConnection, table: Table, names: list[str]) -> AsyncIterator[Values]:
    key = list(table.primary_key)
    statement = select(*(table.c[name] for name in names)).order_by(*key).limit(_BATCH)
    page = statement
    while True:
        rows = (await connection.execute(page)).mappings().all()
        for row in rows:
            yield dict(row)
        if len(rows) < _BATCH:
            return
        # the types matter: an ID is not compared as text, in which form it has other characters than in the table
        last = (literal(rows[-1][column.name], column.type) for column in key)
        page = statement.where(tuple_(*key) > tuple_(*last))

"""Exports a database as records that an import can read."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable

from sqlalchemy import Table, func, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.tables import Values, metadata
from quilt_mcp.requirements.transfer.record_writer import COLUMNS
from quilt_mcp.requirements.transfer.records import TABLES

BATCH = 1000
"""The number of rows that are read together."""
_OF_PROJECTS = {"project", "member"}


def _ignore(*_: int) -> None:
    pass


async def export_records(
    database: Database, *, batch: int = BATCH, progress: Callable[[int, int], object] = _ignore
) -> AsyncGenerator[Values]:
    """Yield every row as a record, in one snapshot, sorted by kind and ID. Records follow those that they refer to.

    A database of the earlier requirements system has no projects, so its records belong to the default project. The
    generator keeps a connection open: close it if you do not read all records.

    Args:
        database: the database.
        batch: the number of rows that are read together.
        progress: called with the number of rows that were read, and the number of all rows.

    Raises:
        ResourceFailure: as `Database.reading`.
    """
    async with database.reading() as connection:
        exported = {
            kind: metadata.tables[name]
            for kind, name in TABLES.items()
            if not (database.is_existing and kind in _OF_PROJECTS)
        }
        total = sum([await _count_rows(connection, table) for table in exported.values()])
        done = 0
        progress(done, total)
        for kind, table in exported.items():
            async for rows in _read_rows(connection, table, _list_columns(kind, database), batch):
                for row in rows:
                    yield {"kind": kind, **row}
                done += len(rows)
                progress(done, total)


async def _count_rows(connection: AsyncConnection, table: Table) -> int:
    return (await connection.execute(select(func.count()).select_from(table))).scalar_one()


def _list_columns(kind: str, database: Database) -> list[str]:
    # the others have the project of their parent
    has_project = not database.is_existing and kind in {kinds.EPIC.name, "member"}
    columns = metadata.tables[TABLES[kind]].c
    return [column for column in COLUMNS if column in columns and (column != "project_id" or has_project)]


async def _read_rows(
    connection: AsyncConnection, table: Table, names: list[str], batch: int
) -> AsyncIterator[list[Values]]:
    key = list(table.primary_key)
    statement = select(*(table.c[name] for name in names)).order_by(*key).limit(batch)
    page = statement
    while True:
        rows = [dict(row) for row in (await connection.execute(page)).mappings().all()]
        yield rows
        if len(rows) < batch:
            return
        # the types matter: an ID is not compared as text, in which form it has other characters than in the table
        last = (literal(rows[-1][column.name], column.type) for column in key)
        page = statement.where(tuple_(*key) > tuple_(*last))

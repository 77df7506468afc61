"""Compares the records of an import with the rows of the database that have the same IDs, names or emails."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter

from sqlalchemy import exists, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds, tables
from quilt_mcp.requirements.search.index import find_entries
from quilt_mcp.requirements.tables import AnyRow, metadata
from quilt_mcp.requirements.transfer.records import TABLES
from quilt_mcp.requirements.transfer.rejections import Rejections
from quilt_mcp.requirements.transfer.spool import NAMES, Key, Spool, list_unique, normalize

_ENTITIES = {kind.table for kind in kinds.KINDS} | {"requirement_relationships"}
_USES = {
    "requirement_types": tables.requirements.c.type_id,
    "relationship_types": tables.requirement_relationships.c.relationship_type_id,
}
"""The tables of types, and the columns that refer to them."""
_SAME_ID = "{where} has the same ID. Use another ID, or leave it out."


async def match_records(connection: AsyncConnection, spool: Spool, rejections: Rejections, *, updates: bool) -> None:
    """Reject conflicts with the database. Give records the IDs of the users, projects and types with their names.

    Args:
        connection: of the transaction that will write the records.
        spool: the records of the file.
        rejections: takes the conflicts.
        updates: whether the records may change entities and relationships of the database.
    """
    for kind in list(spool.counts):
        matching = _Matching(connection, spool, rejections, TABLES[kind], updates=updates)
        if kind != "member" and await _has_rows(connection, TABLES[kind]):
            for column in list_unique(TABLES[kind]):  # the ID first: `_match_row` asks which rows the file contains
                await matching.match_column(column)
    await _compare_kinds(connection, spool, rejections)


async def _compare_kinds(connection: AsyncConnection, spool: Spool, rejections: Rejections) -> None:
    """Reject entities with the ID of an entity of another kind. The search and the links of a trace have only IDs."""
    present = [kind for kind in kinds.KINDS if spool.counts[kind.name]]
    for two in combinations(present, 2):
        few, many = sorted(two, key=lambda kind: spool.counts[kind.name])
        for lines in spool.list_shared_ids(few.table, many.table):
            (before, kind), (line, _) = sorted(zip(lines, (few, many), strict=True), key=itemgetter(0))
            where = f"The {kind.title.lower()} in line {before}"
            rejections.add(line, "id", _SAME_ID.format(where=where))
    if not present or not await _has_entities(connection):
        return
    for kind in present:
        for keys in spool.list_keys(f"{kind.table}.id"):
            new = {key.key: key.line for key in keys}
            for row_id in spool.find_stored(kind.table, new):
                del new[row_id]  # the row of a kind has no ID of another kind
            for row_id, other, reference in await find_entries(connection, new) if new else ():
                if other != kind.name:
                    where = f"{reference} in the database"
                    rejections.add(new[row_id], "id", _SAME_ID.format(where=where))


async def _has_entities(connection: AsyncConnection) -> bool:
    return any([await _has_rows(connection, kind.table) for kind in kinds.KINDS])


async def _has_rows(connection: AsyncConnection, table: str) -> bool:
    """Return whether the database has rows in the table."""
    return bool(await connection.scalar(select(exists(select(metadata.tables[table].c.id)))))


async def look_up(connection: AsyncConnection, spool: Spool, table: str, values: Collection[str]) -> None:
    """Add the rows of the database with these IDs or names to the spool."""
    columns = metadata.tables[table].c
    for column, wanted in (
        (columns.id, [value for value in map(normalize, values) if value]),
        (columns[NAMES[table]], list(values)),
    ):
        for row in (await connection.execute(select(metadata.tables[table]).where(column.in_(wanted)))).all():
            spool.add_stored(table, row.id, getattr(row, NAMES[table]))
            if table == kinds.ACCEPTANCE_CRITERIA.table:
                spool.add_criteria([(row.id, row.user_story_id)])


@dataclass(frozen=True)
class _Matching:
    """Compares the records of one table."""

    connection: AsyncConnection
    spool: Spool
    rejections: Rejections
    table: str
    updates: bool

    async def match_column(self, column: str) -> None:
        """Compare the values of a unique column."""
        columns = metadata.tables[self.table].c
        shown = [columns[name] for name in sorted({"id", column, NAMES.get(self.table, "id")})]
        for keys in self.spool.list_keys(f"{self.table}.{column}"):
            by_key = {key.key: key for key in keys}
            rows = await self.connection.execute(select(*shown).where(columns[column].in_(list(by_key))))
            for row in rows.all():
                await self._match_row(column, by_key[getattr(row, column)], row)

    async def _match_row(self, column: str, key: Key, row: AnyRow) -> None:
        if self.table in _ENTITIES and not self.updates:
            reason = (
                f"{getattr(row, column)} is already in the database. Use --update to change it, or remove the record."
            )
            self.rejections.add(key.line, column, reason)
        elif column == "id":
            self.spool.mark_stored(self.table, row.id)
        elif row.id == key.id or (not self.updates and self.spool.find_stored(self.table, [row.id])):
            pass  # it is the same row, or the file gives that row another name or email
        elif column == "email":
            reason = f"The user {row.username!r} in the database has the same email. Change one of the two."
            self.rejections.add(key.line, column, reason)
        elif self.spool.has_given_id(self.table, row.id):
            reason = f"Another record of the file has the ID of {key.key!r}, {row.id}. Remove one of the two records."
            self.rejections.add(key.line, column, reason)
        elif not self.spool.has_given_id(self.table, key.id):
            self.spool.take_id(self.table, key, row.id)
        elif self.table in _USES and not await self._is_used(row.id):
            columns = metadata.tables[self.table]
            await self.connection.execute(update(columns).where(columns.c.id == row.id).values(id=key.id))
            self.spool.mark_stored(self.table, key.id)
        else:
            reason = f"{key.key!r} has another ID in the database, {row.id}. Use that ID, or leave the ID out."
            self.rejections.add(key.line, column, reason)

    async def _is_used(self, type_id: str) -> bool:
        return bool(await self.connection.scalar(select(exists().where(_USES[self.table] == type_id))))

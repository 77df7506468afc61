"""Checks that the relationships of an import do not repeat those of the database, and form no cycle with them."""

import sqlite3
from array import array
from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements.kinds import ORDERING_RELATIONSHIPS
from quilt_mcp.requirements.tables import requirement_relationships
from quilt_mcp.requirements.transfer.import_links import LinkResolver
from quilt_mcp.requirements.transfer.rejections import Rejections
from quilt_mcp.requirements.transfer.spool import BATCH, Spool

_MOST_CYCLES = 20
_FIELD = "target_requirement_id"
_STORED = "The relationship is already in the database. Remove it."


async def check_relationships(resolver: LinkResolver, *, is_complete: bool) -> None:
    """Reject relationships of the file that the database has, and those that close a cycle.

    Args:
        resolver: has resolved the records.
        is_complete: whether the database will only have the relationships of the file.
    """
    spool, rejections = resolver.spool, resolver.rejections
    if not spool.counts["relationship"]:
        return
    if not is_complete:
        await _add_stored_edges(resolver.connection, spool, rejections)
    for name, type_id in (await resolver.find("relationship_types", set(ORDERING_RELATIONSHIPS))).items():
        for line in _Graph(spool.connection, type_id).find_cycles():
            reason = f"The relationship {name} forms a cycle with others. Remove one of them."
            rejections.add(line, _FIELD, reason)


async def _add_stored_edges(connection: AsyncConnection, spool: Spool, rejections: Rejections) -> None:
    columns = requirement_relationships.c
    ends = (columns.source_requirement_id, columns.target_requirement_id, columns.relationship_type_id)
    types = [row[0] for row in spool.connection.execute("SELECT DISTINCT type FROM edges")]
    stored = await connection.stream(select(columns.id, *ends).where(columns.relationship_type_id.in_(types)))
    async for rows in stored.partitions(BATCH):
        in_file = spool.find_stored(requirement_relationships.name, [row.id for row in rows])
        for row_id, source, target, type_id in rows:
            if row_id not in in_file and (line := spool.add_edge(source, target, type_id, None)):
                rejections.add(line, _FIELD, _STORED)


class _Graph:
    """The relationships of one type, as numbers, so that a million of them need little memory.

    Removing each requirement that no remaining one points to leaves only cycles, and what they point to.
    """

    def __init__(self, connection: sqlite3.Connection, type_id: str) -> None:
        self._connection = connection
        connection.execute("DELETE FROM links")
        connection.execute("DELETE FROM nodes")
        connection.execute(
            "INSERT INTO nodes (id) SELECT source FROM edges WHERE type = :type"
            " UNION SELECT target FROM edges WHERE type = :type",
            {"type": type_id},
        )
        connection.execute(
            "INSERT INTO links SELECT s.number, t.number, e.line FROM edges e"
            " JOIN nodes s ON s.id = e.source JOIN nodes t ON t.id = e.target WHERE e.type = ?",
            (type_id,),
        )
        [(count,)] = connection.execute("SELECT coalesce(max(number), 0) FROM nodes")
        self._sources_left = array("l", bytes(array("l").itemsize * (count + 1)))
        for number, sources in connection.execute("SELECT target, count(*) FROM links GROUP BY target"):
            self._sources_left[number] = sources

    def find_cycles(self) -> Iterator[int]:
        """Yield the lines of relationships that close a cycle. A cycle in the database alone has none."""
        self._remove([number for number, sources in enumerate(self._sources_left) if not sources])
        for _ in range(_MOST_CYCLES):
            start = next((number for number, sources in enumerate(self._sources_left) if sources), None)
            if start is None:
                return
            line, source, target = max(self._walk_back(start))
            self._connection.execute("DELETE FROM links WHERE source = ? AND target = ?", (source, target))
            free: list[int] = []
            self._reduce(target, free)
            self._remove(free)
            if line:
                yield line

    def _remove(self, free: list[int]) -> None:
        """Remove requirements that no remaining one points to, and those that thereby become such."""
        while free:
            for (target,) in self._connection.execute("SELECT target FROM links WHERE source = ?", (free.pop(),)):
                self._reduce(target, free)

    def _reduce(self, number: int, free: list[int]) -> None:
        self._sources_left[number] -= 1
        if not self._sources_left[number]:
            free.append(number)

    def _walk_back(self, start: int) -> list[tuple[int, int, int]]:
        """Return a cycle, found by going from each requirement to the first remaining one that points to it."""
        places: dict[int, int] = {}
        path: list[tuple[int, int, int]] = []
        target = start
        while target not in places:
            places[target] = len(path)
            statement = "SELECT source, line FROM links WHERE target = ? ORDER BY line"
            sources = self._connection.execute(statement, (target,))
            line, source = next((line or 0, source) for source, line in sources if self._sources_left[source])
            path.append((line, source, target))
            target = source
        return path[places[target] :]

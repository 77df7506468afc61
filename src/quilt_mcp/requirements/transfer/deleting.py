"""Deletes the rows that the file of an update does not have."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sqlalchemy import Column, Table, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds, tables
from quilt_mcp.requirements.tables import AnyRow, metadata
from quilt_mcp.requirements.transfer.changes import Change, Changes
from quilt_mcp.requirements.transfer.records import TABLES
from quilt_mcp.requirements.transfer.rejections import Rejections
from quilt_mcp.requirements.transfer.spool import BATCH, NAMES, Spool

# children before their parents; users, projects and types are never deleted
_DELETABLE = ("relationship", *(kind.name for kind in reversed(kinds.KINDS)))
_relationships, _requirements = tables.requirement_relationships.c, tables.requirements.c
_REFERRERS: dict[str, tuple[Column[str], ...]] = {
    "epic": (tables.user_stories.c.epic_id,),
    "user_story": (tables.acceptance_criteria.c.user_story_id, _requirements.user_story_id),
    "acceptance_criteria": (_requirements.acceptance_criteria_id,),
    "requirement": (_relationships.source_requirement_id, _relationships.target_requirement_id),
    "relationship": (),
}
"""The columns that refer to the rows of each kind."""


@dataclass(frozen=True)
class Deleter:
    """Deletes rows.

    Attributes:
        connection: of a transaction of `Database.writing`, after the records were written.
        spool: the records.
        rejections: takes the rows that others refer to.
        changes: takes what is deleted.
    """

    connection: AsyncConnection
    spool: Spool
    rejections: Rejections
    changes: Changes

    async def delete_missing(self) -> None:
        """Delete the rows that the file does not have, of the kinds that it has. Reject those that others refer to."""
        if self.spool.counts["member"]:
            await self._delete_members()
        for kind in _DELETABLE:
            if self.spool.counts[kind]:
                async for rows in self._list_missing(kind):
                    await self._delete(kind, rows)

    async def _list_missing(self, kind: str) -> AsyncIterator[list[AnyRow]]:
        table = metadata.tables[TABLES[kind]]
        shown = [table.c.id, *([table.c[NAMES[table.name]]] if table.name in NAMES else [])]
        page = select(*shown).order_by(table.c.id).limit(BATCH)
        rows = (await self.connection.execute(page)).all()
        while rows:
            kept = self.spool.find_stored(table.name, [row.id for row in rows])
            yield [row for row in rows if row.id not in kept]
            rows = (await self.connection.execute(page.where(table.c.id > rows[-1].id))).all()

    async def _delete(self, kind: str, rows: list[AnyRow]) -> None:
        table = metadata.tables[TABLES[kind]]
        names = {row.id: row[-1] for row in rows}
        for column in _REFERRERS[kind]:
            found = await self.connection.execute(select(column).where(column.in_(list(names))).distinct())
            for (row_id,) in found.all():
                self._reject(kind, names[row_id], column)
        await self.connection.execute(delete(table).where(table.c.id.in_(list(names))))
        for name in names.values():
            self.changes.add(Change("deleted", 0, kind, name, []))

    def _reject(self, kind: str, name: str, column: Column[str]) -> None:
        other = column.table.name.replace("_", " ")
        reason = (
            f"The file does not have the {kind.replace('_', ' ')} {name}, but {other} in the database refer to it. "
            f"Add it, or remove these {other} too."
        )
        if not self.spool.counts[next(one for one, table in TABLES.items() if table == column.table.name)]:
            reason = f"{reason} A file without {other} deletes none of them."
        self.rejections.add(0, None, reason)

    async def _delete_members(self) -> None:
        members: Table = tables.project_members
        named = (
            select(members.c.user_id, members.c.project_id, tables.users.c.username, tables.projects.c.name)
            .join(tables.users, tables.users.c.id == members.c.user_id)
            .join(tables.projects, tables.projects.c.id == members.c.project_id)
        )
        kept: set[tuple[str, str]] = set()
        for records in self.spool.list_records("member"):
            kept |= {(one.values["user_id"], one.values["project_id"]) for one in records}
        for user, project, username, name in (await self.connection.execute(named)).all():
            if (user, project) not in kept:
                same = members.c.user_id == user, members.c.project_id == project
                await self.connection.execute(delete(members).where(*same))
                self.changes.add(Change("deleted", 0, "member", f"{username} in {name}", []))

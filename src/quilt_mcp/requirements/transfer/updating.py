"""Writes what an update changes in rows that the database has."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds, tables
from quilt_mcp.requirements.tables import Values, metadata
from quilt_mcp.requirements.transfer.changes import MOST_LISTED, Change, Changes, FieldChange
from quilt_mcp.requirements.transfer.records import LINKS, TABLES
from quilt_mcp.requirements.transfer.rejections import Rejections
from quilt_mcp.requirements.transfer.spool import NAMES, Spool, Spooled
from quilt_mcp.requirements.transfer.stored_rows import list_fields, read_rows
from quilt_mcp.requirements.writing import update_entities

_STALE = (
    "The record was changed in the database at {time}, after the time in the file. Export again and repeat your "
    "changes, or remove this time to overwrite the record."
)


@dataclass(frozen=True)
class Updater:
    """Updates the rows of records.

    Attributes:
        connection: of a transaction of `Database.writing`.
        spool: records that agree with each other and with the database.
        rejections: takes records that are older than their rows.
        changes: takes what changes.
    """

    connection: AsyncConnection
    spool: Spool
    rejections: Rejections
    changes: Changes

    async def update(self, kind: str, records: list[Spooled]) -> list[Spooled]:
        """Update the rows of records. Return the other records, which are new."""
        rows = await read_rows(self.connection, self.spool, kind, records)
        changed: list[tuple[Values, Values]] = []
        for record in records:
            row = rows.get(record.values.get("id", ""))
            if row is None:
                continue
            if values := self._compare(record, row):
                changed.append((row, values))
                await self._note(record, row, values)
            else:
                self.changes.unchanged[kind] += 1
        if entity := kinds.BY_NAME.get(kind):
            await update_entities(self.connection, entity, changed)
        else:
            await _write(self.connection, TABLES[kind], changed)
        return [one for one in records if one.values.get("id", "") not in rows]

    async def update_members(self, records: list[Spooled]) -> list[Spooled]:
        """Update the roles of members. Return the other records, which are new."""
        members = tables.project_members
        users = {one.values["user_id"] for one in records}
        found = await self.connection.execute(select(members).where(members.c.user_id.in_(users)))
        roles = {(row.user_id, row.project_id): row.role for row in found.all()}
        new = []
        for record in records:
            key = record.values["user_id"], record.values["project_id"]
            before = roles.get(key)
            after = record.values.get("role", before)
            if before is None:
                new.append(record)
            elif before == after:
                self.changes.unchanged["member"] += 1
            else:
                same = members.c.user_id == key[0], members.c.project_id == key[1]
                await self.connection.execute(update(members).where(*same).values(role=after))
                name = await self._describe(record.values)
                self.changes.add(Change("updated", record.line, "member", name, [FieldChange("role", before, after)]))
        return new

    async def note_created(self, kind: str, records: list[Spooled]) -> None:
        """Add new records to the changes."""
        if kind != "member":
            self.spool.mark_stored(TABLES[kind], *(one.values["id"] for one in records))
        for one in records:
            name = await self._describe(one.values) if len(self.changes.first) < MOST_LISTED else ""
            self.changes.add(Change("created", one.line, kind, name, []))

    async def _describe(self, values: Values) -> str:
        """Return the name of a new record."""
        if values["kind"] == "member":
            return " in ".join([await self._name(LINKS[one], values[one]) for one in ("user_id", "project_id")])
        if values["kind"] == "relationship":
            ends = ("source_requirement_id", "relationship_type_id", "target_requirement_id")
            return " ".join([await self._name(LINKS[one], values[one]) for one in ends])
        named = (values.get(name) for name in ("reference_id", "username", "name", "title", "id"))
        return next(str(value) for value in named if value)

    def _compare(self, record: Spooled, row: Values) -> Values:
        """Return the values to write. A record that is older than its row is rejected if it differs."""
        values = record.values
        compared = list_fields(values["kind"]) - {"id", "updated_at"}
        changed = {name: values.get(name) for name in compared if values.get(name) != row[name]}
        if "updated_at" not in row:
            return changed
        given = values["updated_at"]
        if changed and given < row["updated_at"]:
            time = row["updated_at"].isoformat().replace("+00:00", "Z")
            self.rejections.add(record.line, "updated_at", _STALE.format(time=time))
        elif given > row["updated_at"]:
            changed["updated_at"] = given
        elif changed:
            changed["updated_at"] = max(datetime.now(UTC), row["updated_at"])
        return changed

    async def _note(self, record: Spooled, row: Values, values: Values) -> None:
        kind = record.values["kind"]
        if len(self.changes.first) >= MOST_LISTED:
            self.changes.updated[kind] += 1
            return
        # the new time is only a consequence of the other changes
        shown = [name for name in sorted(values) if name != "updated_at" or len(values) == 1]
        fields = [
            FieldChange(name, await self._show(name, row[name]), await self._show(name, values[name])) for name in shown
        ]
        name = str(row[NAMES.get(TABLES[kind], "id")])
        self.changes.add(Change("updated", record.line, kind, name, fields))

    async def _show(self, field: str, value: object) -> object:
        if isinstance(value, datetime):
            return value.isoformat().replace("+00:00", "Z")
        return await self._name(LINKS[field], value) if field in LINKS and isinstance(value, str) else value

    async def _name(self, table: str, row_id: str) -> str:
        columns = metadata.tables[table].c
        name = await self.connection.scalar(select(columns[NAMES[table]]).where(columns.id == row_id))
        return str(name or row_id)


async def _write(connection: AsyncConnection, table: str, changed: list[tuple[Values, Values]]) -> None:
    for names, rows in _group(changed):
        columns = metadata.tables[table].c
        statement = update(metadata.tables[table]).where(columns.id == bindparam("row"))
        await connection.execute(statement.values({name: bindparam(f"new_{name}") for name in names}), rows)


def _group(changed: list[tuple[Values, Values]]) -> Iterator[tuple[tuple[str, ...], list[Values]]]:
    groups: dict[tuple[str, ...], list[Values]] = defaultdict(list)
    for row, values in changed:
        groups[tuple(sorted(values))].append({"row": row["id"], **{f"new_{name}": one for name, one in values.items()}})
    yield from groups.items()

"""The changes that an import makes in the database: updates, deletions, and the numbers of both."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Table, delete, select, update

from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.model import LINKS, NAMES, RECORDS, TABLES
from quilt_mcp.requirements.tables import AnyRow, Values, metadata
from quilt_mcp.requirements.transfer.matching import read_rows
from quilt_mcp.requirements.transfer.merging import Conflict, Merger
from quilt_mcp.requirements.transfer.records import Rejections, show_time
from quilt_mcp.requirements.transfer.spool import BATCH, Spool, Spooled
from quilt_mcp.requirements.writing import update_entities, update_rows

MOST_LISTED = 1000
"""The maximum number of changed records in a report. The others are only counted."""

Action = Literal["created", "updated", "deleted"]


class FieldChange(NamedTuple):
    """The change of a field. References are shown by name."""

    field: str
    before: object
    after: object


class Change(NamedTuple):
    """The change of one record."""

    action: Action
    line: int
    """The line of the record in the file; 0 if the file does not have it."""
    kind: str
    name: str
    """Its reference ID or name, or else its ID."""
    fields: list[FieldChange]
    """What an update changes."""


@dataclass
class Changes:
    """Collects changes."""

    created: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    first: list[Change] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.created.total() + self.updated.total() + self.deleted.total()

    def add(self, change: Change) -> None:
        counts = {"created": self.created, "updated": self.updated, "deleted": self.deleted}
        counts[change.action][change.kind] += 1
        if len(self.first) < MOST_LISTED:
            self.first.append(change)


# children before their parents; users, projects and types are never deleted
_DELETABLE = ("relationship", *(kind.name for kind in reversed(model.KINDS)))
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
    """Deletes rows."""

    connection: Connection
    spool: Spool
    rejections: Rejections
    changes: Changes

    def delete_missing(self) -> None:
        """Delete the rows that the file does not have, of the kinds that it has. Reject those that others refer to.

        A file with projects says nothing about the rows of others: it can be the export of a part.
        """
        if self.spool.counts["member"]:
            self._delete_members()
        for kind in _DELETABLE:
            if self.spool.counts[kind]:
                for rows in self._list_missing(kind):
                    self._delete(kind, rows)

    def _list_missing(self, kind: str) -> Iterator[list[AnyRow]]:
        """Yield the rows that the file does not have, in pages by ID: the caller deletes each page before the next."""
        table = metadata.tables[TABLES[kind]]
        shown = [table.c.id, *([table.c[NAMES[table.name]]] if table.name in NAMES else [])]
        page = select(*shown).where(*self._limit_to_projects(kind)).order_by(table.c.id).limit(BATCH)
        rows = self.connection.execute(page).all()
        while rows:
            kept = self.spool.find_stored(table.name, [row.id for row in rows])
            yield [row for row in rows if row.id not in kept]
            rows = self.connection.execute(page.where(table.c.id > rows[-1].id)).all()

    def _limit_to_projects(self, kind: str) -> list[ColumnElement[bool]]:
        known = [one.values["id"] for records in self.spool.list_records("project") for one in records]
        if not known:
            return []
        if kind != "relationship":
            return [metadata.tables[TABLES[kind]].c.project_id.in_(known)]
        inside = select(_requirements.id).where(_requirements.project_id.in_(known))
        return [_relationships[name].in_(inside) for name in ("source_requirement_id", "target_requirement_id")]

    def _delete(self, kind: str, rows: list[AnyRow]) -> None:
        """Delete rows, or reject those that others refer to: an import with rejections is rolled back at its end."""
        table = metadata.tables[TABLES[kind]]
        names = {row.id: row[-1] for row in rows}  # the last column is the name, or else the ID again
        for column in _REFERRERS[kind]:
            referred = self.connection.execute(select(column).where(column.in_(list(names))).distinct())
            for (row_id,) in referred.all():
                self._reject(kind, names[row_id], column)
        self.connection.execute(delete(table).where(table.c.id.in_(list(names))))
        kept = tables.imported_values
        self.connection.execute(delete(kept).where(kept.c.entity_id.in_(list(names))))
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

    def _delete_members(self) -> None:
        members: Table = tables.project_members
        named = (
            select(members.c.user_id, members.c.project_id, tables.users.c.username, tables.projects.c.name)
            .join(tables.users, tables.users.c.id == members.c.user_id)
            .join(tables.projects, tables.projects.c.id == members.c.project_id)
            .where(*self._limit_to_projects("member"))
        )
        kept: set[tuple[str, str]] = set()
        for records in self.spool.list_records("member"):
            kept |= {(one.values["user_id"], one.values["project_id"]) for one in records}
        for user, project, username, name in self.connection.execute(named).all():
            if (user, project) not in kept:
                same = members.c.user_id == user, members.c.project_id == project
                self.connection.execute(delete(members).where(*same))
                self.changes.add(Change("deleted", 0, "member", f"{username} in {name}", []))


_STALE = (
    "The record was changed in the database at {time}, after the time in the file. Export again and repeat your "
    "changes, or remove this time to overwrite the record."
)


@dataclass(frozen=True)
class Updater:
    """Updates the rows of records."""

    connection: Connection
    spool: Spool
    rejections: Rejections
    changes: Changes
    merger: Merger | None = None

    def update(self, kind: str, records: list[Spooled]) -> list[Spooled]:
        """Update the rows of records. Return the other records, which are new."""
        rows = read_rows(self.connection, self.spool, kind, records)
        changed: list[tuple[Values, Values]] = []
        for record in records:
            row = rows.get(record.values.get("id", ""))
            if row is None:
                continue
            if values := self._compare(record, row):
                changed.append((row, values))
                self._note(record, row, values)
            else:
                self.changes.unchanged[kind] += 1
        if entity := model.BY_NAME.get(kind):
            update_entities(self.connection, entity, changed)
        else:
            update_rows(self.connection, metadata.tables[TABLES[kind]], changed)
        return [one for one in records if one.values.get("id", "") not in rows]

    def update_members(self, records: list[Spooled]) -> list[Spooled]:
        """Update the roles of members. Return the other records, which are new."""
        members = tables.project_members
        users = {one.values["user_id"] for one in records}
        found = self.connection.execute(select(members).where(members.c.user_id.in_(users)))
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
                self.connection.execute(update(members).where(*same).values(role=after))
                name = self._describe(record.values)
                self.changes.add(Change("updated", record.line, "member", name, [FieldChange("role", before, after)]))
        return new

    def note_created(self, kind: str, records: list[Spooled]) -> None:
        if kind != "member":
            self.spool.mark_stored(TABLES[kind], *(one.values["id"] for one in records))
        for one in records:
            name = self._describe(one.values) if len(self.changes.first) < MOST_LISTED else ""
            self.changes.add(Change("created", one.line, kind, name, []))

    def _describe(self, values: Values) -> str:
        if values["kind"] == "member":
            return " in ".join([self._name(LINKS[one], values[one]) for one in ("user_id", "project_id")])
        if values["kind"] == "relationship":
            ends = ("source_requirement_id", "relationship_type_id", "target_requirement_id")
            return " ".join([self._name(LINKS[one], values[one]) for one in ends])
        named = (values.get(name) for name in ("reference_id", "username", "name", "title", "id"))
        return next(str(value) for value in named if value)

    def _compare(self, record: Spooled, row: Values) -> Values:
        """Return the values to write. A record that is older than its row is rejected if it differs."""
        values = record.values
        compared = set(RECORDS[values["kind"]].fields) - {"id", "updated_at"}
        changed = {name: values.get(name) for name in compared if values.get(name) != row[name]}
        if self.merger and values["kind"] in model.BY_NAME and not self.merger.has_time(record):
            self._merge(self.merger, record, row, changed)
        if "updated_at" not in row:
            return changed
        given = values["updated_at"]
        if changed and given < row["updated_at"]:
            self.rejections.add(record.line, "updated_at", _STALE.format(time=show_time(row["updated_at"])))
        elif given > row["updated_at"]:
            changed["updated_at"] = given
        elif changed:
            changed["updated_at"] = max(datetime.now(UTC), row["updated_at"])
        return changed

    def _merge(self, merger: Merger, record: Spooled, row: Values, changed: Values) -> None:
        """Leave out what only the database changed since the last import. Reject what both changed."""
        for name in merger.merge(record, row, changed):
            both = self._show(name, row[name]), self._show(name, changed[name])
            kind, reference = record.values["kind"], str(row["reference_id"])
            reason = merger.note(Conflict(record.line, kind, reference, name, *both))
            self.rejections.add(record.line, name, reason)

    def _note(self, record: Spooled, row: Values, values: Values) -> None:
        kind = record.values["kind"]
        if len(self.changes.first) >= MOST_LISTED:
            self.changes.updated[kind] += 1
            return
        # the new time is only a consequence of the other changes
        shown = [name for name in sorted(values) if name != "updated_at" or len(values) == 1]
        fields = [FieldChange(name, self._show(name, row[name]), self._show(name, values[name])) for name in shown]
        name = str(row[NAMES.get(TABLES[kind], "id")])
        self.changes.add(Change("updated", record.line, kind, name, fields))

    def _show(self, field: str, value: object) -> object:
        return self._name(LINKS[field], value) if field in LINKS and isinstance(value, str) else show_time(value)

    def _name(self, table: str, row_id: str) -> str:
        columns = metadata.tables[table].c
        name = self.connection.scalar(select(columns[NAMES[table]]).where(columns.id == row_id))
        return str(name or row_id)

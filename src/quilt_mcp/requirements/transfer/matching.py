"""Compares the records of an import with the rows of the database."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, exists, select, update

from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.model import PARENTS, RECORDS, TABLES
from quilt_mcp.requirements.tables import (
    AnyRow,
    Values,
    acceptance_criteria,
    metadata,
    requirement_relationships,
    requirements,
)
from quilt_mcp.requirements.transfer.records import FieldValues, InvalidRecord, Rejections, parse_record
from quilt_mcp.requirements.transfer.spool import Key, Spool, Spooled, list_unique
from quilt_mcp.requirements.writing import find_entries

RELATIONSHIPS = requirement_relationships.name
_ENTITIES = {kind.table for kind in model.KINDS} | {"requirement_relationships"}
_USES = {
    "requirement_types": tables.requirements.c.type_id,
    "relationship_types": tables.requirement_relationships.c.relationship_type_id,
}
"""The tables of types, and the columns that refer to them."""


def match_records(connection: Connection, spool: Spool, rejections: Rejections, *, updates: bool) -> None:
    """Reject conflicts with the database. Give records the IDs of the users, projects and types with their names."""
    for table in [TABLES[kind] for kind in spool.counts if kind != "member"]:  # which has no ID
        if _has_rows(connection, table):
            matching = _Matching(connection, spool, rejections, table, updates=updates)
            for column in list_unique(table):  # the ID first: `_match_row` asks which rows the file contains
                matching.match_column(column)
    # the search and the links of a trace have only IDs, so no two entities share one, whatever their kinds
    kinds = [kind for kind in model.KINDS if spool.counts[kind.name]]
    if kinds and any(_has_rows(connection, kind.table) for kind in model.KINDS):
        _compare_kinds(kinds, connection, spool, rejections)


def _compare_kinds(kinds: list[model.Kind], connection: Connection, spool: Spool, rejections: Rejections) -> None:
    """Reject new entities with the ID of an entity of another kind in the database."""
    for kind in kinds:
        for keys in spool.list_keys(f"{kind.table}.id"):
            lines = {key.key: key.line for key in keys}
            new = lines.keys() - spool.find_stored(kind.table, lines)
            for row_id, other, reference in find_entries(connection, new) if new else ():
                if other != kind.name:
                    reason = f"{reference} in the database has the same ID. Use another ID, or leave it out."
                    rejections.add(lines[row_id], "id", reason)


def _has_rows(connection: Connection, table: str) -> bool:
    return bool(connection.scalar(select(exists(select(metadata.tables[table].c.id)))))


@dataclass(frozen=True)
class _Matching:
    """Compares the records of one table."""

    connection: Connection
    spool: Spool
    rejections: Rejections
    table: str
    updates: bool

    def match_column(self, column: str) -> None:
        """Compare the values of a unique column."""
        columns = metadata.tables[self.table].c
        shown = [columns[name] for name in list_unique(self.table)]
        for keys in self.spool.list_keys(f"{self.table}.{column}"):
            by_key = {key.key: key for key in keys}
            rows = self.connection.execute(select(*shown).where(columns[column].in_(list(by_key))))
            for row in rows.all():
                self._match_row(column, by_key[getattr(row, column)], row)

    def _match_row(self, column: str, key: Key, row: AnyRow) -> None:
        if column == "reference_id" and row.id != key.id and self.spool.give_up_number(self.table, key):
            return
        if self.table in _ENTITIES and not self.updates:
            reason = f"{key.key} is already in the database. Use --update to change it, or remove the record."
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
        elif self.table in _USES and not self._is_used(row.id) and not self.spool.find_stored(self.table, [key.id]):
            columns = metadata.tables[self.table]
            self.connection.execute(update(columns).where(columns.c.id == row.id).values(id=key.id))
            self.spool.mark_stored(self.table, key.id)
        else:
            reason = f"{key.key!r} has another ID in the database, {row.id}. Use that ID, or leave the ID out."
            self.rejections.add(key.line, column, reason)

    def _is_used(self, type_id: str) -> bool:
        return bool(self.connection.scalar(select(exists().where(_USES[self.table] == type_id))))


def complete_records(connection: Connection, spool: Spool, rejections: Rejections) -> None:
    """Give records the values of their rows for the fields that they do not have. Check that others have all fields."""
    spool.lacks_author = False
    for kind in TABLES:
        for records in spool.list_records(kind) if spool.counts[kind] else ():
            rows = read_rows(connection, spool, kind, records)
            for record in records:
                if row := rows.get(record.values.get("id", "")):
                    _merge(record.values, row)
                else:
                    _complete(record, rejections)
                spool.note_author(record.values)
            spool.replace(records)


def read_rows(connection: Connection, spool: Spool, kind: str, records: Iterable[Spooled]) -> dict[str, Values]:
    """Return the rows of the records that the database has, by ID."""
    table = metadata.tables[TABLES[kind]]
    if kind == "member" or not (ids := spool.find_stored(table.name, [record.values["id"] for record in records])):
        return {}
    found = connection.execute(select(table).where(table.c.id.in_(ids)))
    return {row["id"]: dict(row) for row in found.mappings().all()}


def match_relationships(
    connection: Connection, spool: Spool, rejections: Rejections, records: Iterable[Spooled]
) -> None:
    """Complete relationships without an ID that the database has. Reject those that have another ID there.

    Reject them also if another record of the file has their ID, because that record can change the row.
    """
    columns = requirement_relationships.c
    wanted = {_name_ends(record.values): record for record in records}
    sources, targets = ({ends[place] for ends in wanted} for place in (0, 1))
    of_ends = columns.source_requirement_id.in_(sources), columns.target_requirement_id.in_(targets)
    found = connection.execute(select(requirement_relationships).where(*of_ends))
    matches = [(wanted[ends], row) for row in map(dict, found.mappings().all()) if (ends := _name_ends(row)) in wanted]
    ids = (row_id for record, row in matches for row_id in (record.values["id"], row["id"]))
    given = spool.find_given_ids(RELATIONSHIPS, ids)
    for record, row in matches:
        if record.values["id"] == row["id"]:
            continue
        if record.values["id"] in given:
            where = f"The relationship is already in the database with the ID {row['id']}."
            rejections.add(record.line, "id", f"{where} Use that ID, or leave it out.")
        elif row["id"] in given:
            where = f"Another record of the file has the ID of this relationship, {row['id']}."
            reason = f"{where} Leave that ID out, or remove one of the two records."
            rejections.add(record.line, "target_requirement_id", reason)
        else:
            record.values["id"] = row["id"]
            _merge(record.values, row)
            spool.mark_stored(RELATIONSHIPS, row["id"])


def check_criteria(connection: Connection, spool: Spool, rejections: Rejections) -> None:
    """Reject an acceptance criterion that was moved while a requirement of its old user story refers to it.

    Reject also a requirement that got its user story from the file and kept its acceptance criterion, or the reverse.
    """
    requirement, criterion = requirements.c, acceptance_criteria.c
    for records in spool.list_records("requirement"):
        lines = {record.values["id"]: record.line for record in records}
        found = connection.execute(
            select(requirement.id)
            .join(acceptance_criteria, criterion.id == requirement.acceptance_criteria_id)
            .where(requirement.id.in_(list(lines)), requirement.user_story_id != criterion.user_story_id)
        )
        for (requirement_id,) in found.all():
            reason = "Its acceptance criterion in the database belongs to another user story. Add both to the record."
            rejections.add(lines[requirement_id], "acceptance_criteria_id", reason)
    for records in spool.list_records("acceptance_criteria"):
        lines = {record.values["id"]: record.line for record in records}
        found = connection.execute(
            select(criterion.id, requirement.reference_id)
            .join(acceptance_criteria, criterion.id == requirement.acceptance_criteria_id)
            .where(criterion.id.in_(list(lines)), requirement.user_story_id != criterion.user_story_id)
        )
        for criterion_id, reference in found.all():
            reason = f"{reference} belongs to another user story and refers to this criterion. Move it too."
            rejections.add(lines[criterion_id], "user_story_id", reason)


def _name_ends(values: Values) -> tuple[str, str, str]:
    return values["source_requirement_id"], values["target_requirement_id"], values["relationship_type_id"]


def _merge(values: FieldValues, row: Values) -> None:
    left_out = {PARENTS[values["kind"]]} if "parent" in values else set()
    for name in set(RECORDS[values["kind"]].fields) - left_out - values.keys():
        values[name] = row[name]
    _remove_nulls(values)


def _complete(record: Spooled, rejections: Rejections) -> None:
    values = record.values
    _remove_nulls(values)
    given = set(values)
    try:
        complete = parse_record(values)
    except InvalidRecord as error:
        for problem in error.problems:
            rejections.add(record.line, *problem)
    else:
        # the database can have a member with another role than the default
        values |= {name: value for name, value in complete.items() if name in given or values["kind"] != "member"}


def _remove_nulls(values: FieldValues) -> None:
    for name in [name for name, value in values.items() if value is None]:
        del values[name]

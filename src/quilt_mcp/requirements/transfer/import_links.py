"""The references of an import: records are matched with rows of the database, and links and relationships checked."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from sqlalchemy import Connection, exists, select, update

from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.model import ENDS, LINKS, MEMBER, NAMES, ORDERING_RELATIONSHIPS, PARENTS, TABLES
from quilt_mcp.requirements.tables import AnyRow, metadata, requirement_relationships
from quilt_mcp.requirements.transfer.records import FieldValues, Rejections, can_store, shorten
from quilt_mcp.requirements.transfer.spool import (
    BATCH,
    Key,
    Spool,
    Spooled,
    find_author,
    list_unique,
    match_relationships,
    normalize_id,
)
from quilt_mcp.requirements.writing import find_entries

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
    if kinds and has_entities(connection):
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


def has_entities(connection: Connection) -> bool:
    return any(_has_rows(connection, kind.table) for kind in model.KINDS)


def _has_rows(connection: Connection, table: str) -> bool:
    return bool(connection.scalar(select(exists(select(metadata.tables[table].c.id)))))


def look_up(connection: Connection, spool: Spool, table: str, values: Collection[str]) -> None:
    """Add the rows of the database with these IDs or names to the spool."""
    columns = metadata.tables[table].c
    for column, wanted in (
        (columns.id, [value for value in map(normalize_id, values) if value]),
        (columns[NAMES[table]], list(values)),
    ):
        for row in connection.execute(select(metadata.tables[table]).where(column.in_(wanted))).all():
            spool.add_stored(table, row.id, getattr(row, NAMES[table]))
            if table == model.ACCEPTANCE_CRITERIA.table:
                spool.add_criteria([(row.id, row.user_story_id)])


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


_COMPARED = {
    "relationship": ENDS,
    "member": MEMBER,
    model.ACCEPTANCE_CRITERIA.name: (str(model.ACCEPTANCE_CRITERIA.parent_column),),
    model.REQUIREMENT.name: (str(model.REQUIREMENT.parent_column),),
}
"""The references that are compared with those of other records. Only a rejected record of an update lacks one."""


@dataclass(frozen=True)
class LinkResolver:
    """Resolves the references of records, which `match_records` has compared with the database."""

    connection: Connection
    spool: Spool
    rejections: Rejections
    updates: bool = False

    def resolve(self, creator: str | None, report: Callable[[int], object]) -> None:
        author = self.find("users", {creator}).get(creator) if creator and can_store(creator) else None
        if creator is not None and author is None:
            problem = f"The creator {shorten(creator)!r} is not a user."
            self.rejections.add(0, None, f"{problem} Add a record for this user, or name another user.")
            return
        done = 0
        for kind in TABLES:
            for records in self.spool.list_records(kind):
                self._resolve_batch(records, author)
                done += len(records)
                report(done)

    def find(self, table: str, values: set[str]) -> dict[str, str]:
        """Return the IDs of the records, or else of the rows of the database, with these IDs or names."""
        found = self.spool.find_ids(table, values)
        # What looks like an ID, and was found as the name of another row, can be the ID of a row of the database.
        if missing := {one for one in values if one not in found or normalize_id(one) not in {None, found[one]}}:
            look_up(self.connection, self.spool, table, missing)
            found |= self.spool.find_ids(table, missing)
        return found

    def _resolve_batch(self, records: list[Spooled], author: str | None) -> None:
        wanted: dict[str, set[str]] = defaultdict(set)
        for record in records:
            for given, column in _list_links(record.values):
                wanted[LINKS[column]].add(record.values[given])
        found = {table: self.find(table, values) for table, values in wanted.items()}
        valid = [record for record in records if self._resolve(record, found)]
        if self.updates and valid and valid[0].values["kind"] == "relationship":
            match_relationships(self.connection, self.spool, self.rejections, valid)
        self._set_authors(valid, author)
        self._check_criteria(valid)
        self._check_members(valid)
        self._check_relationships(valid)
        self.spool.replace(records)

    def _resolve(self, record: Spooled, found: dict[str, dict[str, str]]) -> bool:
        """Replace the references of a record. Return whether all were found, and none that is compared is missing."""
        before, values = self.rejections.count, record.values
        for given, column in list(_list_links(values)):
            value, table = values.pop(given), LINKS[column]
            if row_id := found[table].get(value):
                values[column] = row_id
            else:
                where = f"{value!r} not found in {table}, neither by ID nor by {NAMES[table].replace('_', ' ')}."
                self.rejections.add(record.line, given, f"{where} Correct it, or add a record.")
        is_complete = all(field in values for field in _COMPARED.get(values["kind"], ()))
        return is_complete and self.rejections.count == before

    def _set_authors(self, records: list[Spooled], author: str | None) -> None:
        for record in records:
            field = find_author(record.values["kind"])
            if field is None or field in record.values:
                continue
            if author is None:
                reason = "Missing. Add it, or use --creator to name one for all records."
                self.rejections.add(record.line, field, reason)
            else:
                record.values[field] = author

    def _check_criteria(self, records: list[Spooled]) -> None:
        """Check that requirements refer to acceptance criteria of their own user story."""
        self.spool.add_criteria(
            (record.values["id"], record.values["user_story_id"])
            for record in records
            if record.values["kind"] == model.ACCEPTANCE_CRITERIA.name
        )
        wanted = [record for record in records if "acceptance_criteria_id" in record.values]
        stories = self.spool.find_stories(record.values["acceptance_criteria_id"] for record in wanted)
        for _, line, values in wanted:
            # the story of a criterion that is not valid itself is unknown
            if stories.get(values["acceptance_criteria_id"], values["user_story_id"]) != values["user_story_id"]:
                reason = "The acceptance criterion belongs to another user story. Use one of the same user story."
                self.rejections.add(line, "acceptance_criteria_id", reason)

    def _check_members(self, records: list[Spooled]) -> None:
        """Check that no membership is repeated, perhaps with another role."""
        for number, line, values in records:
            if values["kind"] != "member":
                continue
            user, project = (str(values[field]) for field in MEMBER)
            if before := self.spool.add_key("project_members", "member", f"{user} {project}", "", line, number):
                reason = f"Duplicate of the member in line {before}. Remove one of the two."
                self.rejections.add(line, "user_id", reason)

    def _check_relationships(self, records: list[Spooled]) -> None:
        """Check that relationships have two ends and are not repeated."""
        for _, line, values in records:
            if values["kind"] != "relationship":
                continue
            source, target, type_id = (str(values[end]) for end in ENDS)
            if source == target:
                reason = "The source and the target are the same requirement. Change one, or remove the record."
                self.rejections.add(line, "target_requirement_id", reason)
            elif before := self.spool.add_edge(source, target, type_id, line):
                reason = f"Duplicate of the relationship in line {before}. Remove one of the two."
                self.rejections.add(line, "target_requirement_id", reason)


def _list_links(values: FieldValues) -> Iterator[tuple[str, str]]:
    """Yield the fields that refer to other records, with the column that each of them sets."""
    for given in values:
        column = PARENTS[values["kind"]] if given == "parent" else given
        if column in LINKS:
            yield given, column


_MOST_CYCLES = 20
_FIELD = "target_requirement_id"
_STORED = "The relationship is already in the database. Remove it."


def check_relationships(resolver: LinkResolver) -> None:
    """Reject relationships of the file that the database has, and those that close a cycle."""
    spool, rejections = resolver.spool, resolver.rejections
    if not spool.counts["relationship"]:
        return
    _add_stored_edges(resolver.connection, spool, rejections)
    for name, type_id in resolver.find("relationship_types", set(ORDERING_RELATIONSHIPS)).items():
        for line in _find_cycles(spool.list_edges(type_id)):
            reason = f"The relationship {name} forms a cycle with others. Remove one of them."
            rejections.add(line, _FIELD, reason)


def _add_stored_edges(connection: Connection, spool: Spool, rejections: Rejections) -> None:
    columns = requirement_relationships.c
    ends = (columns.source_requirement_id, columns.target_requirement_id, columns.relationship_type_id)
    types = [row[0] for row in spool.connection.execute("SELECT DISTINCT type FROM edges")]
    wanted = select(columns.id, *ends).where(columns.relationship_type_id.in_(types))
    stored = connection.execute(wanted, execution_options={"yield_per": BATCH})
    for rows in stored.partitions():
        in_file = spool.find_stored(requirement_relationships.name, [row.id for row in rows])
        for row_id, source, target, type_id in rows:
            if row_id not in in_file and (line := spool.add_edge(source, target, type_id, None)):
                rejections.add(line, _FIELD, _STORED)


def _find_cycles(edges: dict[tuple[str, str], int]) -> Iterator[int]:
    """Yield for each cycle the line of its relationship that is the last in the file, unless the file has none.

    Args:
        edges: the lines of the relationships by their ends; 0 for one that only the database has.
    """
    for _ in range(_MOST_CYCLES):
        order = TopologicalSorter[str]()
        for source, target in edges:
            order.add(target, source)
        try:
            order.prepare()
        except CycleError as error:
            last = max(pairwise(error.args[1]), key=edges.__getitem__)
            if line := edges.pop(last):
                yield line
        else:
            return

"""The references of an import: to other records of the file, and to rows of the database."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from sqlalchemy import Connection, select

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import BY_PREFIX, ENDS, LINKS, MEMBER, NAMES, ORDERING_RELATIONSHIPS, PARENTS, TABLES
from quilt_mcp.requirements.parameters import guess_reference
from quilt_mcp.requirements.tables import metadata, requirement_relationships
from quilt_mcp.requirements.transfer.matching import match_relationships
from quilt_mcp.requirements.transfer.records import FieldValues, Rejections, can_store, shorten
from quilt_mcp.requirements.transfer.spool import BATCH, Spool, Spooled, find_author, normalize_id

_COMPARED = {
    "relationship": ENDS,
    "member": MEMBER,
    model.ACCEPTANCE_CRITERIA.name: (str(model.ACCEPTANCE_CRITERIA.parent_column),),
    model.REQUIREMENT.name: (str(model.REQUIREMENT.parent_column),),
}
"""The references that are compared with those of other records. Only a rejected record of an update lacks one."""
_MOST_CYCLES = 20
_MOST_CHARACTERS = 30
"""Maximum length of what can mean a reference ID."""
_FIELD = "target_requirement_id"
_STORED = "The relationship is already in the database. Remove it."


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
        if missing := {
            value for value in values if value not in found or normalize_id(value) not in {None, found[value]}
        }:
            look_up(self.connection, self.spool, table, missing)
            found |= self.spool.find_ids(table, missing)
        if nearly := {value: one for value in values - found.keys() if (one := _read_reference(table, value))}:
            meant = self.find(table, set(nearly.values()))
            found |= {value: meant[one] for value, one in nearly.items() if one in meant}
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
        for number, line, values in records:
            if values["kind"] != "relationship":
                continue
            source, target, type_id = (str(values[end]) for end in ENDS)
            if source == target:
                reason = "The source and the target are the same requirement. Change one, or remove the record."
                self.rejections.add(line, "target_requirement_id", reason)
            elif before := self.spool.add_edge((source, target, type_id), line, number):
                reason = f"Duplicate of the relationship in line {before}. Remove one of the two."
                self.rejections.add(line, "target_requirement_id", reason)


def _read_reference(table: str, value: str) -> str | None:
    """Return the reference ID that a text means, such as `ep-1` with a space; None if it is one, or means none."""
    guess = guess_reference(value.strip()) if len(value) <= _MOST_CHARACTERS else None
    reference = guess.reference if guess else value.strip()
    kind = BY_PREFIX.get(reference.partition("-")[0])
    return reference if kind and kind.table == table and reference != value else None


def _list_links(values: FieldValues) -> Iterator[tuple[str, str]]:
    """Yield the fields that refer to other records, with the column that each of them sets."""
    for given in values:
        column = PARENTS[values["kind"]] if given == "parent" else given
        if column in LINKS:
            yield given, column


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


def check_relationships(resolver: LinkResolver, *, is_written: bool = False) -> None:
    """Reject relationships of the file that the database has, and those that close a cycle.

    One of another tool that closes a cycle is left out, unless the records are written already: there, a type with one
    of our names can mean something else.
    """
    spool, rejections = resolver.spool, resolver.rejections
    if not spool.counts["relationship"]:
        return
    _add_stored_edges(resolver.connection, spool, rejections)
    for name, type_id in resolver.find("relationship_types", set(ORDERING_RELATIONSHIPS)).items():
        for line, number in _find_cycles(spool.list_edges(type_id)):
            if not is_written and spool.leave_out(number, f"relation {name} that closes a cycle"):
                continue
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
            if row_id not in in_file and (line := spool.add_edge((source, target, type_id), None)):
                rejections.add(line, _FIELD, _STORED)


def _find_cycles(edges: dict[tuple[str, str], tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield for each cycle the place of its relationship that is the last in the file, unless the file has none.

    Args:
        edges: the lines and the numbers of the relationships by their ends; 0 for one that only the database has.
    """
    for _ in range(_MOST_CYCLES):
        order = TopologicalSorter[str]()
        for source, target in edges:
            order.add(target, source)
        try:
            order.prepare()
        except CycleError as error:
            last = max(pairwise(error.args[1]), key=edges.__getitem__)
            place = edges.pop(last)
            if place[0]:
                yield place
        else:
            return

"""Replaces the references of the records of an import with IDs, and checks what the records refer to."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.transfer.field_types import can_store
from quilt_mcp.requirements.transfer.import_matches import look_up
from quilt_mcp.requirements.transfer.records import LINKS, PARENTS, TABLES, FieldValues
from quilt_mcp.requirements.transfer.rejections import Rejections
from quilt_mcp.requirements.transfer.spool import AUTHORS, NAMES, Spool, Spooled
from quilt_mcp.requirements.transfer.stored_rows import match_relationships
from quilt_mcp.requirements.transfer.wording import shorten

_ENDS = ("source_requirement_id", "target_requirement_id", "relationship_type_id")
_MEMBER = ("user_id", "project_id")
_COMPARED = {
    "relationship": _ENDS,
    "member": _MEMBER,
    kinds.ACCEPTANCE_CRITERIA.name: (str(kinds.ACCEPTANCE_CRITERIA.parent_column),),
    kinds.REQUIREMENT.name: (str(kinds.REQUIREMENT.parent_column),),
}
"""The references that are compared with those of other records. Only a rejected record of an update lacks one."""


@dataclass(frozen=True)
class LinkResolver:
    """Resolves the references of records, which `match_records` has compared with the database.

    Attributes:
        connection: of the transaction that will write the records.
        spool: the records. Their values change.
        rejections: takes the records with wrong references.
        updates: whether relationships may be in the database.
    """

    connection: AsyncConnection
    spool: Spool
    rejections: Rejections
    updates: bool = False

    async def resolve(self, creator: str | None, report: Callable[[int], object]) -> None:
        """Resolve the references of all records.

        Args:
            creator: the author of records without one; a user ID or username.
            report: called with the number of records that are done.
        """
        can_find = creator is not None and can_store(creator)
        author = (await self.find("users", {creator})).get(creator) if creator and can_find else None
        if creator is not None and author is None:
            reason = (
                f"The creator {shorten(creator)!r} is not a user. Add a record for this user, or name another user."
            )
            self.rejections.add(0, None, reason)
            return
        done = 0
        for kind in TABLES:
            for records in self.spool.list_records(kind):
                await self._resolve_batch(records, author)
                done += len(records)
                report(done)

    async def find(self, table: str, values: set[str]) -> dict[str, str]:
        """Return the IDs of the records, or else of the rows of the database, with these IDs or names."""
        found = self.spool.find_ids(table, values)
        if missing := values - found.keys():
            await look_up(self.connection, self.spool, table, missing)
            found |= self.spool.find_ids(table, missing)
        return found

    async def _resolve_batch(self, records: list[Spooled], author: str | None) -> None:
        wanted: dict[str, set[str]] = defaultdict(set)
        for record in records:
            for given, column in _list_links(record.values):
                wanted[LINKS[column]].add(record.values[given])
        found = {table: await self.find(table, values) for table, values in wanted.items()}
        valid = [record for record in records if self._resolve(record, found)]
        if self.updates and valid and valid[0].values["kind"] == "relationship":
            await match_relationships(self.connection, self.spool, self.rejections, valid)
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
        """Set the author of records without one."""
        for record in records:
            field = AUTHORS.get(record.values["kind"])
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
            if record.values["kind"] == kinds.ACCEPTANCE_CRITERIA.name
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
            user, project = (str(values[field]) for field in _MEMBER)
            if before := self.spool.add_member(user, project, line, number):
                self.rejections.add(
                    line, "user_id", f"Duplicate of the member in line {before}. Remove one of the two."
                )

    def _check_relationships(self, records: list[Spooled]) -> None:
        """Check that relationships have two ends and are not repeated."""
        for _, line, values in records:
            if values["kind"] != "relationship":
                continue
            source, target, type_id = (str(values[end]) for end in _ENDS)
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

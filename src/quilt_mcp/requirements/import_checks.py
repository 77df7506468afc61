"""Whether the records of an import fit together, and into the database. What they refer to becomes ids on the way."""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds, tables
from quilt_mcp.requirements.import_links import NAMES, Directory
from quilt_mcp.requirements.record_files import Numbered, Rejection
from quilt_mcp.requirements.records import LINKS, TABLES
from quilt_mcp.requirements.writing import new_id

ENTITIES = {kind.name for kind in kinds.KINDS}
_AUTHORS = {kind.name: kind.author_column for kind in kinds.KINDS} | {"relationship": "created_by"}
_ENDS = ("source_requirement_id", "target_requirement_id", "relationship_type_id")
_MOST_CYCLES = 20

Edge = tuple[str, str]


async def check(
    connection: AsyncConnection, records: list[Numbered], creator: str | None
) -> tuple[Directory, list[Rejection]]:
    """Give every record an id, turn what it refers to into ids, and answer what does not fit, by line.

    Args:
        connection: of the transaction that is to write the records.
        records: their values are changed.
        creator: who made what has no author; a user's id or name.

    Returns:
        What the database holds under the records' ids and names, and what does not fit.
    """
    for record in records:
        if creator and (author := _AUTHORS.get(record.values["kind"])):
            record.values.setdefault(author, creator)
    existing = Directory()
    await existing.add_existing(connection, records)
    rejected = [*_give_ids(records, existing), *_duplicates(records)]
    known = Directory()
    await known.add_existing(connection, records)
    for record in records:
        known.add_record(record.values)
    for record in records:
        rejected += _resolve(record, known)
    if not rejected:
        rejected = [*_criteria_of_other_stories(records, known), *await _relationships(connection, records)]
    return existing, sorted(rejected)


def _give_ids(records: list[Numbered], existing: Directory) -> Iterator[Rejection]:
    """New ids, but for a user, project or type that exists by its name: it keeps its own."""
    for line, values in records:
        table = TABLES[values["kind"]]
        if table not in NAMES:
            if values["kind"] == "relationship":
                values.setdefault("id", new_id())
            continue
        name = values.get(NAMES[table])
        by_id, by_name = (existing.find(table, said) if said else None for said in (values.get("id"), name))
        if values["kind"] in ENTITIES and (by_id or by_name):
            yield Rejection(line, f"{name or values['id']} is in the database already.")
        elif by_name and values.get("id", by_name) != by_name:
            yield Rejection(line, f"{NAMES[table]}: In the database {name} has another id, {by_name}.")
        values.setdefault("id", by_name or new_id())


def _duplicates(records: list[Numbered]) -> Iterator[Rejection]:
    first: dict[tuple[str, ...], int] = {}
    for line, values in records:
        table = TABLES[values["kind"]]
        for column in ("id", NAMES.get(table, ""), "email"):
            if values.get(column) is not None:
                before = first.setdefault((table, column, str(values[column])), line)
                if before != line:
                    yield Rejection(line, f"{column}: The record in line {before} has it too.")


def _resolve(record: Numbered, known: Directory) -> Iterator[Rejection]:
    author = _AUTHORS.get(record.values["kind"])
    if author and author not in record.values:
        yield Rejection(record.line, f"{author}: It is missing. Give it here, or with --creator for all records.")
    for field in LINKS.keys() & record.values.keys():
        said = record.values[field]
        found = known.find(LINKS[field], said)
        if found is None:
            yield Rejection(record.line, f"{field}: There is no {said!a} in {LINKS[field]}.")
        else:
            record.values[field] = found


def _criteria_of_other_stories(records: Iterable[Numbered], known: Directory) -> Iterator[Rejection]:
    for line, values in records:
        criterion = values.get("acceptance_criteria_id")
        # the story of a criterion in the file may be said by its reference id
        if criterion and known.find("user_stories", known.stories[criterion]) != values["user_story_id"]:
            yield Rejection(line, "acceptance_criteria_id: It belongs to another user story.")


async def _relationships(connection: AsyncConnection, records: Iterable[Numbered]) -> list[Rejection]:
    """Relationships of a requirement to itself, those that exist already, and those that lead back."""
    new = [record for record in records if record.values["kind"] == "relationship"]
    if not new:
        return []
    columns = tables.requirement_relationships.c
    of_types = columns.relationship_type_id.in_({record.values["relationship_type_id"] for record in new})
    rows = await connection.execute(select(*(columns[end] for end in _ENDS)).where(of_types))
    lines: dict[tuple[str, ...], int] = {tuple(row): 0 for row in rows}
    rejected = []
    for line, values in new:
        ends = tuple(str(values[end]) for end in _ENDS)
        if ends[0] == ends[1]:
            rejected.append(Rejection(line, "A requirement has no relationship to itself."))
        elif (before := lines.setdefault(ends, line)) != line:
            where = f"is in line {before} too" if before else "is in the database already"
            rejected.append(Rejection(line, f"The relationship {where}."))
    names = await connection.execute(select(tables.relationship_types.c.id, tables.relationship_types.c.name))
    for type_id, name in names.all():
        if name in kinds.ORDERING_RELATIONSHIPS:
            edges = {(ends[0], ends[1]): line for ends, line in lines.items() if ends[2] == type_id}
            rejected += [
                Rejection(line, f"By {name} the source comes before the target, and the target before the source.")
                for line in _closing(edges)
            ]
    return rejected


def _closing(edges: Mapping[Edge, int]) -> Iterator[int]:
    """The lines of relationships that close a circle; line 0 is the database, where one may be already."""
    remaining = dict(edges)
    for _ in range(_MOST_CYCLES):
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for source, target in remaining:
            sorter.add(source, target)
        try:
            sorter.prepare()
        except CycleError as error:
            # a node of the circle is a predecessor of the next, so source and target are the other way round
            circle: list[Edge] = [(source, target) for target, source in pairwise(error.args[1])]
            last = max(circle, key=lambda edge: remaining[edge])
            if line := remaining.pop(last):
                yield line
        else:
            return

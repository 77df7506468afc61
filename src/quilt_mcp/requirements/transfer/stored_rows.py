"""Completes the records of an update with the values of their rows, so that both are checked together."""

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements.tables import (
    Values,
    acceptance_criteria,
    metadata,
    requirement_relationships,
    requirements,
)
from quilt_mcp.requirements.transfer.records import MODELS, PARENTS, TABLES, FieldValues, parse_record
from quilt_mcp.requirements.transfer.rejections import Rejections
from quilt_mcp.requirements.transfer.spool import Spool, Spooled
from quilt_mcp.requirements.transfer.wording import InvalidRecord

RELATIONSHIPS = requirement_relationships.name


async def complete_records(connection: AsyncConnection, spool: Spool, rejections: Rejections) -> None:
    """Give records the values of their rows for the fields that they do not have. Check that others have all fields.

    Args:
        connection: of the transaction that will write the records.
        spool: the records, which `match_records` has compared with the database. Their values change.
        rejections: takes the new records that are not complete.
    """
    spool.lacks_author = False
    for kind in TABLES:
        for records in spool.list_records(kind) if spool.counts[kind] else ():
            rows = await read_rows(connection, spool, kind, records)
            for record in records:
                if row := rows.get(record.values.get("id", "")):
                    _merge(record.values, row)
                else:
                    _complete(record, rejections)
                spool.note_author(record.values)
            spool.replace(records)


async def read_rows(
    connection: AsyncConnection, spool: Spool, kind: str, records: Iterable[Spooled]
) -> dict[str, Values]:
    """Return the rows of the records that the database has, by ID."""
    table = metadata.tables[TABLES[kind]]
    if kind == "member" or not (ids := spool.find_stored(table.name, [one.values["id"] for one in records])):
        return {}
    found = await connection.execute(select(table).where(table.c.id.in_(ids)))
    return {row["id"]: dict(row) for row in found.mappings().all()}


async def match_relationships(
    connection: AsyncConnection, spool: Spool, rejections: Rejections, records: Iterable[Spooled]
) -> None:
    """Complete relationships without an ID that the database has. Reject those that have another ID there.

    Reject them also if another record of the file has their ID, because that record can change the row.
    """
    columns = requirement_relationships.c
    wanted = {_name_ends(one.values): one for one in records}
    found = await connection.execute(
        select(requirement_relationships).where(columns.source_requirement_id.in_({ends[0] for ends in wanted}))
    )
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


async def check_criteria(connection: AsyncConnection, spool: Spool, rejections: Rejections) -> None:
    """Reject an acceptance criterion that was moved while a requirement of its old user story refers to it."""
    own, other = requirements.c, acceptance_criteria.c
    for records in spool.list_records("acceptance_criteria"):
        lines = {one.values["id"]: one.line for one in records}
        found = await connection.execute(
            select(other.id, own.reference_id)
            .join(acceptance_criteria, other.id == own.acceptance_criteria_id)
            .where(other.id.in_(list(lines)), own.user_story_id != other.user_story_id)
        )
        for criterion, reference in found.all():
            reason = f"{reference} belongs to another user story and refers to this criterion. Move it too."
            rejections.add(lines[criterion], "user_story_id", reason)


def list_fields(kind: str) -> set[str]:
    """Return the fields of a kind that are columns of its table. Only epics have a project of their own."""
    columns = metadata.tables[TABLES[kind]].c
    return {name for name in MODELS[kind].model_fields if name in columns}


def _name_ends(values: Values) -> tuple[str, str, str]:
    return values["source_requirement_id"], values["target_requirement_id"], values["relationship_type_id"]


def _merge(values: FieldValues, row: Values) -> None:
    left_out = {PARENTS[values["kind"]]} if "parent" in values else set()
    for name in list_fields(values["kind"]) - left_out - values.keys():
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

"""Writes the records of an import to the database."""

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, String, bindparam, cast, delete, insert, update

from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.model import DEFAULT_PROJECT_ID, TABLES
from quilt_mcp.requirements.tables import Values, metadata
from quilt_mcp.requirements.transfer.merging import Merger
from quilt_mcp.requirements.transfer.spool import Spool, Spooled, list_unique
from quilt_mcp.requirements.transfer.updating import Updater
from quilt_mcp.requirements.writing import create_entities, make_times, new_id, raise_counter

_NAMED = TABLES.keys() - model.BY_NAME.keys() - {"member", "relationship"}
_MEMBER = {"role": model.MEMBER_ROLES[0], "project_id": DEFAULT_PROJECT_ID}


def write_records(
    connection: Connection,
    spool: Spool,
    updater: Updater | None,
    report: Callable[[int], object],
    merger: Merger | None = None,
) -> None:
    """Write the records, each kind after those that it refers to.

    An updater changes what the database has, and leaves the new records. Without one, only users, projects and types
    can be there already, and are replaced. A merger keeps what the file has for the next import of its source.
    """
    done = 0
    # the file of a team without projects: its new users belong to the default project
    has_members = bool(spool.counts["project"] or spool.counts["member"])
    for kind in TABLES:
        if kind in _NAMED and not updater:
            _free_names(connection, spool, kind)
        if entity := model.BY_NAME.get(kind):
            raise_counter(connection, entity, spool.find_last_number(entity.table))
        for records in spool.list_records(kind):
            new = records
            if merger and entity:
                merger.load(kind, records)
            if updater:
                new = updater.update_members(records) if kind == "member" else updater.update(kind, records)
            _write_batch(connection, spool, kind, new, has_members=has_members)
            if merger and entity:
                merger.store(records)
            if updater:
                updater.note_created(kind, new)
            done += len(records)
            report(done)


def _write_batch(connection: Connection, spool: Spool, kind: str, records: list[Spooled], *, has_members: bool) -> None:
    rows = [{name: value for name, value in record.values.items() if name != "kind"} for record in records]
    if not rows:
        return
    if entity := model.BY_NAME.get(kind):
        create_entities(connection, entity, rows)
    elif kind == "relationship":
        now = {"created_at": datetime.now(UTC)}
        connection.execute(insert(tables.requirement_relationships), [now | row for row in rows])
    elif kind == "member":
        _write_members(connection, rows)
    else:
        new = _write_named(connection, spool, TABLES[kind], rows)
        if kind == "user" and not has_members:
            _write_members(connection, [{"user_id": row["id"]} for row in new])


def _free_names(connection: Connection, spool: Spool, kind: str) -> None:
    """Replace the names and emails of the rows that will change, so that two of them can swap theirs."""
    table, free_now = metadata.tables[TABLES[kind]], f"{new_id()} "  # the name of a row can be the ID of another
    for records in spool.list_records(kind):
        if ids := spool.find_stored(table.name, [record.values["id"] for record in records]):
            free = {name: free_now + cast(table.c.id, String) for name in list_unique(table.name) if name != "id"}
            connection.execute(update(table).where(table.c.id.in_(ids)).values(free))


def _write_named(connection: Connection, spool: Spool, table: str, rows: list[Values]) -> list[Values]:
    """Write users, projects or types. Return those that are new."""
    columns, times = metadata.tables[table], make_times()
    stored = spool.find_stored(table, [row["id"] for row in rows])
    # a record is the whole row, so a description that it does not have is removed
    optional = {"description": None} if "description" in columns.c else {}
    for row in rows:
        if row["id"] in stored:
            changed = optional | {"updated_at": times["updated_at"]} | row
            connection.execute(update(columns).where(columns.c.id == row["id"]).values(changed))
    new = [optional | times | row for row in rows if row["id"] not in stored]
    if new:
        connection.execute(insert(columns), new)
    return new


def _write_members(connection: Connection, rows: list[Values]) -> None:
    """Write memberships. Replace those of the same users and projects."""
    members = tables.project_members
    by_key = {(row["user_id"], row["project_id"]): row for row in (_MEMBER | row for row in rows)}
    if by_key:
        same = members.c.user_id == bindparam("user"), members.c.project_id == bindparam("project")
        keys = [{"user": user, "project": project} for user, project in by_key]
        connection.execute(delete(members).where(*same), keys)
        connection.execute(insert(members), list(by_key.values()))

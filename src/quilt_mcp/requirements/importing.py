"""Importing records: all of them, in one transaction, or none."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.import_checks import check
from quilt_mcp.requirements.import_links import Directory
from quilt_mcp.requirements.kinds import DEFAULT_PROJECT_ID
from quilt_mcp.requirements.membership import add_member
from quilt_mcp.requirements.record_files import Numbered, Rejection
from quilt_mcp.requirements.records import TABLES
from quilt_mcp.requirements.tables import metadata
from quilt_mcp.requirements.writing import create_entities, times_now

Row = dict[str, Any]

_AT_ONCE = 500


@dataclass(frozen=True)
class Report:
    """What became of an import.

    Attributes:
        imported: how many records of each kind; empty if anything was rejected.
        rejected: in the order of the lines.
    """

    imported: Counter[str] = field(default_factory=Counter)
    rejected: list[Rejection] = field(default_factory=list)


class _Rejected(Exception):
    """Ends the transaction without a change."""

    def __init__(self, rejected: list[Rejection]) -> None:
        super().__init__()
        self.rejected = rejected


Progress = Callable[[int, int], None]


def _silent(done: int, total: int) -> None:
    del done, total


async def import_records(
    database: Database,
    records: Iterable[Numbered | Rejection],
    *,
    creator: str | None = None,
    progress: Progress = _silent,
) -> Report:
    """Write all records, or none if any is rejected. Users, projects and types that exist are updated.

    Args:
        database: one of ours.
        records: of a file; they are read before the database is.
        creator: the author of what names none; a user's id or name.
        progress: called with the numbers of records that are written and that there are.

    Raises:
        OSError: the file cannot be read.
        ResourceFailure: as `Database.writing`.
    """
    good: list[Numbered] = []
    bad: list[Rejection] = []
    for one in records:
        bad.append(one) if isinstance(one, Rejection) else good.append(one)
    try:
        async with database.writing() as connection:
            existing = await _checked(connection, good, bad, creator)
            await _write(connection, good, existing, progress)
    except _Rejected as end:
        return Report(rejected=end.rejected)
    except IntegrityError:
        # What is checked above cannot come here; what is left are values that are unique beside ids and names.
        return Report(rejected=[Rejection(0, "A value that has to be unique, an email, is in the database already.")])
    return Report(imported=Counter(record.values["kind"] for record in good))


async def _checked(
    connection: AsyncConnection, good: list[Numbered], bad: list[Rejection], creator: str | None
) -> Directory:
    existing, unfit = await check(connection, good, creator)
    if bad or unfit:
        raise _Rejected(sorted([*bad, *unfit]))
    return existing


async def _write(connection: AsyncConnection, records: list[Numbered], existing: Directory, progress: Progress) -> None:
    rows: dict[str, list[Row]] = {kind: [] for kind in TABLES}
    for record in records:
        rows[record.values["kind"]].append({key: value for key, value in record.values.items() if key != "kind"})
    if not rows["project"] and not rows["member"]:  # the file of a team that needs no projects
        new = [row["id"] for row in rows["user"] if not existing.find("users", row["id"])]
        rows["member"] = [{"user_id": user, "project_id": DEFAULT_PROJECT_ID} for user in new]
    done = 0
    for kind, of_kind in rows.items():
        for batch in _batches(of_kind):
            await _write_batch(connection, kind, batch, existing)
            done += len(batch)
            progress(min(done, len(records)), len(records))


async def _write_batch(connection: AsyncConnection, kind: str, rows: list[Row], existing: Directory) -> None:
    if entity := kinds.BY_NAME.get(kind):
        await create_entities(connection, entity, rows)
    elif kind == "member":
        for row in rows:
            await add_member(connection, **row)
    elif kind == "relationship":
        now = datetime.now(UTC)
        await connection.execute(insert(metadata.tables[TABLES[kind]]), [{"created_at": now} | row for row in rows])
    else:
        for row in rows:
            await _put(connection, TABLES[kind], row, existing)


async def _put(connection: AsyncConnection, table: str, row: Row, existing: Directory) -> None:
    """Insert a user, a project or a type, or update the one that has its id."""
    columns, times = metadata.tables[table], times_now()
    if existing.find(table, row["id"]):
        changed = row | {"updated_at": times["updated_at"]}
        await connection.execute(update(columns).where(columns.c.id == row["id"]).values(changed))
    else:
        await connection.execute(insert(columns), row | times)


def _batches(rows: list[Row]) -> Iterator[list[Row]]:
    for start in range(0, len(rows), _AT_ONCE):
        yield rows[start : start + _AT_ONCE]

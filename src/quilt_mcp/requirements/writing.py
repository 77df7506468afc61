"""Writing entities and their relationships.

Each function takes a connection of `Database.writing` and is part of its transaction, as the reference ids and the
entries of the search index are. IntegrityError, which is SQLAlchemy's, says that a constraint refuses a value.
"""

import time
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from secrets import randbits
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds, tables
from quilt_mcp.requirements.kinds import DEFAULT_PROJECT_ID, KINDS, Kind, format_reference
from quilt_mcp.requirements.search_index import Entry, index_entries

Row = dict[str, Any]

_BATCH = 1000
_VERSION_7, _VARIANT = 7 << 76, 2 << 62


def new_id() -> str:
    """A UUID of version 7 (RFC 9562): those made later sort later, so that new rows come at the end of a list."""
    milliseconds = time.time_ns() // 1_000_000
    return str(uuid.UUID(int=milliseconds << 80 | _VERSION_7 | randbits(12) << 64 | _VARIANT | randbits(62)))


def times_now() -> Row:
    """The times of a row that is new."""
    return dict.fromkeys(("created_at", "updated_at"), datetime.now(UTC))


async def create_entities(connection: AsyncConnection, kind: Kind, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Create entities of a kind, and answer them with all their columns.

    Args:
        connection: as above.
        kind: of all of them.
        rows: values by column. Needed are the parent, the author (creator_id, author_id), what people read (title,
            or description) and type_id; the rest has defaults: the project is the parent's, the assignee the creator.

    Raises:
        LookupError: a parent does not exist.
        IntegrityError: a constraint refuses a value.
    """
    complete = [_complete(kind, row) for row in rows]
    if not complete:
        return []
    await _adopt_projects(connection, kind, complete)
    await _number(connection, kind, complete)
    await connection.execute(insert(tables.BY_KIND[kind.name]), complete)
    await index_entries(connection, [_entry(kind, row) for row in complete])
    return complete


async def create_entity(connection: AsyncConnection, kind: Kind, **values: Any) -> Row:
    """Create one entity; see `create_entities`."""
    return (await create_entities(connection, kind, [values]))[0]


async def update_entity(connection: AsyncConnection, kind: Kind, entity_id: str, **changes: Any) -> None:
    """Change columns of an entity. What belongs to it follows it to another project.

    Raises:
        LookupError: it does not exist, or a new parent does not.
        IntegrityError: a constraint refuses a value.
    """
    table = tables.BY_KIND[kind.name]
    changes = {"updated_at": datetime.now(UTC)} | changes
    if kind.parent_column in changes:
        await _adopt_projects(connection, kind, [changes])
    statement = update(table).where(table.c.id == entity_id).values(changes).returning(*table.c)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        raise LookupError(f"There is no {kind.title} {entity_id}.")
    await index_entries(connection, [_entry(kind, row._asdict())])


async def delete_entity(connection: AsyncConnection, kind: Kind, entity_id: str) -> None:
    """Delete an entity with all that belongs to it.

    Raises:
        LookupError: it does not exist.
    """
    table = tables.BY_KIND[kind.name]
    if not (await connection.execute(delete(table).where(table.c.id == entity_id))).rowcount:
        raise LookupError(f"There is no {kind.title} {entity_id}.")


async def relate(connection: AsyncConnection, source: str, type_name: str, target: str, created_by: str) -> str:
    """Relate a requirement to another, and answer the relationship's id.

    Raises:
        LookupError: there is no such type.
        ValueError: the type puts requirements in an order, and the target comes before the source already.
        IntegrityError: a constraint refuses it: one of the two does not exist, they are one, or are related so already.
    """
    types = tables.relationship_types.c
    type_id = await connection.scalar(select(types.id).where(types.name == type_name))
    if type_id is None:
        raise LookupError(f"There is no type of relationship {type_name}.")
    if type_name in kinds.ORDERING_RELATIONSHIPS and await _leads_to(connection, type_id, target, source):
        raise ValueError(f"{type_name} would lead from the requirement back to itself.")
    row = {
        "id": new_id(),
        "source_requirement_id": source,
        "target_requirement_id": target,
        "relationship_type_id": type_id,
        "created_by": created_by,
        "created_at": datetime.now(UTC),
    }
    await connection.execute(insert(tables.requirement_relationships), row)
    return str(row["id"])


async def unrelate(connection: AsyncConnection, relationship_id: str) -> None:
    """Remove a relationship, if it exists."""
    table = tables.requirement_relationships
    await connection.execute(delete(table).where(table.c.id == relationship_id))


async def reindex(connection: AsyncConnection) -> None:
    """Put every entity into the search index anew."""
    for kind in KINDS:
        table, after = tables.BY_KIND[kind.name], ""
        while True:
            statement = select(table).order_by(table.c.id).limit(_BATCH)
            rows = (await connection.execute(statement.where(table.c.id > after) if after else statement)).all()
            if not rows:
                break
            await index_entries(connection, [_entry(kind, row._asdict()) for row in rows])
            after = rows[-1].id


def _complete(kind: Kind, row: Mapping[str, Any]) -> Row:
    """The row with a value for each column but the reference id."""
    defaults: Row = {"id": new_id(), "project_id": DEFAULT_PROJECT_ID, **times_now()}
    if kind.statuses:
        defaults |= {"priority": 3, "status": kind.statuses[0], "description": None}
        defaults["assignee_id"] = row.get("creator_id")
    if kind is kinds.REQUIREMENT:
        defaults["acceptance_criteria_id"] = None
    return defaults | {column: value for column, value in row.items() if value is not None}


async def _adopt_projects(connection: AsyncConnection, kind: Kind, rows: list[Row]) -> None:
    """Put each row into its parent's project."""
    if kind.parent is None:
        return
    table, column = tables.BY_KIND[kind.parent], str(kind.parent_column)
    projects: dict[str, str] = {}
    wanted = sorted({row[column] for row in rows})
    for start in range(0, len(wanted), _BATCH):
        of_parents = table.c.id.in_(wanted[start : start + _BATCH])
        found = await connection.execute(select(table.c.id, table.c.project_id).where(of_parents))
        projects |= dict(found.all())
    for row in rows:
        if row[column] not in projects:
            raise LookupError(f"There is no {column.removesuffix('_id').replace('_', ' ')} {row[column]}.")
        row["project_id"] = projects[row[column]]


async def _number(connection: AsyncConnection, kind: Kind, rows: list[Row]) -> None:
    """Give a reference id to each row that has none; the counter goes past those that are given."""
    unnumbered = [row for row in rows if not row.get("reference_id")]
    given = [int(row["reference_id"].rpartition("-")[2]) for row in rows if row.get("reference_id")]
    counters = tables.reference_counters
    of_kind = update(counters).where(counters.c.prefix == kind.prefix)
    if given:
        await connection.execute(of_kind.where(counters.c.last_number < max(given)).values(last_number=max(given)))
    statement = of_kind.values(last_number=counters.c.last_number + len(unnumbered)).returning(counters.c.last_number)
    last = (await connection.execute(statement)).scalar_one()
    for number, row in enumerate(unnumbered, last - len(unnumbered) + 1):
        row["reference_id"] = format_reference(kind, number)


def _entry(kind: Kind, row: Mapping[str, Any]) -> Entry:
    return Entry(
        kind=kind.name,
        entity_id=row["id"],
        project_id=row["project_id"],
        reference_id=row["reference_id"],
        title=row.get("title") or "",
        body=row["description"] or "",
    )


async def _leads_to(connection: AsyncConnection, type_id: str, start: str, end: str) -> bool:
    """Whether relationships of a type lead from a requirement to another."""
    columns = tables.requirement_relationships.c
    of_type = columns.relationship_type_id == type_id
    first = select(columns.target_requirement_id.label("id")).where(of_type, columns.source_requirement_id == start)
    reached = first.cte("reached", recursive=True)
    further = select(columns.target_requirement_id).join(reached, columns.source_requirement_id == reached.c.id)
    reached = reached.union(further.where(of_type))  # not union_all: it ends where it has been
    return start == end or await connection.scalar(select(reached.c.id).where(reached.c.id == end).limit(1)) is not None

"""Writes entities, their relationships, projects and users.

Each function takes a connection of `Database.writing` and runs in its transaction. So do the changes of reference IDs
and of the search index. SQLAlchemy raises IntegrityError if a value violates a constraint.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from secrets import randbits
from threading import Lock
from typing import Any

from sqlalchemy import (
    ARRAY,
    Connection,
    Table,
    Text,
    TextClause,
    bindparam,
    column,
    insert,
    select,
    table,
    text,
    update,
)
from sqlalchemy.types import TypeEngine

from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.core.tracing import count_call
from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.model import DEFAULT_PROJECT_ID, LAST_NUMBER, RECORDS, Kind, format_reference
from quilt_mcp.requirements.search_text import GAP, IndexedText, compile_tsvector, select_tokens
from quilt_mcp.requirements.tables import LETTERS, Id, Time, Values


def make_facet(column: str, value: object) -> str:
    """Return the facet of an entity with this value: a letter, then letters and digits in lower case."""
    return LETTERS[column] + str(value).replace("-", "").replace(" ", "").lower()


def make_facets(row: Mapping[str, object]) -> list[str]:
    return [make_facet(column, row[column]) for column in LETTERS if row.get(column) is not None]


_entries = table("search_entries", column("entity_id", Id), column("kind", Text), column("reference_id", Text))
_WRITE_ENTRY = """
    INSERT INTO search_entries (kind, entity_id, project_id, reference_id, updated_at{columns})
    VALUES (:kind, :entity_id, :project_id, :reference_id, :updated_at{values})
    ON CONFLICT (entity_id) DO UPDATE SET project_id = excluded.project_id, reference_id = excluded.reference_id,
        updated_at = excluded.updated_at{changes}
"""
_FIND_ENTRIES = text("SELECT entity_id, id FROM search_entries WHERE entity_id IN (SELECT value FROM json_each(:ids))")
# with VALUES: for each statement that selects its rows, FTS5 writes all that it has buffered, which takes five times as
# long
_WRITE_WORDS = text(
    "INSERT OR REPLACE INTO search_words (rowid, title, body, facets) VALUES (:id, :title, :body, :facets)"
)


def index_entities(connection: Connection, kind: Kind, rows: Iterable[Values]) -> None:
    """Add entities of a kind to the index, or update them. Call it in the transaction that writes them.

    Triggers handle deleted entities.
    """
    listed = list(rows)
    if not listed:
        return
    if connection.dialect.name == "sqlite":
        _write_sqlite(connection, kind, listed)
    else:
        count_call("sql")
        connection.execute(_POSTGRESQL_WRITE, [_make_postgresql_row(kind, row) for row in listed])


def find_entries(connection: Connection, ids: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return the ID, kind and reference ID of the entities with these IDs, of all kinds."""
    columns = _entries.c
    count_call("sql")
    found = connection.execute(
        select(columns.entity_id, columns.kind, columns.reference_id).where(columns.entity_id.in_(list(ids)))
    )
    return [(row.entity_id, row.kind, row.reference_id) for row in found]


def _write_sqlite(connection: Connection, kind: Kind, rows: Sequence[Values]) -> None:
    ids = [row["id"].replace("-", "") for row in rows]
    count_call("sql")
    connection.execute(_SQLITE_WRITE, [_make_entry(kind, row) for row in rows])
    count_call("sql")
    found = connection.execute(_FIND_ENTRIES, {"ids": json.dumps(ids)})
    numbers: dict[str, int] = {row.entity_id: row.id for row in found}
    words = [{"id": numbers[one], **_make_words(row)} for one, row in zip(ids, rows, strict=True)]
    count_call("sql")
    connection.execute(_WRITE_WORDS, words)


def _make_words(row: Values) -> Values:
    words = _select_words(row)
    facets = " ".join(f"{GAP}{one}" for one in make_facets(row))
    return {"title": " ".join(words.title), "body": " ".join(words.body), "facets": facets}


def _make_postgresql_row(kind: Kind, row: Values) -> Values:
    return {**_make_entry(kind, row), "words": compile_tsvector(_select_words(row)), "facets": make_facets(row)}


def _select_words(row: Values) -> IndexedText:
    return select_tokens(row.get("title") or "", row["description"] or "")


def _make_entry(kind: Kind, row: Values) -> Values:
    copied = {name: row[name] for name in ("project_id", "reference_id", "updated_at")}
    return {"kind": kind.name, "entity_id": row["id"], **copied}


def _prepare(statement: str, **types: TypeEngine[Any]) -> TextClause:
    return text(statement).bindparams(*(bindparam(name, type_=type_) for name, type_ in types.items()))


_ENTRY_TYPES: dict[str, TypeEngine[Any]] = {"entity_id": Id, "project_id": Id, "updated_at": Time()}
_SQLITE_WRITE = _prepare(_WRITE_ENTRY.format(columns="", values="", changes=""), **_ENTRY_TYPES)
_POSTGRESQL_WRITE = _prepare(
    _WRITE_ENTRY.format(
        columns=", words, facets",
        values=", CAST(:words AS tsvector), :facets",
        changes=", words = excluded.words, facets = excluded.facets",
    ),
    facets=ARRAY(Text),
    **_ENTRY_TYPES,
)


_BATCH = 1000
_INDEXED = {"reference_id", "title", "description"}
_VERSION_7, _VARIANT, _LOW_BITS = 7 << 76, 2 << 62, (1 << 62) - 1
_RANDOM_BITS = 74
_ALL_RANDOM, _STEP = (1 << _RANDOM_BITS) - 1, (1 << 32) - 1


class IdNumbers:
    """Makes the milliseconds and the random bits of IDs as one number of 122 bits, always a larger one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0

    def make(self) -> int:
        random = randbits(_RANDOM_BITS - 1)  # a bit less than there is room for, so that counting up does not end it
        with self._lock:
            now = time.time_ns() // 1_000_000 << _RANDOM_BITS | random
            # not the next number: a process that was forked would make the same one
            self._last = max(now, self._last + 1 + (random & _STEP))
            return self._last


_numbers = IdNumbers()


def new_id() -> str:
    """Return a new UUID of version 7 (RFC 9562). Those of one process sort in their order, so new rows come last."""
    made = _numbers.make()
    random = made & _ALL_RANDOM
    number = made >> _RANDOM_BITS << 80 | _VERSION_7 | random >> 62 << 64 | _VARIANT | random & _LOW_BITS
    digits = f"{number:032x}"  # an import makes millions, and uuid.UUID takes three times as long
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def make_times() -> Values:
    return dict.fromkeys(model.TIMES, datetime.now(UTC))


def create_entities(connection: Connection, kind: Kind, rows: Iterable[Mapping[str, object]]) -> list[Values]:
    """Create entities of a kind. Return them with all their columns.

    Args:
        connection: see above.
        kind: the kind of all of them.
        rows: values by column. Required are the parent, the author (creator_id or author_id), the text (title or
            description) and type_id. By default the project is the parent's and the assignee is the creator.
    """
    complete = [_fill_defaults(kind, row) for row in rows]
    if not complete:
        return []
    _set_projects(connection, kind, complete)
    _set_references(connection, kind, complete)
    connection.execute(insert(tables.BY_KIND[kind.name]), complete)
    index_entities(connection, kind, complete)
    return complete


def update_entities(connection: Connection, kind: Kind, changed: Iterable[tuple[Values, Values]]) -> None:
    """Write new values, each with the row as it was, and which fields of it change."""
    rows = [
        (row | values, values | _name_changed(kind, row, values)) for row, values in map(_move_with_number, changed)
    ]
    moved = [(row, values) for row, values in rows if kind.parent_column in values]
    _set_projects(connection, kind, [row for row, _ in moved])
    for row, values in moved:
        values["project_id"] = row["project_id"]
    if renamed := [row for row, values in rows if "reference_id" in values]:
        _set_references(connection, kind, renamed)
    update_rows(connection, tables.BY_KIND[kind.name], rows)
    index_entities(connection, kind, [row for row, values in rows if not _INDEXED.isdisjoint(values)])


def _move_with_number(changed: tuple[Values, Values]) -> tuple[Values, Values]:
    """Let an entity that no document places follow its new number."""
    row, values = changed
    if "reference_id" in values and row[model.POSITION] == model.read_number(row["reference_id"]):
        values.setdefault(model.POSITION, float(model.read_number(values["reference_id"])))
    return row, values


def _name_changed(kind: Kind, row: Values, values: Values) -> Values:
    """Return the names of the fields that change. The new time is only a consequence, unless nothing else changes."""
    differing = [name for name in sorted(RECORDS[kind.name].fields) if values.get(name, row[name]) != row[name]]
    others = [name for name in differing if name != "updated_at"]
    return {model.CHANGED: " ".join(others or differing) or None}


def update_rows(connection: Connection, table: Table, changed: Iterable[tuple[Values, Values]]) -> None:
    """Write new values, each with the row as it was, together for rows of which the same columns change."""
    groups: dict[tuple[str, ...], list[Values]] = defaultdict(list)
    for row, values in changed:
        groups[tuple(sorted(values))].append({"row": row["id"]} | {f"new_{name}": values[name] for name in values})
    for names, group in groups.items():
        new: Values = {name: bindparam(f"new_{name}") for name in names}  # SQLAlchemy reserves the bare names here
        connection.execute(update(table).where(table.c.id == bindparam("row")).values(new), group)


def _fill_defaults(kind: Kind, row: Mapping[str, object]) -> Values:
    """Return the row with a value for each column except the reference ID."""
    record = RECORDS[kind.name]
    defaults: Values = {"id": row.get("id") or new_id(), "project_id": DEFAULT_PROJECT_ID, **make_times()}
    defaults |= dict.fromkeys(record.optional)
    if kind.statuses:
        defaults |= {name: record.default(name) for name in ("priority", "status")}
        defaults["assignee_id"] = row.get("creator_id")
    return defaults | {column: value for column, value in row.items() if value is not None}


def _set_projects(connection: Connection, kind: Kind, rows: list[Values]) -> None:
    """Set the project of each row to its parent's."""
    if kind.parent is None:
        return
    table, column = tables.BY_KIND[kind.parent], str(kind.parent_column)
    projects: dict[str, str] = {}
    wanted = sorted({row[column] for row in rows})
    for start in range(0, len(wanted), _BATCH):
        of_parents = table.c.id.in_(wanted[start : start + _BATCH])
        found = connection.execute(select(table.c.id, table.c.project_id).where(of_parents))
        projects |= dict(found.all())
    for row in rows:
        row["project_id"] = projects[row[column]]


def raise_counter(connection: Connection, kind: Kind, number: int) -> None:
    """Let the reference IDs of new entities follow this number, unless they already follow a higher one."""
    counters = tables.reference_counters
    lower = update(counters).where(counters.c.prefix == kind.prefix, counters.c.last_number < number)
    connection.execute(lower.values(last_number=number))


def _set_references(connection: Connection, kind: Kind, rows: list[Values]) -> None:
    """Set the missing reference IDs. Raise the counter to the highest given number first."""
    unnumbered = [row for row in rows if not row.get("reference_id")]
    given = [model.read_number(row["reference_id"]) for row in rows if row.get("reference_id")]
    if given:
        raise_counter(connection, kind, max(given))
    if unnumbered:
        first = take_numbers(connection, kind, len(unnumbered))
        for number, row in enumerate(unnumbered, first):
            row["reference_id"] = format_reference(kind, number)
    for row in rows:
        row.setdefault(model.POSITION, float(model.read_number(row["reference_id"])))


def take_numbers(connection: Connection, kind: Kind, count: int) -> int:
    """Raise the counter of a kind for some new entities. Return the number of the first of them."""
    counters = tables.reference_counters
    raised = update(counters).where(counters.c.prefix == kind.prefix)
    statement = raised.values(last_number=counters.c.last_number + count).returning(counters.c.last_number)
    last = connection.execute(statement).scalar_one()
    if last > LAST_NUMBER:
        follower, highest = (format_reference(kind, number) for number in (LAST_NUMBER + 1, LAST_NUMBER))
        raise ResourceExecutionError(
            f"The next reference ID would be {follower}, but the highest is {highest}.",
            suggested_actions=["Give the new records reference IDs that are not used."],
        )
    return int(last) - count + 1

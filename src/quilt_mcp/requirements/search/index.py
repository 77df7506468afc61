"""The index of a search: tokens of the words of each entity, and facets, which are what a search can be limited to.

A facet is a token such as `sdraft` for the status Draft. The index has them beside the words, so that a search reads
only entries that have both. Triggers change the facets of an entity with its columns.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Connection, Text, TextClause, bindparam, column, select, table, text
from sqlalchemy.types import TypeEngine

from quilt_mcp.core.tracing import count_call
from quilt_mcp.requirements.conditions import Scope, Selection
from quilt_mcp.requirements.search.text import GAP, compile_tsvector, select_tokens
from quilt_mcp.requirements.selecting import DEFAULT
from quilt_mcp.requirements.tables import Id, Time, Values

LETTERS = {"project_id": "p", "status": "s", "priority": "r", "assignee_id": "a", "type_id": "t"}
"""The first letter of the facet of each column."""


def make_facet(column: str, value: object) -> str:
    """Return the facet of an entity with this value: a letter, then letters and digits in lower case."""
    return LETTERS[column] + str(value).replace("-", "").replace(" ", "").lower()


def make_facets(row: Mapping[str, object]) -> list[str]:
    """Return the facets of an entity, from its columns."""
    return [make_facet(column, row[column]) for column in LETTERS if row.get(column) is not None]


UNFILTERED = Selection()


@dataclass(frozen=True, slots=True)
class Limits:
    """The filters of a search, apart from the words.

    Attributes:
        scope: the projects in which the search looks.
        facets: an entity needs one facet of each of these lists.
        updated_since: the earliest time of the last change; None does not limit.
    """

    scope: Scope
    facets: Sequence[Sequence[str]] = ()
    updated_since: datetime | None = None


def make_limits(
    scope: Scope, selection: Selection = UNFILTERED, *, most_projects: int = DEFAULT.most_projects
) -> Limits | None:
    """Return the limits of a search by a caller; None if no entity is within them.

    Args:
        scope: what the caller may see.
        selection: the filters. Its projects are in the scope.
        most_projects: as in `Thresholds`.
    """
    if selection.project_ids:
        scope = Scope(scope.caller, selection.project_ids)
    wanted: list[tuple[str, Iterable[object]]] = [
        ("status", selection.status),
        ("priority", selection.priority),
        ("assignee_id", selection.assignee_ids),
        ("type_id", selection.type_ids),
    ]
    if scope.projects and len(scope.projects) <= most_projects:
        wanted.append(("project_id", scope.projects))
    if (selection.includes_unassigned and not selection.assignee_ids) or scope.projects == ():
        return None  # every entity with a status has an assignee
    facets = [[make_facet(column, value) for value in values] for column, values in wanted if values]
    return Limits(scope, facets, selection.updated_since)


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


@dataclass(frozen=True, slots=True)
class Entry:
    """The indexed values of an entity.

    Attributes:
        kind: the name of its kind, such as "user_story".
        entity_id: a UUID as text, like project_id.
        title: empty for an entity without a title.
        body: its description.
        updated_at: the time of its last change.
        facets: those of the entity.
    """

    kind: str
    entity_id: str
    project_id: str
    reference_id: str
    title: str
    body: str
    updated_at: datetime
    facets: Sequence[str]


def index_entries(connection: Connection, entries: Iterable[Entry]) -> None:
    """Add entities to the index, or update them. Call it in the transaction that writes them.

    Triggers handle deleted entities.
    """
    listed = list(entries)
    if not listed:
        return
    if connection.dialect.name == "sqlite":
        _write_sqlite(connection, listed)
    else:
        count_call("sql")
        connection.execute(_POSTGRESQL_WRITE, [_make_postgresql_row(entry) for entry in listed])


def find_entries(connection: Connection, ids: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return the ID, kind and reference ID of the entities with these IDs, of all kinds."""
    columns = _entries.c
    count_call("sql")
    found = connection.execute(
        select(columns.entity_id, columns.kind, columns.reference_id).where(columns.entity_id.in_(list(ids)))
    )
    return [(row.entity_id, row.kind, row.reference_id) for row in found]


def _write_sqlite(connection: Connection, entries: Sequence[Entry]) -> None:
    ids = [entry.entity_id.replace("-", "") for entry in entries]
    count_call("sql")
    connection.execute(_SQLITE_WRITE, [_make_columns(entry) for entry in entries])
    count_call("sql")
    found = connection.execute(_FIND_ENTRIES, {"ids": json.dumps(ids)})
    numbers: dict[str, int] = {row.entity_id: row.id for row in found}
    words = zip(ids, entries, strict=True)
    count_call("sql")
    connection.execute(_WRITE_WORDS, [{"id": numbers[one], **_make_words(entry)} for one, entry in words])


def _make_words(entry: Entry) -> Values:
    words = select_tokens(entry.title, entry.body)
    return {
        "title": " ".join(words.title),
        "body": " ".join(words.body),
        "facets": " ".join(f"{GAP}{one}" for one in entry.facets),
    }


def _make_postgresql_row(entry: Entry) -> Values:
    words = compile_tsvector(select_tokens(entry.title, entry.body))
    return {**_make_columns(entry), "words": words, "facets": list(entry.facets)}


def _make_columns(entry: Entry) -> Values:
    return {
        "kind": entry.kind,
        "entity_id": entry.entity_id,
        "project_id": entry.project_id,
        "reference_id": entry.reference_id,
        "updated_at": entry.updated_at,
    }


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

"""The index of the search: one entry for each entity of all kinds, in its own table.

PostgreSQL keeps the words of an entry in a column, SQLite in an FTS5 table beside it. The entities' writer puts the
words in, in the transaction that writes the entity; triggers remove an entry with its entity, and move it with its
entity to another project, also where a foreign key cascades.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, TextClause, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements.kinds import KINDS
from quilt_mcp.requirements.search_compile import indexed_text, tsvector
from quilt_mcp.requirements.tables import Id
from quilt_mcp.trace import count_call

_SQLITE = (
    """
    CREATE TABLE search_entries (
        id INTEGER PRIMARY KEY,
        kind VARCHAR(20) NOT NULL,
        entity_id CHAR(32) NOT NULL UNIQUE,
        project_id CHAR(32) NOT NULL,
        reference_id VARCHAR(20) NOT NULL UNIQUE
    )
    """,
    # The tokenizer `ascii` takes every character beyond ASCII for part of a word: what separates words is decided in
    # search_text.py alone, and not by the version of Unicode that SQLite knows.
    "CREATE VIRTUAL TABLE search_words USING fts5(title, body, tokenize = 'ascii', prefix = '1 2')",
    """
    CREATE TRIGGER search_entries_deleted AFTER DELETE ON search_entries BEGIN
        DELETE FROM search_words WHERE rowid = old.id;
    END
    """,
)
_SQLITE_TRIGGERS = (
    """
    CREATE TRIGGER {table}_unindexed AFTER DELETE ON {table} BEGIN
        DELETE FROM search_entries WHERE entity_id = old.id;
    END
    """,
    """
    CREATE TRIGGER {table}_moved AFTER UPDATE OF project_id ON {table} BEGIN
        UPDATE search_entries SET project_id = new.project_id WHERE entity_id = new.id;
    END
    """,
)
_POSTGRESQL = (
    """
    CREATE TABLE search_entries (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        kind VARCHAR(20) NOT NULL,
        entity_id UUID NOT NULL UNIQUE,
        project_id UUID NOT NULL,
        reference_id VARCHAR(20) COLLATE "C" NOT NULL UNIQUE,
        words TSVECTOR NOT NULL
    )
    """,
    "CREATE INDEX ix_search_entries_words ON search_entries USING gin (words)",
    "CREATE INDEX ix_search_entries_project_id ON search_entries (project_id, id)",
    """
    CREATE FUNCTION search_entry_unindexed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        DELETE FROM search_entries WHERE entity_id = OLD.id;
        RETURN NULL;
    END $$
    """,
    """
    CREATE FUNCTION search_entry_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE search_entries SET project_id = NEW.project_id WHERE entity_id = NEW.id;
        RETURN NULL;
    END $$
    """,
)
_POSTGRESQL_TRIGGERS = (
    """
    CREATE TRIGGER {table}_unindexed AFTER DELETE ON {table}
        FOR EACH ROW EXECUTE FUNCTION search_entry_unindexed()
    """,
    """
    CREATE TRIGGER {table}_moved AFTER UPDATE OF project_id ON {table}
        FOR EACH ROW WHEN (OLD.project_id <> NEW.project_id) EXECUTE FUNCTION search_entry_moved()
    """,
)

_PUT = """
    INSERT INTO search_entries (kind, entity_id, project_id, reference_id{column})
    VALUES (:kind, :entity_id, :project_id, :reference_id{value})
    ON CONFLICT (entity_id) DO UPDATE SET project_id = excluded.project_id, reference_id = excluded.reference_id{change}
"""
_PUT_WORDS = """
    INSERT OR REPLACE INTO search_words (rowid, title, body)
    SELECT id, :title, :body FROM search_entries WHERE entity_id = :entity_id
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the search has to know of an entity.

    Attributes:
        kind: the name of its kind, such as "user_story".
        entity_id: a UUID as text, as is project_id.
        title: as it is; empty for an entity without a title.
        body: as it is: its description.
    """

    kind: str
    entity_id: str
    project_id: str
    reference_id: str
    title: str
    body: str


def create_search_index(connection: Connection) -> None:
    """Make the index, without entries; the tables of the entities must be there."""
    _run(connection, *(_SQLITE if _is_sqlite(connection) else _POSTGRESQL))
    for statement in _SQLITE_TRIGGERS if _is_sqlite(connection) else _POSTGRESQL_TRIGGERS:
        _run(connection, *(statement.format(table=kind.table) for kind in KINDS))


def drop_search_index(connection: Connection) -> None:
    """Remove the index; the tables of the entities must still be there."""
    for event in ("unindexed", "moved"):
        on = "" if _is_sqlite(connection) else " ON {table}"
        _run(connection, *(f"DROP TRIGGER {kind.table}_{event}{on.format(table=kind.table)}" for kind in KINDS))
    _run(connection, "DROP TABLE search_entries")
    if _is_sqlite(connection):
        _run(connection, "DROP TABLE search_words")
    else:
        _run(connection, "DROP FUNCTION search_entry_unindexed()", "DROP FUNCTION search_entry_moved()")


async def index_entries(connection: AsyncConnection, entries: Iterable[Entry]) -> None:
    """Put these entities into the index, or their new texts; belongs into the transaction that writes them.

    Nothing has to be called for an entity that is deleted.
    """
    sqlite = connection.dialect.name == "sqlite"
    rows = [_sqlite_row(entry) if sqlite else _postgresql_row(entry) for entry in entries]
    for statement in _SQLITE_PUTS if sqlite and rows else _POSTGRESQL_PUTS if rows else ():
        count_call("sql")
        await connection.execute(statement, rows)


def _sqlite_row(entry: Entry) -> dict[str, str]:
    words = indexed_text(entry.title, entry.body)
    return _columns(entry) | {"title": " ".join(words.title), "body": " ".join(words.body)}


def _postgresql_row(entry: Entry) -> dict[str, str]:
    return _columns(entry) | {"words": tsvector(indexed_text(entry.title, entry.body))}


def _columns(entry: Entry) -> dict[str, str]:
    return {
        "kind": entry.kind,
        "entity_id": entry.entity_id,
        "project_id": entry.project_id,
        "reference_id": entry.reference_id,
    }


def _typed(statement: str, *ids: str) -> TextClause:
    return text(statement).bindparams(*(bindparam(name, type_=Id) for name in ids))


_SQLITE_PUTS = (
    _typed(_PUT.format(column="", value="", change=""), "entity_id", "project_id"),
    _typed(_PUT_WORDS, "entity_id"),
)
_POSTGRESQL_PUTS = (
    _typed(
        _PUT.format(column=", words", value=", CAST(:words AS tsvector)", change=", words = excluded.words"),
        "entity_id",
        "project_id",
    ),
)


def _is_sqlite(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)

"""Creates the tables, their indexes, the index of the search, and the rows that every database starts with.

Nothing is released yet, so a change of the schema changes this migration, which takes the tables from `tables.py`. The
first release copies them here: a later migration starts from what users have.
"""

import uuid
from datetime import UTC, datetime

from alembic.operations import Operations
from sqlalchemy import Connection

from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.writing import LETTERS

revision = "0001"
down_revision = None

TYPES_NAMESPACE = uuid.UUID("6f0b7a52-3c1d-5e8e-9d43-0a5b1f1c7e10")
DEFAULT_PROJECT = "00000000-0000-4000-8000-000000000001"
REQUIREMENT_TYPES = {
    "Functional": "What the system does.",
    "Non-Functional": "How well the system does it: speed, security, availability.",
    "Business Rule": "A business rule that the system must follow.",
    "Interface": "How people and other systems interact with the system.",
    "Data": "What data the system keeps, and in which form.",
}
RELATIONSHIP_TYPES = {
    "depends_on": "The target must be fulfilled before the source.",
    "blocks": "The target cannot be fulfilled until the source is.",
    "relates_to": "The two are related.",
    "conflicts_with": "The two cannot both be fulfilled.",
    "derives_from": "The source was derived from the target.",
}

SQLITE = (
    """
    CREATE TABLE search_entries (
        id INTEGER PRIMARY KEY,
        kind VARCHAR(20) NOT NULL,
        entity_id CHAR(32) NOT NULL UNIQUE,
        project_id CHAR(32) NOT NULL,
        reference_id VARCHAR(20) NOT NULL UNIQUE,
        updated_at DATETIME
    )
    """,
    # The tokenizer `ascii` treats every character beyond ASCII as part of a word. So only search_text.py determines
    # what separates words, not the Unicode version of SQLite.
    "CREATE VIRTUAL TABLE search_words USING fts5(title, body, facets, tokenize = 'ascii', prefix = '1 2')",
    """
    CREATE TRIGGER search_entries_deleted AFTER DELETE ON search_entries BEGIN
        DELETE FROM search_words WHERE rowid = old.id;
    END
    """,
)
SQLITE_OF_KIND = (
    """
    CREATE TRIGGER {table}_unindexed AFTER DELETE ON {table} BEGIN
        DELETE FROM search_entries WHERE entity_id = old.id;
    END
    """,
    """
    CREATE TRIGGER {table}_changed AFTER UPDATE OF {columns}, updated_at ON {table} BEGIN
        UPDATE search_entries SET project_id = new.project_id, updated_at = new.updated_at WHERE entity_id = new.id;
        UPDATE search_words SET facets = {facets}
        WHERE rowid = (SELECT id FROM search_entries WHERE entity_id = new.id) AND facets <> {facets};
    END
    """,
)
POSTGRESQL = (
    """
    CREATE TABLE search_entries (
        id BIGINT GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_search_entries PRIMARY KEY,
        kind VARCHAR(20) NOT NULL,
        entity_id UUID NOT NULL CONSTRAINT uq_search_entries_entity_id UNIQUE,
        project_id UUID NOT NULL,
        reference_id VARCHAR(20) COLLATE "C" NOT NULL CONSTRAINT uq_search_entries_reference_id UNIQUE,
        words TSVECTOR NOT NULL,
        facets TEXT[] NOT NULL,
        updated_at TIMESTAMPTZ NOT NULL
    )
    """,
    "CREATE INDEX ix_search_entries_words_facets ON search_entries USING gin (words, facets)",
    """
    CREATE INDEX ix_search_entries_title_words_facets ON search_entries USING gin (ts_filter(words, '{a}'), facets)
    """,
    "CREATE INDEX ix_search_entries_project_id_id ON search_entries (project_id, id)",
    "CREATE INDEX ix_search_entries_updated_at ON search_entries (updated_at)",
    """
    CREATE FUNCTION search_entry_unindexed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        DELETE FROM search_entries WHERE entity_id = OLD.id;
        RETURN NULL;
    END $$
    """,
)
POSTGRESQL_OF_KIND = (
    """
    CREATE TRIGGER {table}_unindexed AFTER DELETE ON {table}
        FOR EACH ROW EXECUTE FUNCTION search_entry_unindexed()
    """,
    """
    CREATE FUNCTION {table}_search_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE search_entries SET project_id = NEW.project_id, updated_at = NEW.updated_at, facets = {facets}
        WHERE entity_id = NEW.id;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER {table}_changed AFTER UPDATE OF {columns}, updated_at ON {table}
        FOR EACH ROW EXECUTE FUNCTION {table}_search_changed()
    """,
)
NUMBER = "CREATE INDEX ix_{table}_by_number ON {table} (length(reference_id), reference_id, id{rest})"
TITLE = "CREATE INDEX ix_{table}_by_title ON {table} (substr(title, 1, 60){collation}, id, status, priority)"


def upgrade(op: Operations) -> None:
    """Create everything."""
    connection = op.get_bind()
    is_sqlite = connection.dialect.name == "sqlite"
    tables.metadata.create_all(connection)
    for table, rows in _first_rows(connection.dialect.name).items():
        connection.execute(tables.metadata.tables[table].insert(), rows)
    _run(connection, *(SQLITE if is_sqlite else POSTGRESQL))
    for kind in model.KINDS:
        table, columns = kind.table, [one for one in LETTERS if one in tables.BY_KIND[kind.name].c]
        facets = _sqlite_facets(columns) if is_sqlite else _postgresql_facets(columns)
        for statement in SQLITE_OF_KIND if is_sqlite else POSTGRESQL_OF_KIND:
            _run(connection, statement.format(table=table, columns=", ".join(columns), facets=facets))
        _run(connection, NUMBER.format(table=table, rest=", status, priority" if kind.statuses else ""))
        if kind.statuses:
            _run(connection, TITLE.format(table=table, collation="" if is_sqlite else ' COLLATE "C"'))


def _first_rows(dialect: str) -> dict[str, list[dict[str, object]]]:
    now = datetime.now(UTC)
    if dialect == "sqlite":  # which stores no time zones
        now = now.replace(tzinfo=None)
    times: dict[str, object] = {"created_at": now, "updated_at": now}
    project = {
        "id": DEFAULT_PROJECT,
        "name": "Default",
        "description": "The project of everything that has no other project.",
    }
    rows: dict[str, list[dict[str, object]]] = {
        "reference_counters": [{"prefix": prefix, "last_number": 0} for prefix in ("EP", "US", "AC", "REQ")],
        "generation": [{"number": 0}],
        "projects": [{**project, **times}],
    }
    for table, types in (("requirement_types", REQUIREMENT_TYPES), ("relationship_types", RELATIONSHIP_TYPES)):
        rows[table] = [
            {"id": str(uuid.uuid5(TYPES_NAMESPACE, f"{table}/{name}")), "name": name, "description": text, **times}
            for name, text in types.items()
        ]
    return rows


def _sqlite_facets(columns: list[str]) -> str:
    """Return the SQL of the facets of a new row: each starts with an ellipsis, which no term of a query can contain."""
    return " || ' ' || ".join(f"'…{LETTERS[one]}' || replace(lower(new.{one}), ' ', '')" for one in columns)


def _postgresql_facets(columns: list[str]) -> str:
    facets = [f"'{LETTERS[one]}' || translate(lower(NEW.{one}::text), '- ', '')" for one in columns]
    return f"ARRAY[{', '.join(facets)}]"


def _run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)

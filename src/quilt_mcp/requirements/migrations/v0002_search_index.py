"""Creates the index of the search. `migrating.upgrade` fills it if entities exist."""

from alembic.operations import Operations
from sqlalchemy import Connection

revision = "0002"
down_revision = "0001"

TABLES = ("epics", "user_stories", "acceptance_criteria", "requirements")
SQLITE = (
    """
    CREATE TABLE search_entries (
        id INTEGER PRIMARY KEY,
        kind VARCHAR(20) NOT NULL,
        entity_id CHAR(32) NOT NULL UNIQUE,
        project_id CHAR(32) NOT NULL,
        reference_id VARCHAR(20) NOT NULL UNIQUE
    )
    """,
    # The tokenizer `ascii` treats every character beyond ASCII as part of a word. So only search/text.py determines
    # what separates words, not the Unicode version of SQLite.
    "CREATE VIRTUAL TABLE search_words USING fts5(title, body, tokenize = 'ascii', prefix = '1 2')",
    """
    CREATE TRIGGER search_entries_deleted AFTER DELETE ON search_entries BEGIN
        DELETE FROM search_words WHERE rowid = old.id;
    END
    """,
)
SQLITE_TRIGGERS = (
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
POSTGRESQL = (
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
POSTGRESQL_TRIGGERS = (
    """
    CREATE TRIGGER {table}_unindexed AFTER DELETE ON {table}
        FOR EACH ROW EXECUTE FUNCTION search_entry_unindexed()
    """,
    """
    CREATE TRIGGER {table}_moved AFTER UPDATE OF project_id ON {table}
        FOR EACH ROW WHEN (OLD.project_id <> NEW.project_id) EXECUTE FUNCTION search_entry_moved()
    """,
)


def upgrade(op: Operations) -> None:
    """Create the index."""
    connection = op.get_bind()
    _run(connection, *(SQLITE if _is_sqlite(connection) else POSTGRESQL))
    for statement in SQLITE_TRIGGERS if _is_sqlite(connection) else POSTGRESQL_TRIGGERS:
        _run(connection, *(statement.format(table=table) for table in TABLES))


def downgrade(op: Operations) -> None:
    """Remove the index."""
    connection = op.get_bind()
    for event in ("unindexed", "moved"):
        on = "" if _is_sqlite(connection) else " ON {table}"
        _run(connection, *(f"DROP TRIGGER {table}_{event}{on.format(table=table)}" for table in TABLES))
    _run(connection, "DROP TABLE search_entries")
    if _is_sqlite(connection):
        _run(connection, "DROP TABLE search_words")
    else:
        _run(connection, "DROP FUNCTION search_entry_unindexed()", "DROP FUNCTION search_entry_moved()")


def _is_sqlite(connection: Connection) -> bool:
    return connection.dialect.name == "sqlite"


def _run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)

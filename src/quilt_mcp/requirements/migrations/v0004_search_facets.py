"""Adds facets and the time of the last change to the search index, and PostgreSQL's index of the words in titles.

The words are copied, not computed again. SQLite copies them into a new FTS5 table, because FTS5 cannot add columns;
PostgreSQL copies the entries into a new table, because changing each of them would double the size of the old one.
Like all migrations it is one transaction: if it is interrupted, the old index is as it was.
"""

from alembic.operations import Operations
from sqlalchemy import Connection

revision = "0004"
down_revision = "0003"

TABLES = {
    "epic": "epics",
    "user_story": "user_stories",
    "acceptance_criteria": "acceptance_criteria",
    "requirement": "requirements",
}
LETTERS = {"project_id": "p", "status": "s", "priority": "r", "assignee_id": "a", "type_id": "t"}
SQLITE_WORDS = "CREATE VIRTUAL TABLE search_words USING fts5({columns}, tokenize = 'ascii', prefix = '1 2')"
SQLITE_DELETED = """
    CREATE TRIGGER search_entries_deleted AFTER DELETE ON search_entries BEGIN
        DELETE FROM search_words WHERE rowid = old.id;
    END
"""
SQLITE_MOVED = """
    CREATE TRIGGER {table}_moved AFTER UPDATE OF project_id ON {table} BEGIN
        UPDATE search_entries SET project_id = new.project_id WHERE entity_id = new.id;
    END
"""
SQLITE_CHANGED = """
    CREATE TRIGGER {table}_changed AFTER UPDATE OF {columns} ON {table} BEGIN
        UPDATE search_entries SET project_id = new.project_id, updated_at = new.updated_at WHERE entity_id = new.id;
        UPDATE search_words SET facets = {facets}
        WHERE rowid = (SELECT id FROM search_entries WHERE entity_id = new.id) AND facets <> {facets};
    END
"""
POSTGRESQL_ENTRIES = """
    CREATE TABLE search_entries_new (
        id BIGINT GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_search_entries PRIMARY KEY,
        kind VARCHAR(20) NOT NULL,
        entity_id UUID NOT NULL CONSTRAINT uq_search_entries_entity_id UNIQUE,
        project_id UUID NOT NULL,
        reference_id VARCHAR(20) COLLATE "C" NOT NULL CONSTRAINT uq_search_entries_reference_id UNIQUE,
        words TSVECTOR NOT NULL,
        facets TEXT[] NOT NULL,
        updated_at TIMESTAMPTZ NOT NULL
    )
"""
POSTGRESQL_INDEXES = (
    "CREATE INDEX ix_search_entries_words_facets ON search_entries_new USING gin (words, facets)",
    """
    CREATE INDEX ix_search_entries_title_words_facets ON search_entries_new
        USING gin (ts_filter(words, '{a}'), facets)
    """,
    "CREATE INDEX ix_search_entries_project_id_id ON search_entries_new (project_id, id)",
    "CREATE INDEX ix_search_entries_updated_at ON search_entries_new (updated_at)",
)
POSTGRESQL_CHANGED = (
    """
    CREATE FUNCTION {table}_search_changed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE search_entries SET project_id = NEW.project_id, updated_at = NEW.updated_at, facets = {facets}
        WHERE entity_id = NEW.id;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER {table}_changed AFTER UPDATE OF {columns} ON {table}
        FOR EACH ROW EXECUTE FUNCTION {table}_search_changed()
    """,
)
POSTGRESQL_MOVED = (
    """
    CREATE FUNCTION search_entry_moved() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE search_entries SET project_id = NEW.project_id WHERE entity_id = NEW.id;
        RETURN NULL;
    END $$
    """,
    *(
        f"""
        CREATE TRIGGER {table}_moved AFTER UPDATE OF project_id ON {table}
            FOR EACH ROW WHEN (OLD.project_id <> NEW.project_id) EXECUTE FUNCTION search_entry_moved()
        """
        for table in TABLES.values()
    ),
)


def upgrade(op: Operations) -> None:
    """Add the facets."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _upgrade_sqlite(connection)
    else:
        _upgrade_postgresql(connection)


def downgrade(op: Operations) -> None:
    """Remove the facets."""
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        _downgrade_sqlite(connection)
    else:
        _downgrade_postgresql(connection)


def _upgrade_sqlite(connection: Connection) -> None:
    _run(connection, *(f"DROP TRIGGER {table}_moved" for table in TABLES.values()))
    _run(connection, "ALTER TABLE search_entries ADD COLUMN updated_at DATETIME")
    for kind, table in TABLES.items():
        found = f"SELECT updated_at FROM {table} WHERE id = entity_id"  # noqa: S608 - constants
        _run(connection, f"UPDATE search_entries SET updated_at = ({found}) WHERE kind = '{kind}'")  # noqa: S608 - constants only
    _replace_sqlite_words(
        connection,
        "title, body, facets",
        *(
            f"SELECT words.rowid, words.title, words.body, {_sqlite_facets(table, 'one')}"  # noqa: S608 - constants
            " FROM search_entries AS entries CROSS JOIN search_words AS words ON words.rowid = entries.id"
            f" CROSS JOIN {table} AS one ON one.id = entries.entity_id"
            f" WHERE entries.kind = '{kind}' ORDER BY entries.id"
            for kind, table in TABLES.items()
        ),
    )
    for table in TABLES.values():
        facets = _sqlite_facets(table, "new")
        _run(connection, SQLITE_CHANGED.format(table=table, columns=_columns(table, "updated_at"), facets=facets))


def _downgrade_sqlite(connection: Connection) -> None:
    _run(connection, *(f"DROP TRIGGER {table}_changed" for table in TABLES.values()))
    _replace_sqlite_words(connection, "title, body", "SELECT rowid, title, body FROM search_words ORDER BY rowid")
    _run(connection, "ALTER TABLE search_entries DROP COLUMN updated_at")
    _run(connection, *(SQLITE_MOVED.format(table=table) for table in TABLES.values()))


def _replace_sqlite_words(connection: Connection, columns: str, *selects: str) -> None:
    """Replace the FTS5 table by one with other columns, and the rows of these selects."""
    _run(
        connection,
        "DROP TRIGGER search_entries_deleted",
        SQLITE_WORDS.format(columns=columns).replace("search_words", "search_words_new"),
        *(f"INSERT INTO search_words_new (rowid, {columns}) {one}" for one in selects),
        "DROP TABLE search_words",
        "ALTER TABLE search_words_new RENAME TO search_words",
        SQLITE_DELETED,
    )


def _upgrade_postgresql(connection: Connection) -> None:
    _run(
        connection,
        "LOCK TABLE generation IN EXCLUSIVE MODE",  # writers wait, before they change anything; readers do not
        POSTGRESQL_ENTRIES,
    )
    for table in TABLES.values():
        columns = "kind, entity_id, project_id, reference_id, words"
        _run(
            connection,
            f"INSERT INTO search_entries_new (id, {columns}, facets, updated_at) OVERRIDING SYSTEM VALUE"  # noqa: S608 - constants only
            f" SELECT old.id, old.{columns.replace(', ', ', old.')}, {_postgresql_facets(table, 'one')}, one.updated_at"
            f" FROM search_entries AS old JOIN {table} AS one ON one.id = old.entity_id ORDER BY old.id",
        )
    _run(
        connection,
        "SELECT setval(pg_get_serial_sequence('search_entries_new', 'id'), max(id)) FROM search_entries_new",
        *POSTGRESQL_INDEXES,
        "ANALYZE search_entries_new",  # without it, the first searches would have bad plans
        # from here on, readers wait, for a moment
        *(f"DROP TRIGGER {table}_moved ON {table}" for table in TABLES.values()),
        "DROP FUNCTION search_entry_moved()",
        "DROP TABLE search_entries",
        "ALTER TABLE search_entries_new RENAME TO search_entries",
    )
    for table in TABLES.values():
        facets, columns = _postgresql_facets(table, "NEW"), _columns(table, "updated_at")
        _run(connection, *(one.format(table=table, columns=columns, facets=facets) for one in POSTGRESQL_CHANGED))


def _downgrade_postgresql(connection: Connection) -> None:
    for table in TABLES.values():
        _run(connection, f"DROP TRIGGER {table}_changed ON {table}", f"DROP FUNCTION {table}_search_changed()")
    _run(
        connection,
        "ALTER TABLE search_entries DROP COLUMN facets, DROP COLUMN updated_at",  # with the indexes that contain them
        "CREATE INDEX ix_search_entries_words ON search_entries USING gin (words)",
        "ALTER INDEX ix_search_entries_project_id_id RENAME TO ix_search_entries_project_id",
        "ALTER TABLE search_entries RENAME CONSTRAINT pk_search_entries TO search_entries_pkey",
        *(
            f"ALTER TABLE search_entries RENAME CONSTRAINT uq_search_entries_{column} TO search_entries_{column}_key"
            for column in ("entity_id", "reference_id")
        ),
        *POSTGRESQL_MOVED,
    )


def _columns(table: str, *more: str) -> str:
    """Return the columns of a table that facets are made of, and more."""
    lacking = {"epics": {"type_id"}, "user_stories": {"type_id"}, "acceptance_criteria": {*LETTERS} - {"project_id"}}
    return ", ".join([*(column for column in LETTERS if column not in lacking.get(table, ())), *more])


def _sqlite_facets(table: str, row: str) -> str:
    """Return the SQL of the facets of a row: each starts with an ellipsis, which no term of a query can contain."""
    values = {column: f"replace(lower({row}.{column}), ' ', '')" for column in _columns(table).split(", ")}
    return " || ' ' || ".join(f"'…{LETTERS[column]}' || {value}" for column, value in values.items())


def _postgresql_facets(table: str, row: str) -> str:
    """Return the SQL of the facets of a row."""
    values = {column: f"translate(lower({row}.{column}::text), '- ', '')" for column in _columns(table).split(", ")}
    facets = ", ".join(f"'{LETTERS[column]}' || {value}" for column, value in values.items())
    return f"ARRAY[{facets}]"


def _run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)

"""The tables, in one definition for SQLite and PostgreSQL, and what creates them with the index of the search.

IDs are UUIDs: text of 36 characters in Python, native in PostgreSQL and 32 hexadecimal digits in SQLite. All three have
the same order. Times are aware, in UTC. The tables of the entities are those of the earlier requirements system with a
column `project_id`, which determines who may see a row. Composite foreign keys keep it equal to the parent's
`project_id`, also when an epic moves to another project.

The search index, `search_entries`, differs between the two databases. `writing.py` writes it.
"""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from sqlalchemy import (
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Row,
    Select,
    SmallInteger,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
    inspect,
    text,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from quilt_mcp.requirements import model
from quilt_mcp.requirements.model import BY_NAME, FIELDS, PARENTS, RECORDS, Kind, RecordType

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
"""A row of a result. SQLAlchemy does not know the types of its columns."""
AnyColumn: TypeAlias = ColumnElement[Any]
Statement: TypeAlias = Select[*tuple[Any, ...]]
Values: TypeAlias = dict[str, Any]
"""The values of a row to write, by column."""

_HEX_DIGITS = 32

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class _Id(Uuid[str]):
    """A UUID. SQLite stores its 32 hexadecimal digits."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], str | None] | None:
        """Return the function that converts a stored value. SQLAlchemy's own takes four times as long in SQLite."""
        if dialect.name == "sqlite":
            return _format_uuid
        return super().result_processor(dialect, coltype)  # type: ignore[no-untyped-call, no-any-return]  # SQLAlchemy declares no types here


def _format_uuid(digits: str | None) -> str | None:
    if digits is None:
        return None
    checked = bytes.fromhex(digits).hex()
    if len(checked) != _HEX_DIGITS:
        raise ValueError("A stored ID is not a UUID.")
    return f"{checked[:8]}-{checked[8:12]}-{checked[12:16]}-{checked[16:20]}-{checked[20:]}"


Id = _Id(as_uuid=False)
# the collation C lets a search for a prefix use the index, in every locale of the database
Reference = String(20).with_variant(String(20, collation="C"), "postgresql")


class Time(TypeDecorator[datetime]):
    """An aware time in UTC. SQLite stores it without a time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        del dialect
        return value and value.astimezone(UTC)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None] | None:
        # as SQLAlchemy does for SQLite, in one function instead of three
        return _read_time if dialect.name == "sqlite" else super().result_processor(dialect, coltype)


def _read_time(stored: str | None) -> datetime | None:
    return None if stored is None else datetime.fromisoformat(stored).replace(tzinfo=UTC)


_TYPES: dict[str, TypeEngine[Any]] = {
    "id": Id,
    "link": Id,
    "reference": Reference,
    "name": String(100),
    "email": String(255),
    "choice": String(20),
    "priority": SmallInteger(),
    "title": String(model.TITLE_LENGTH),
    "description": Text(),
    "position": Double(),
    "time": Time(),
}
"""The type of a column by the form of its field."""
_ON_DELETE = {
    **dict.fromkeys((*model.MEMBER, "source_requirement_id", "target_requirement_id"), "CASCADE"),
    "acceptance_criteria_id": "SET NULL",
}
"""What happens to a row if the row that it refers to is deleted. If it is not here, that row cannot be deleted."""


def _make_column(record: RecordType, name: str) -> Column[Any]:
    """Return the column of a field. The parent of an entity has a composite foreign key, unless it is a project."""
    one, is_epic = FIELDS[name], record.kind == "epic"
    keys = []
    if one.link and (is_epic or name != PARENTS.get(record.kind)):
        on_delete = "RESTRICT" if is_epic else _ON_DELETE.get(name, "RESTRICT")
        keys = [ForeignKey(f"{one.link}.id", ondelete=on_delete)]
    return Column(
        name,
        String(50) if name == "status" else _TYPES[one.form],
        *keys,
        primary_key=name == "id" or (record.kind == "member" and name in model.MEMBER),
        nullable=name in record.optional,
        unique=one.form in {"reference", "name", "email"} or None,
        server_default=text("0") if name == model.POSITION else None,
    )


def _list_checks(record: RecordType) -> list[CheckConstraint]:
    needs_text = "title" not in record.fields
    allowed = {
        "priority": "priority BETWEEN 1 AND 4",
        "title": f"length(title) BETWEEN 1 AND {model.TITLE_LENGTH}",
        "description": f"length(description) {'BETWEEN 1 AND' if needs_text else '<='} {model.DESCRIPTION_LENGTH}",
    }
    choices = {name: f"{name} IN ({', '.join(map(repr, values))})" for name, values in record.choices.items()}
    checks = choices | (allowed if record.kind in BY_NAME else {})
    return [CheckConstraint(checks[name], name=name) for name in record.fields if name in checks]


_PLACE = (model.POSITION, "id")
"""The default order of entities."""


def _make_table(kind: str, *parts: SchemaItem) -> Table:
    record = RECORDS[kind]
    columns = [_make_column(record, name) for name in record.fields]
    if PARENTS.get(kind, "project_id") != "project_id":
        columns.insert(2, Column("project_id", Id, nullable=False))
    checks: list[SchemaItem] = [*_list_checks(record)]
    if kind in BY_NAME:
        # used for the pages of project members, and required by the composite foreign keys of the children
        checks.append(UniqueConstraint("project_id", "id"))
        columns.append(Column(model.CHANGED, Text()))  # names with spaces between them; NULL if they are not known
    return Table(record.table, metadata, *columns, *parts, *checks)


def _make_entity(kind: Kind, *parts: SchemaItem) -> Table:
    """Return the table of a kind of entity. Each row has its project, which is that of its parent."""
    key: list[SchemaItem] = []
    if kind.parent:
        columns = ["project_id", f"{kind.parent}_id"]
        parent = BY_NAME[kind.parent].table
        referred = [f"{parent}.project_id", f"{parent}.id"]
        key = [
            ForeignKeyConstraint(columns, referred, ondelete="CASCADE", onupdate="CASCADE"),
            Index(None, columns[1], "id"),
            Index(f"ix_{kind.table}_by_parent", columns[1], *_PLACE),
        ]
    return _make_table(kind.name, *key, *parts, *_indexes(kind))


def _indexes(kind: Kind) -> list[Index]:
    """Return the indexes of filters and orders. The migration has two more, of expressions."""
    rest = ("id", "status", "priority")
    columns: dict[str, tuple[str, ...]] = {
        "position": _PLACE,
        "project": ("project_id", *_PLACE),
        "created": ("created_at", "id"),
        "updated": ("updated_at", "id", "project_id"),
    }
    if kind.statuses:
        columns = {
            "position": (model.POSITION, *rest),
            "project": ("project_id", model.POSITION, *rest),
            "assignee": ("assignee_id", model.POSITION, *rest),
            "status": ("status", "priority", *_PLACE),
            "priority": ("priority", *_PLACE, "status"),
            "created": ("created_at", *rest),
            "updated": ("updated_at", *rest, "project_id", "assignee_id"),
        }
    if kind is model.REQUIREMENT:
        columns["type"] = ("type_id", model.POSITION, *rest)
    return [Index(f"ix_{kind.table}_by_{name}", *of_index) for name, of_index in columns.items()]


users = _make_table("user")
projects = _make_table("project")
project_members = _make_table("member", Index(None, "project_id"))
requirement_types = _make_table("requirement_type")
relationship_types = _make_table("relationship_type")
epics = _make_entity(model.EPIC)
user_stories = _make_entity(model.USER_STORY)
acceptance_criteria = _make_entity(model.ACCEPTANCE_CRITERIA)
requirements = _make_entity(model.REQUIREMENT, Index(None, "acceptance_criteria_id", "project_id"))
requirement_relationships = _make_table(
    "relationship",
    UniqueConstraint(*model.ENDS),
    CheckConstraint("source_requirement_id <> target_requirement_id", name="two_requirements"),
    Index(None, "source_requirement_id", "id"),
    Index(None, "target_requirement_id", "id"),
)
reference_counters = Table(
    "reference_counters",
    metadata,
    Column("prefix", String(10), primary_key=True),
    Column("last_number", Integer, nullable=False),
)
# What imports remember of the files of one source, so that the next one is compared with the last one.
import_sources = Table(
    "import_sources",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("mapping", Text, nullable=False),  # JSON
)
imported_values = Table(
    "imported_values",
    metadata,
    Column("source", Integer, primary_key=True, autoincrement=False),
    Column("entity_id", Id, primary_key=True),
    Column("fields", Text, nullable=False),  # JSON: a hash of each value that the last file had
)
# One row. Each writing transaction increments it first, so that it waits for the previous one to end.
generation = Table("generation", metadata, Column("number", Integer, primary_key=True, autoincrement=False))

BY_KIND = {kind.name: metadata.tables[kind.table] for kind in model.KINDS}
"""The table of each kind, by the kind's name."""
LETTERS = {"project_id": "p", "status": "s", "priority": "r", "assignee_id": "a", "type_id": "t"}
"""The first letter of the facet of each column in the index of the search."""

_TYPES_NAMESPACE = uuid.UUID("6f0b7a52-3c1d-5e8e-9d43-0a5b1f1c7e10")
_OF_DEFAULT_PROJECT = "The project of everything that has no other project."
_SQLITE = (
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
_SQLITE_OF_KIND = (
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
_POSTGRESQL = (
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
_POSTGRESQL_OF_KIND = (
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
_NUMBER = "CREATE INDEX ix_{table}_by_number ON {table} (length(reference_id), reference_id, id{rest})"
_TITLE = "CREATE INDEX ix_{table}_by_title ON {table} (substr(title, 1, 60){collation}, id, status, priority)"


def create_tables(connection: Connection) -> None:
    """Create the tables, their indexes, the index of the search, and the rows that every database starts with.

    An empty database gets the newest tables. A change of the schema is also a step of its own, with the next number,
    for the databases that users have.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    metadata.create_all(connection)
    for name, rows in _first_rows().items():
        connection.execute(metadata.tables[name].insert(), rows)
    _run(connection, *(_SQLITE if is_sqlite else _POSTGRESQL))
    for kind in model.KINDS:
        name, columns = kind.table, [one for one in LETTERS if one in BY_KIND[kind.name].c]
        facets = _sqlite_facets(columns) if is_sqlite else _postgresql_facets(columns)
        for statement in _SQLITE_OF_KIND if is_sqlite else _POSTGRESQL_OF_KIND:
            _run(connection, statement.format(table=name, columns=", ".join(columns), facets=facets))
        _run(connection, _NUMBER.format(table=name, rest=", status, priority" if kind.statuses else ""))
        if kind.statuses:
            _run(connection, _TITLE.format(table=name, collation="" if is_sqlite else ' COLLATE "C"'))


def add_positions(connection: Connection) -> None:
    """Give each entity its position, and create the tables of imports, unless the database was created with both."""
    if inspect(connection).has_table(import_sources.name):
        return
    number = "substr(reference_id, instr(reference_id, '-') + 1)"
    if connection.dialect.name == "postgresql":
        number = "split_part(reference_id, '-', 2)"
    metadata.create_all(connection, [import_sources, imported_values])
    for table in BY_KIND.values():
        kind = "DOUBLE" if connection.dialect.name == "sqlite" else "DOUBLE PRECISION"
        indexes = sorted((one for one in table.indexes if model.POSITION in one.columns), key=lambda one: str(one.name))
        for index in indexes:
            _run(connection, f"DROP INDEX IF EXISTS {index.name}")
        _run(connection, f"ALTER TABLE {table.name} ADD COLUMN position {kind} DEFAULT 0 NOT NULL")
        fill = f"UPDATE {table.name} SET position = CAST({number} AS {kind})"  # noqa: S608 - constants
        if connection.dialect.name == "postgresql":  # after an UPDATE of all rows, the table would be twice as large
            fill = f"ALTER TABLE {table.name} ALTER COLUMN position TYPE {kind} USING CAST({number} AS {kind})"
        _run(connection, fill)
        for index in indexes:
            index.create(connection)


def add_changed_fields(connection: Connection) -> None:
    """Add the column of what the last update changed, unless the database was created with it."""
    inspector = inspect(connection)
    for table in BY_KIND.values():
        if model.CHANGED not in {column["name"] for column in inspector.get_columns(table.name)}:
            _run(connection, f"ALTER TABLE {table.name} ADD COLUMN {model.CHANGED} TEXT")


def _first_rows() -> dict[str, list[Values]]:
    times = dict.fromkeys(model.TIMES, datetime.now(UTC))
    project = {"id": model.DEFAULT_PROJECT_ID, "name": "Default", "description": _OF_DEFAULT_PROJECT, **times}
    rows: dict[str, list[Values]] = {
        "reference_counters": [{"prefix": kind.prefix, "last_number": 0} for kind in model.KINDS],
        "generation": [{"number": 0}],
        "projects": [project],
    }
    of_types = {"requirement_types": model.REQUIREMENT_TYPES, "relationship_types": model.RELATIONSHIP_TYPES}
    for name, types in of_types.items():
        rows[name] = [
            {"id": str(uuid.uuid5(_TYPES_NAMESPACE, f"{name}/{one}")), "name": one, "description": text, **times}
            for one, text in types.items()
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

"""The tables, in one definition for SQLite and PostgreSQL. `migrations/` creates them.

IDs are UUIDs: text of 36 characters in Python, native in PostgreSQL and 32 hexadecimal digits in SQLite. All three have
the same order. Times are aware, in UTC. The tables of the entities are those of the earlier requirements system with a
column `project_id`, which determines who may see a row. Composite foreign keys keep it equal to the parent's
`project_id`, also when an epic moves to another project.

The search index, `search_entries`, is in `migrations/` and `writing.py`, because it differs between the two databases.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from sqlalchemy import (
    CheckConstraint,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
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
    )


def _list_checks(record: RecordType) -> list[CheckConstraint]:
    """Return the constraints of the values of a table."""
    needs_text = "title" not in record.fields
    allowed = {
        "priority": "priority BETWEEN 1 AND 4",
        "title": f"length(title) BETWEEN 1 AND {model.TITLE_LENGTH}",
        "description": f"length(description) {'BETWEEN 1 AND' if needs_text else '<='} {model.DESCRIPTION_LENGTH}",
    }
    choices = {name: f"{name} IN ({', '.join(map(repr, values))})" for name, values in record.choices.items()}
    checks = choices | (allowed if record.kind in BY_NAME else {})
    return [CheckConstraint(checks[name], name=name) for name in record.fields if name in checks]


def _make_table(kind: str, *parts: SchemaItem) -> Table:
    record = RECORDS[kind]
    columns = [_make_column(record, name) for name in record.fields]
    if PARENTS.get(kind, "project_id") != "project_id":
        columns.insert(2, Column("project_id", Id, nullable=False))
    checks: list[SchemaItem] = [*_list_checks(record)]
    if kind in BY_NAME:
        # used for the pages of project members, and required by the composite foreign keys of the children
        checks.append(UniqueConstraint("project_id", "id"))
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
        ]
    return _make_table(kind.name, *key, *parts, *_indexes(kind))


def _indexes(kind: Kind) -> list[Index]:
    """Return the indexes of filters and orders. The migration has two more, of expressions."""
    rest = ("id", "status", "priority")
    columns: dict[str, tuple[str, ...]] = {
        "created": ("created_at", "id"),
        "updated": ("updated_at", "id", "project_id"),
    }
    if kind.statuses:
        columns = {
            "project": ("project_id", *rest),
            "assignee": ("assignee_id", *rest),
            "status": ("status", "priority", "id"),
            "priority": ("priority", "id", "status"),
            "created": ("created_at", *rest),
            "updated": ("updated_at", *rest, "project_id", "assignee_id"),
        }
    if kind is model.REQUIREMENT:
        columns["type"] = ("type_id", *rest)
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
# One row. Each writing transaction increments it first, so that it waits for the previous one to end.
generation = Table("generation", metadata, Column("number", Integer, primary_key=True, autoincrement=False))

BY_KIND = {kind.name: metadata.tables[kind.table] for kind in model.KINDS}
"""The table of each kind, by the kind's name."""

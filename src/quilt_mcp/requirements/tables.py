"""The tables, in one definition for SQLite and PostgreSQL. `migrations/` creates them.

IDs are UUIDs: text of 36 characters in Python, native in PostgreSQL and 32 hexadecimal digits in SQLite. All three have
the same order. Times are aware, in UTC. The tables of the entities are those of the earlier requirements system with a
column `project_id`, which determines who may see a row. Composite foreign keys keep it equal to the parent's
`project_id`, also when an epic moves to another project.

The search index, `search_entries`, is in `search/index.py` because it differs between the two databases.
"""

from collections.abc import Callable, Collection
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

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.kinds import Kind

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


def _one_of(column: str, values: Collection[str]) -> CheckConstraint:
    allowed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({allowed})", name=column)


def _times() -> tuple[Column[datetime], Column[datetime]]:
    return Column("created_at", Time, nullable=False), Column("updated_at", Time, nullable=False)


def _user(name: str) -> Column[str]:
    return Column(name, Id, ForeignKey("users.id", ondelete="RESTRICT"), nullable=False)


def _child_of(parent: Kind) -> tuple[Column[str], ForeignKeyConstraint]:
    column = f"{parent.name}_id"
    return Column(column, Id, nullable=False), ForeignKeyConstraint(
        ["project_id", column],
        [f"{parent.table}.project_id", f"{parent.table}.id"],
        ondelete="CASCADE",
        onupdate="CASCADE",
    )


def _entity(kind: Kind, *parts: SchemaItem) -> Table:
    project = Column("project_id", Id, nullable=False)
    if kind.parent is None:
        project.append_foreign_key(ForeignKey("projects.id", ondelete="RESTRICT"))
    return Table(
        kind.table,
        metadata,
        Column("id", Id, primary_key=True),
        Column("reference_id", Reference, nullable=False, unique=True),
        project,
        *parts,
        *_times(),
        # used for the pages of project members, and required by the composite foreign keys of the children
        UniqueConstraint("project_id", "id"),
        *_indexes(kind),
    )


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
    if kind is kinds.REQUIREMENT:
        columns["type"] = ("type_id", *rest)
    return [Index(f"ix_{kind.table}_by_{name}", *of_index) for name, of_index in columns.items()]


def _planned(kind: Kind) -> tuple[SchemaItem, ...]:
    """Return the columns and constraints that all kinds share except acceptance criteria."""
    return (
        _user("creator_id"),
        _user("assignee_id"),
        Column("priority", SmallInteger, nullable=False),
        Column("status", String(50), nullable=False),
        Column("title", String(kinds.TITLE_LENGTH), nullable=False),
        Column("description", Text),
        CheckConstraint("priority BETWEEN 1 AND 4", name="priority"),
        _one_of("status", kind.statuses),
        CheckConstraint(f"length(title) BETWEEN 1 AND {kinds.TITLE_LENGTH}", name="title"),
        CheckConstraint(f"length(description) <= {kinds.DESCRIPTION_LENGTH}", name="description"),
    )


users = Table(
    "users",
    metadata,
    Column("id", Id, primary_key=True),
    Column("username", String(100), nullable=False, unique=True),
    Column("email", String(255), nullable=False, unique=True),
    Column("role", String(20), nullable=False),
    *_times(),
    _one_of("role", kinds.USER_ROLES),
)

projects = Table(
    "projects",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("description", Text),
    *_times(),
)

project_members = Table(
    "project_members",
    metadata,
    Column("user_id", Id, ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True),
    Column("role", String(20), nullable=False),
    _one_of("role", kinds.MEMBER_ROLES),
    Index(None, "project_id"),
)

requirement_types = Table(
    "requirement_types",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("description", Text),
    *_times(),
)

relationship_types = Table(
    "relationship_types",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("description", Text),
    *_times(),
)

epics = _entity(kinds.EPIC, *_planned(kinds.EPIC))

user_stories = _entity(
    kinds.USER_STORY,
    *_child_of(kinds.EPIC),
    *_planned(kinds.USER_STORY),
    Index(None, "epic_id", "id"),
)

acceptance_criteria = _entity(
    kinds.ACCEPTANCE_CRITERIA,
    *_child_of(kinds.USER_STORY),
    _user("author_id"),
    Column("description", Text, nullable=False),
    CheckConstraint(f"length(description) BETWEEN 1 AND {kinds.DESCRIPTION_LENGTH}", name="description"),
    Index(None, "user_story_id", "id"),
)

requirements = _entity(
    kinds.REQUIREMENT,
    *_child_of(kinds.USER_STORY),
    Column("acceptance_criteria_id", Id, ForeignKey("acceptance_criteria.id", ondelete="SET NULL")),
    Column("type_id", Id, ForeignKey("requirement_types.id", ondelete="RESTRICT"), nullable=False),
    *_planned(kinds.REQUIREMENT),
    Index(None, "user_story_id", "id"),
    Index(None, "acceptance_criteria_id", "project_id"),
)

requirement_relationships = Table(
    "requirement_relationships",
    metadata,
    Column("id", Id, primary_key=True),
    Column("source_requirement_id", Id, ForeignKey("requirements.id", ondelete="CASCADE"), nullable=False),
    Column("target_requirement_id", Id, ForeignKey("requirements.id", ondelete="CASCADE"), nullable=False),
    Column("relationship_type_id", Id, ForeignKey("relationship_types.id", ondelete="RESTRICT"), nullable=False),
    _user("created_by"),
    Column("created_at", Time, nullable=False),
    UniqueConstraint("source_requirement_id", "target_requirement_id", "relationship_type_id"),
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

BY_KIND: dict[str, Table] = {
    "epic": epics,
    "user_story": user_stories,
    "acceptance_criteria": acceptance_criteria,
    "requirement": requirements,
}
"""The table of each kind, by the kind's name."""

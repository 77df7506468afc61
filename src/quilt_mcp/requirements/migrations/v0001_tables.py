"""Creates the tables, the default project, and the types that every database starts with."""

import uuid
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic.operations import Operations
from sqlalchemy.schema import SchemaItem

revision = "0001"
down_revision = None

ID = sa.Uuid(as_uuid=False)
REFERENCE = sa.String(20).with_variant(sa.String(20, collation="C"), "postgresql")
STORY_STATUSES = ("Backlog", "Draft", "In Progress", "Done", "Cancelled")

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


def upgrade(op: Operations) -> None:
    """Create the tables and their first rows."""
    tables = _tables()
    tables.create_all(op.get_bind())
    for table, rows in _first_rows(op.get_bind().dialect.name).items():
        op.get_bind().execute(tables.tables[table].insert(), rows)


def downgrade(op: Operations) -> None:
    """Remove the tables with their rows."""
    _tables().drop_all(op.get_bind())


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


def _user(name: str) -> list[SchemaItem]:
    return [sa.Column(name, ID, sa.ForeignKey("users.id", ondelete="RESTRICT"), nullable=False)]


def _times(*names: str) -> list[SchemaItem]:
    return [sa.Column(name, sa.DateTime(timezone=True), nullable=False) for name in names]


def _one_of(column: str, *values: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} IN ({', '.join(repr(value) for value in values)})", name=column)


def _entity(parent: str | None = None) -> list[SchemaItem]:
    first: list[SchemaItem] = [
        sa.Column("id", ID, primary_key=True),
        sa.Column("reference_id", REFERENCE, nullable=False, unique=True),
        sa.Column(
            "project_id", ID, *([] if parent else [sa.ForeignKey("projects.id", ondelete="RESTRICT")]), nullable=False
        ),
    ]
    if parent:
        column, table = f"{parent}_id", {"epic": "epics", "user_story": "user_stories"}[parent]
        first += [
            sa.Column(column, ID, nullable=False),
            sa.Index(None, column, "id"),
            sa.ForeignKeyConstraint(
                ["project_id", column],
                [f"{table}.project_id", f"{table}.id"],
                ondelete="CASCADE",
                onupdate="CASCADE",
            ),
        ]
    return [*first, sa.UniqueConstraint("project_id", "id"), *_times("created_at", "updated_at")]


def _planned(*statuses: str) -> list[SchemaItem]:
    return [
        *_user("creator_id"),
        *_user("assignee_id"),
        sa.Column("priority", sa.SmallInteger, nullable=False),
        sa.Column("status", sa.String(50), nullable=False),
        sa.Column("title", sa.String(500), nullable=False),
        sa.Column("description", sa.Text),
        sa.CheckConstraint("priority BETWEEN 1 AND 4", name="priority"),
        _one_of("status", *statuses),
        sa.CheckConstraint("length(title) BETWEEN 1 AND 500", name="title"),
        sa.CheckConstraint("length(description) <= 50000", name="description"),
    ]


def _named(length: int) -> list[SchemaItem]:
    return [
        sa.Column("id", ID, primary_key=True),
        sa.Column("name", sa.String(length), nullable=False, unique=True),
        sa.Column("description", sa.Text),
        *_times("created_at", "updated_at"),
    ]


def _tables() -> sa.MetaData:
    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    for name, parts in _definitions().items():
        sa.Table(name, metadata, *parts)
    return metadata


def _definitions() -> dict[str, list[SchemaItem]]:
    return {
        "users": [
            sa.Column("id", ID, primary_key=True),
            sa.Column("username", sa.String(100), nullable=False, unique=True),
            sa.Column("email", sa.String(255), nullable=False, unique=True),
            sa.Column("role", sa.String(20), nullable=False),
            *_times("created_at", "updated_at"),
            _one_of("role", "Administrator", "User", "Commenter"),
        ],
        "projects": _named(100),
        "project_members": [
            sa.Column("user_id", ID, sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
            sa.Column("project_id", ID, sa.ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True, index=True),
            sa.Column("role", sa.String(20), nullable=False),
            _one_of("role", "Editor", "Viewer"),
        ],
        "requirement_types": _named(100),
        "relationship_types": _named(100),
        "epics": [*_entity(), *_planned(*STORY_STATUSES)],
        "user_stories": [*_entity("epic"), *_planned(*STORY_STATUSES)],
        "acceptance_criteria": [
            *_entity("user_story"),
            *_user("author_id"),
            sa.Column("description", sa.Text, nullable=False),
            sa.CheckConstraint("length(description) BETWEEN 1 AND 50000", name="description"),
        ],
        "requirements": [
            *_entity("user_story"),
            *_planned("Draft", "Active", "Obsolete"),
            sa.Column("type_id", ID, sa.ForeignKey("requirement_types.id", ondelete="RESTRICT"), nullable=False),
            sa.Column(
                "acceptance_criteria_id", ID, sa.ForeignKey("acceptance_criteria.id", ondelete="SET NULL"), index=True
            ),
        ],
        "requirement_relationships": _relationships(),
        "reference_counters": [
            sa.Column("prefix", sa.String(10), primary_key=True),
            sa.Column("last_number", sa.Integer, nullable=False),
        ],
        "generation": [sa.Column("number", sa.Integer, primary_key=True, autoincrement=False)],
    }


def _relationships() -> list[SchemaItem]:
    ends = ("source_requirement_id", "target_requirement_id")
    return [
        sa.Column("id", ID, primary_key=True),
        *(sa.Column(end, ID, sa.ForeignKey("requirements.id", ondelete="CASCADE"), nullable=False) for end in ends),
        sa.Column(
            "relationship_type_id", ID, sa.ForeignKey("relationship_types.id", ondelete="RESTRICT"), nullable=False
        ),
        *_user("created_by"),
        *_times("created_at"),
        sa.UniqueConstraint(*ends, "relationship_type_id"),
        sa.CheckConstraint(f"{ends[0]} <> {ends[1]}", name="two_requirements"),
        *(sa.Index(None, end, "id") for end in ends),
    ]

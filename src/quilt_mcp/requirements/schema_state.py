"""What a database holds: our tables, none, those of the earlier requirements system, or something else."""

from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Inspector, inspect, text

from quilt_mcp.errors import ResourceExecutionError
from quilt_mcp.requirements import tables

VERSION_TABLE = "requirements_schema_version"
"""Where Alembic keeps the revision; a name of our own, for other programs may use Alembic in the same database."""
REVISIONS = ("0001", "0002")
"""The revisions in `migrations/`, the newest last."""

State = Literal["empty", "current", "outdated", "newer", "existing", "unknown"]
_NOT_IN_EXISTING = {"project_id"}
_OF_EXISTING = (*tables.BY_KIND.values(), tables.users, tables.requirement_types, tables.relationship_types)

MIGRATE = "Run `quilt-mcp requirements migrate` in a terminal, with the same QUILT_MCP_DATABASE_URL."


class Schema(NamedTuple):
    """What was found.

    Attributes:
        state: `current`, `outdated` and `newer` are ours; `existing` is the earlier requirements system's; `unknown` is
            neither, although there are tables of our names.
        revision: the revision of a schema of ours.
        problem: for an unknown schema, the tables and columns that it would have to have.
    """

    state: State
    revision: str | None = None
    problem: str | None = None


def examine(connection: Connection) -> Schema:
    """Look at the tables that a new connection sees. Changes nothing."""
    inspector = inspect(connection)
    found = set(inspector.get_table_names())
    if VERSION_TABLE in found and (revision := connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))):  # noqa: S608 - a constant
        return Schema(_state_of(revision), revision)
    if not found & set(tables.metadata.tables):
        return Schema("empty")
    missing = _missing_for_existing(inspector, found)
    if missing or connection.dialect.name != "postgresql":
        return Schema("unknown", problem=", ".join(missing) or "a PostgreSQL database")
    return Schema("existing")


def require_readable(schema: Schema) -> None:
    """Refuse what cannot be read.

    Raises:
        ResourceExecutionError: the database is empty, of another version, or not ours at all.
    """
    if schema.state in {"current", "existing"}:
        return
    message, action = {
        "empty": ("The requirements database has no tables yet.", MIGRATE),
        "outdated": ("The requirements database is of an older version than this quilt-mcp.", MIGRATE),
        "newer": ("The requirements database is of a newer version than this quilt-mcp.", "Upgrade quilt-mcp."),
        "unknown": (
            "The database holds other tables than those of a requirements system.",
            "Check that QUILT_MCP_DATABASE_URL names the right database, or an empty one.",
        ),
    }[schema.state]
    details = schema.problem and f"missing: {schema.problem}"
    if schema.revision:
        details = f"schema {schema.revision}; this version knows up to {REVISIONS[-1]}"
    raise ResourceExecutionError(message, details=details, suggested_actions=[action])


def _state_of(revision: str) -> State:
    if revision == REVISIONS[-1]:
        return "current"
    return "outdated" if revision in REVISIONS else "newer"


def _missing_for_existing(inspector: Inspector, found: set[str]) -> list[str]:
    missing = []
    for table in (*_OF_EXISTING, tables.requirement_relationships):
        wanted = set(table.columns.keys()) - _NOT_IN_EXISTING
        existing: set[Any] = set()
        if table.name in found:
            existing = {column["name"] for column in inspector.get_columns(table.name)}
        missing += [f"{table.name}.{column}" for column in sorted(wanted - existing)]
    return missing

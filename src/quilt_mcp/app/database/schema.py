"""The version of a database's tables."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal, NamedTuple

from sqlalchemy import Connection, Inspector

State = Literal["empty", "current", "outdated", "newer", "existing", "too_early", "unknown"]


class Schema(NamedTuple):
    """The state of the tables in a database.

    Attributes:
        state: `current`, `outdated` and `newer` are ours, by their revision; `existing` is an earlier system's, which
            can be read as it is; `too_early` is that system's, before it can be read; `unknown` is something else.
        revision: the revision, for tables of ours.
        problem: for unknown tables, what is missing; for tables that are too early, their migration.
    """

    state: State
    revision: str | None = None
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Migrations:
    """The migrations of one domain.

    Attributes:
        folder: contains one module per revision.
        version_table: where Alembic stores the revision. Each domain has its own, because other programs can use
            Alembic in the same database.
        revisions: every revision, the newest last.
    """

    folder: Path
    version_table: str
    revisions: tuple[str, ...]

    @property
    def newest(self) -> str:
        return self.revisions[-1]

    def upgrade(self, connection: Connection) -> None:
        """Migrate to the newest revision, in the transaction of the connection. Imports Alembic, which takes long."""
        import_module("quilt_mcp.app.database.migrating").upgrade(connection, self)

    def find_schema(self, connection: Connection, tables: Collection[str], schema: str | None = None) -> Schema | None:
        """Return the schema by the version table; None if it does not exist or is empty.

        Args:
            connection: a connection.
            tables: the tables that exist.
            schema: where PostgreSQL has them, if it is not on the search path.
        """
        if self.version_table not in tables:
            return None
        query = f"SELECT version_num FROM {f'{schema}.' if schema else ''}{self.version_table}"  # noqa: S608 - constants
        revision: str | None = connection.exec_driver_sql(query).scalar()
        if revision is None:
            return None
        if revision == self.newest:
            return Schema("current", revision)
        return Schema("outdated" if revision in self.revisions else "newer", revision)


def missing_columns(
    inspector: Inspector, expected: Mapping[str, Collection[str]], schema: str | None = None
) -> list[str]:
    """Return the expected columns that do not exist, as `table.column`.

    Args:
        inspector: of the database.
        expected: the columns of each table.
        schema: where PostgreSQL has the tables.
    """
    missing = []
    found = set(inspector.get_table_names(schema))
    for table, columns in expected.items():
        existing = {str(column["name"]) for column in inspector.get_columns(table, schema)} if table in found else set()
        missing += [f"{table}.{column}" for column in sorted(set(columns) - existing)]
    return missing

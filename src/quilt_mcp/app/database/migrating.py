"""Runs migrations with Alembic. Import this only to migrate, because the import of Alembic takes long.

Alembic's commands, and `from alembic import op`, use module-level state: two servers of one process could not migrate
at the same time. So the functions of a migration get their `Operations` as an argument instead.
"""

from collections.abc import Callable

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from quilt_mcp.app.database.engines import Migrations


def upgrade(connection: Connection, migrations: Migrations) -> None:
    """Migrate to the newest revision, in the transaction of the connection."""

    def find_steps(heads: tuple[str, ...], _: MigrationContext) -> list[RevisionStep]:
        found = list(scripts.iterate_revisions(migrations.newest, heads or "base"))
        return [MigrationStep.upgrade_from_script(scripts.revision_map, script) for script in reversed(found)]

    scripts = _open(migrations)
    _run(connection, migrations, find_steps)


def _open(migrations: Migrations) -> ScriptDirectory:
    return ScriptDirectory(str(migrations.folder), version_locations=[str(migrations.folder)])


def _run(
    connection: Connection,
    migrations: Migrations,
    find_steps: Callable[[tuple[str, ...], MigrationContext], list[RevisionStep]],
) -> None:
    context = MigrationContext.configure(
        connection,
        opts={
            "fn": find_steps,
            "version_table": migrations.version_table,
            "transactional_ddl": False,  # the connection's transaction is the only one
        },
    )
    context.run_migrations(op=Operations(context))

"""Migrations of a domain: from nothing, and from an older revision."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, inspect

from quilt_mcp.app.database.engines import Migrations

STATEMENTS = {"0001": "CREATE TABLE poems (id INTEGER)", "0002": "ALTER TABLE poems ADD COLUMN title TEXT"}


def make_step(statement: str) -> Callable[[Connection], None]:
    def execute(connection: Connection) -> None:
        connection.exec_driver_sql(statement)

    return execute


def know(*revisions: str) -> Migrations:
    """Return the migrations of a version that knows some revisions."""
    steps = {revision: make_step(STATEMENTS[revision]) for revision in revisions}
    return Migrations(version_table="poems_version", steps=steps)


def examine(engine: Engine, migrations: Migrations) -> tuple[str, str | None] | None:
    with engine.connect() as connection:
        found = migrations.find_schema(connection, inspect(connection).get_table_names())
        return found and (found.state, found.revision)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return create_engine(f"sqlite:///{tmp_path / 'poems.sqlite3'}", poolclass=NullPool)


def test_an_older_revision_is_migrated_to_the_newest(engine: Engine) -> None:
    first, both = know("0001"), know("0001", "0002")
    assert examine(engine, first) is None
    for known, state in ((first, ("current", "0001")), (both, ("current", "0002"))):
        if known is both:
            assert examine(engine, both) == ("outdated", "0001")
        for _ in range(2):  # the second time does nothing
            with engine.begin() as connection:
                known.upgrade(connection)
            assert examine(engine, known) == state
    assert examine(engine, first) == ("newer", "0002")
    with engine.connect() as connection:
        assert {one["name"] for one in inspect(connection).get_columns("poems")} == {"id", "title"}

"""Migrations of a domain: from nothing, and from an older revision."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, NullPool, create_engine, inspect

from quilt_mcp.app.database.engines import Migrations
from quilt_mcp.app.database.migrating import upgrade

MODULE = """
revision = "{revision}"
down_revision = {before!r}


def upgrade(op):
    op.execute("{statement}")
"""
STATEMENTS = {"0001": "CREATE TABLE poems (id INTEGER)", "0002": "ALTER TABLE poems ADD COLUMN title TEXT"}


def write(folder: Path, *revisions: str) -> Migrations:
    """Write the modules of some revisions."""
    folder.mkdir(exist_ok=True)
    for before, revision in zip((None, *revisions), revisions, strict=False):
        text = MODULE.format(revision=revision, before=before, statement=STATEMENTS[revision])
        (folder / f"v{revision}.py").write_text(text)
    return Migrations(folder=folder, version_table="poems_version", revisions=revisions)


def examine(engine: Engine, migrations: Migrations) -> tuple[str, str | None] | None:
    with engine.connect() as connection:
        found = migrations.find_schema(connection, inspect(connection).get_table_names())
        return found and (found.state, found.revision)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return create_engine(f"sqlite:///{tmp_path / 'poems.sqlite3'}", poolclass=NullPool)


def test_an_older_revision_is_migrated_to_the_newest(engine: Engine, tmp_path: Path) -> None:
    first = write(tmp_path / "migrations", "0001")
    assert examine(engine, first) is None
    with engine.begin() as connection:
        upgrade(connection, first)
    assert examine(engine, first) == ("current", "0001")
    both = write(tmp_path / "migrations", "0001", "0002")
    assert examine(engine, both) == ("outdated", "0001")
    with engine.begin() as connection:
        upgrade(connection, both)
    assert examine(engine, both) == ("current", "0002")
    assert examine(engine, first) == ("newer", "0002")
    with engine.connect() as connection:
        assert {one["name"] for one in inspect(connection).get_columns("poems")} == {"id", "title"}

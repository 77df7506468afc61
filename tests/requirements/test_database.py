"""Open a database: what it can contain, who creates what, and what readers and writers see of each other."""

import asyncio
import multiprocessing
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import select, text

from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.database import Database, open_database
from tests.requirements.conftest import opened
from tests.requirements.reading import epics, failure_of, file_of, name_of
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings
from tests.support.waiting import SECONDS, until


def test_the_first_use_creates_a_file_that_only_the_user_can_read(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "a b?mode=ro#%41" / "ü")
    with opened(settings) as database:
        assert database.schema().state == "empty"
        assert not settings.data_dir.exists()
        assert epics(database) == 0
        assert not database.is_existing
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in settings.data_dir.iterdir()}
    assert set(modes) >= {"requirements.sqlite3"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(settings.data_dir.stat().st_mode) == 0o700


def test_a_url_can_name_a_file(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", database_url=SecretStr(f"sqlite:///{tmp_path}/other.db"))
    with opened(settings) as database:
        assert epics(database) == 0
    assert (tmp_path / "other.db").stat().st_size
    assert not settings.data_dir.exists()


def open_and_count(directory: str, go: Any) -> int:
    """Run in a separate process."""
    go.wait()
    with opened(Settings(data_dir=Path(directory))) as database:
        return epics(database)


@pytest.mark.soak
async def test_several_processes_can_create_the_file_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(3) as pool:
        go = manager.Event()
        waiting = pool.starmap_async(open_and_count, [(str(tmp_path), go)] * 3)
        go.set()
        assert await asyncio.to_thread(waiting.get, SECONDS) == [0, 0, 0]


def test_readers_see_the_last_commit_while_another_writes(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(tables.requirement_relationships.delete())
        connection.execute(tables.epics.delete())
        assert epics(database) == 9
    assert epics(database) == 0


async def test_a_read_after_the_close_leaves_no_connection(
    settings_with_sample: Settings, postgres: PostgresServer
) -> None:
    with opened(settings_with_sample) as database:
        assert epics(database) == 9
        kept = 0 if settings_with_sample.database_url is None else 1  # those to a file are never kept
        assert count_connections(settings_with_sample, postgres) == kept
    assert epics(database) == 9
    await until(lambda: count_connections(settings_with_sample, postgres) == 0)


def count_connections(settings: Settings, postgres: PostgresServer) -> int:
    if settings.database_url is None:
        descriptors = Path("/proc/self/fd").iterdir()
        return sum(os.path.realpath(one) == str(file_of(settings).resolve()) for one in descriptors)
    query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name_of(settings)}'"  # noqa: S608 - a name of ours
    return int(postgres.sql(query))


@pytest.mark.soak
def test_a_reader_cannot_write_to_postgresql(make_settings: Callable[..., Settings]) -> None:
    refused = pytest.raises(ResourceExecutionError, match="not allowed to do this")
    with opened(make_settings("postgresql", "sample")) as database, refused, database.reading() as connection:
        connection.execute(tables.epics.delete())


@pytest.mark.soak
@pytest.mark.parametrize(
    "setting",
    ["timezone = 'Asia/Tokyo'", "datestyle = 'German'", "client_encoding = 'LATIN1'", "timezone = 'Etc/GMT+9'"],
)
def test_settings_of_a_database_do_not_change_answers(
    make_settings: Callable[..., Settings], postgres: PostgresServer, setting: str
) -> None:
    settings = make_settings("postgresql", "sample")
    postgres.sql(f'ALTER DATABASE "{name_of(settings)}" SET {setting}')
    values = {
        "title": "Łódź",
        "created_at": datetime.min.replace(tzinfo=UTC),
        "updated_at": datetime.max.replace(tzinfo=UTC),
    }
    with opened(settings) as database:
        with database.writing() as connection:
            connection.execute(tables.epics.update().values(values))
        with database.reading() as connection:
            columns = [tables.epics.c[name] for name in values]
            assert {tuple(row) for row in connection.execute(select(*columns))} == {tuple(values.values())}


def test_other_tables_with_our_names_are_refused_and_not_changed(settings_without_tables: Settings) -> None:
    with opened(settings_without_tables) as database:
        with database.migrating() as connection:
            connection.exec_driver_sql("CREATE TABLE epics (id INTEGER, poet TEXT)")
        failure = failure_of(database)
        assert "quilt-mcp did not create" in failure.message
        assert "epics.reference_id" in str(failure.details)
        with pytest.raises(ResourceExecutionError, match="quilt-mcp did not create"):
            database.upgrade()
        with database.migrating() as connection:
            assert connection.scalar(text("SELECT count(poet) FROM epics")) == 0


def test_is_existing_needs_a_read_first(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not been opened"):
        _ = open_database(Settings(data_dir=tmp_path)).is_existing

"""A database that changes under a running server is noticed by the next read, without a restart."""

import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import column, table, update

from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements.database import MIGRATIONS, Database
from tests.contract.surfaces import AnyClient
from tests.requirements.changing import create_project, remove_tables
from tests.requirements.client import connect, read, read_failure
from tests.requirements.conftest import Contents, opened
from tests.requirements.reading import epics, failure_of, file_of, name_of
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings

SAMPLE, NOBODY = 9, 65534


@pytest.fixture
def settings(make_settings: Callable[[str, Contents], Settings]) -> Settings:
    """Of a file without entities."""
    return make_settings("sqlite", "tables")


@pytest.fixture
def other(make_settings: Callable[[str, Contents], Settings], tmp_path: Path) -> Path:
    """A copy of a file with the sample, which replaces the file of `settings`."""
    return copy_of(make_settings("sqlite", "sample"), tmp_path)


async def count(client: AnyClient) -> int:
    return int((await read(client, "epics?limit=1"))["count"])


@asynccontextmanager
async def reading_server(settings: Settings) -> AsyncIterator[AnyClient]:
    """A client of a server that has read its file and written to it, so that the file has a write-ahead log."""
    async with connect(settings) as client:
        await count(client)
        with opened(settings) as database, database.writing() as connection:
            create_project(connection, "Written meanwhile", None)
        await count(client)
        yield client


def copy_of(settings: Settings, directory: Path) -> Path:
    """Return a complete copy of the file, as a backup makes it."""
    copy = directory / "copy.sqlite3"
    with closing(sqlite3.connect(file_of(settings))) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def replace(settings: Settings, other: Path) -> None:
    other.rename(file_of(settings).resolve())


def hide_behind_link(settings: Settings, real: Path) -> None:
    file_of(settings).rename(real)
    file_of(settings).symlink_to(real)


def check_integrity(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


def remove_log(settings: Settings) -> None:
    """Remove the write-ahead log of the file, as the error advises."""
    real = file_of(settings).resolve()
    for suffix in ("-wal", "-shm"):
        real.with_name(real.name + suffix).unlink(missing_ok=True)


@pytest.mark.parametrize("behind", [None, "real.sqlite3"], ids=["file", "link"])
async def test_a_file_that_replaces_another_is_refused_while_a_log_lies_beside_it(
    settings: Settings, other: Path, tmp_path: Path, behind: str | None
) -> None:
    if behind:
        hide_behind_link(settings, tmp_path / behind)
    async with reading_server(settings) as client:
        assert await count(client) == 0
        with closing(sqlite3.connect(file_of(settings))) as using:  # another process uses the old file
            using.execute("SELECT count(*) FROM projects").fetchone()
            replace(settings, other)
            for _ in range(2):
                failure = (await read_failure(client, "epics")).body
                assert "was replaced" in failure["message"]
                assert "-wal" in failure["suggested_actions"][1]
                assert failure["transient"]
        remove_log(settings)  # SQLite leaves it there, because the file has another name
        assert await count(client) == SAMPLE
        assert (await read(client, "search/catalog"))["count"]
    async with connect(settings) as client:
        assert await count(client) == SAMPLE
    assert check_integrity(file_of(settings)) == "ok"


def test_a_backup_is_not_lost_if_a_read_finds_its_copy_still_empty(settings: Settings, other: Path) -> None:
    with opened(settings) as database:
        assert epics(database) == 0
        file_of(settings).unlink()
        with file_of(settings).open("wb") as copy:
            failure = failure_of(database)
            assert "is empty, and it was not before" in failure.message
            assert failure.transient
            copy.write(other.read_bytes())
        assert epics(database) == SAMPLE
    assert check_integrity(file_of(settings)) == "ok"


async def test_a_file_without_a_log_that_is_replaced_is_used_by_the_next_read(settings: Settings, other: Path) -> None:
    with opened(settings) as database:
        assert epics(database) == 0
    with closing(sqlite3.connect(file_of(settings))) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    async with connect(settings) as client:
        assert await count(client) == 0
        journal = file_of(settings).with_name(file_of(settings).name + "-journal")
        journal.write_bytes(b"of the old file")
        replace(settings, other)
        assert "was replaced" in (await read_failure(client, "epics")).body["message"]
        journal.unlink()
        assert await count(client) == SAMPLE


def test_a_file_that_replaces_another_and_is_used_by_another_server_is_used_by_the_next_read(
    settings: Settings, other: Path
) -> None:
    with opened(settings) as first, opened(settings) as second:
        write_project(first, "Written before")
        assert epics(first) == epics(second) == 0
        replace(settings, other)
        assert epics(first) == SAMPLE
        write_project(first, "Written after")
        assert epics(second) == SAMPLE
        second.close()
        write_project(first, "Written at last")
    with closing(sqlite3.connect(file_of(settings))) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM projects")}
    assert {"Written after", "Written at last"} <= names
    assert "Written before" not in names
    assert check_integrity(file_of(settings)) == "ok"


def test_a_file_that_replaces_another_during_a_read_stays_as_it_is(settings: Settings, other: Path) -> None:
    with opened(settings) as database:
        write_project(database, "Written before")
        with database.reading():
            replace(settings, other)
            assert "was replaced" in failure_of(database).message
    remove_log(settings)
    with opened(settings) as database:
        assert epics(database) == SAMPLE


async def test_a_commit_of_another_process_survives_that_the_file_is_moved_away_and_back(
    make_settings: Callable[[str, Contents], Settings], tmp_path: Path
) -> None:
    settings = make_settings("sqlite", "sample")
    away = tmp_path / "away.sqlite3"
    async with reading_server(settings) as client:
        with closing(sqlite3.connect(file_of(settings), isolation_level=None)) as other:
            other.execute("SELECT count(*) FROM epics").fetchone()
            file_of(settings).rename(away)
            failure = (await read_failure(client, "epics")).body
            assert "was moved or deleted" in failure["message"]
            away.rename(file_of(settings))
            assert await count(client) == SAMPLE
            other.execute("UPDATE projects SET name = 'Written by the other' WHERE name = 'Written meanwhile'")
        assert await count(client) == SAMPLE
    with closing(sqlite3.connect(file_of(settings))) as connection:
        assert ("Written by the other",) in connection.execute("SELECT name FROM projects").fetchall()


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_file_that_is_damaged_in_place_is_refused_until_it_is_restored(
    make_settings: Callable[[str, Contents], Settings], tmp_path: Path, *, is_closed: bool
) -> None:
    settings = make_settings("sqlite", "sample")
    backup = copy_of(settings, tmp_path)
    with opened(settings) as database:
        assert epics(database) == SAMPLE
        if is_closed:
            database.close()
        with closing(sqlite3.connect(file_of(settings))) as other:  # after which no connection trusts its cache
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with file_of(settings).open("r+b") as file:
            file.write(b"x" * 4096)
        for _ in range(2):
            assert "damaged" in failure_of(database).message
        shutil.copyfile(backup, file_of(settings))
        assert epics(database) == SAMPLE


async def test_a_deleted_file_is_not_an_empty_database(make_settings: Callable[[str, Contents], Settings]) -> None:
    settings = make_settings("sqlite", "sample")
    async with reading_server(settings) as client:
        file_of(settings).unlink()
        assert "was moved or deleted" in (await read_failure(client, "epics")).body["message"]
        assert not file_of(settings).exists()
    async with connect(settings) as client:
        assert await count(client) == 0


@contextmanager
def unprivileged(directory: Path) -> Iterator[None]:
    """Run as a user with restricted permissions."""
    if os.geteuid():
        yield
        return
    for path in (directory, *directory.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def write_project(database: Database, name: str) -> None:
    with database.writing() as connection:
        create_project(connection, name, None)


def test_a_file_that_becomes_read_only_and_writable_again(make_settings: Callable[[str, Contents], Settings]) -> None:
    source = file_of(make_settings("sqlite", "sample"))
    with TemporaryDirectory() as made:
        settings = Settings(data_dir=Path(made), database_url=None)
        shutil.copyfile(source, file_of(settings))
        with unprivileged(Path(made)), opened(settings) as database:
            write_project(database, "one")
            file_of(settings).chmod(0o400)
            assert epics(database) == SAMPLE
            with pytest.raises(ResourceExecutionError, match="cannot be opened or written"):
                write_project(database, "two")
            assert epics(database) == SAMPLE
            file_of(settings).chmod(0o600)
            write_project(database, "two")


def set_revision(settings: Settings, revision: str) -> None:
    """Mark the tables as another version does, from another process."""
    with opened(settings) as database, database.migrating() as connection:
        connection.execute(update(table(MIGRATIONS.version_table, column("version_num"))).values(version_num=revision))


async def test_tables_of_a_newer_version_are_refused_by_the_next_read(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        assert await count(client) == SAMPLE
        set_revision(settings_with_sample, "0999")
        for path in ("epics", "epics/EP-001", "search/catalog"):
            failure = (await read_failure(client, path)).body
            assert "does not know" in failure["message"]
            assert "0999" in failure["details"]
        with opened(settings_with_sample) as other, pytest.raises(ResourceExecutionError, match="does not know"):
            other.upgrade()
        set_revision(settings_with_sample, MIGRATIONS.newest)
        assert await count(client) == SAMPLE


async def test_tables_that_are_removed_and_created_again(settings_with_sample: Settings, dialect: str) -> None:
    async with connect(settings_with_sample) as client:
        assert await count(client) == SAMPLE
        with opened(settings_with_sample) as database, database.migrating() as connection:
            remove_tables(connection)
        if dialect == "postgresql":
            assert "no tables" in (await read_failure(client, "epics")).body["message"]
            with opened(settings_with_sample) as database:
                database.upgrade()
        assert await count(client) == 0


async def test_a_migration_of_the_earlier_system_is_noticed(
    existing_settings: Settings, postgres: PostgresServer
) -> None:
    name = name_of(existing_settings)
    async with connect(existing_settings) as client:
        assert await count(client) == 1
        postgres.sql("ALTER TABLE epics RENAME updated_at TO changed_at", database=name)
        failure = (await read_failure(client, "epics")).body
        assert failure["details"] == "missing: epics.updated_at"
        postgres.sql("ALTER TABLE epics RENAME changed_at TO updated_at", database=name)
        assert await count(client) == 1

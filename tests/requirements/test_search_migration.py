"""The migration that adds facets to the search index: it keeps the words, and can be interrupted."""

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from quilt_mcp.requirements import migrating
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.schema_state import MIGRATIONS
from quilt_mcp.requirements.writing import reindex
from quilt_mcp.settings import Settings
from tests.requirements.conftest import Contents, opened
from tests.requirements.searching import find_references, search

BEFORE = "0003"
QUERIES = ("the", "sample -consent", '"the sample"', "EP-001", "a*", "researcher OR user")


async def find_all(database: Database) -> dict[str, list[tuple[str, int, float]]]:
    """Return the reference IDs, tiers and scores of all hits of some queries, in their order."""
    found = {query: (await search(database, query, limit=100)).hits for query in QUERIES}
    return {query: [(hit.reference_id, hit.tier, hit.score) for hit in hits] for query, hits in found.items()}


async def read_entries(database: Database) -> list[tuple[Any, ...]]:
    """Return all entries, with their facets."""
    async with database.reading() as connection:
        if database.dialect == "sqlite":
            statement = (
                "SELECT search_entries.*, title, body, facets FROM search_entries"
                " JOIN search_words ON search_words.rowid = id ORDER BY id"
            )
        else:
            statement = "SELECT * FROM search_entries ORDER BY id"
        return [tuple(row) for row in await connection.exec_driver_sql(statement)]


async def test_the_migration_keeps_all_entries(database: Database) -> None:
    before, entries = await find_all(database), await read_entries(database)
    assert all(len(hits) > 1 for query, hits in before.items() if query != "EP-001")
    await migrating.downgrade(database, BEFORE)
    assert (await database.schema()).revision == BEFORE
    await migrating.upgrade(database)
    assert await find_all(database) == before
    assert await read_entries(database) == entries


async def test_an_entry_that_is_written_after_the_migration_is_the_last(database: Database) -> None:
    await migrating.downgrade(database, BEFORE)
    await migrating.upgrade(database)
    last = max(row[0] for row in await read_entries(database))
    async with database.migrating() as connection:
        await connection.exec_driver_sql("DELETE FROM search_entries WHERE reference_id = 'EP-001'")
    async with database.writing() as connection:
        await reindex(connection)
    entries = await read_entries(database)
    assert len(entries) == 297
    assert max(row[0] for row in entries) > last


class Interrupted(Exception):
    """Raised in the middle of a migration."""


async def test_an_interrupted_migration_changes_nothing(database: Database) -> None:
    await migrating.downgrade(database, BEFORE)
    last = "ALTER TABLE search_words_new" if database.dialect == "sqlite" else "ANALYZE search_entries_new"

    def interrupt(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(last):
            raise Interrupted

    event.listen(database.engine.sync_engine, "before_cursor_execute", interrupt)
    with pytest.raises(Interrupted):
        await migrating.upgrade(database)
    event.remove(database.engine.sync_engine, "before_cursor_execute", interrupt)
    assert (await database.schema()).revision == BEFORE
    await migrating.upgrade(database)
    assert len(await read_entries(database)) == 297


@pytest.fixture
def file_settings(make_settings: Callable[[str, Contents], Settings]) -> Settings:
    """A file with the sample."""
    return make_settings("sqlite", "sample")


@pytest.mark.soak
async def test_reads_of_postgresql_continue_while_its_index_is_copied(
    make_settings: Callable[[str, Contents], Settings],
) -> None:
    settings = make_settings("postgresql", "sample")
    copied = 0

    def read_too(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal copied
        if statement.startswith("ANALYZE search_entries_new"):
            assert settings.database_url
            with psycopg.connect(settings.database_url.get_secret_value(), options="-c lock_timeout=30s") as other:
                row = other.execute("SELECT count(*) FROM search_entries JOIN epics ON epics.id = entity_id").fetchone()
            assert row
            copied = row[0]

    async with opened(settings) as database:
        await migrating.downgrade(database, BEFORE)
        event.listen(database.engine.sync_engine, "before_cursor_execute", read_too)
        await migrating.upgrade(database)
    assert copied == 9


async def test_a_migration_continues_after_the_read_that_started_it_was_cancelled(
    file_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, may_continue = asyncio.Event(), asyncio.Event()
    runs = 0
    upgrade = migrating.upgrade

    async def wait_and_upgrade(database: Database) -> object:
        nonlocal runs
        runs += 1
        started.set()
        await may_continue.wait()
        return await upgrade(database)

    async with opened(file_settings) as database:
        await migrating.downgrade(database, BEFORE)
    monkeypatch.setattr(migrating, "upgrade", wait_and_upgrade)
    async with opened(file_settings) as database:
        first = asyncio.create_task(find_references(database, "EP-001"))
        await started.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(find_references(database, "EP-001"))
        may_continue.set()
        assert "EP-001" in await second
        assert runs == 1
        assert (await database.schema()).revision == MIGRATIONS.newest


async def test_closing_ends_a_migration(file_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    started = asyncio.Event()

    async def wait_for_ever(_: Database) -> None:
        started.set()
        await asyncio.Event().wait()

    async with opened(file_settings) as database:
        await migrating.downgrade(database, BEFORE)
    with monkeypatch.context() as patch:
        patch.setattr(migrating, "upgrade", wait_for_ever)
        async with opened(file_settings) as database:
            reading = asyncio.create_task(find_references(database, "EP-001"))
            await started.wait()
            await database.close()
            with pytest.raises(asyncio.CancelledError):
                await reading
    async with opened(file_settings) as database:
        assert "EP-001" in await find_references(database, "EP-001")

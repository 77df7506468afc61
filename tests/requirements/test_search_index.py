"""The index follows the entities: each write, each delete, each move, in the same transaction."""

import pytest
from sqlalchemy import func, select, update

from quilt_mcp.requirements import tables, writing
from quilt_mcp.requirements.access import Scope
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.kinds import EPIC, USER_STORY
from quilt_mcp.requirements.membership import create_project
from quilt_mcp.requirements.search_sql import search
from quilt_mcp.requirements.search_text import parse
from tests.requirements.test_search_sql import EVERYTHING, references, write_epics


async def test_a_hit_moves_with_its_entity_to_another_project(empty_database: Database) -> None:
    async with empty_database.writing() as connection:
        one, two = [await create_project(connection, name) for name in ("One", "Two")]
    epic = (await write_epics(empty_database, [("word", "")], project_id=one))[0]
    async with empty_database.writing() as connection:
        await writing.create_entity(
            connection, USER_STORY, title="word", creator_id=epic["creator_id"], epic_id=epic["id"]
        )
    async with empty_database.writing() as connection:  # past the writer: what belongs to the epic moves by cascade
        moved = update(tables.epics).where(tables.epics.c.id == epic["id"]).values(project_id=two)
        await connection.execute(moved)
    assert await references(empty_database, "word", Scope("test", (one,))) == []
    assert sorted(await references(empty_database, "word", Scope("test", (two,)))) == ["EP-001", "US-001"]


async def test_the_index_follows_what_is_written(empty_database: Database) -> None:
    epic = (await write_epics(empty_database, [("before", "text")]))[0]
    async with empty_database.writing() as connection:
        await writing.create_entity(
            connection, USER_STORY, title="child", creator_id=epic["creator_id"], epic_id=epic["id"]
        )
        await writing.update_entity(connection, EPIC, epic["id"], title="after")
    assert await references(empty_database, "before") == []
    assert await references(empty_database, "after text") == ["EP-001"]
    async with empty_database.writing() as connection:
        await writing.delete_entity(connection, EPIC, epic["id"])
    for query in ("after", "child", "ep-1", "us-1"):
        assert await references(empty_database, query) == []
    if empty_database.dialect == "sqlite":  # where the words are in a table of their own
        async with empty_database.reading() as connection:
            left = await connection.exec_driver_sql("SELECT count(*) FROM search_words WHERE search_words MATCH 'text'")
            assert left.scalar_one() == 0


async def test_what_is_rolled_back_is_not_found(empty_database: Database) -> None:
    epic = (await write_epics(empty_database, [("before", "")]))[0]

    async def fail_after_writing() -> None:
        async with empty_database.writing() as connection:
            await writing.update_entity(connection, EPIC, epic["id"], title="after")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail_after_writing()
    assert await references(empty_database, "after") == []
    assert await references(empty_database, "before") == ["EP-001"]


async def test_long_texts_are_found_by_what_is_indexed_of_them(empty_database: Database) -> None:
    repeated = "again and " * 300 + "at last"
    many = " ".join(f"{number:x}" for number in range(9_000)) + " tail"
    await write_epics(empty_database, [("Repeated", repeated), ("Many", many), ("Joined", "x" * 50_000)])
    assert await references(empty_database, '"at last"') == ["EP-001"]
    assert await references(empty_database, '"and at"') == []  # past the 256th of them
    assert await references(empty_database, '"8ff 900"') == ["EP-002"]
    assert await references(empty_database, '"2327 tail"') == ["EP-002"]
    assert await references(empty_database, "x" * 64) == ["EP-003"]


async def test_every_entity_has_one_entry(database: Database) -> None:
    """The sample, which is written as everything is."""
    async with database.reading() as connection:
        for kind, table in tables.BY_KIND.items():
            row = (await connection.execute(select(table.c.reference_id, table.c.id).order_by(table.c.id))).first()
            assert row is not None
            answer = await search(connection, parse(row.reference_id), scope=EVERYTHING, cap=2000)
            assert (answer.hits[0].kind, answer.hits[0].entity_id, answer.hits[0].tier) == (kind, row.id, 0)
        entities = [await connection.scalar(select(func.count()).select_from(one)) for one in tables.BY_KIND.values()]
        indexed = await connection.exec_driver_sql("SELECT count(*) FROM search_entries")
        assert indexed.scalar_one() == sum(map(int, filter(None, entities)))

"""The search index changes with the entities in the same transaction: on writes, deletes and moves."""

from sqlalchemy import update

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.conditions import Scope
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.model import EPIC, USER_STORY
from tests.requirements.changing import create_entity, create_project, delete_entity, update_entity
from tests.requirements.searching import find_references, write_epics


def test_entries_move_with_their_entities_to_another_project(empty_database: Database) -> None:
    with empty_database.writing() as connection:
        one, two = [create_project(connection, name) for name in ("One", "Two")]
    epic = write_epics(empty_database, [("word", "")], project_id=one)[0]
    with empty_database.writing() as connection:
        create_entity(connection, USER_STORY, title="word", creator_id=epic["creator_id"], epic_id=epic["id"])
    with empty_database.writing() as connection:  # without writing.py: the user story moves by cascade
        connection.execute(update(tables.epics).where(tables.epics.c.id == epic["id"]).values(project_id=two))
    assert find_references(empty_database, "word", Scope("test", (one,))) == []
    assert sorted(find_references(empty_database, "word", Scope("test", (two,)))) == ["EP-001", "US-001"]


def test_updates_and_deletes_change_the_index(empty_database: Database) -> None:
    epic = write_epics(empty_database, [("before", "text")])[0]
    with empty_database.writing() as connection:
        create_entity(connection, USER_STORY, title="child", creator_id=epic["creator_id"], epic_id=epic["id"])
        update_entity(connection, EPIC, epic["id"], title="after")
    assert find_references(empty_database, "before") == []
    assert find_references(empty_database, "after text") == ["EP-001"]
    with empty_database.writing() as connection:
        delete_entity(connection, EPIC, epic["id"])
    for query in ("after", "child", "ep-1", "us-1"):
        assert find_references(empty_database, query) == []
    if empty_database.dialect == "sqlite":  # where the words are in a separate table
        with empty_database.reading() as connection:
            left = connection.exec_driver_sql("SELECT count(*) FROM search_words WHERE search_words MATCH 'text'")
            assert left.scalar_one() == 0


def test_long_texts_are_found_by_their_indexed_part(empty_database: Database) -> None:
    repeated = "again and " * 300 + "at last"
    many = " ".join(f"{number:x}" for number in range(9_000)) + " tail"
    write_epics(empty_database, [("Repeated", repeated), ("Many", many), ("Joined", "x" * 50_000)])
    assert find_references(empty_database, '"at last"') == ["EP-001"]
    assert find_references(empty_database, '"and at"') == []  # after the 256th occurrence
    assert find_references(empty_database, '"8ff 900"') == ["EP-002"]
    assert find_references(empty_database, '"2327 tail"') == ["EP-002"]
    assert find_references(empty_database, "x" * 64) == ["EP-003"]

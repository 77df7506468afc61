"""Entities, relationships, projects and users are written the same way on SQLite and PostgreSQL."""

import asyncio
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import IntegrityError

from quilt_mcp.requirements import tables, writing
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.model import (
    ACCEPTANCE_CRITERIA,
    EPIC,
    KINDS,
    REQUIREMENT,
    USER_STORY,
    Kind,
)
from tests.requirements.changing import create_entity, create_project, create_user, delete_entity, relate, update_entity


def scalar(database: Database, statement: Any) -> Any:
    with database.reading() as connection:
        return connection.scalar(statement)


def row(database: Database, kind: Kind, entity_id: str) -> dict[str, Any]:
    table = tables.BY_KIND[kind.name]
    with database.reading() as connection:
        found = connection.execute(select(table).where(table.c.id == entity_id)).one()
    return found._asdict()


def count(database: Database, table: Any) -> int:
    return int(scalar(database, select(func.count()).select_from(table)))


def create_family(connection: Connection) -> dict[str, Any]:
    """Create a user and an epic with a user story, an acceptance criterion and a requirement. Return their IDs."""
    user = create_user(connection, "ada", "ada@example.com")
    epic = create_entity(connection, EPIC, title="Epic", creator_id=user)
    story = create_entity(connection, USER_STORY, title="Story", creator_id=user, epic_id=epic["id"])
    of_story = {"user_story_id": story["id"]}
    criterion = create_entity(
        connection, ACCEPTANCE_CRITERIA, description="WHEN it rains THEN it SHALL pour.", author_id=user, **of_story
    )
    type_id = connection.scalar(select(tables.requirement_types.c.id).limit(1))
    requirement = create_entity(
        connection,
        REQUIREMENT,
        title="Umbrella",
        creator_id=user,
        type_id=type_id,
        acceptance_criteria_id=criterion["id"],
        **of_story,
    )
    return {
        "user": user,
        "type": type_id,
        "epic": epic["id"],
        "user_story": story["id"],
        "acceptance_criteria": criterion["id"],
        "requirement": requirement["id"],
    }


@pytest.fixture
def made(empty_database: Database) -> dict[str, Any]:
    with empty_database.writing() as connection:
        return create_family(connection)


async def test_new_ids_are_of_version_7_and_sort_by_time() -> None:
    first = writing.new_id()
    await asyncio.sleep(0.002)
    later = writing.new_id()
    assert uuid.UUID(first).version == 7
    assert uuid.UUID(first).variant == uuid.RFC_4122
    assert first < later


def read_number(made: str) -> int:
    return uuid.UUID(made).int


def test_new_ids_sort_in_their_order_within_a_millisecond_and_if_the_clock_goes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [start := time.time_ns()]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])
    monkeypatch.setattr(writing, "_numbers", writing.IdNumbers())
    made = []
    for step in (0, -5_000_000_000, 1_000_000):
        clock[0] = start + step
        made += [writing.new_id() for _ in range(1_000)]
    assert made == sorted(set(made))
    assert {(uuid.UUID(one).version, uuid.UUID(one).variant) for one in made} == {(7, uuid.RFC_4122)}
    milliseconds = [read_number(one) >> 80 for one in made]
    assert milliseconds == [start // 1_000_000] * 2_000 + [start // 1_000_000 + 1] * 1_000
    # a process that was forked in this millisecond takes other steps
    assert len({other - one for one, other in pairwise(map(read_number, made))}) > 2_900


def test_threads_make_different_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    monkeypatch.setattr(writing, "_numbers", writing.IdNumbers())
    monkeypatch.setattr(writing, "randbits", lambda _: 0)  # what two threads make at once is equal without the lock
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            parts = list(pool.map(lambda _: [writing.new_id() for _ in range(500)], range(16)))
    finally:
        sys.setswitchinterval(before)
    assert len({one for part in parts for one in part}) == 8_000


def test_reference_ids_can_have_more_than_three_digits(empty_database: Database, made: dict[str, Any]) -> None:
    for before, expected in ((0, "EP-001"), (998, "EP-999"), (999, "EP-1000"), (9999, "EP-10000")):
        with empty_database.writing() as connection:
            connection.execute(tables.epics.delete())
            connection.execute(tables.reference_counters.update().values(last_number=before))
            created = create_entity(connection, EPIC, title="Next", creator_id=made["user"])
        assert created["reference_id"] == expected


def test_a_failed_transaction_leaves_no_gap(empty_database: Database, made: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), empty_database.writing() as connection:
        create_entity(connection, EPIC, title="x", creator_id=writing.new_id())
    with empty_database.writing() as connection:
        created = create_entity(connection, EPIC, title="x", creator_id=made["user"])
    assert created["reference_id"] == "EP-002"


def test_each_committed_transaction_increments_the_generation(database: Database) -> None:
    before = scalar(database, select(tables.generation.c.number))
    with database.writing():
        pass
    assert scalar(database, select(tables.generation.c.number)) == before + 1
    with pytest.raises(IntegrityError), database.writing() as connection:
        create_project(connection, "Sequencing Platform")
    assert scalar(database, select(tables.generation.c.number)) == before + 1


LEFT = {"epic": [0, 0, 0, 0, 0], "user_story": [1, 0, 0, 0, 0], "acceptance_criteria": [1, 1, 0, 4, 2]}
LEFT["requirement"] = [1, 1, 1, 3, 1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_deleted_with_an_entity(empty_database: Database, made: dict[str, Any], kind: Kind) -> None:
    """The numbers of entities and relationships that are left."""
    with empty_database.writing() as connection:
        ids = create_related(connection, made, 3)
        delete_entity(connection, kind, ids[0] if kind is REQUIREMENT else made[kind.name])
    counted = (*(tables.BY_KIND[one.name] for one in KINDS), tables.requirement_relationships)
    assert [count(empty_database, table) for table in counted] == LEFT[kind.name]
    if kind is ACCEPTANCE_CRITERIA:
        assert row(empty_database, REQUIREMENT, made["requirement"])["acceptance_criteria_id"] is None


@pytest.mark.parametrize("table", ["users", "projects", "requirement_types"])
def test_rows_in_use_cannot_be_deleted(empty_database: Database, made: dict[str, Any], table: str) -> None:
    with pytest.raises(IntegrityError), empty_database.writing() as connection:
        connection.execute(tables.metadata.tables[table].delete())
    assert count(empty_database, tables.requirements) == 1


WRONG: list[dict[str, Any]] = [
    {"priority": 0},
    {"priority": 5},
    {"status": "Active"},
    {"status": "backlog"},
    {"title": ""},
    {"title": "x" * 501},
    {"description": "x" * 50_001},
    {"assignee_id": "00000000-0000-4000-8000-00000000dead"},
    {"project_id": "00000000-0000-4000-8000-00000000dead"},
    {"reference_id": "EP-001"},
]


def test_the_database_refuses_invalid_values(empty_database: Database, made: dict[str, Any]) -> None:
    for wrong in WRONG:
        values = {"title": "x", "creator_id": made["user"]} | wrong
        with pytest.raises(Exception) as refused, empty_database.writing() as connection:  # noqa: PT011 - checked below
            create_entity(connection, EPIC, **values)
        # PostgreSQL raises DataError for a text that is too long for its column
        assert type(refused.value).__name__ in {"IntegrityError", "DataError"}, wrong
        assert count(empty_database, tables.epics) == 1


def test_descendants_move_with_their_epic_to_another_project(empty_database: Database, made: dict[str, Any]) -> None:
    with empty_database.writing() as connection:
        project = create_project(connection, "Other")
        update_entity(connection, EPIC, made["epic"], project_id=project)
    assert {row(empty_database, kind, made[kind.name])["project_id"] for kind in KINDS} == {project}


def test_a_story_cannot_leave_the_project_of_its_epic(empty_database: Database, made: dict[str, Any]) -> None:
    with empty_database.writing() as connection:
        project = create_project(connection, "Other")
    with pytest.raises(IntegrityError), empty_database.writing() as connection:
        update_entity(connection, USER_STORY, made["user_story"], project_id=project)


def create_related(connection: Connection, made: dict[str, Any], number: int) -> list[str]:
    """Create requirements that each depend on the previous one. Return their IDs."""
    values = {"creator_id": made["user"], "type_id": made["type"], "user_story_id": made["user_story"]}
    rows = [{"title": f"{one}", **values} for one in range(number)]
    ids = [row["id"] for row in writing.create_entities(connection, REQUIREMENT, rows)]
    for target, source in pairwise(ids):
        relate(connection, source, "depends_on", target, made["user"])
    return ids


def test_two_requirements_have_one_relationship_of_a_type(empty_database: Database, made: dict[str, Any]) -> None:
    with empty_database.writing() as connection:
        ids = create_related(connection, made, 2)
    with pytest.raises(IntegrityError), empty_database.writing() as connection:
        relate(connection, ids[1], "depends_on", ids[0], made["user"])
    with pytest.raises(IntegrityError), empty_database.writing() as connection:
        relate(connection, ids[1], "relates_to", ids[1], made["user"])

"""Writing entities, relationships, projects and users: the same on SQLite and PostgreSQL."""

import asyncio
import uuid
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from quilt_mcp.requirements import kinds, tables, writing
from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.kinds import (
    ACCEPTANCE_CRITERIA,
    DEFAULT_PROJECT_ID,
    EPIC,
    KINDS,
    REQUIREMENT,
    USER_STORY,
    Kind,
)
from quilt_mcp.requirements.membership import add_member, create_project, create_user, remove_member


async def scalar(database: Database, statement: Any) -> Any:
    async with database.reading() as connection:
        return await connection.scalar(statement)


async def row(database: Database, kind: Kind, entity_id: str) -> dict[str, Any]:
    table = tables.BY_KIND[kind.name]
    async with database.reading() as connection:
        found = (await connection.execute(select(table).where(table.c.id == entity_id))).one()
    return found._asdict()


async def count(database: Database, table: Any) -> int:
    return int(await scalar(database, select(func.count()).select_from(table)))


async def family(connection: AsyncConnection) -> dict[str, Any]:
    """A user, and an epic with a story, a criterion and a requirement."""
    user = await create_user(connection, "ada", "ada@example.com")
    epic = await writing.create_entity(connection, EPIC, title="Epic", creator_id=user)
    story = await writing.create_entity(connection, USER_STORY, title="Story", creator_id=user, epic_id=epic["id"])
    of_story = {"user_story_id": story["id"]}
    criterion = await writing.create_entity(
        connection, ACCEPTANCE_CRITERIA, description="WHEN it rains THEN it SHALL pour.", author_id=user, **of_story
    )
    type_id = await connection.scalar(select(tables.requirement_types.c.id).limit(1))
    requirement = await writing.create_entity(
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
async def made(empty_database: Database) -> dict[str, Any]:
    async with empty_database.writing() as connection:
        return await family(connection)


async def entries(database: Database) -> set[tuple[str, str]]:
    """Kind and project of what the search index holds."""
    async with database.reading() as connection:
        found = await connection.execute(
            text("SELECT kind, project_id FROM search_entries").columns(project_id=tables.Id)
        )
        return {(kind, project) for kind, project in found}


async def test_an_entity_has_defaults(empty_database: Database, made: dict[str, Any]) -> None:
    epic = await row(empty_database, EPIC, made["epic"])
    assert epic["reference_id"] == "EP-001"
    assert (epic["status"], epic["priority"], epic["project_id"]) == ("Backlog", 3, DEFAULT_PROJECT_ID)
    assert epic["assignee_id"] == epic["creator_id"] == made["user"]
    assert epic["created_at"].tzinfo is UTC


async def test_times_come_back_in_utc(empty_database: Database, made: dict[str, Any]) -> None:
    moment = datetime.fromisoformat("2026-03-29T03:30:00.123456+05:30")
    async with empty_database.writing() as connection:
        epic = await writing.create_entity(
            connection, EPIC, title="Then", creator_id=made["user"], created_at=moment, updated_at=moment
        )
    assert (await row(empty_database, EPIC, epic["id"]))["created_at"] == moment
    assert (await row(empty_database, EPIC, epic["id"]))["created_at"].isoformat() == "2026-03-28T22:00:00.123456+00:00"


async def test_new_ids_are_of_version_7_and_in_the_order_of_their_making() -> None:
    first, later = writing.new_id(), None
    await asyncio.sleep(0.002)
    later = writing.new_id()
    assert uuid.UUID(first).version == 7
    assert uuid.UUID(first).variant == uuid.RFC_4122
    assert first < later


@pytest.mark.parametrize(("before", "expected"), [(0, "EP-001"), (998, "EP-999"), (999, "EP-1000"), (9999, "EP-10000")])
async def test_reference_ids_go_past_their_padding(
    empty_database: Database, made: dict[str, Any], before: int, expected: str
) -> None:
    async with empty_database.writing() as connection:
        await connection.execute(tables.epics.delete())
        await connection.execute(tables.reference_counters.update().values(last_number=before))
        created = await writing.create_entity(connection, EPIC, title="Next", creator_id=made["user"])
    assert created["reference_id"] == expected


async def test_reference_ids_are_longer_where_many_are_made_at_once(
    empty_database: Database, made: dict[str, Any]
) -> None:
    rows = [{"title": f"{number}", "creator_id": made["user"]} for number in range(1100)]
    async with empty_database.writing() as connection:
        created = await writing.create_entities(connection, EPIC, rows)
    references = [one["reference_id"] for one in created]
    assert references == [f"EP-{number:03d}" for number in range(2, 1102)]


async def test_numbers_go_on_after_a_given_reference_id(empty_database: Database, made: dict[str, Any]) -> None:
    async with empty_database.writing() as connection:
        rows = [
            {"title": "Free", "creator_id": made["user"]},
            {"title": "Given", "creator_id": made["user"], "reference_id": "EP-041"},
        ]
        created = await writing.create_entities(connection, EPIC, rows)
    assert [one["reference_id"] for one in created] == ["EP-042", "EP-041"]


async def test_a_failed_transaction_leaves_no_gap(empty_database: Database, made: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError):
        async with empty_database.writing() as connection:
            await writing.create_entity(connection, EPIC, title="x", creator_id=writing.new_id())
    async with empty_database.writing() as connection:
        created = await writing.create_entity(connection, EPIC, title="x", creator_id=made["user"])
    assert created["reference_id"] == "EP-002"


async def test_concurrent_writers_share_the_numbers_without_gap_or_duplicate(
    empty_database: Database, made: dict[str, Any]
) -> None:
    async def write(number: int) -> str:
        async with empty_database.writing() as connection:
            created = await writing.create_entity(connection, EPIC, title=f"{number}", creator_id=made["user"])
            await asyncio.sleep(0)
        return str(created["reference_id"])

    references = await asyncio.gather(*(write(number) for number in range(20)))
    assert sorted(references) == [f"EP-{number:03d}" for number in range(2, 22)]


async def test_each_transaction_that_writes_is_a_generation_of_its_own(database: Database) -> None:
    before = await scalar(database, select(tables.generation.c.number))
    async with database.writing():
        pass
    assert await scalar(database, select(tables.generation.c.number)) == before + 1
    with pytest.raises(IntegrityError):
        async with database.writing() as connection:
            await create_project(connection, "Sequencing Platform")
    assert await scalar(database, select(tables.generation.c.number)) == before + 1


async def test_deleting_an_epic_deletes_all_that_belongs_to_it(empty_database: Database, made: dict[str, Any]) -> None:
    async with empty_database.writing() as connection:
        other = await writing.create_entity(connection, EPIC, title="Stays", creator_id=made["user"])
        await writing.delete_entity(connection, EPIC, made["epic"])
    assert [await count(empty_database, tables.BY_KIND[kind.name]) for kind in KINDS] == [1, 0, 0, 0]
    assert (await row(empty_database, EPIC, other["id"]))["title"] == "Stays"
    assert await entries(empty_database) == {("epic", DEFAULT_PROJECT_ID)}


async def test_a_requirement_survives_its_criterion(empty_database: Database, made: dict[str, Any]) -> None:
    async with empty_database.writing() as connection:
        await writing.delete_entity(connection, ACCEPTANCE_CRITERIA, made["acceptance_criteria"])
    requirement = await row(empty_database, REQUIREMENT, made["requirement"])
    assert requirement["acceptance_criteria_id"] is None


@pytest.mark.parametrize("table", ["users", "projects", "requirement_types"])
async def test_what_is_in_use_is_not_deleted(empty_database: Database, made: dict[str, Any], table: str) -> None:
    with pytest.raises(IntegrityError):
        async with empty_database.writing() as connection:
            await connection.execute(tables.metadata.tables[table].delete())
    assert await count(empty_database, tables.requirements) == 1


@pytest.mark.parametrize(
    "wrong",
    [
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
    ],
    ids=lambda wrong: ",".join(f"{key}={str(value)[:12]}" for key, value in wrong.items()),
)
async def test_the_database_refuses(empty_database: Database, made: dict[str, Any], wrong: dict[str, Any]) -> None:
    values = {"title": "x", "creator_id": made["user"]} | wrong
    with pytest.raises(Exception) as refused:  # noqa: PT011 - which one, the next line says
        async with empty_database.writing() as connection:
            await writing.create_entity(connection, EPIC, **values)
    # a text that is too long for its column is a DataError in PostgreSQL
    assert type(refused.value).__name__ in {"IntegrityError", "DBAPIError"}
    assert await count(empty_database, tables.epics) == 1


async def test_the_longest_texts_are_taken(empty_database: Database, made: dict[str, Any]) -> None:
    texts = {"title": "Ü" * kinds.TITLE_LENGTH, "description": "ß" * kinds.DESCRIPTION_LENGTH}
    async with empty_database.writing() as connection:
        epic = await writing.create_entity(connection, EPIC, creator_id=made["user"], **texts)
    stored = await row(empty_database, EPIC, epic["id"])
    assert {name: stored[name] for name in texts} == texts


async def test_an_unknown_parent_is_refused(empty_database: Database, made: dict[str, Any]) -> None:
    values = {"title": "x", "creator_id": made["user"], "epic_id": made["user_story"]}
    with pytest.raises(LookupError, match="There is no epic"):
        async with empty_database.writing() as connection:
            await writing.create_entity(connection, USER_STORY, **values)


async def test_a_family_moves_with_its_epic_to_another_project(empty_database: Database, made: dict[str, Any]) -> None:
    async with empty_database.writing() as connection:
        project = await create_project(connection, "Other")
        await writing.update_entity(connection, EPIC, made["epic"], project_id=project)
    assert {(await row(empty_database, kind, made[kind.name]))["project_id"] for kind in KINDS} == {project}
    assert await entries(empty_database) == {(kind.name, project) for kind in KINDS}


async def test_a_story_moves_with_its_children_to_another_epic(empty_database: Database, made: dict[str, Any]) -> None:
    async with empty_database.writing() as connection:
        project = await create_project(connection, "Other")
        epic = await writing.create_entity(connection, EPIC, title="E", creator_id=made["user"], project_id=project)
        await writing.update_entity(connection, USER_STORY, made["user_story"], epic_id=epic["id"])
    assert (await row(empty_database, EPIC, made["epic"]))["project_id"] == DEFAULT_PROJECT_ID
    assert {(await row(empty_database, kind, made[kind.name]))["project_id"] for kind in KINDS[1:]} == {project}


async def test_a_story_cannot_leave_its_epics_project(empty_database: Database, made: dict[str, Any]) -> None:
    async with empty_database.writing() as connection:
        project = await create_project(connection, "Other")
    with pytest.raises(IntegrityError):
        async with empty_database.writing() as connection:
            await writing.update_entity(connection, USER_STORY, made["user_story"], project_id=project)


async def test_an_update_changes_what_is_said_and_the_time(empty_database: Database, made: dict[str, Any]) -> None:
    before = await row(empty_database, EPIC, made["epic"])
    async with empty_database.writing() as connection:
        await writing.update_entity(connection, EPIC, made["epic"], title="New", status="Done")
    after = await row(empty_database, EPIC, made["epic"])
    assert after.pop("updated_at") > before.pop("updated_at")
    assert after == before | {"title": "New", "status": "Done"}


@pytest.mark.parametrize("change", [writing.update_entity, writing.delete_entity])
async def test_what_does_not_exist_is_not_changed(empty_database: Database, change: Any) -> None:
    with pytest.raises(LookupError):
        async with empty_database.writing() as connection:
            await change(connection, EPIC, writing.new_id())


async def test_members_come_and_go(empty_database: Database) -> None:
    async with empty_database.writing() as connection:
        user = await create_user(connection, "ada", "ada@example.com")
        project = await create_project(connection, "Other", "Of others")
        await add_member(connection, user, project, "Viewer")
        await add_member(connection, user, project, "Editor")
        await remove_member(connection, user, DEFAULT_PROJECT_ID)
    async with empty_database.reading() as connection:
        members = (await connection.execute(select(tables.project_members))).all()
    assert [tuple(member) for member in members] == [(user, project, "Editor")]


async def related(connection: AsyncConnection, made: dict[str, Any], number: int) -> list[str]:
    """Requirements that each depend on the one before."""
    values = {"creator_id": made["user"], "type_id": made["type"], "user_story_id": made["user_story"]}
    rows = [{"title": f"{one}", **values} for one in range(number)]
    ids = [row["id"] for row in await writing.create_entities(connection, REQUIREMENT, rows)]
    for target, source in pairwise(ids):
        await writing.relate(connection, source, "depends_on", target, made["user"])
    return ids


async def test_relationships_must_not_lead_back(empty_database: Database, made: dict[str, Any]) -> None:
    async with empty_database.writing() as connection:
        ids = await related(connection, made, 4)
        with pytest.raises(ValueError, match="back to itself"):
            await writing.relate(connection, ids[0], "depends_on", ids[3], made["user"])
        with pytest.raises(ValueError, match="back to itself"):
            await writing.relate(connection, ids[0], "depends_on", ids[0], made["user"])
        await writing.relate(connection, ids[0], "relates_to", ids[3], made["user"])
        back = await writing.relate(connection, ids[0], "blocks", ids[3], made["user"])
        await writing.unrelate(connection, back)
        await writing.relate(connection, ids[3], "depends_on", ids[0], made["user"])
    assert await count(empty_database, tables.requirement_relationships) == 5


async def test_two_requirements_are_related_once_by_a_type(empty_database: Database, made: dict[str, Any]) -> None:
    async with empty_database.writing() as connection:
        ids = await related(connection, made, 2)
    with pytest.raises(IntegrityError):
        async with empty_database.writing() as connection:
            await writing.relate(connection, ids[1], "depends_on", ids[0], made["user"])
    with pytest.raises(LookupError, match="no type of relationship likes"):
        async with empty_database.writing() as connection:
            await writing.relate(connection, made["requirement"], "likes", made["requirement"], made["user"])


async def test_relationships_end_with_either_requirement(empty_database: Database, made: dict[str, Any]) -> None:
    async with empty_database.writing() as connection:
        ids = await related(connection, made, 3)
        await writing.delete_entity(connection, REQUIREMENT, ids[1])
    assert await count(empty_database, tables.requirement_relationships) == 0

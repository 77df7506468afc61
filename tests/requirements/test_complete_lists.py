"""Nothing that is cut looks complete: each list has its total and a way to the rest."""

from typing import Any

import pytest
from sqlalchemy import select

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.reads import MAX_CHILDREN, MAX_LIMIT
from tests.contract.surfaces import AnyClient
from tests.requirements.client import connect, read, read_all, read_failure, read_pages
from tests.requirements.conftest import opened
from tests.requirements.graphs import make_tree, write_graph
from tests.support.settings import Settings

STORIES, REQUIREMENTS = 1000, 15


def select_pairs(settings: Settings, child: Any) -> set[tuple[str, str]]:
    """Return the user story and the ID of every child, with plain SQL."""
    with opened(settings) as database, database.reading() as connection:
        return {(row.user_story_id, row.id) for row in connection.execute(select(child.c.user_story_id, child.c.id))}


@pytest.mark.soak
async def test_every_descendant_of_a_big_epic_can_be_reached_and_no_page_states_a_falsehood(
    settings_with_tables: Settings,
) -> None:
    # every seventh has no requirements, which must differ from requirements that were not read
    stories = [(at % 3, 0 if at % 7 == 0 else REQUIREMENTS) for at in range(STORIES)]
    write_graph(settings_with_tables, make_tree(stories))
    async with connect(settings_with_tables) as client:
        pages = await read_all(client, "epics/EP-001/hierarchy")
    shown = [story for page in pages for story in page["user_stories"]]
    assert len(shown) == len({story["id"] for story in shown}) == STORIES
    assert [story["id"] for story in shown] == sorted(story["id"] for story in shown)
    assert {page["count"] for page in pages} == {STORIES}
    assert not any(page["is_complete"] for page in pages)
    for name, child in (("requirements", tables.requirements), ("acceptance_criteria", tables.acceptance_criteria)):
        real = select_pairs(settings_with_tables, child)
        assert {(story["id"], one["id"]) for story in shown for one in story[name]} == real
        assert all(len(story[name]) == story[f"{name}_count"] for story in shown)
    assert all(story["is_complete"] for story in shown)
    assert len([story for story in shown if not story["requirements"]]) == len(range(0, STORIES, 7))


async def test_a_page_of_a_hierarchy_has_at_most_the_limit(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        whole = await read(client, "epics/EP-001/hierarchy")
        pages = await read_pages(client, "epics/EP-001/hierarchy", "user_stories", 3)
        first = await read(client, "epics/EP-001/hierarchy?limit=3")
        for bad in ("0", "201", "x"):
            body = (await read_failure(client, f"epics/EP-001/hierarchy?limit={bad}")).body
            assert body["error"] == "InvalidTemplateVariable"
    assert whole["is_complete"]
    assert [story for page in pages for story in page] == whole["user_stories"]
    assert (first["is_complete"], first["count"]) == (False, whole["count"])


async def test_a_user_story_with_too_many_children_says_how_many_and_the_rest_can_be_read(
    settings_with_tables: Settings,
) -> None:
    number = MAX_CHILDREN + 5
    write_graph(settings_with_tables, make_tree([(1, 2), (0, number), (1, 3)]))
    async with connect(settings_with_tables) as client:
        pages = await read_all(client, "epics/EP-001/hierarchy")
        shown = [story for page in pages for story in page["user_stories"]]
        [big] = [story for story in shown if story["requirements_count"] == number]
        rest = await read_pages(client, f"user-stories/{big['id']}/requirements", "requirements", 200)
    assert (big["acceptance_criteria"], big["is_complete"]) == ([], False)
    assert 0 < len(big["requirements"]) < number
    all_of_story = [one for page in rest for one in page]
    assert big["requirements"] == all_of_story[: len(big["requirements"])]
    assert len(all_of_story) == number
    others = [story for story in shown if story is not big]
    assert [(len(story["requirements"]), story["is_complete"]) for story in others].count((2, True)) == 1
    assert len(shown) == 3


async def test_an_epic_without_user_stories_is_complete(settings_with_tables: Settings) -> None:
    write_graph(settings_with_tables, make_tree([]))
    async with connect(settings_with_tables) as client:
        tree = await read(client, "epics/EP-001/hierarchy")
    assert (tree["user_stories"], tree["count"], tree["next_cursor"], tree["is_complete"]) == ([], 0, None, True)


@pytest.mark.parametrize(("query", "limit"), [("?limit=30", 30), pytest.param("", MAX_LIMIT, marks=pytest.mark.soak)])
async def test_every_relationship_can_be_reached_in_both_directions(
    query: str, limit: int, settings_with_tables: Settings
) -> None:
    number = limit * 2 + 7
    write_graph(settings_with_tables, make_tree([(0, number + 1)], relationships=number))
    async with connect(settings_with_tables) as client:
        pages = await read_all(client, f"requirements/REQ-001/relationships{query}")
    for direction, total in (("source", number), ("target", number // 2)):
        ids = [one["id"] for page in pages for one in page[f"{direction}_relationships"]]
        assert len(ids) == len(set(ids)) == total
        assert ids == sorted(ids)
        assert {page[f"{direction}_count"] for page in pages} == {total}
    assert not any(page["is_complete"] for page in pages)


async def test_a_near_miss_of_a_reference_id_names_the_right_one_if_the_caller_may_see_it(
    settings_with_sample: Settings,
) -> None:
    async def advise(client: AnyClient, path: str) -> str:
        body = (await read_failure(client, path)).body
        assert body["error"] == "InvalidTemplateVariable"
        return str(body["suggested_actions"])

    meant = "Did you mean EP-001? Read requirements://epics/EP-001."
    async with connect(settings_with_sample) as client:
        for miss in ("EP-1", "ep-001", "EP001", "ep_1", "EP-01", "EP-0001", "EP-000000000000001"):
            assert meant in await advise(client, f"epics/{miss}")
            assert meant in await advise(client, f"epics/{miss}/hierarchy")
        assert "user-stories/US-001" in await advise(client, "epics/us-1")
        assert "Did you mean" not in await advise(client, "epics/EP-9999x")
        assert "Did you mean" not in await advise(client, "epics/ep-9999")
    async with connect(settings_with_sample, "peter_van_dijk") as client:
        assert "Did you mean" not in await advise(client, "epics/EP-1")
    async with connect(settings_with_sample, "nobody") as client:
        assert "Did you mean" not in await advise(client, "epics/EP-1")

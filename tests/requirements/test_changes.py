"""What changed last: the entities of all kinds in one list, compared with a model in plain Python."""

import random
from typing import Any

import pytest

from quilt_mcp.requirements.model import EPIC, KINDS
from quilt_mcp.requirements.resources import RESOURCES
from quilt_mcp.requirements.writing import raise_counter
from tests.contract.surfaces import AnyClient
from tests.requirements.changing import create_project, create_user
from tests.requirements.client import connect, read, read_failure, read_pages
from tests.requirements.conftest import opened
from tests.requirements.graphs import make_tree, write_graph
from tests.requirements.searching import write_epics
from tests.requirements.test_coverage import explain
from tests.support.settings import Settings

MEMBER, STRANGER = "emma_johansson", "peter_van_dijk"
[URI] = [definition["uri"] for definition in RESOURCES if definition["uri"].startswith("requirements://changes")]


def name_fields(row: dict[str, Any]) -> list[str] | None:
    """Return what the sample says that an entity changed last."""
    if row["created_at"] == row["updated_at"]:
        return None
    of_others = ["status"] if "status" in row else ["description"]
    return ["assignee_id", "priority"] if row.get("priority") == 1 else of_others


async def make_model(client: AnyClient) -> list[dict[str, Any]]:
    """Return the changes that the lists of the four kinds imply."""
    found = []
    for kind in KINDS:
        for page in await read_pages(client, kind.segment, kind.table, 200):
            found += [(kind, row) for row in page]
    found.sort(key=lambda one: (one[1]["updated_at"], one[1]["id"]), reverse=True)
    return [
        {
            "reference_id": row["reference_id"],
            "type": kind.name,
            "title": row["title"] if kind.statuses else row["description"][:120],
            "status": row.get("status"),
            "change": "created" if row["created_at"] == row["updated_at"] else "updated",
            "fields": name_fields(row),
            "at": row["updated_at"],
            "author_name": row[f"{kind.author_column.removesuffix('_id')}_name"],
            "uri": f"requirements://{kind.segment}/{row['reference_id']}",
        }
        for kind, row in found
    ]


@pytest.mark.parametrize("user", [None, MEMBER, STRANGER])
async def test_every_page_is_as_the_lists_say(settings_with_sample: Settings, user: str | None) -> None:
    choose = random.Random(1)  # noqa: S311 - a test chooses with it
    async with connect(settings_with_sample, user) as client:
        model = await make_model(client)
        assert (await read(client, "changes?limit=200"))["count"] == len(model)
        for _ in range(6):
            since = choose.choice(model)["at"] if model else "2024-09-02"
            wanted = choose.sample([kind.name for kind in KINDS], choose.randint(1, 4))
            expected = [one for one in model if one["at"] >= since and one["type"] in wanted]
            path = f"changes?since={since}&kind={','.join(wanted)}"
            pages = await read_pages(client, path, "changes", choose.randint(5, 200))
            assert [one for page in pages for one in page] == expected
            assert (await read(client, path))["count"] == len(expected)


async def test_a_project_limits_the_changes_to_its_entities(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        name = (await read(client, "projects"))["projects"][-1]["name"]
        found = await read_pages(client, f"changes?project={name}&kind=epic", "changes", 200)
        of_project = await read_pages(client, f"epics?project={name}", "epics", 200)
        everything = await read(client, "changes?kind=epic")
    assert {one["reference_id"] for one in found[0]} == {one["reference_id"] for one in of_project[0]}
    assert 0 < len(found[0]) < everything["count"]


async def test_other_projects_and_wrong_values_are_refused(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        names = [one["name"] for one in (await read(client, "projects"))["projects"]]
        cursor = (await read(client, "changes?limit=1"))["next_cursor"]
    async with connect(settings_with_sample, MEMBER) as client:
        own = [one["name"] for one in (await read(client, "projects"))["projects"]]
        hidden = next(name for name in names if name not in own)
        bodies = {}
        for path in (
            f"changes?project={hidden}",
            "changes?project=Nothing",
            "changes?kind=story",
            "changes?kind=user-story",
            "changes?since=yesterday",
            f"changes?cursor={cursor}",
            "changes?limit=0",
        ):
            bodies[path] = (await read_failure(client, path)).body
            assert bodies[path]["error"] == "InvalidTemplateVariable", path
    messages = {bodies[f"changes?project={hidden}"]["message"], bodies["changes?project=Nothing"]["message"]}
    assert len(messages) == 1
    assert bodies["changes?kind=user-story"]["suggested_actions"][0] == "Did you mean user_story?"


@pytest.mark.soak
async def test_a_member_of_a_small_project_does_not_read_the_changes_of_others(
    settings_with_tables: Settings, statements: list[tuple[str, Any]]
) -> None:
    write_graph(settings_with_tables, make_tree([], epics=20_000))
    with opened(settings_with_tables) as database:
        with database.writing() as connection:
            project = create_project(connection, "Small")
            create_user(connection, "small", "s@example.com", projects=[project])
            raise_counter(connection, EPIC, 20_000)
        write_epics(database, [(f"Epic {number}", "") for number in range(5)], project_id=project)
        if database.dialect == "postgresql":
            with database.writing() as connection:
                connection.exec_driver_sql("ANALYZE epics")
        async with connect(settings_with_tables, "small") as client:
            pages = await read_pages(client, "changes", "changes", 2)
            found = [one["reference_id"] for page in pages for one in page]
            newest = await read_pages(client, f"changes?since={pages[0][0]['at']}", "changes", 200)
        plans = [explain(database, *one) for one in statements if "epics" in one[0] and "count" not in one[0]]
    assert found == [f"EP-{number}" for number in range(20_005, 20_000, -1)]
    assert found[0] in [one["reference_id"] for one in newest[0]]
    assert plans
    for plan in plans:
        assert "SCAN epics" not in plan, plan
        assert "Seq Scan on epics" not in plan, plan


async def test_changes_in_a_database_of_the_earlier_system(existing_settings: Settings) -> None:
    async with connect(existing_settings) as client:
        found = await read(client, "changes")
        body = (await read_failure(client, "changes?project=Default")).body
    assert [one["type"] for one in found["changes"]].count("epic") >= 1
    assert "has no projects" in body["message"]

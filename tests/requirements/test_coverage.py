"""Coverage, projects and names are what a brute force over all rows finds, and need few statements with indexes."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import update

from quilt_mcp.requirements.database import Database
from quilt_mcp.requirements.model import BY_NAME, KINDS
from quilt_mcp.requirements.tables import projects
from tests.requirements.client import connect, read, read_pages
from tests.requirements.conftest import opened
from tests.requirements.graphs import Graph, Row, make_graph, write_graph
from tests.requirements.reading import file_of, name_of
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings

USERS = (None, "one", "two", "none")


def of_epic(graph: Graph, row: Row, epic: str) -> bool:
    if "epic_id" in row:
        return bool(row["epic_id"] == epic)
    return any(one["id"] == row["user_story_id"] and one["epic_id"] == epic for one in graph.entities["user_story"])


def expected_gaps(
    graph: Graph, user: str | None, *, epic: str | None = None, project: str | None = None
) -> dict[str, tuple[list[str], int]]:
    """The IDs of each category and the number of entities of its kinds, from plain rows."""
    seen = {kind.name: graph.visible(kind.name, user) for kind in KINDS}
    every = {kind.name: {one["id"] for one in graph.entities[kind.name]} for kind in KINDS}

    def rows(kind: str) -> list[Row]:
        found = [one for _, one in sorted(seen[kind].items())]
        found = [one for one in found if project in (None, one["project_id"])]
        return [one for one in found if epic is None or of_epic(graph, one, epic)]

    with_criteria = {one["user_story_id"] for one in seen["acceptance_criteria"].values()}
    with_requirements = {one["user_story_id"] for one in seen["requirement"].values()}
    referred = {one["acceptance_criteria_id"] for one in seen["requirement"].values()}
    stories, criteria, wanted = rows("user_story"), rows("acceptance_criteria"), rows("requirement")
    found = {
        "stories_without_criteria": ([one["id"] for one in stories if one["id"] not in with_criteria], len(stories)),
        "stories_without_requirements": (
            [one["id"] for one in stories if one["id"] not in with_requirements],
            len(stories),
        ),
        "criteria_without_requirements": ([one["id"] for one in criteria if one["id"] not in referred], len(criteria)),
        "requirements_without_criterion": (
            [one["id"] for one in wanted if one["acceptance_criteria_id"] not in seen["acceptance_criteria"]],
            len(wanted),
        ),
    }
    if epic is None:
        lost = [
            one["id"]
            for kind in KINDS[1:]
            for one in rows(kind.name)
            if one[str(kind.parent_column)] not in every[BY_NAME[str(kind.parent)].name]
        ]
        found["orphans"] = lost, len(stories) + len(criteria) + len(wanted)
    return found


async def check_coverage(client: Any, expected: dict[str, tuple[list[str], int]], parameters: str = "") -> None:
    """Check the counts, the first entities, and the rest of each category."""
    found = await read(client, f"coverage?{parameters}" if parameters else "coverage")
    assert [gap["category"] for gap in found["gaps"]] == list(expected)
    assert found["next_cursor"] is None
    for gap in found["gaps"]:
        ids, total = expected[gap["category"]]
        assert (gap["count"], gap["total"]) == (len(ids), total)
        assert [one["id"] for one in gap["entities"]] == ids[:5]
        shown = [one["id"] for one in gap["entities"]]
        rest = gap["rest"]
        while rest:
            page = await read(client, rest.removeprefix("requirements://"))
            [more] = page["gaps"]
            assert (more["count"], more["total"]) == (len(ids), total)
            shown += [one["id"] for one in more["entities"]]
            rest = more["rest"]
        assert shown == ids


@pytest.mark.parametrize("user", USERS)
async def test_coverage_is_what_brute_force_finds(user: str | None, settings_with_tables: Settings) -> None:
    graph = make_graph(17)
    write_graph(settings_with_tables, graph)
    async with connect(settings_with_tables, user) as client:
        await check_coverage(client, expected_gaps(graph, user))
        for epic in list(graph.visible("epic", user).values())[:3]:
            expected = expected_gaps(graph, user, epic=epic["id"])
            await check_coverage(client, expected, f"epic={epic['reference_id']}")
            found = await read(client, f"coverage?epic={epic['id']}&project={epic['project_id']}")
            assert (found["epic"]["reference_id"], found["project"]["id"]) == (epic["reference_id"], epic["project_id"])
            assert [gap["count"] for gap in found["gaps"]] == [len(ids) for ids, _ in expected.values()]
        for project in graph.projects:
            if project["id"] in graph.project_ids(user):
                expected = expected_gaps(graph, user, project=project["id"])
                await check_coverage(client, expected, f"project={project['name'].replace(' ', '%20')}")


async def test_a_project_name_can_look_like_an_id(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        one, other = (await read(client, "projects"))["projects"][:2]
        for name, found in ((other["id"], other["id"]), ("7b6f0b9e-1111-4222-8333-444455556666", one["id"])):
            with opened(settings_with_sample) as database, database.writing() as connection:
                connection.execute(update(projects).where(projects.c.id == one["id"]).values(name=name))
            assert (await read(client, f"coverage?project={name}"))["project"]["id"] == found


async def test_coverage_of_the_earlier_system(existing_settings: Settings) -> None:
    graph = make_graph(19)
    write_graph(existing_settings, graph)
    users = {one["id"]: one["username"] for one in graph.users}
    epic, row = graph.entities["epic"][0], graph.entities["requirement"][0]
    async with connect(existing_settings) as client:
        await check_coverage(client, expected_gaps(graph, None))
        expected = expected_gaps(graph, None, epic=epic["id"])
        await check_coverage(client, expected, f"epic={epic['reference_id']}")
        assert await read(client, "projects") == {"projects": [], "count": 0, "next_cursor": None}
        requirement = await read(client, f"requirements/{row['reference_id']}")
    names = {key: value for key, value in requirement.items() if key.endswith("_name")}
    of_users = {f"{key}_name": users[row[f"{key}_id"]] for key in ("creator", "assignee")}
    assert names == {**of_users, "type_name": "Functional", "project_name": None}


def remove_parents(settings: Settings, postgres: PostgresServer | None, *ids: str) -> None:
    """Remove an epic and a user story as a program does that does not ask for foreign keys."""
    # constants
    statements = [f"DELETE FROM {kind.table} WHERE id = '{one}'" for kind, one in zip(KINDS, ids, strict=False)]  # noqa: S608 - IDs of this test
    if postgres is None:
        with closing(sqlite3.connect(file_of(settings))) as connection, connection:
            for statement in statements:
                connection.execute(statement.replace("-", ""))
    else:
        statement = f"SET session_replication_role = replica; {'; '.join(statements)}"
        postgres.sql(statement, database=name_of(settings))


async def test_orphans_of_all_kinds_are_found_and_paged(
    settings_with_tables: Settings, dialect: str, request: pytest.FixtureRequest
) -> None:
    graph = make_graph(29)
    write_graph(settings_with_tables, graph)
    postgres = None if dialect == "sqlite" else request.getfixturevalue("postgres")
    with_children = Counter(one["user_story_id"] for one in graph.entities["acceptance_criteria"])
    removed = [graph.entities["user_story"][0]["epic_id"], max(with_children, key=lambda one: with_children[one])]
    remove_parents(settings_with_tables, postgres, *removed)
    for kind in ("epic", "user_story"):
        graph.entities[kind] = [one for one in graph.entities[kind] if one["id"] not in removed]
    for user in (None, "one"):
        expected = expected_gaps(graph, user)
        async with connect(settings_with_tables, user) as client:
            await check_coverage(client, expected)
            pages = await read_pages(client, "coverage?category=orphans", "gaps", 2)
        shown = [one["id"] for [gap] in pages for one in gap["entities"]]
        assert shown == expected["orphans"][0]
    assert len(expected_gaps(graph, None)["orphans"][0]) > 3


async def test_projects_are_those_of_the_caller(settings_with_tables: Settings) -> None:
    graph = make_graph(31)
    write_graph(settings_with_tables, graph)
    epics = Counter(one["project_id"] for one in graph.entities["epic"])
    for user in USERS[1:]:
        async with connect(settings_with_tables, user) as client:
            seen = sorted(graph.project_ids(user))
            pages = await read_pages(client, "projects", "projects", 1)
            rows = [one for page in pages for one in page]
            assert [(one["id"], one["epic_count"]) for one in rows] == [(one, epics[one]) for one in seen]
            assert (await read(client, "projects"))["count"] == len(seen)
            names = sorted(one["name"] for one in graph.projects if one["id"] in seen)
            assert [one["name"] for one in sorted(rows, key=lambda one: str(one["name"]))] == names


@pytest.mark.soak
async def test_the_number_of_statements_does_not_depend_on_the_rows(
    make_settings: Callable[..., Settings], dialect: str, statements: list[tuple[str, Any]]
) -> None:
    numbers = []
    for size in (3, 12):
        settings, graph = make_settings(dialect, "tables"), make_graph(37, size=size)
        write_graph(settings, graph)
        async with connect(settings) as client:
            await read(client, "epics")
            of_size = {}
            requirement, epic = (graph.entities[kind][0]["reference_id"] for kind in ("requirement", "epic"))
            for path in (
                "coverage",
                f"coverage?epic={epic}",
                "coverage?category=criteria_without_requirements",
                "projects",
                "requirements?limit=200",
                f"requirements/{requirement}",
                f"requirements/{requirement}/relationships",
                f"epics/{epic}/trace?limit=200",
            ):
                del statements[:]
                await read(client, path)
                of_size[path.partition("/")[0] + path.rpartition("/")[2]] = len(statements) // 2  # for each surface
            numbers.append(of_size)
    for fewer, more in pairwise(numbers):
        for path, number in more.items():
            assert number <= 45, path
            if "trace" not in path and "coverage" not in path:  # which read no page of a category without entities
                assert number == list(fewer.values())[list(more).index(path)], path
                assert number <= 4, path


def explain(database: Database, statement: str, parameters: Any) -> str:
    with database.reading() as connection:
        if connection.dialect.name == "sqlite":
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            return "\n".join(str(row[-1]) for row in rows)
        connection.exec_driver_sql("SET enable_seqscan = off")
        rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
        return "\n".join(str(row[0]) for row in rows)


@pytest.mark.soak
@pytest.mark.parametrize("user", [None, "two"])
async def test_every_statement_can_use_indexes(
    user: str | None, settings_with_tables: Settings, dialect: str, statements: list[tuple[str, Any]]
) -> None:
    graph = make_graph(41, size=40)
    write_graph(settings_with_tables, graph)
    with opened(settings_with_tables) as database:
        async with connect(settings_with_tables, user) as client:
            epic, requirement = (
                next(iter(graph.visible(kind, user).values()))["reference_id"] for kind in ("epic", "requirement")
            )
            await read(client, "epics")
            for path in (
                "coverage",
                f"coverage?epic={epic}",
                f"epics/{epic}/trace",
                f"requirements/{requirement}/trace",
            ):
                del statements[:]
                await read(client, path)
                taken = list(statements)
                for statement, parameters in taken:
                    check_plan(explain(database, statement, parameters), statement, is_limited=path != "coverage")


def check_plan(plan: str, statement: str, *, is_limited: bool) -> None:
    """Check that no table of entities or relationships is read without an index, nor whole if a part was asked for."""
    tables = [*(kind.table for kind in KINDS), "requirement_relationships"]
    for line in plan.splitlines():
        for table in tables:
            assert f"Seq Scan on {table}" not in line, f"{plan}\n{statement}"
            if f"SCAN {table}" in line:
                assert not is_limited, f"{plan}\n{statement}"
                assert "INDEX" in line, f"{plan}\n{statement}"
    if "CORRELATED" in plan:
        inner = plan.partition("CORRELATED")[2].splitlines()[1]
        assert "SEARCH" in inner, plan
        if "SEARCH requirements" in inner:  # reading the rows, or one entry for each project, would cost much more
            assert "COVERING INDEX" in inner, plan
            assert "project_id=?" not in inner, plan

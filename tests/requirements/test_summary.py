"""Summaries and the list of relationships are what a brute force over all rows finds."""

from collections import Counter
from typing import Any
from urllib.parse import unquote

import pytest

from quilt_mcp.core.answers import to_json
from quilt_mcp.requirements.answers import BRIEF_TITLE
from quilt_mcp.requirements.model import KINDS, PRIORITIES, Kind
from tests.requirements.client import connect, read, read_all, read_failure
from tests.requirements.graphs import Graph, Row, make_graph, write_graph
from tests.requirements.test_coverage import of_epic
from tests.support.settings import Settings

USERS = (None, "one", "two", "none")
FIELDS = {"status": "status", "priority": "priority", "project": "project_id"}


def rows_of(graph: Graph, kind: Kind, user: str | None, project: str | None, epic: str | None) -> list[Row]:
    every = graph.visible(kind.name, user).values()
    found = [one for one in every if project in (None, one["project_id"])]
    if epic is None:
        return found
    return [one for one in found if one["id"] == epic or (kind.parent and of_epic(graph, one, epic))]


def expect(graph: Graph, user: str | None, project: str | None = None, epic: str | None = None) -> dict[str, Any]:
    names = {one["id"]: one["name"] for one in graph.projects}
    found = {}
    for kind in KINDS[1:] if epic else KINDS:
        rows = rows_of(graph, kind, user, project, epic)
        groups: dict[str, Counter[str]] = {}
        for group, field in FIELDS.items():
            if kind.statuses or group == "project":
                groups[group] = Counter(names.get(one[field], str(one[field])) for one in rows)
        for name, allowed in (("status", kind.statuses), ("priority", map(str, PRIORITIES.values()))):
            for value in allowed if name in groups else ():
                groups[name].setdefault(value, 0)
        found[kind.name] = len(rows), {name: dict(values) for name, values in groups.items()}
    return found


def show(answer: dict[str, Any]) -> dict[str, Any]:
    def group(one: dict[str, Any]) -> dict[str, int]:
        return {value["value"]: value["count"] for value in one["values"]}

    return {
        one["type"]: (one["count"], {found["by"]: group(found) for found in one["groups"]}) for one in answer["kinds"]
    }


@pytest.mark.parametrize("user", USERS)
async def test_a_summary_counts_what_the_caller_may_see(user: str | None, settings_with_tables: Settings) -> None:
    graph = make_graph(31)
    write_graph(settings_with_tables, graph)
    async with connect(settings_with_tables, user) as client:
        assert show(await read(client, "summary?group=status,priority,project")) == expect(graph, user)
        for project in sorted(graph.project_ids(user)):
            found = await read(client, f"summary?group=project,status,priority&project={project}")
            assert show(found) == expect(graph, user, project)
        for epic in list(graph.visible("epic", user))[:3]:
            found = await read(client, f"summary?group=priority,status,project&epic={epic}")
            assert show(found) == expect(graph, user, epic=epic)


async def test_each_count_leads_to_the_list_that_it_counts(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        for path in (
            "summary?group=status,priority,assignee,type,project",
            "summary?group=status,assignee&epic=EP-001",
        ):
            checked = 0
            for kind in (await read(client, path))["kinds"]:
                values = [value for group in kind["groups"] for value in group["values"]]
                for counted in [kind, *values]:
                    if counted["uri"] is not None:
                        listed = await read(client, unquote(counted["uri"]).removeprefix("requirements://"))
                        assert listed["count"] == counted["count"], counted
                        checked += 1
            assert checked >= 8


async def test_a_project_of_somebody_else_and_unknown_values_are_refused(settings_with_tables: Settings) -> None:
    graph = make_graph(31)
    write_graph(settings_with_tables, graph)
    hidden = next(one["id"] for one in graph.projects if one["id"] not in graph.project_ids("one"))
    async with connect(settings_with_tables, "one") as client:
        for path in (f"summary?project={hidden}", f"relationships?project={hidden}"):
            assert (await read_failure(client, path)).body["error"] == "NotFound"
        wrong = (await read_failure(client, "summary?group=state")).body
        assert wrong["message"] == "`group` must be one of status, priority, assignee, type, project."
        wrong = (await read_failure(client, "relationships?type=depends")).body
        assert wrong["suggested_actions"][0] == "Did you mean depends_on?"


def expect_pairs(graph: Graph, user: str | None, project: str | None, epic: str | None) -> list[tuple[str, str]]:
    seen = graph.visible("requirement", user)
    within = {one["id"] for one in rows_of(graph, KINDS[3], user, project, epic)}
    found = []
    for one in sorted(graph.relationships, key=lambda one: one["id"]):
        ends = one["source_requirement_id"], one["target_requirement_id"]
        if all(end in seen for end in ends) and any(end in within for end in ends):
            source, target = (seen[end]["reference_id"] for end in ends)
            found.append((one["type"], f"{source} {one['type'].replace('_', ' ')} {target}"))
    return found


@pytest.mark.parametrize("user", USERS)
async def test_relationships_are_those_between_visible_requirements(
    user: str | None, settings_with_tables: Settings
) -> None:
    graph = make_graph(32)
    write_graph(settings_with_tables, graph)
    async with connect(settings_with_tables, user) as client:
        projects, epics = sorted(graph.project_ids(user)), list(graph.visible("epic", user))[:2]
        limits = [(None, None), *((one, None) for one in projects), *((None, one) for one in epics)]
        for project, epic in limits:
            query = f"limit=7{f'&project={project}' if project else ''}{f'&epic={epic}' if epic else ''}"
            expected = expect_pairs(graph, user, project, epic)
            pages = await read_all(client, f"relationships?{query}")
            shown = [(one["type"], one["sentence"]) for page in pages for one in page["relationships"]]
            assert shown == expected
            assert {page["count"] for page in pages} == {len(expected)}
            counts = {one["type"]: one["count"] for one in pages[0]["types"] if one["count"]}
            assert counts == Counter(name for name, _ in expected)
            assert {page["types"] is None for page in pages[1:]} <= {True}
        blocking = await read_all(client, "relationships?type=blocks,depends_on&limit=5")
        shown = [(one["type"], one["sentence"]) for page in blocking for one in page["relationships"]]
        assert shown == [one for one in expect_pairs(graph, user, None, None) if one[0] in {"blocks", "depends_on"}]


async def test_a_brief_list_has_the_rows_of_the_whole_one_and_is_small(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        for path, key in (
            ("requirements?limit=40", "requirements"),
            ("requirements?sort=-priority&limit=40", "requirements"),
            ("acceptance-criteria", "acceptance_criteria"),
            ("epics/EP-001/user-stories?status=Done", "user_stories"),
        ):
            whole = await read(client, path)
            brief = await read(client, f"{path}{'&' if '?' in path else '?'}view=brief")
            assert [one["reference_id"] for one in brief[key]] == [one["reference_id"] for one in whole[key]]
            assert (brief["count"], brief["next_cursor"] is None) == (whole["count"], whole["next_cursor"] is None)
            assert len(to_json(brief)) <= 8_000
            for one, other in zip(brief[key], whole[key], strict=True):
                text = other.get("title", other["description"])
                assert text.startswith(one["title"].removesuffix("…"))
                assert (one["status"], one["uri"]) == (other.get("status"), other["uri"])
                assert one["title"] == text or len(one["title"]) == BRIEF_TITLE
        wrong = (await read_failure(client, "requirements?view=short")).body
        assert wrong["suggested_actions"] == ["Omit `view` for all fields."]


async def test_lists_and_searches_are_limited_to_a_time_an_epic_and_kinds(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        every = [one for page in await read_all(client, "requirements") for one in page["requirements"]]
        times = sorted(one["created_at"] for one in every)
        middle = times[len(times) // 2]
        later = [
            one
            for page in await read_all(client, f"requirements?created_since={middle}&limit=13")
            for one in page["requirements"]
        ]
        assert sorted(one["id"] for one in later) == sorted(one["id"] for one in every if one["created_at"] >= middle)
        assert [one["created_at"] for one in later] == sorted(one["created_at"] for one in later)
        stories = {one["id"] for one in (await read(client, "epics/EP-001/user-stories"))["user_stories"]}
        found = [one for page in await read_all(client, "search/sample?epic=EP-001&limit=3") for one in page["results"]]
        whole = [one for page in await read_all(client, "search/sample?limit=100") for one in page["results"]]
        entities: dict[str, Any] = {}
        for kind in KINDS:
            for page in await read_all(client, f"{kind.segment}?limit=200"):
                entities |= {one["reference_id"]: one for one in page[kind.table]}
        for one in whole:
            entity = entities[one["reference_id"]]
            is_below = one["reference_id"] == "EP-001" or {entity["id"], entity.get("user_story_id")} & stories
            assert bool(is_below) == any(other["id"] == one["id"] for other in found), one
        kinds = await read(client, "search/sample?kind=user_story,epic")
        assert {one["type"] for one in kinds["results"]} == {"epic", "user_story"}


@pytest.mark.parametrize("user", USERS)
async def test_the_members_of_a_project_are_for_those_who_see_it(
    user: str | None, settings_with_tables: Settings
) -> None:
    graph = make_graph(33)
    write_graph(settings_with_tables, graph)
    names = {one["id"]: one["username"] for one in graph.users}
    async with connect(settings_with_tables, user) as client:
        for project in graph.projects:
            path = f"projects/{project['id']}/members"
            if project["id"] in graph.project_ids(user):
                rows = sorted(
                    (one["user_id"], one["role"]) for one in graph.members if one["project_id"] == project["id"]
                )
                pages = await read_all(client, f"{path}?limit=1")
                shown = [(one["username"], one["role"]) for page in pages for one in page["members"]]
                assert shown == [(names[user_id], role) for user_id, role in rows]
                assert await read(client, f"projects/{project['name']}/members") == await read(client, path)
            else:
                assert (await read_failure(client, path)).body["error"] == "NotFound"

"""Completion of the variables of requirements:// URIs: what exists, starts with a prefix, and the caller may see."""

from uuid import uuid4

import pytest
from mcp_types import Completion, ResourceTemplateReference
from sqlalchemy import select

from quilt_mcp.requirements import tables
from quilt_mcp.requirements.model import REQUIREMENT_STATUSES, STORY_STATUSES
from quilt_mcp.requirements.parameters import CATEGORIES, can_name
from quilt_mcp.requirements.resources import RESOURCES
from tests.contract.surfaces import AnyClient
from tests.requirements.client import connect
from tests.requirements.conftest import opened
from tests.requirements.graphs import make_tree, write_graph
from tests.support.settings import Settings

URIS = {one["uri"].partition("{?")[0].removeprefix("requirements://"): one["uri"] for one in RESOURCES}
MEMBER, STRANGER = "emma_johansson", "peter_van_dijk"
PROJECTS = ["Clinical Trials Portal", "Data Governance", "Default", "Sequencing Platform"]
STATUSES = list(dict.fromkeys([*STORY_STATUSES, *REQUIREMENT_STATUSES]))
Case = tuple[str, str, str, list[str]]
"""A template, a variable of it, a prefix, and its completions."""
OF_ADMINISTRATOR: list[Case] = [
    ("epics/{id}", "id", "EP-00", [f"EP-{number:03}" for number in range(1, 10)]),
    ("epics/{id}/hierarchy", "id", "EP-009", ["EP-009"]),
    ("epics/{id}", "id", "ep-", []),
    ("epics/{id}", "id", "%' OR 1=1", []),
    ("user-stories/{id}/trace", "id", "US-01", [f"US-{number:03}" for number in range(10, 20)]),
    ("acceptance-criteria/{id}/trace", "id", "AC-001", ["AC-001"]),
    ("requirements/{id}/trace", "id", "REQ-001", ["REQ-001"]),
    ("requirements/{id}/trace", "depth", "1", ["1", "10"]),
    ("search/{query}", "query", "REQ-001", ["REQ-001"]),
    ("search/{query}", "status", "Draft,", [f"Draft,{status}" for status in STATUSES]),
    ("search/{query}", "priority", "cr", ["critical"]),
    ("search/{query}", "type", "Func", ["Functional"]),
    ("coverage", "category", "", list(CATEGORIES)),
    ("coverage", "project", "", PROJECTS),
    ("epics", "assignee", "me", []),  # the settings name no user of the database
    ("changes", "kind", "epic,u", ["epic,user_story"]),
]
OF_MEMBER: list[Case] = [
    ("epics", "status", "", list(STORY_STATUSES)),
    ("requirements", "status", "", list(REQUIREMENT_STATUSES)),
    ("requirements", "status", "Obsolete,D", ["Obsolete,Draft"]),
    ("epics", "status", "Obsolete,D", ["Obsolete,Draft", "Obsolete,Done"]),
    ("epics", "priority", "c", ["critical"]),
    ("epics", "sort", "-t", ["-title"]),
    ("epics", "assignee", "m", ["me"]),
    ("epics", "assignee", "emma", [MEMBER]),
    ("requirements", "assignee", STRANGER, []),
    ("requirements", "updated_since", "2", []),
    ("requirements", "type", "Non", ["Non-Functional"]),
    *((name, "project", "", ["Sequencing Platform"]) for name in ("epics", "requirements", "coverage", "changes")),
]
OF_EARLIER_SYSTEM: list[Case] = [("epics", "status", "On", ["On Hold"]), ("epics", "project", "", [])]


async def complete(client: AnyClient, template: str, variable: str, prefix: str) -> Completion:
    reference = ResourceTemplateReference(type="ref/resource", uri=URIS[template])
    return await client.complete(reference, {"name": variable, "value": prefix})


async def check(settings: Settings, user: str | None, cases: list[Case]) -> None:
    async with connect(settings, user) as client:
        found = [(*case[:3], (await complete(client, *case[:3])).values) for case in cases]
    assert found == cases


async def test_values_are_completed_that_the_caller_may_see(settings_with_sample: Settings) -> None:
    await check(settings_with_sample, None, OF_ADMINISTRATOR)
    await check(settings_with_sample, MEMBER, OF_MEMBER)
    await check(settings_with_sample, STRANGER, [("epics/{id}", "id", "EP-001", [])])


async def test_the_earlier_system_completes_its_own_values(existing_settings: Settings) -> None:
    await check(existing_settings, None, OF_EARLIER_SYSTEM)


@pytest.mark.parametrize("number", [100, 101])
async def test_a_completion_says_whether_there_are_more_values(number: int, settings_with_tables: Settings) -> None:
    write_graph(settings_with_tables, make_tree([], epics=number))
    async with connect(settings_with_tables) as client:
        completion = await complete(client, "epics/{id}", "id", "EP-")
    assert len(completion.values) == 100
    assert bool(completion.has_more) is (number > 100)
    assert completion.total is None


NAMES = ["%", "%_\\", "100% done", "100_done", "Sé\U0001f680x", "S\xe9 two", "a\\b", "a_b", "a%b", "axb,", " a"]
UNUSUAL = ["%", "_", "100%", "100_", "a_", "a%", "a\\", "\\", "Sé", "Sé\U0001f680", "S", "s", "'", '"', "\U0010ffff"]
WITHOUT = ["stories_without_criteria", "stories_without_requirements"]
NEVER = ["\x00", "EP\x00", "EP-\n", "\x7f", "\ud800", "EP-\udfff", "EP-" + "0" * 10_000, "x" * 10_000, "%" * 10_000]


async def test_an_unusual_prefix_completes_what_starts_with_it(settings_with_sample: Settings) -> None:
    with opened(settings_with_sample) as database, database.writing() as connection:
        [times] = connection.execute(select(tables.projects.c.created_at, tables.projects.c.updated_at).limit(1))
        rows = [{"id": str(uuid4()), "name": name, **times._asdict()} for name in NAMES]
        connection.execute(tables.projects.insert(), rows)
        names = sorted([*PROJECTS, *NAMES])
    cases: list[Case] = []
    for prefix in (*UNUSUAL, *NEVER):
        cases += [
            ("coverage", "project", prefix, [name for name in names if name.startswith(prefix)]),
            ("coverage", "category", prefix, WITHOUT if prefix == "s" else []),
            *((path, name, prefix, []) for path, name in (("coverage", "epic"), ("epics/{id}", "id"))),
            ("search/{query}", "query", prefix, []),
            # a filter of a list separates values with commas, and removes spaces
            ("epics", "project", prefix, [name for name in names if name.startswith(prefix) and can_name(name)]),
        ]
    await check(settings_with_sample, None, cases)

"""The filters and orders of the lists of entities, as clients use and misuse them."""

from itertools import product
from typing import Any

import pytest
from sqlalchemy import update

from quilt_mcp.core import cursors
from quilt_mcp.requirements.tables import users
from tests.contract.surfaces import AnyClient
from tests.requirements.client import connect, read, read_failure, read_pages
from tests.requirements.conftest import opened
from tests.support.settings import Settings

MEMBER, STRANGER = "emma_johansson", "peter_van_dijk"
"""Users without a project in common."""
SORTS = (
    "reference_id, title, priority, created_at, updated_at, -reference_id, -title, -priority, -created_at, -updated_at"
)
HOSTILE = (
    "x' OR '1'='1",
    "'; DROP TABLE requirements; --",
    "%27%20UNION%20SELECT%20password",
    "$1",
    ":status",
    "%%25s",
    "*",
    "﷽",
    "\u202enwonk",
    "x" * 512,
    ",".join(str(number) for number in range(140)),
    "00000000-0000-4000-8000-00000000000g",
    "NULL",
    "None",
)


UNREADABLE = ("%00", "%0A", "Draft%07", "%ED%A0%80", "%FF", "a" * 513)


async def refuse(client: AnyClient, path: str) -> dict[str, Any]:
    """Return the error for a value of a parameter."""
    body = (await read_failure(client, path)).body
    assert body["error"] == "InvalidTemplateVariable", body
    return body


async def list_all(client: AnyClient, path: str) -> list[dict[str, Any]]:
    return [row for page in await read_pages(client, path, "requirements", 200) for row in page]


UNKNOWN = [
    ("status=active", "`status` must be one of Draft, Active, Obsolete.", "Did you mean Active?"),
    ("status=open", "`status` must be one of Draft, Active, Obsolete.", "Did you mean Draft,Active?"),
    ("status=Closed", "`status` must be one of Draft, Active, Obsolete.", "Did you mean Obsolete?"),
    ("status=Draft,Dune", "`status` must be one of Draft, Active, Obsolete.", "Omit `status` for all."),
    ("priority=5", "`priority` must be one of 1, 2, 3, 4, critical, high, medium, low.", "Omit `priority` for all."),
    ("priority=hihg", "`priority` must be one of 1, 2, 3, 4, critical, high, medium, low.", "Did you mean high?"),
    (
        "type=functional",
        "`type` must be one of Business Rule, Data, Functional, Interface, Non-Functional.",
        "Did you mean Functional?",
    ),
    (
        "project=Sequencing",
        "`project` must be one of Clinical Trials Portal, Data Governance, Default, Sequencing Platform.",
        "Did you mean Sequencing Platform?",
    ),
    ("sort=-updated", f"`sort` must be one of {SORTS}.", "Did you mean -updated_at?"),
    (
        "updated_since=yesterday",
        "`updated_since` must be an ISO 8601 date or time, such as 2026-11-22 or 2026-11-22T09:30:00Z.",
        "Write it in UTC, or with an offset such as +02:00. Omit `updated_since` for all.",
    ),
    (
        "status=Draft,,Active",
        "`status` contains an empty value.",
        "Separate values with one comma. For a name that contains a comma, use the ID.",
    ),
]


async def test_an_unknown_value_is_refused_with_the_allowed_ones(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        for query, message, advice in UNKNOWN:
            body = await refuse(client, f"requirements?{query}")
            assert (body["message"], body["suggested_actions"][0]) == (message, advice)
            last = query.partition("=")[2]
            assert any(repr(value) in body["details"] for value in (last, *last.split(",")))


async def test_a_criterion_has_no_status_and_no_title_to_sort_by(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        body = (await read_failure(client, "acceptance-criteria?status=Draft")).body
        sort = await refuse(client, "acceptance-criteria?sort=title")
    assert (body["error"], sort["suggested_actions"]) == ("InvalidURI", ["Omit `sort` for the default order."])
    assert "project and updated_since and created_since and sort and view and cursor and limit" in body["details"]
    assert "status" not in body["details"]
    assert "must be one of reference_id, created_at, updated_at, " in sort["message"]


FILTERS = ("status", "priority", "assignee", "type", "project", "updated_since", "sort")


@pytest.mark.parametrize(
    "pairs",
    [[*zip(FILTERS * 2, HOSTILE, strict=True)], pytest.param([*product(FILTERS, HOSTILE)], marks=pytest.mark.soak)],
    ids=["some", "all"],
)
async def test_hostile_values_are_refused_like_any_unknown_value(
    pairs: list[tuple[str, str]], settings_with_sample: Settings
) -> None:
    async with connect(settings_with_sample) as client:
        for name, value in pairs:
            body = await refuse(client, f"requirements?{name}={value}")
            assert f"`{name}`" in body["message"] or "not a valid value" in body["message"], (name, value)
        for name, value in product(("status", "assignee", "sort", "cursor"), UNREADABLE):
            await refuse(client, f"requirements?{name}={value}")
        assert (await read(client, "requirements?limit=1"))["count"] == 180


@pytest.mark.parametrize(
    "orders",
    [
        {"title": "eA", None: "7.5"},
        pytest.param({"-updated_at": "1", "priority": "1 7.5", "reference_id": "UkVRLTAwMQ"}, marks=pytest.mark.soak),
    ],
)
async def test_a_forged_cursor_is_refused_or_finds_nothing_new(
    orders: dict[str | None, str], settings_with_sample: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursors, "compute_tag", lambda *_: "a" * 12)
    async with connect(settings_with_sample) as client:
        for sort, valid in orders.items():
            await check_forged(client, sort, valid)


async def check_forged(client: AnyClient, sort: str | None, valid: str) -> None:
    """Check that a cursor in the right form selects a page, and that forged ones are refused."""
    row_id = "0" * 32
    forged = ["", "x", "0 0 0", f"{row_id} 5", f"{row_id} -5 {valid}", f"{row_id} {10**15} {valid}"]
    forged += [
        f"{'z' * 32} 5 {valid}",
        f"{row_id} 5 {valid}\n",
        f"{row_id} 5 {'1.5' if sort else '1.50'}",
        f"{row_id} 5 {'9' * 30}",
    ]
    forged += [f"{row_id} 5 {'YWFh' * 21}", f"{row_id} 5 AA", f"{row_id} 5 _w", f"{row_id} 5 nan", f"{row_id} 5 inf"]
    query = f"status=Draft{f'&sort={sort}' if sort else ''}"

    async def read_after(text: str) -> dict[str, Any]:
        uri = f"requirements://requirements?{query}&cursor={cursors.encode(text, 'a' * 12)}"
        answer = await client.call_tool("get_resource", {"uri": uri}, raise_on_error=False)
        return answer.structured_content or {}

    page = (await read_after(f"{row_id} 5 {valid}"))["data"]
    assert page["count"] == 5
    assert all(row["status"] == "Draft" for row in page["requirements"])
    for text in forged:
        assert (await read_after(text))["error"] == "InvalidTemplateVariable", (sort, text)


async def test_members_learn_nothing_about_others(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        projects = {one["name"] for one in (await read(client, "projects"))["projects"]}
        everyone = (await read(client, "epics?assignee=none&limit=1"))["count"]
        assert everyone == 0
    async with connect(settings_with_sample, MEMBER) as client:
        own = {one["name"] for one in (await read(client, "projects"))["projects"]}
        everything = await list_all(client, "requirements")
        foreign = min(projects - own)
        for name, known, unknown in (("assignee", STRANGER, "nobody_at_all"), ("project", foreign, "No Such Thing")):
            of_known = await refuse(client, f"requirements?{name}={known}")
            of_unknown = await refuse(client, f"requirements?{name}={unknown}")
            assert known not in of_known["message"] + str(of_known["suggested_actions"])
            assert of_known["message"] == of_unknown["message"]
            assert of_known["suggested_actions"] == of_unknown["suggested_actions"]
        for query in ("sort=title", "status=Draft,Active,Obsolete", "updated_since=2000-01-01", "priority=1,2,3,4"):
            found = await list_all(client, f"requirements?{query}")
            assert sorted(row["id"] for row in found) == sorted(row["id"] for row in everything)


async def test_a_username_can_look_like_an_id(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        everything = await list_all(client, "requirements")
        [mine, *_] = [row for row in everything if row["assignee_name"] == MEMBER]
    name = "7b6f0b9e-1111-4222-8333-444455556666"
    with opened(settings_with_sample) as database, database.writing() as connection:
        connection.execute(update(users).where(users.c.id == mine["assignee_id"]).values(username=name))
    async with connect(settings_with_sample) as client:
        found = await list_all(client, f"requirements?assignee={name}")
    assert [row["id"] for row in found] == [row["id"] for row in everything if row["assignee_name"] == MEMBER]


async def test_me_needs_a_user(settings_with_sample: Settings, existing_settings: Settings) -> None:
    async with connect(settings_with_sample) as client:
        body = await refuse(client, "requirements?assignee=me")
    assert "you are not a user of the requirements database" in body["message"]
    assert "QUILT_MCP_REQUIREMENTS_USER" in body["suggested_actions"][1]
    async with connect(existing_settings, "grace") as client:  # in that system, who is no user can read too
        assert "you are not a user" in (await refuse(client, "requirements?assignee=me"))["message"]
    async with connect(existing_settings, "ada") as client:
        assert (await read(client, "requirements?assignee=me"))["count"] == 1


async def test_the_earlier_system_has_statuses_of_its_own_and_no_projects(existing_settings: Settings) -> None:
    async with connect(existing_settings) as client:
        assert [one["reference_id"] for one in (await read(client, "epics?status=On Hold"))["epics"]] == ["EP-204"]
        assert (await read(client, "epics?status=Done"))["count"] == 0
        body = await refuse(client, "epics?status=On hold")
        no_project = await refuse(client, "epics?project=Default")
    assert body["message"].endswith("Backlog, Draft, In Progress, Done, Cancelled, On Hold.")
    assert body["suggested_actions"][0] == "Did you mean On Hold?"
    assert "no projects" in no_project["message"]

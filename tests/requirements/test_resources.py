"""The resources of requirements:// on both surfaces, with the sample in both databases."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import delete, insert, select

from quilt_mcp.app import identity
from quilt_mcp.app.identity import Identity
from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import MAX_LIMIT
from quilt_mcp.requirements import tables
from quilt_mcp.requirements.conditions import Scope, Selection
from quilt_mcp.requirements.writing import make_times, new_id
from tests.contract.surfaces import AnyClient
from tests.requirements.client import PARTIAL, connect, list_failure, list_uris, read, read_all, read_failure
from tests.requirements.conftest import Contents, opened
from tests.requirements.reading import place_of
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings

ADMIN, MEMBER, OTHER = "amara_osei", "emma_johansson", "peter_van_dijk"


rarely_on_postgresql = pytest.mark.parametrize(
    "dialect", ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)]
)
"""In `make test`, SQLite answers. On PostgreSQL, other tests cover the same statements or the same rule."""


IDS = {
    "epics/EP-1": "InvalidTemplateVariable",
    "epics/ep-001": "InvalidTemplateVariable",
    "epics/US-001": "InvalidTemplateVariable",
    "epics/STD-001": "InvalidTemplateVariable",
    "epics/EP-0001x": "InvalidTemplateVariable",
    "epics/EP-9999999999999999": "InvalidTemplateVariable",
    "epics/%27%20OR%201%3D1--": "InvalidTemplateVariable",
    "epics/00000000-0000-0000-0000-00000000000": "InvalidTemplateVariable",
    "epics/00000000-0000-0000-0000-00000000000G": "InvalidTemplateVariable",
    "epics/EP-999999999": "NotFound",
    "epics/00000000-0000-0000-0000-000000000000": "NotFound",
    "epics/EP-999/hierarchy": "NotFound",
    "epics/EP-999/user-stories": "NotFound",
    "user-stories/US-9999/requirements": "NotFound",
    "requirements/REQ-9999/relationships": "NotFound",
    "epics?limit=0": "InvalidTemplateVariable",
    "epics?limit=-1": "InvalidTemplateVariable",
    "epics?limit=1000000000": "InvalidTemplateVariable",
    "epics?limit=x": "InvalidTemplateVariable",
    "epics?limit=1e1": "InvalidTemplateVariable",
    "epics?limit=%D9%A3": "InvalidTemplateVariable",
    "epics?limit=%7Blimit%7D": "InvalidTemplateVariable",
    "epics?limit=1&limit=2": "InvalidURI",
    "epics?offset=1": "InvalidURI",
    "epics?": "InvalidURI",
    "epics?cursor=WzEsImEiLCJiIl0": "InvalidTemplateVariable",
    "epics?cursor=' OR 1=1": "InvalidTemplateVariable",
    "epics?cursor=%27%20OR%201%3D1": "InvalidTemplateVariable",
    "requirements-types?limit=0": "InvalidTemplateVariable",
    "search/": "MissingTemplateVariable",
    "search/-only": "InvalidTemplateVariable",
    "search/%22open": "InvalidTemplateVariable",
    "search/a%00b": "InvalidTemplateVariable",
    "search/" + "a" * 513: "InvalidTemplateVariable",
    "search/" + "a" * 65536: "InvalidURI",
    "search/x?limit=101": "InvalidTemplateVariable",
    "search/x/y": "InvalidURI",
    "epics/EP-001/trace?depth=0": "InvalidTemplateVariable",
    "epics/EP-001/trace?depth=11": "InvalidTemplateVariable",
    "epics/EP-001/trace?depth=x": "InvalidTemplateVariable",
    "epics/EP-001/trace?limit=201": "InvalidTemplateVariable",
    "epics/EP-001/trace?cursor=WzEsImEiLCJiIl0": "InvalidTemplateVariable",
    "epics/US-001/trace": "InvalidTemplateVariable",
    "epics/EP-999/trace": "NotFound",
    "requirements/REQ-9999/trace": "NotFound",
    "coverage?category=x": "InvalidTemplateVariable",
    "coverage?cursor=WzEsImEiLCJiIl0": "InvalidTemplateVariable",
    "coverage?category=orphans&cursor=WzEsImEiLCJiIl0": "InvalidTemplateVariable",
    "coverage?category=orphans&epic=EP-001": "InvalidTemplateVariable",
    "coverage?epic=US-001": "InvalidTemplateVariable",
    "coverage?epic=EP-999": "NotFound",
    "coverage?project=Nowhere": "NotFound",
    "coverage?project=00000000-0000-4000-8000-00000000dead": "NotFound",
    "coverage?project=Default&epic=EP-001": "NotFound",
    "coverage?limit=0": "InvalidTemplateVariable",
    "projects?limit=0": "InvalidTemplateVariable",
}


@rarely_on_postgresql
async def test_an_empty_parameter_is_ignored(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        assert await read(client, "epics?cursor=&limit=2") == await read(client, "epics?limit=2")
        assert await read(client, "epics?limit=") == await read(client, "epics")


async def test_invalid_input_is_refused_with_suggested_actions(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client:
        found = {path: (await read_failure(client, path)).body for path in IDS}
    assert {path: body["error"] for path, body in found.items()} == IDS
    assert all(body["suggested_actions"] for body in found.values())
    assert not any(body["transient"] for body in found.values())


FILTERED = "requirements?status=Draft,Active&sort=-title&limit=5"
CURSORS = {
    "epics?limit=1": ("user-stories", "epics/EP-001/user-stories", "requirements-types", "search/catalog"),
    "search/catalog?limit=1": ("search/run", "search/catalog?status=Draft"),
    "search/catalog?status=Active&limit=1": ("search/catalog", "search/catalog?status=Draft"),
    "epics/EP-001/trace?limit=1": ("epics/EP-002/trace", "epics/EP-001/trace?depth=2"),
    "epics/EP-001/hierarchy?limit=3": ("epics/EP-002/hierarchy",),
    "changes?limit=1": ("changes?kind=epic",),
    "requirements?limit=5": (FILTERED, "requirements?sort=-title", "requirements?status=Draft,Active"),
    FILTERED: (
        "user-stories?status=Draft",
        *(f"requirements{query}" for query in ("", "?sort=-title", "?status=Draft,Active")),
        *(f"requirements?status={query}" for query in ("Draft,Active&sort=title", "Draft&sort=-title")),
    ),
}
"""For each page with a cursor, lists that refuse it."""


@rarely_on_postgresql
async def test_a_cursor_belongs_to_one_list_of_one_caller(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample) as client, connect(settings_with_sample, MEMBER) as of_member:
        for path, others in CURSORS.items():
            cursor = (await read(client, path))["next_cursor"]
            for reader, other in [(of_member, path), *((client, other) for other in others)]:
                refused = await read_failure(reader, f"{other}{'&' if '?' in other else '?'}cursor={cursor}")
                assert refused.body["error"] == "InvalidTemplateVariable", (path, other)
            assert (await read_failure(client, f"{path}&cursor={cursor[:-2]}")).body["error"]
        page = await read(client, FILTERED)
        following = f"requirements?status=Active,Draft&sort=-title&limit=3&cursor={page['next_cursor']}"
        everything = await read(client, FILTERED.replace("limit=5", "limit=200"))
        assert (await read(client, following))["requirements"] == everything["requirements"][5:8]


async def test_a_read_needs_few_statements(settings_with_sample: Settings, statements: list[tuple[str, Any]]) -> None:
    async with connect(settings_with_sample) as client:
        page, filtered = [await read(client, f"requirements?{query}limit=2") for query in ("", "status=Draft&")]
        numbers = {
            "epics/EP-001": 1,
            "epics": 1,
            "epics/EP-001/hierarchy": 4,
            "search/catalog": 1,
            "requirements?limit=2": 2,  # which counts all
            f"requirements?limit=2&cursor={page['next_cursor']}": 1,
            "requirements?status=Draft&limit=2": 2,
            f"requirements?status=Draft&limit=2&cursor={filtered['next_cursor']}": 1,
        }
        for path, number in numbers.items():
            statements.clear()
            found = await read(client, path)
            assert len(statements) == 2 * number, path  # once for each surface
            assert found.get("count") == 180 or "requirements?limit" not in path
        statements.clear()
        await client.list_resources_mcp()
    assert len(statements) <= 4


async def test_a_read_sends_few_messages_to_postgresql(
    make_settings: Callable[[str, Contents], Settings], postgres: PostgresServer
) -> None:
    settings = make_settings("postgresql", "sample")
    url = SecretStr(f"{place_of(settings)}&options=-c%20log_statement%3Dall")
    async with connect(settings.model_copy(update={"database_url": url})) as client:
        await read(client, "epics")  # which opens the connection and examines the tables
        for path, number in {"epics/EP-001": 1, "epics/EP-001/hierarchy": 4}.items():
            before = len(read_messages(postgres))
            await read(client, path)
            messages = read_messages(postgres)[before:]
            assert len(messages) == 2 * (number + 3), messages  # BEGIN with its settings, the revision, COMMIT


def read_messages(postgres: PostgresServer) -> list[str]:
    """Return the lines of the server's log that start a message of a client."""
    return re.findall(r"LOG:  (?:statement|execute).*", (postgres.directory / "log").read_text())


async def test_a_forged_cursor_of_a_search_is_refused(settings_with_sample: Settings) -> None:
    tag = cursors.compute_tag("search", "catalog", Scope("local"), Selection())
    async with connect(settings_with_sample) as client:
        for text in ("x", "-1", "1e3", "99999999", "9" * 40):
            answer = await read_failure(client, f"search/catalog?cursor={cursors.encode(text, tag)}")
            assert answer.body["error"] == "InvalidTemplateVariable"
        assert await read(client, f"search/catalog?cursor={cursors.encode('3', tag)}")


async def read_ids(client: Any, path: str) -> set[str]:
    key = path.partition("?")[0].replace("-", "_")
    return {row["id"] for page in await read_all(client, path) for row in page[key]}


@rarely_on_postgresql
async def test_users_of_different_projects_see_different_lists_reads_and_searches(
    settings_with_sample: Settings,
) -> None:
    seen: dict[str, set[str]] = {}
    hits: dict[str, set[str]] = {}
    lists: dict[str, set[str]] = {}
    for user in (MEMBER, OTHER):
        async with connect(settings_with_sample, user, max_resources_per_provider=0) as client:
            seen[user] = await read_ids(client, f"requirements?limit={MAX_LIMIT}")
            hits[user] = {
                row["id"] for page in await read_all(client, "search/the?limit=100") for row in page["results"]
            }
            lists[user] = {uri for uri in await list_uris(client) if uri.count("/") > 2}
    for found in (seen, hits, lists):
        assert found[MEMBER]
        assert found[OTHER]
        assert not found[MEMBER] & found[OTHER]
    async with connect(settings_with_sample, MEMBER, max_resources_per_provider=0) as client:
        absent = await read_failure(client, "epics/EP-999")
        for foreign in list(lists[OTHER])[:20]:
            answer = await read_failure(client, foreign.removeprefix("requirements://"))
            assert answer.body["error"] == absent.body["error"] == "NotFound"
            assert answer.body["details"] == absent.body["details"]
    async with connect(settings_with_sample, ADMIN, max_resources_per_provider=0) as client:
        everything = {uri for uri in await list_uris(client) if uri.count("/") > 2}
    assert lists[MEMBER] | lists[OTHER] < everything
    assert len(everything) > 290


@rarely_on_postgresql
async def test_relationships_to_hidden_requirements_are_left_out(settings_with_sample: Settings) -> None:
    async def read_relationships(client: AnyClient, requirement: str) -> set[str]:
        data = await read(client, f"requirements/{requirement}/relationships")
        return {one["id"] for one in data["source_relationships"] + data["target_relationships"]}

    async with connect(settings_with_sample, MEMBER) as client:
        own = await read_ids(client, f"requirements?limit={MAX_LIMIT}")
    foreign: dict[str, set[str]] = {}
    with opened(settings_with_sample) as database, database.reading() as connection:
        for row in connection.execute(select(tables.requirement_relationships)):
            visible = {row.source_requirement_id, row.target_requirement_id} & own
            if len(visible) == 1:
                foreign.setdefault(visible.pop(), set()).add(row.id)
    assert foreign
    async with connect(settings_with_sample, ADMIN) as client, connect(settings_with_sample, MEMBER) as of_member:
        for requirement, hidden in foreign.items():
            assert hidden <= await read_relationships(client, requirement)
            assert not hidden & await read_relationships(of_member, requirement)


@rarely_on_postgresql
async def test_a_removed_membership_takes_effect_at_once(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample, MEMBER, enable_caching=True, list_page_size=20) as client:
        assert (await read(client, "epics"))["count"]
        cursor = (await client.list_resources_mcp()).next_cursor
        page = (await read(client, "requirements?limit=2"))["next_cursor"]
        with opened(settings_with_sample) as database, database.writing() as connection:
            connection.execute(delete(tables.project_members))
        assert (await read(client, "epics"))["count"] == 0
        assert (await read(client, "search/run"))["count"] == 0
        assert {uri for uri in await list_uris(client) if uri.count("/") > 2} == set()
        assert (await list_failure(client, cursor))["code"] == -32602
        assert (await read_failure(client, f"requirements?cursor={page}")).body["error"] == "InvalidTemplateVariable"


@pytest.mark.parametrize("claim", [None, True, ["ada"], "a\0", ""])
async def test_a_claim_without_a_name_names_no_user(
    settings_with_tables: Settings, claim: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(settings_with_tables) as database, database.writing() as connection:
        names = ["None", "True", "['ada']", "7"]
        users = [{"id": new_id(), "username": one, "email": one, "role": "User", **make_times()} for one in names]
        connection.execute(insert(tables.users), users)
    async with connect(settings_with_tables, requirements_user_claim="uid") as client:
        # the subject of another claim's token can be the name of somebody else
        monkeypatch.setattr(identity, "current", lambda: Identity("7", "https://idp.example", claims={"sub": "7"}))
        assert (await read_failure(client, "epics")).body["details"] == "unknown user"
        monkeypatch.setattr(identity, "current", lambda: Identity("sub", "https://idp.example", claims={"uid": claim}))
        assert (await read_failure(client, "epics")).body["details"] == "unknown user"
        monkeypatch.setattr(identity, "current", lambda: Identity("sub", "https://idp.example", claims={"uid": 7}))
        assert (await read(client, "epics"))["count"] == 0


@rarely_on_postgresql
async def test_a_caller_who_is_not_a_user_can_list_only_static_resources(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample, "nobody") as client:
        for path in ("epics", "epics/EP-001", "search/run", "requirements/REQ-001/relationships"):
            body = (await read_failure(client, path)).body
            assert (body["error"], body["details"]) == ("Unauthorized", "unknown user")
        page = await client.list_resources_mcp()
        assert page.next_cursor is None
        assert PARTIAL not in (page.meta or {})
        uris = {str(one.uri) for one in page.resources}
        assert {"auth://status", "requirements://epics"} <= uris
        assert {uri for uri in uris if uri.count("/") > 2 and uri.startswith("requirements://")} == set()

"""`resources/list` over a requirements database: complete, in order, and honest when the database is not there."""

import logging
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import ResourceTemplateReference
from pydantic import SecretStr
from sqlalchemy import delete, insert, select

from quilt_mcp.paged_server import PARTIAL
from quilt_mcp.requirements import kinds, tables
from quilt_mcp.requirements.providers import EpicProvider
from quilt_mcp.settings import Settings
from tests.contract.surfaces import AnyClient
from tests.postgres_server import PostgresServer
from tests.requirements.client import client_of, list_refusal, listed, read, refusal
from tests.requirements.conftest import Contents, opened
from tests.waiting import until

MANY = 100_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def write_epics(settings: Settings, number: int) -> None:
    """Write epics past the search index, which takes most of the time."""
    async with opened(settings) as database, database.writing() as connection:
        user, project = (
            str(uuid.uuid4()),
            str((await connection.execute(select(tables.projects.c.id))).scalars().first()),
        )
        times = {"created_at": NOW, "updated_at": NOW}
        row = {"id": user, "username": "u", "email": "u@acme.example", "role": "User"}
        await connection.execute(insert(tables.users), [row | times])
        planned = {"project_id": project, "creator_id": user, "assignee_id": user, "priority": 1, "status": "Draft"}
        for start in range(0, number, 10_000):
            rows = [
                {"id": str(uuid.uuid4()), "reference_id": f"EP-{place:03}", "title": f"Epic number {place}"}
                for place in range(start + 1, start + 10_001)
            ]
            await connection.execute(insert(tables.epics), [one | planned | times for one in rows])


async def test_a_walk_over_a_hundred_thousand_meets_each_once_in_order_while_rows_behind_it_go(
    make_settings: Callable[[str, Contents], Settings],
) -> None:
    settings = make_settings("sqlite", "tables")
    await write_epics(settings, MANY)
    walked: list[str] = []
    cursor = None
    async with client_of(settings, list_page_size=1000) as client:
        while True:
            page = await client.list_resources_mcp(cursor=cursor)
            walked += [str(one.uri) for one in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
            if 20_000 < len(walked) < 21_100:
                gone = [uri.rpartition("/")[2] for uri in walked if "epics/" in uri][:50]
                async with opened(settings) as database, database.writing() as connection:
                    await connection.execute(delete(tables.epics).where(tables.epics.c.id.in_(gone)))
    epics = [uri for uri in walked if uri.startswith("requirements://epics/")]
    assert walked == sorted(set(walked))
    assert len(epics) == MANY
    assert "requirements://epics" in walked


async def test_the_list_has_every_entity_and_every_static_resource_once(settings_with_sample: Settings) -> None:
    async with client_of(settings_with_sample, list_page_size=17) as client:
        uris = await listed(client)
        for kind in kinds.KINDS:
            below = [uri for uri in uris if uri.startswith(f"requirements://{kind.segment}/")]
            assert len(below) == (await read(client, f"{kind.segment}?limit=1"))["count"]
            assert f"requirements://{kind.segment}" in uris
        for uri in uris[::40]:
            assert await read(client, uri.removeprefix("requirements://"))
    assert uris == sorted(set(uris))
    assert "requirements://requirements-types" in uris
    assert "requirements://search/{query}" not in uris


async def test_a_descriptor_says_kind_reference_id_and_title(settings_with_sample: Settings) -> None:
    async with client_of(settings_with_sample) as client:
        epic = await read(client, "epics/EP-001")
        by_uri = {str(one.uri): one for one in await client.list_resources()}
    wire = by_uri[f"requirements://epics/{epic['id']}"].model_dump(by_alias=True, exclude_none=True)
    assert wire == {
        "uri": f"requirements://epics/{epic['id']}",
        "name": f"Epic: {epic['title']}",
        "description": f"Epic EP-001: {epic['title']}",
        "mimeType": "application/json",
    }


async def test_a_setting_lists_the_search_as_if_it_were_a_resource(settings_with_sample: Settings) -> None:
    async with client_of(settings_with_sample, list_search_template=True, list_page_size=7) as client:
        uris = await listed(client)
    assert uris.count("requirements://search/{query}") == 1
    assert uris == sorted(uris)


async def test_a_database_that_nobody_has_made_is_not_made_by_listing(tmp_path: Path) -> None:
    async with client_of(Settings(data_dir=tmp_path / "nothing")) as client:
        assert len(await listed(client)) == 5
        assert not (tmp_path / "nothing").exists()
        assert (await read(client, "epics"))["count"] == 0


async def test_completion_offers_reference_ids_that_the_caller_sees(settings_with_sample: Settings) -> None:
    async def offered(client: AnyClient, template: str, variable: str, prefix: str) -> list[str]:
        reference = ResourceTemplateReference(type="ref/resource", uri=template)
        found: list[str] = (await client.complete(reference, {"name": variable, "value": prefix})).values
        return found

    async with client_of(settings_with_sample) as client:
        assert await offered(client, "requirements://epics/{id}", "id", "EP-00") == [f"EP-{n:03}" for n in range(1, 10)]
        stories = await offered(client, "requirements://user-stories/{id}/requirements{?cursor,limit}", "id", "US-01")
        assert stories == [f"US-{n:03}" for n in range(10, 20)]
        assert await offered(client, "requirements://epics/{id}", "id", "ep-") == []
        assert await offered(client, "requirements://epics/{id}", "id", "%' OR 1=1") == []
        search = "requirements://search/{query}{?cursor,limit}"
        assert (await offered(client, search, "query", "REQ-001")) == ["REQ-001"]
    async with client_of(settings_with_sample, "peter_van_dijk") as client:
        assert "EP-001" not in await offered(client, "requirements://epics/{id}", "id", "EP-")


async def test_one_provider_that_fails_is_left_out_and_named(
    settings_with_sample: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any) -> list[Any]:
        raise ConnectionResetError("postgresql://u:hunter2@db")

    monkeypatch.setattr(EpicProvider, "page", broken)
    monkeypatch.setattr("quilt_mcp.resources.LISTING._translate", lambda _: Settings)
    caplog.set_level(logging.INFO, "quilt_mcp")
    async with client_of(settings_with_sample, list_page_size=1000) as client:
        page = await client.list_resources_mcp()
    assert (page.meta or {})[PARTIAL] == ["epic_provider"]
    assert len(page.resources) > 280
    assert "hunter2" not in caplog.text


async def test_a_database_that_is_damaged_fails_the_list_and_each_read(tmp_path: Path) -> None:
    (tmp_path / "requirements.sqlite3").write_bytes(b"no database" * 500)
    async with client_of(Settings(data_dir=tmp_path)) as client:
        assert (await list_refusal(client))["error"] == "ResourceExecutionError"
        body = (await refusal(client, "epics")).body
    assert "damaged" in body["message"]
    assert body["transient"] is False


async def test_a_database_that_stops_gives_transient_errors_and_answers_again_when_it_is_back(
    make_settings: Callable[[str, Contents], Settings], postgres: PostgresServer
) -> None:
    settings = make_settings("postgresql", "sample")
    outcomes: list[str] = []

    async def load(client: AnyClient, over: anyio.Event) -> None:
        while not over.is_set():
            result = await client.call_tool_mcp("get_resource", {"uri": "requirements://epics/EP-001"})
            body = result.structured_content or {}
            outcomes.append("ok" if body["success"] else f"{body['error']} {body['transient']}")
            await anyio.sleep(0.01)

    async with client_of(settings) as client, anyio.create_task_group() as group:
        over = anyio.Event()
        for _ in range(4):
            group.start_soon(load, client, over)
        await until(lambda: outcomes.count("ok") >= 20)
        await anyio.to_thread.run_sync(postgres.stop)
        try:
            error = await list_refusal(client)
        finally:
            await anyio.to_thread.run_sync(postgres.start)
        assert (error["code"], error["transient"]) == (-32001, True)
        since = len(outcomes)
        await until(lambda: outcomes[since:].count("ok") >= 20)
        over.set()
    assert set(outcomes) == {"ok", "ResourceExecutionError True"}


async def test_a_wrong_password_appears_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    url = SecretStr("postgresql://u:hunter2@127.0.0.1:9/requirements")
    async with client_of(Settings(data_dir=tmp_path, database_url=url)) as client:
        told = str([await list_refusal(client), (await refusal(client, "epics")).observed()])
    assert "hunter2" not in told + caplog.text


async def test_an_existing_database_of_the_earlier_system_is_served_as_it_is(
    make_settings: Callable[[str, Contents], Settings], postgres: PostgresServer
) -> None:
    settings = make_settings("postgresql", "nothing")
    script = Path(__file__).with_name("existing_system.sql").read_text(encoding="utf-8")
    assert settings.database_url
    name = settings.database_url.get_secret_value().partition("@/")[2].partition("?")[0]
    postgres.sql(script, database=name)
    async with client_of(settings, list_page_size=2) as client:
        epics = (await read(client, "epics"))["epics"]
        uris = await listed(client)
        hit = (await read(client, f"search/{epics[0]['reference_id']}"))["results"][0]
        tree = await read(client, f"epics/{epics[0]['reference_id']}/hierarchy")
    assert {f"requirements://epics/{one['id']}" for one in epics} <= set(uris)
    assert hit["id"] == epics[0]["id"] == tree["id"]

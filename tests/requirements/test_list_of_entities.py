"""`resources/list` with a requirements database: complete, sorted, and a failure if the database is unavailable."""

import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import Resource
from pydantic import SecretStr
from sqlalchemy import delete, update

from quilt_mcp.core import cursors
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.core.listing import ListedRow
from quilt_mcp.requirements import model, tables
from quilt_mcp.requirements.conditions import Scope
from quilt_mcp.requirements.resources import EntityProvider
from tests.contract.surfaces import AnyClient
from tests.requirements.client import PARTIAL, connect, list_failure, list_uris, read, read_failure
from tests.requirements.conftest import Contents, opened
from tests.requirements.graphs import make_tree, write_graph
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings
from tests.support.waiting import until

MANY, MORE = 20_000, 100_000
ALL: dict[str, Any] = {"max_resources_per_provider": 0}
PREFIXES = tuple(f"requirements://{kind.segment}/" for kind in model.KINDS)


def check_order(uris: list[str]) -> None:
    """Check that each URI is listed once, and that the entities of a kind stand together where their URIs begin."""
    places = [next((prefix for prefix in PREFIXES if uri.startswith(prefix)), uri) for uri in uris]
    assert places == sorted(places)
    assert len({*uris}) == len(uris)


@pytest.mark.soak
@pytest.mark.parametrize("number", [MANY, pytest.param(MORE, marks=pytest.mark.alone)])
async def test_the_pages_of_many_entities_are_sorted_and_complete_while_earlier_rows_are_deleted(
    number: int, make_settings: Callable[[str, Contents], Settings]
) -> None:
    settings = make_settings("sqlite", "tables")
    write_graph(settings, make_tree([], epics=number))
    walked: list[str] = []
    cursor = None
    async with connect(settings, list_page_size=1000, **ALL) as client:
        while True:
            page = await client.list_resources_mcp(cursor=cursor)
            walked += [str(one.uri) for one in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
            if number // 5 < len(walked) < number // 5 + 1_100:
                gone = [uri.rpartition("/")[2] for uri in walked if "epics/" in uri][:50]
                with opened(settings) as database, database.writing() as connection:
                    connection.execute(delete(tables.epics).where(tables.epics.c.id.in_(gone)))
    epics = [uri for uri in walked if uri.startswith("requirements://epics/")]
    check_order(walked)
    assert len(epics) == number
    assert "requirements://epics" in walked


async def test_a_forged_cursor_is_refused(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample, list_page_size=17) as client:
        cursor = (await client.list_resources_mcp()).next_cursor or ""
        tag = json.loads(base64.b64decode(f"{cursor}=="))[1]
        for after in ("x", "\ud800", "\x00", "f" * 36):
            with pytest.raises(MCPError, match="The cursor is not valid for this list"):
                await client.list_resources_mcp(cursor=cursors.encode(f"requirements://epics/{after}", tag))


async def test_the_list_contains_every_entity_and_static_resource_once(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample, list_page_size=17, **ALL) as client:
        uris = await list_uris(client)
        for kind in model.KINDS:
            below = [uri for uri in uris if uri.startswith(f"requirements://{kind.segment}/")]
            assert len(below) == (await read(client, f"{kind.segment}?limit=1"))["count"]
            assert f"requirements://{kind.segment}" in uris
        for uri in uris[::40]:
            assert await read(client, uri.removeprefix("requirements://"))
    check_order(uris)
    assert "requirements://requirements-types" in uris
    assert "requirements://search/{query}" not in uris


async def walk_each_size(settings: Settings, **changes: Any) -> list[str]:
    """Return the names of the listed entities, which pages of each size must have in the same order."""
    walks = []
    for size in (3, 50, 1000):
        async with connect(settings, list_page_size=size, **changes) as client:
            rows: list[Resource] = []
            cursor = None
            while not rows or cursor:
                page = await client.list_resources_mcp(cursor=cursor)
                rows += page.resources
                cursor = page.next_cursor
        walks.append([one.name for one in rows if str(one.uri).startswith(PREFIXES)])
    assert walks[0] == walks[1] == walks[2]
    return walks[0]


@pytest.mark.parametrize("most", [0, 25])
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
async def test_entities_are_listed_in_the_order_of_their_positions(
    dialect: str, most: int, make_settings: Callable[[str, Contents], Settings]
) -> None:
    settings = make_settings(dialect, "sample")
    names = await walk_each_size(settings, max_resources_per_provider=most)
    epics = [name for name in names if name.startswith("Epic ")]
    assert epics == sorted(epics)
    last = epics[-1]
    with opened(settings) as database, database.writing() as connection:
        connection.execute(
            update(tables.epics).where(tables.epics.c.reference_id == last.split()[1]).values(position=-1.5)
        )
    moved = await walk_each_size(settings, max_resources_per_provider=most)
    assert [name for name in moved if name.startswith("Epic ")] == [last, *epics[:-1]]


async def test_entities_of_the_earlier_system_are_listed_in_the_order_of_their_numbers(
    existing_settings: Settings,
) -> None:
    names = await walk_each_size(existing_settings, **ALL)
    for kind in model.KINDS:
        of_kind = [name for name in names if name.startswith(f"{kind.title} ")]
        assert of_kind == sorted(of_kind)
        assert len(of_kind) > 1


@pytest.mark.parametrize("most", [1, 25, 10_000])
async def test_the_list_has_the_entities_that_changed_last_and_names_where_the_others_are(
    most: int, settings_with_sample: Settings
) -> None:
    async with connect(settings_with_sample, list_page_size=1000, **ALL) as client:
        everything = (await client.list_resources_mcp()).resources
    async with connect(settings_with_sample, list_page_size=7, max_resources_per_provider=most) as client:
        uris = await list_uris(client)
        notes = {str(one.uri): one.description or "" for one in await client.list_resources()}
        for kind in model.KINDS:
            collection = f"requirements://{kind.segment}"
            rows = {str(one.uri): one.annotations for one in everything if str(one.uri).startswith(f"{collection}/")}
            listed = [uri for uri in uris if uri in rows]
            assert len(listed) == min(most, len(rows))
            changes = {uri: annotations.last_modified or "" for uri, annotations in rows.items() if annotations}
            left_out = [changes[uri] for uri in rows.keys() - set(listed)]
            assert max(left_out, default="") <= min(changes[uri] for uri in listed)
            assert f"at most {most} of them: those that changed last" in notes[collection]
            assert await read(client, next(reversed(rows)).removeprefix("requirements://"))
    check_order(uris)


async def test_a_row_says_each_thing_once(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample, list_page_size=1000) as client:
        rows = (await client.list_resources_mcp()).resources
        [epic] = [one for one in rows if one.name == "Epic EP-001"]
        assert epic.title == (await read(client, "epics/EP-001"))["title"]
    for one in rows:
        texts = [text for text in (one.name, one.title, one.description) if text]
        assert len({*texts}) == len(texts)
        assert one.title is None or one.description is None
        assert "fastmcp" not in (one.meta or {})


async def test_a_setting_lists_the_search_template_as_a_resource(settings_with_sample: Settings) -> None:
    async with connect(settings_with_sample, list_search_template=True, list_page_size=7) as client:
        uris = await list_uris(client)
    assert uris.count("requirements://search/{query}") == 1
    check_order(uris)


async def test_a_setting_lists_no_entities_and_does_not_use_the_database(tmp_path: Path) -> None:
    (tmp_path / "requirements.sqlite3").write_bytes(b"no database" * 500)
    async with connect(Settings(data_dir=tmp_path, list_entities=False)) as client:
        assert {uri.count("/") for uri in await list_uris(client)} == {2}


@pytest.mark.soak
@pytest.mark.parametrize("obstacle", ["REVOKE SELECT ON {} FROM {}", "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE"])
async def test_if_no_table_of_entities_can_be_read_the_list_fails(
    obstacle: str, make_settings: Callable[[str, Contents], Settings], postgres: PostgresServer
) -> None:
    settings = make_settings("postgresql", "sample")
    assert settings.database_url
    url = settings.database_url.get_secret_value()
    entities = ", ".join(table.name for table in tables.BY_KIND.values())
    with psycopg.connect(url) as connection:
        connection.execute("DROP ROLE IF EXISTS lister")
        connection.execute("CREATE ROLE lister LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO lister")
        connection.commit()
        connection.execute(obstacle.format(entities, "lister").encode())
        if "REVOKE" in obstacle:
            connection.commit()
        changes: dict[str, Any] = {
            "database_url": SecretStr(url.replace("//tests@", "//lister@")),
            "list_search_template": True,
            "list_provider_seconds": 0.5 if "LOCK" in obstacle else 29,  # a refusal must be in time
        }
        async with connect(settings, **changes) as client:
            failure = await list_failure(client)
        connection.rollback()
        connection.execute("DROP OWNED BY lister")
        connection.execute("DROP ROLE lister")
    assert failure["error"] == "ResourceExecutionError"
    assert failure["transient"] is ("LOCK" in obstacle)
    assert failure["suggested_actions"]


async def test_listing_does_not_create_a_database(tmp_path: Path) -> None:
    async with connect(Settings(data_dir=tmp_path / "nothing")) as client:
        assert len(await list_uris(client)) == 10  # the collections, the summary and the relationships
        assert not (tmp_path / "nothing").exists()
        assert (await read(client, "epics"))["count"] == 0


async def test_a_failed_provider_is_left_out_and_named(
    settings_with_sample: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read_page = EntityProvider.page

    async def fail_for_epics(self: EntityProvider, after: str, limit: int, scope: Scope | None) -> list[ListedRow]:
        if self.kind is model.EPIC:
            raise Unavailable("postgresql://u:hunter2@db")
        return await read_page(self, after, limit, scope)

    monkeypatch.setattr(EntityProvider, "page", fail_for_epics)
    caplog.set_level(logging.INFO, "quilt_mcp")
    async with connect(settings_with_sample, list_page_size=1000, **ALL) as client:
        page = await client.list_resources_mcp()
    assert (page.meta or {})[PARTIAL] == ["epic_provider"]
    assert len(page.resources) > 280
    assert "hunter2" not in caplog.text


async def test_a_damaged_database_fails_the_list_and_each_read(tmp_path: Path) -> None:
    (tmp_path / "requirements.sqlite3").write_bytes(b"no database" * 500)
    async with connect(Settings(data_dir=tmp_path)) as client:
        assert (await list_failure(client))["error"] == "ResourceExecutionError"
        body = (await read_failure(client, "epics")).body
    assert "damaged" in body["message"]
    assert body["transient"] is False


@pytest.mark.soak
async def test_a_stopped_database_gives_transient_errors_until_it_is_back(
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

    async with connect(settings) as client, anyio.create_task_group() as group:
        over = anyio.Event()
        for _ in range(4):
            group.start_soon(load, client, over)
        await until(lambda: outcomes.count("ok") >= 20)
        await anyio.to_thread.run_sync(postgres.stop)
        try:
            error = await list_failure(client)
        finally:
            await anyio.to_thread.run_sync(postgres.start)
        assert (error["code"], error["transient"]) == (-31001, True)
        since = len(outcomes)
        await until(lambda: outcomes[since:].count("ok") >= 20)
        over.set()
    assert set(outcomes) == {"ok", "ResourceExecutionError True"}


async def test_a_wrong_password_appears_in_no_answer_or_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    url = SecretStr("postgresql://u:hunter2@127.0.0.1:9/requirements")
    async with connect(Settings(data_dir=tmp_path, database_url=url)) as client:
        answers = str([await list_failure(client), (await read_failure(client, "epics")).to_golden()])
    assert "hunter2" not in answers + caplog.text

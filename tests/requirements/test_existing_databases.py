"""Databases of the earlier requirements system: their migrations, collations, grants and extensions."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mcp_types import ResourceTemplateReference
from pydantic import SecretStr

from quilt_mcp.commands.cli import main
from quilt_mcp.requirements.conditions import Scope, Selection
from quilt_mcp.requirements.resources import RESOURCES
from quilt_mcp.requirements.search_existing import select_existing
from quilt_mcp.requirements.search_text import parse_query
from tests.requirements.client import connect, list_uris, read, read_failure
from tests.requirements.conftest import Contents, opened
from tests.requirements.reading import name_of
from tests.requirements.searching import explain_each
from tests.support.postgres_server import PostgresServer
from tests.support.settings import Settings

SCRIPT = Path(__file__).with_name("existing_system.sql")
SEVEN = (
    "epics, user_stories, acceptance_criteria, requirements, requirement_types, relationship_types, "
    "requirement_relationships"
)
USER = "11111111-1111-4111-8111-111111111111"


def write_epics(number: int) -> str:
    """The statement that writes epics from EP-300, each with a word of its own."""
    return f"""
        INSERT INTO epics (reference_id, creator_id, assignee_id, priority, status, title, description)
        SELECT 'EP-' || 300 + n, '{USER}', '{USER}', 1, 'Draft', 'Epic word' || n, 'Café number ' || n
        FROM generate_series(1, {number}) AS n
    """  # noqa: S608 - constants


async def test_prefixes_are_completed_under_a_collation_of_a_language(
    make_settings: Callable[[str, Contents], Settings], postgres: PostgresServer
) -> None:
    name = "with-icu"
    postgres.sql(f"CREATE DATABASE \"{name}\" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
    try:
        postgres.sql(SCRIPT.read_text(), database=name)
        postgres.sql(write_epics(99), database=name)
        async with connect(Settings(database_url=SecretStr(postgres.url(name)))) as client:
            for template in ("requirements://epics/{id}", "requirements://epics/{id}/hierarchy{?view,cursor,limit}"):
                reference = ResourceTemplateReference(type="ref/resource", uri=template)
                found = (await client.complete(reference, {"name": "id", "value": "EP-3"})).values
                assert len(found) == 99
                assert found == sorted(found)
            assert (await read(client, "search/word7"))["count"] == 1
    finally:
        postgres.drop(name)


@pytest.fixture
def limited_settings(existing_settings: Settings, postgres: PostgresServer) -> Iterator[Settings]:
    """Of a login that may read only seven tables."""
    name, role = name_of(existing_settings), f"reader_{os.getpid()}"
    postgres.sql(f"CREATE ROLE {role} LOGIN")
    postgres.sql(f"GRANT SELECT ON {SEVEN} TO {role}", database=name)
    assert existing_settings.database_url
    url = existing_settings.database_url.get_secret_value().replace("//tests@", f"//{role}@")
    yield existing_settings.model_copy(update={"database_url": SecretStr(url)})
    postgres.sql(f"DROP OWNED BY {role}", database=name)
    postgres.sql(f"DROP ROLE {role}")


async def test_a_login_needs_to_read_only_seven_tables(limited_settings: Settings) -> None:
    async with connect(limited_settings, "ada", list_page_size=2) as client:
        uris = [uri for uri in await list_uris(client) if uri.count("/") > 2]
        assert len(uris) == 4
        paths = [uri.removeprefix("requirements://") for uri in uris]
        paths += ["epics/EP-204/hierarchy", "requirements/REQ-001/relationships", "epics/EP-204/trace"]
        for path in [*paths, "search/page", "search/EP-204", "epics", "coverage"]:
            await read(client, path)
        requirement = await read(client, "requirements/REQ-001")
        assert (await read(client, f"epics?assignee={USER},none"))["count"] == 1
        for value in ("ada", "me"):
            body = (await read_failure(client, f"epics?assignee={value}")).body
            assert "must be the ID of a user" in body["message"]
        [uri] = [one["uri"] for one in RESOURCES if one["uri"].startswith("requirements://epics{?")]
        reference = ResourceTemplateReference(type="ref/resource", uri=uri)
        assert (await client.complete(reference, {"name": "assignee", "value": ""})).values == ["none"]
    assert (requirement["creator_id"], requirement["type_name"]) == (USER, "Functional")
    assert requirement["creator_name"] is requirement["assignee_name"] is None


def test_the_status_names_tables_that_the_login_may_not_read(
    limited_settings: Settings, set_settings: Callable[[Settings], None], capsys: pytest.CaptureFixture[str]
) -> None:
    set_settings(limited_settings)
    assert main(["requirements", "status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["state"] == "existing"
    assert {table for table, count in status["rows"].items() if count is None} == {"users"}
    assert status["rows"]["epics"] == 1
    assert main(["requirements", "status"]) == 0
    assert "users                      may not be read" in capsys.readouterr().out


async def test_a_search_says_which_differences_do_not_count(
    existing_settings: Settings, postgres: PostgresServer
) -> None:
    name = name_of(existing_settings)
    postgres.sql(write_epics(1), database=name)
    async with connect(existing_settings) as client:
        plain = await read(client, "search/cafe")
        exact = await read(client, "search/CAFÉ")
    assert (plain["ignores"], plain["count"], exact["count"]) == (["case"], 0, 1)


def create_indexes() -> list[str]:
    columns = {"epics": "title description", "user_stories": "title description", "requirements": "title description"}
    columns["acceptance_criteria"] = "description"
    return [
        f"CREATE INDEX ON {table} USING gin ({', '.join(f'{column} gin_trgm_ops' for column in names.split())})"
        for table, names in columns.items()
    ]


def explain(settings: Settings, query: str) -> str:
    """Return the plan of the search in the epics."""
    with opened(settings) as database:
        return explain_each(database, select_existing(parse_query(query), Scope("test"), Selection(), most=2001))[0]


@pytest.mark.soak
async def test_a_search_uses_trigram_indexes_if_they_exist(
    existing_settings: Settings, postgres: PostgresServer
) -> None:
    name = name_of(existing_settings)
    postgres.sql(write_epics(3000), database=name)
    queries = ["word77", "number", '"café number" -word7', "word2999 OR word1", "wor* word12", "EP-301", "absent"]
    queries += ["77", "user@example.com", "a.b", "NUMBER word5", "page OR 数据处理"]
    assert "Seq Scan on epics" in explain(existing_settings, "word77")
    async with connect(existing_settings) as client:
        before = [await read(client, f"search/{query}") for query in queries]
        postgres.sql("CREATE EXTENSION pg_trgm", database=name)
        for statement in create_indexes():
            postgres.sql(statement, database=name)
        postgres.sql("ANALYZE", database=name)
        after = [await read(client, f"search/{query}") for query in queries]
    assert after == before
    plan = explain(existing_settings, "word77")
    assert "Bitmap Index Scan on epics_title_description_idx" in plan
    assert "Seq Scan" not in plan

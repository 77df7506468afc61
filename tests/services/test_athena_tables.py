"""athena://databases/{database}/tables and athena://databases/{database}/tables/{table}."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
import quilt3
from moto.glue.models import GlueBackend, glue_backends

from quilt_mcp.app import App
from quilt_mcp.core.answers import GetResourceError
from quilt_mcp.core.cursors import compute_tag, encode
from quilt_mcp.demo.account import ACCOUNT_ID, REGION
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_manager
from quilt_mcp.services.athena_tables import athena_tables_list
from quilt_mcp.tools.resource_access import get_resource
from tests.services.stack_calls import read_pages
from tests.support.python_caller import read, read_error
from tests.support.settings import Settings

TABLE = "athena://databases/{database}/tables/{table}{?cursor,limit}"
# Every kind of character that Glue allows in a name, except the slash and those that are not printable.
ODD_NAMES = (
    "with space",
    "hyphen-and.dot",
    "percent%2f",
    "quote\"s'",
    "ünïcödé",
    "語",
    "?#[]@!$&()*+,;=",
    "..",
    "{table}x",
)


def glue() -> GlueBackend:
    return glue_backends[ACCOUNT_ID][REGION]


def add_table(name: str, database: str = "shop", **described: Any) -> None:
    glue().create_table(database, name, {"Name": name, **described})


@pytest.fixture
def shop(fresh_world: World) -> World:
    """A world with an empty database named shop."""
    glue().create_database("shop", {"Name": "shop"})
    return fresh_world


async def list_pages(limit: int) -> list[list[str]]:
    """Return the names of the tables of each page."""
    pages = await read_pages(f"athena://databases/shop/tables?limit={limit}")
    return [[row["name"] for row in page["tables"]] for page in pages]


async def test_pages_are_sorted_and_have_each_table_once(shop: World) -> None:
    names = [f"t{at:03}" for at in range(130)]
    for name in reversed(names):
        add_table(name)
    pages = await list_pages(50)
    assert [len(page) for page in pages] == [50, 50, 30]
    assert [name for page in pages for name in page] == names
    assert (await read("athena://databases/shop/tables"))["count"] == 130


async def test_a_table_that_is_deleted_between_pages_does_not_hide_another(shop: World) -> None:
    for name in ("a", "b", "c"):
        add_table(name)
    first = await read("athena://databases/shop/tables?limit=2")
    glue().delete_table("shop", "b")
    second = await read(f"athena://databases/shop/tables?cursor={first['next_cursor']}")
    assert [row["name"] for row in second["tables"]] == ["c"]


async def test_pages_end_at_names_that_are_too_long_for_a_cursor(shop: World) -> None:
    names = [f"{at}{'語' * 250}" for at in range(5)]
    for name in names:
        add_table(name)
    pages = await list_pages(2)
    assert [name for page in pages for name in page] == names
    first = await read("athena://databases/shop/tables?limit=2")
    glue().delete_table("shop", names[1])
    error = await read_error(f"athena://databases/shop/tables?cursor={first['next_cursor']}")
    assert (error.error, error.suggested_actions) == ("InvalidTemplateVariable", ["Start without a cursor."])


async def test_a_forged_cursor_can_only_select_a_page(shop: World) -> None:
    add_table("orders")
    for after in ("", "x", "=", "=zzz", "#0", "\u0000", "=\u0000"):
        forged = encode(after, compute_tag("glue tables", REGION, "shop"))
        answer = await get_resource(f"athena://databases/shop/tables?cursor={forged}")
        if isinstance(answer, GetResourceError):
            assert answer.error == "InvalidTemplateVariable", after
        else:
            assert {row["name"] for row in answer.data["tables"]} <= {"orders"}, after


async def test_above_the_maximum_the_count_is_not_exact(shop: World) -> None:
    for name in ("a", "b", "c"):
        add_table(name)
    exact = athena_tables_list("shop", max_tables=3)
    add_table("d")
    cut = athena_tables_list("shop", max_tables=3)
    assert (exact["count"], exact["count_is_exact"]) == (3, True)
    assert (cut["count"], cut["count_is_exact"]) == (3, False)
    assert (await read("athena://databases/shop/tables/d"))["name"] == "d"


async def test_every_name_that_glue_allows_can_be_read(fresh_world: World) -> None:
    for name in ODD_NAMES:
        glue().create_database(name, {"Name": name})
        add_table(name, name)
        database = f"athena://databases/{quote(name, safe='')}"
        assert [row["name"] for row in (await read(f"{database}/tables"))["tables"]] == [name]
        table = await read(f"{database}/tables/{quote(name, safe='')}")
        quoted = '"' + name.replace('"', '""') + '"'
        assert (table["name"], table["sql_name"]) == (name, f"{quoted}.{quoted}")


async def test_names_are_asked_for_in_lower_case_as_glue_stores_them(shop: World) -> None:
    add_table("orders")
    assert (await read("athena://databases/SHOP/tables"))["database"] == "shop"
    assert (await read("athena://databases/Shop/tables/Orders"))["name"] == "orders"


async def test_long_parts_of_a_table_are_cut_and_marked(shop: World) -> None:
    columns = [{"Name": f"c{at}", "Type": "x" * (2001 - at % 2)} for at in range(3)]
    keys = [{"Name": f"k{at}", "Type": "int"} for at in range(60)]
    parameters = {f"p{at:03}": "x" * 1001 for at in range(150)}
    add_table("wide", StorageDescriptor={"Columns": columns}, Parameters=parameters, PartitionKeys=keys)
    answer = await read("athena://databases/shop/tables/wide")
    assert [len(one["type"]) for one in answer["columns"][:2]] == [2000, 2000]
    assert [one.get("type_truncated") for one in answer["columns"][:2]] == [True, None]
    assert (sorted(answer["parameters"]), answer.get("parameters_truncated")) == (["p000", "p001", "p002"], True)
    assert {len(value) for value in answer["parameters"].values()} == {1000}
    assert len(answer["partition_keys"]) == 50


@pytest.mark.parametrize("limit", ["", "?limit=1", "?limit=7", "?limit=200"])
async def test_pages_have_each_column_once_in_their_order(limit: str, shop: World) -> None:
    names = [f"c{at}{'é' * (at % 250)}" for at in range(17 if limit == "?limit=1" else 405)]
    add_table("wide", StorageDescriptor={"Columns": [{"Name": name, "Type": "int"} for name in names]})
    pages = await read_pages(f"athena://databases/shop/tables/wide{limit}")
    assert [one["name"] for page in pages for one in page["columns"]] == names
    assert {page["column_count"] for page in pages} == {len(names)}


async def test_a_page_of_columns_that_changed_meanwhile_is_refused(shop: World) -> None:
    columns = [{"Name": name, "Type": "int"} for name in "abcd"]
    add_table("orders", StorageDescriptor={"Columns": columns})
    cursor = (await read("athena://databases/shop/tables/orders?limit=2"))["next_cursor"]
    for changed in (columns[2:], [columns[1], columns[0], *columns[2:]]):
        glue().delete_table("shop", "orders")
        add_table("orders", StorageDescriptor={"Columns": changed})
        error = await read_error(f"athena://databases/shop/tables/orders?cursor={cursor}")
        assert (error.error, error.suggested_actions) == ("InvalidTemplateVariable", ["Start without a cursor."])


async def test_a_long_parameter_alone_is_marked_as_cut(shop: World) -> None:
    add_table("one", Parameters={"comment": "x" * 1001})
    add_table("other", Parameters={"comment": "x" * 1000})
    long, short = [await read(f"athena://databases/shop/tables/{name}") for name in ("one", "other")]
    assert (long["parameters"], long.get("parameters_truncated")) == ({"comment": "x" * 1000}, True)
    assert (short["parameters"], short.get("parameters_truncated")) == ({"comment": "x" * 1000}, None)


async def test_the_empty_location_of_a_view_is_null(shop: World) -> None:
    add_table("daily", TableType="VIRTUAL_VIEW", StorageDescriptor={"Columns": [], "Location": ""})
    assert (await read("athena://databases/shop/tables/daily"))["location"] is None
    assert (await read("athena://databases/shop/tables"))["tables"][0]["location"] is None


def make_view_text(definition: object) -> str:
    return f"/* Presto View: {base64.b64encode(json.dumps(definition).encode()).decode()} */"


VIEWS = {
    "sql": (make_view_text({"originalSql": "SELECT 1", "columns": []}), "SELECT 1", False),
    "long": (make_view_text({"originalSql": "SELECT 1" + "x" * 20_000}), "SELECT 1" + "x" * 19_992, True),
    "number": (make_view_text({"originalSql": 1}), None, False),
    "list": (make_view_text([]), None, False),
    "text": ("/* Presto View: bm90IGpzb24= */", None, False),
    "padding": ("/* Presto View: ==== */", None, False),
    "deep": (f"/* Presto View: {base64.b64encode(b'[' * 100_000).decode()} */", None, False),
    "plain": ("SELECT 1", None, False),
    "nothing": (None, None, False),
}


async def test_the_query_of_a_view_is_decoded(shop: World) -> None:
    for name, (text, sql, is_cut) in VIEWS.items():
        described = {} if text is None else {"ViewOriginalText": text}
        add_table(name, TableType="VIRTUAL_VIEW", **described)
        answer = await read(f"athena://databases/shop/tables/{name}")
        found = (name, answer["type"], answer["view_sql"], answer.get("view_sql_truncated"))
        assert found == (name, "VIRTUAL_VIEW", sql, is_cut or None)


async def test_what_does_not_exist_is_not_found(shop: World) -> None:
    for uri, message, first_action in (
        ("athena://databases/nothing/tables", "The database 'nothing' was not found.", "Read athena://databases for"),
        (
            "athena://databases/shop/tables/no%20table",
            "The table 'no table' was not found in the database 'shop'.",
            "Read athena://databases/shop/tables for",
        ),
    ):
        error = await read_error(uri)
        assert (error.error, error.message) == ("NotFound", message)
        assert error.suggested_actions[0].startswith(first_action)


async def complete(variable: str, prefix: str = "", template: str = TABLE) -> list[str]:
    return await create_manager(App(Settings())).complete(template, variable, prefix)


async def test_databases_and_tables_are_completed(shop: World) -> None:
    for name in ("orders", "order_items", "customers"):
        add_table(name)
    assert await complete("database", "sh") == ["shop"]
    assert await complete("table", "ord") == ["order_items", "orders"]
    assert "shop" in await complete("database", template="athena://databases/{database}/tables{?cursor,limit}")


async def test_the_first_example_of_a_database_has_the_first_example_of_a_table(shop: World) -> None:
    add_table("orders", "default")
    database, table = (await complete("database"))[0], (await complete("table"))[0]
    assert (await read(f"athena://databases/{database}/tables/{table}"))["name"] == table


async def test_a_cursor_can_contain_a_long_name(shop: World) -> None:
    names = [f"{at}-{'x' * 110}" for at in range(3)]
    for name in names:
        add_table(name)
    pages = await list_pages(1)
    assert [name for page in pages for name in page] == names


async def test_completion_knows_databases_beyond_the_first_page(shop: World) -> None:

    for number in range(250):
        glue().create_database(f"db{number:03}", {"Name": f"db{number:03}"})
    assert await complete("database", "db24") == [f"db24{number}" for number in range(10)]


async def test_completion_without_sign_in_offers_nothing(shop: World) -> None:
    add_table("orders")
    quilt3.logout()
    assert [await complete(variable) for variable in ("database", "table")] == [[], []]

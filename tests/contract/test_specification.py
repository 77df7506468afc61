"""specification.toml: each sentence of MCP 2026-07-28 that concerns this server has a test, or a reason."""

import ast
import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no type information
import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from quilt_mcp.demo.world import World
from quilt_mcp.server import QuiltServer, create_server
from tests.contract.cases import RESOURCES
from tests.support.golden import GOLDEN
from tests.support.serving import SESSIONLESS
from tests.support.worlds import in_world

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads(Path(__file__).with_name("specification.toml").read_text(encoding="utf-8"))["row"]
PAGES = {
    "basic/index",
    "server/discover",
    "server/resources",
    "server/tools",
    "server/utilities/caching",
    "server/utilities/completion",
    "server/utilities/pagination",
}
RESERVED = range(-32768, -31999)
OF_JSON_RPC = {-32700, -32600, -32601, -32602, -32603}


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row['page']}: {row['says']}")
def test_each_sentence_has_a_test_or_a_reason(row: dict[str, str]) -> None:
    assert row.keys() in ({"page", "level", "says", "test"}, {"page", "level", "says", "divergence"})
    assert re.fullmatch(r"[a-z/]+#[a-z0-9-]+", row["page"])
    assert row["level"] in {"MUST", "SHOULD"}
    assert all(text.endswith(".") for text in (row["says"], row.get("divergence", ".")))
    if "test" in row:
        path, _, name = row["test"].partition("::")
        assert name in functions_of(path)
    else:
        assert len(row["divergence"].split()) > 5


def test_every_page_has_rows_and_no_row_is_repeated() -> None:
    assert {row["page"].partition("#")[0] for row in TABLE} == PAGES
    assert len({(row["page"], row["says"]) for row in TABLE}) == len(TABLE)


@in_world("admin")
async def test_lists_depend_on_no_connection_and_no_earlier_request(world: World, server: QuiltServer) -> None:
    async def list_all(client: Client[Any]) -> list[Any]:
        return [
            await client.list_tools(),
            await client.list_resources(),
            await client.list_resource_templates(),
            await client.list_prompts(),
        ]

    async with Client(server, mode=SESSIONLESS) as one:
        first = await list_all(one)
        await one.call_tool("get_resource", {"uri": "auth://status"})
        assert await list_all(one) == first
        async with Client(server, mode=SESSIONLESS) as another:
            assert await list_all(another) == first


def test_schemes_are_valid_and_none_is_https() -> None:
    schemes = {row.uri.partition("://")[0] for row in RESOURCES}
    assert all(re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) for scheme in schemes)
    assert schemes.isdisjoint({"http", "https", "file", "git"})


@in_world("admin")
@pytest.mark.parametrize(
    "uri",
    [
        "metadata://templates/none",
        "athena://databases/none/tables",
        "requirements://epics/EP-999999",
        "workflow://workflows/none/status",
        "nothing://at/all",
    ],
)
async def test_what_does_not_exist_is_invalid_parameters(uri: str, world: World, server: QuiltServer) -> None:
    async with Client(server, mode=SESSIONLESS) as client:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
    assert refused.value.error.code == -32602


async def test_tools_have_valid_names_and_schemas() -> None:
    async with Client(create_server(), mode=SESSIONLESS) as client:
        tools = await client.list_tools()
    assert len({tool.name for tool in tools}) == len(tools) >= 9
    for tool in tools:
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", tool.name)
        assert tool.input_schema["type"] == "object"
        for schema in filter(None, (tool.input_schema, tool.output_schema)):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert "x-mcp-header" not in json.dumps(schema)
        hints = tool.annotations
        assert hints is not None
        assert None not in (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)


@in_world("admin")
async def test_a_structured_result_conforms_to_its_schema_and_is_repeated_as_text(
    world: World, server: QuiltServer
) -> None:
    async with Client(server, mode=SESSIONLESS) as client:
        [schema] = [tool.output_schema for tool in await client.list_tools() if tool.name == "get_resource"]
        for uri in (None, "auth://status", "metadata://templates/none", "nothing://at/all"):
            result = await client.call_tool("get_resource", {"uri": uri}, raise_on_error=False)
            jsonschema.Draft202012Validator(schema).validate(result.structured_content)
            assert json.loads(result.content[0].text) == result.structured_content


@in_world("admin")
async def test_every_cacheable_result_has_hints(world: World, server: QuiltServer) -> None:
    async with Client(server) as client:  # it asks server/discover first
        assert client.protocol_version == SESSIONLESS
        found = [
            client.session.discover_result,
            await client.list_tools_mcp(),
            await client.list_prompts_mcp(),
            await client.list_resources_mcp(),
            await client.list_resource_templates_mcp(),
            *[await client.read_resource_mcp(uri) for uri in ("auth://status", "metadata://templates")],
        ]
    for result in found:
        assert result is not None
        assert {"ttl_ms", "cache_scope", "result_type"} <= result.model_fields_set
        assert (result.ttl_ms >= 0, result.result_type) == (True, "complete")


@in_world("admin")
async def test_all_pages_have_one_scope_and_a_wrong_cursor_is_invalid_parameters(
    world: World, server: QuiltServer
) -> None:
    scopes, cursor = set[str](), None
    async with Client(server, mode=SESSIONLESS) as client:
        while cursor is not None or not scopes:
            page = await client.list_resources_mcp(cursor=cursor)
            scopes.add(page.cache_scope)
            cursor = page.next_cursor
        with pytest.raises(MCPError) as refused:
            await client.list_resources_mcp(cursor="not-a-cursor")
    assert scopes == {"private"}
    assert refused.value.error.code == -32602


@in_world("admin")
@pytest.mark.parametrize("name", ["bucket", "", "none", "x" * 10_000, "\x00", "ключ"])
@pytest.mark.parametrize("value", ["", "a", "%", "\x00", "../..", "x" * 10_000, "ключ"])
async def test_no_input_of_completion_is_an_internal_error(
    name: str, value: str, world: World, server: QuiltServer
) -> None:
    async with Client(server, mode=SESSIONLESS) as client:
        for reference in (
            ResourceTemplateReference(uri="permissions://buckets/{bucket}/access"),
            ResourceTemplateReference(uri=f"none://{value[:100]}"),
            PromptReference(name="none"),
        ):
            found = await client.complete(reference, {"name": name, "value": value})
            assert name == "bucket" or found.values == []
            assert all(one.startswith(value) for one in found.values)


@in_world("signed_out")
async def test_completion_lists_nothing_for_a_caller_who_may_not_read(world: World, server: QuiltServer) -> None:
    templates = [
        row for row in RESOURCES if "{" in row.uri and row.uri.startswith(("athena", "permissions", "tabulator"))
    ]
    assert templates
    async with Client(server, mode=SESSIONLESS) as client:
        for row in templates:
            for variable in re.findall(r"\{(\w+)\}", row.uri):
                reference = ResourceTemplateReference(uri=row.uri)
                assert (await client.complete(reference, {"name": variable, "value": ""})).values == []


def test_no_golden_has_a_code_that_is_reserved() -> None:
    goldens = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((GOLDEN / "errors").rglob("*.json"))]
    codes = {golden["resource"]["code"] for golden in goldens if "resource" in golden}
    assert {code for code in codes if code in RESERVED} <= OF_JSON_RPC
    assert codes - OF_JSON_RPC == {-31001, -31002}

"""The names, signatures and behaviour that Python callers were promised."""

import inspect
from importlib import import_module

import pytest
from fastmcp import Client, FastMCP
from mcp_types import PromptReference, ResourceTemplateReference, TextResourceContents

from quilt_mcp.core.answers import GetResourceError, GetResourceSuccess
from quilt_mcp.resources import _serialize_result, register_resources
from quilt_mcp.services import auth_metadata
from quilt_mcp.tools.resource_access import RESOURCE_REGISTRY, ResourceManager, get_resource, validate_registry
from tests.contract.cases import RESOURCES
from tests.contract.surfaces import AnyClient
from tests.support.worlds import in_world

QUILT = {"auth", "athena", "admin", "metadata", "permissions", "quilt", "tabulator", "workflow"}
NINETEEN = {
    "auth://status",
    "auth://catalog/info",
    "auth://filesystem/status",
    "athena://databases",
    "athena://workgroups",
    "athena://query/history",
    "admin://users",
    "admin://roles",
    "admin://config/sso",
    "admin://config/tabulator",
    "metadata://templates",
    "metadata://examples",
    "metadata://troubleshooting",
    "metadata://templates/{template}",
    "permissions://discover",
    "permissions://recommendations",
    "tabulator://buckets",
    "workflow://workflows",
    "workflow://workflows/{workflow_id}/status",
}
SERVICES = {
    "auth_metadata": ["auth_status", "catalog_info", "filesystem_status"],
    "athena_read_service": ["athena_databases_list", "athena_workgroups_list", "athena_query_history"],
    "governance_service": [
        "admin_users_list",
        "admin_roles_list",
        "admin_sso_config_get",
        "admin_tabulator_open_query_get",
    ],
    "metadata_service": ["get_metadata_template", "fix_metadata_validation_issues"],
    "permissions_service": ["discover_permissions", "bucket_recommendations_get"],
    "tabulator_service": ["tabulator_buckets_list"],
    "workflow_service": ["workflow_get_status"],
}


@pytest.mark.parametrize(("module", "function"), [(m, f) for m, functions in SERVICES.items() for f in functions])
def test_each_service_function_is_where_it_was_promised_and_in_the_registry(module: str, function: str) -> None:
    promised = getattr(import_module(f"quilt_mcp.services.{module}"), function)
    assert promised in [definition["service_function"] for definition in RESOURCE_REGISTRY.values()]


def test_the_registry_is_valid_and_holds_the_nineteen() -> None:
    validate_registry(RESOURCE_REGISTRY)
    assert NINETEEN - RESOURCE_REGISTRY.keys() == set()
    assert sorted(uri for uri, one in RESOURCE_REGISTRY.items() if one["requires_admin"]) == [
        "admin://api-keys",
        "admin://config/sso",
        "admin://config/tabulator",
        "admin://roles",
        "admin://users",
    ]
    assert RESOURCE_REGISTRY["metadata://templates/{template}"]["parameter_mapping"] == {"template": "name"}
    assert RESOURCE_REGISTRY["workflow://workflows/{workflow_id}/status"]["parameter_mapping"] == {"workflow_id": "id"}


def test_the_docstring_is_complete_and_names_every_uri() -> None:
    docstring = inspect.getdoc(get_resource) or ""
    assert 90 <= len(docstring.splitlines()) <= 147  # of 150: one more scheme takes three
    assert [uri for uri in RESOURCE_REGISTRY if f"``{uri}``" not in docstring] == []


@in_world("admin")
async def test_the_docstrings_examples_are_true(world: object) -> None:
    listing = await get_resource()
    assert isinstance(listing, GetResourceSuccess)
    assert listing.data["auth"][0].uri == listing["data"]["auth"][0]["uri"] == "auth://catalog/info"
    assert listing.uri == ""
    assert listing.resource_name == "Available Resources"

    answer = await get_resource("auth://status")
    assert isinstance(answer, GetResourceSuccess)
    assert answer.data["status"] == "authenticated"

    answer = await get_resource("metadata://templates/standard")
    assert isinstance(answer, GetResourceSuccess)
    assert answer.data["package_type"] == "data"

    refused = await get_resource("auth://statsu")
    assert isinstance(refused, GetResourceError)
    assert refused["success"] is False
    assert refused["error"] == "InvalidURI"
    assert refused["suggested_actions"][0] == "Did you mean auth://status?"
    assert refused.valid_uris == list(RESOURCE_REGISTRY)


async def test_a_manager_can_be_made_of_the_registry_alone() -> None:
    manager = ResourceManager(RESOURCE_REGISTRY)
    result = await manager.get_resource("metadata://templates")
    assert result.keys() == {"uri", "resource_name", "data", "mime_type"}
    with pytest.raises(KeyError):
        await manager.get_resource("invalid://uri")
    assert len((await manager.get_discovery_data())["auth"]) == 3


async def test_resources_can_be_registered_on_any_server() -> None:
    server = FastMCP("mine")
    register_resources(server)
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["get_resource"]
        listed = {str(one.uri) for one in await client.list_resources()}
        listed |= {one.uri_template for one in await client.list_resource_templates()}
        assert listed >= set(RESOURCE_REGISTRY)


async def test_the_module_level_server_offers_the_tools() -> None:
    server = import_module("quilt_mcp.main").mcp
    names = sorted(tool.name for tool in await server.list_tools())
    analysis = ["analyze_branches", "compare_functions", "find_path_to_exception", "health_check", "symbolic_check"]
    workflows = ["workflow_add_step", "workflow_create", "workflow_delete", "workflow_update_step"]
    assert names == sorted([*analysis, "athena_query", "get_resource", *workflows])


@in_world("admin")
@pytest.mark.parametrize(
    ("template", "variable", "prefix", "values"),
    [
        ("metadata://templates/{template}", "template", "g", ["genomics"]),
        ("workflow://workflows/{workflow_id}/status", "workflow_id", "q", ["quarterly-aggregation"]),
        ("workflow://workflows/{workflow_id}/status", "workflow_id", "nothing", []),
        ("nope://{x}", "x", "", []),
    ],
)
async def test_completion_offers_the_real_values(
    template: str, variable: str, prefix: str, values: list[str], client: AnyClient
) -> None:
    reference = ResourceTemplateReference(type="ref/resource", uri=template)
    assert (await client.complete(reference, {"name": variable, "value": prefix})).values == values


@in_world("admin")
async def test_completion_of_an_unknown_template_offers_nothing(client: AnyClient) -> None:
    reference = PromptReference(type="ref/prompt", name="template")
    assert (await client.complete(reference, {"name": "template", "value": ""})).values == []


@in_world("signed_out")
async def test_discovery_marks_exactly_the_resources_that_need_a_sign_in(world: object, client: AnyClient) -> None:
    listing = (await client.call_tool("get_resource", {})).structured_content or {}
    examples = {row.uri: row.example_uri for row in RESOURCES}
    rows = [row for rows in listing["data"].values() for row in rows if row["category"] in QUILT]
    assert {row["uri"] for row in rows if row["is_template"]} > {uri for uri in NINETEEN if "{" in uri}
    for row in rows:
        uri = examples[row["uri"]]
        answer = await client.call_tool("get_resource", {"uri": uri}, raise_on_error=False)
        assert row.get("requires_sign_in", False) == (
            (answer.structured_content or {}).get("error") == "Unauthorized"
        ), uri


@in_world("admin")
async def test_the_tool_declares_a_string_and_also_accepts_null(world: object, client: AnyClient) -> None:
    [tool] = [tool for tool in await client.list_tools() if tool.name == "get_resource"]
    assert tool.input_schema["properties"]["uri"]["type"] == "string"
    assert "required" not in tool.input_schema
    for arguments in ({}, {"uri": None}, {"uri": ""}):
        answer = await client.call_tool("get_resource", arguments)
        assert (answer.structured_content or {})["resource_name"] == "Available Resources"


@in_world("admin")
async def test_serialize_result_gives_the_text_of_the_resource(world: object, client: AnyClient) -> None:
    [content] = await client.read_resource("auth://status")
    assert isinstance(content, TextResourceContents)
    assert _serialize_result(auth_metadata.auth_status()) == content.text

"""What clients see before they read: the lists of resources, templates and tools, and `get_resource()`."""

import re
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from pydantic import BaseModel
from syrupy.assertion import SnapshotAssertion

from quilt_mcp import runtime_context
from quilt_mcp.demo.world import World
from quilt_mcp.registry import path_of
from quilt_mcp.server import create_server
from tests.contract.cases import RESOURCES
from tests.worlds import in_world

DISCOVERY = (
    "discovery/get-resource",
    "discovery/resource-templates",
    "discovery/resources",
    "discovery/tools",
)
A_PAGE = "discovery/resources-page"
"""A page of resources/list on which static resources and entities of a database meet."""
PAGE_SIZE = 24


@pytest.fixture
async def listings(data_dir: Path) -> dict[str, Any]:
    async with Client(create_server()) as client:
        body = (await client.call_tool_mcp("get_resource", {})).structured_content or {}
        return {
            "discovery/get-resource": {key: value for key, value in body.items() if key != "timestamp"},
            "discovery/resource-templates": wire(await client.list_resource_templates()),
            "discovery/resources": wire(await client.list_resources()),
            "discovery/tools": wire(await client.list_tools()),
        }


def wire(listed: list[Any]) -> list[dict[str, Any]]:
    """The listed components as they stand on the wire."""
    return [
        one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed if isinstance(one, BaseModel)
    ]


@pytest.mark.parametrize("name", DISCOVERY)
def test_the_listing_is_the_goldens(name: str, listings: dict[str, Any], golden: SnapshotAssertion) -> None:
    assert listings[name] == golden(name=name)


@in_world("admin")
async def test_a_page_of_the_list_is_the_goldens(world: World, golden: SnapshotAssertion) -> None:
    server = create_server(runtime_context.settings().model_copy(update={"list_page_size": PAGE_SIZE}))
    async with Client(server) as client:
        page = await client.list_resources_mcp()
    assert {"nextCursor": page.next_cursor, "resources": wire(page.resources)} == golden(name=A_PAGE)


def test_the_two_surfaces_list_the_same_resources(listings: dict[str, Any]) -> None:
    rows = [row for category in listings["discovery/get-resource"]["data"].values() for row in category]
    by_tool = {row["uri"]: (row["name"], row["description"], row["requires_admin"]) for row in rows}
    templates = {one["uriTemplate"]: described(one) for one in listings["discovery/resource-templates"]}
    resources = {one["uri"]: described(one) for one in listings["discovery/resources"]}
    both = {uri: path_of(uri) for uri in templates if path_of(uri) in resources}
    assert {templates[uri] == resources.pop(path) for uri, path in both.items()} == {True}
    assert by_tool == templates | resources
    assert sorted(by_tool) == sorted(row.uri for row in RESOURCES)


def described(listed: dict[str, Any]) -> tuple[str, str, bool]:
    return listed["name"], listed["description"], listed["_meta"]["requires_admin"]


def test_get_resource_is_described_in_at_most_forty_lines_that_name_every_uri(listings: dict[str, Any]) -> None:
    [tool] = [tool for tool in listings["discovery/tools"] if tool["name"] == "get_resource"]
    assert len(tool["description"].splitlines()) <= 40
    rest = dict(line.split("://", 1) for line in tool["description"].splitlines() if ":// " in line)
    named = {
        f"{scheme}://{uri.removesuffix(' (admin)')}" for scheme in rest for uri in rest[scheme].strip().split(", ")
    }
    assert named == {re.sub(r"\{\?.*\}", "{?}", row.uri) for row in RESOURCES}


@pytest.mark.parametrize("arguments", [{}, {"uri": None}, {"uri": ""}])
async def test_discovery_is_what_is_answered_without_a_uri(arguments: dict[str, Any], listings: dict[str, Any]) -> None:
    async with Client(create_server()) as client:
        body = (await client.call_tool_mcp("get_resource", arguments)).structured_content or {}
    assert body["uri"] == ""
    assert body["data"] == listings["discovery/get-resource"]["data"]

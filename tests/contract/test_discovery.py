"""Discovery: the lists of resources, templates and tools, and `get_resource()`."""

from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp_parity.contract import test_the_lists_are_those_of_the_goldens  # noqa: F401 - a test
from mcp_types import TextContent, TextResourceContents
from pydantic import BaseModel
from syrupy.assertion import SnapshotAssertion

from quilt_mcp.core.surfaces import TOOL_NAME
from quilt_mcp.demo.world import World
from quilt_mcp.resources import RESOURCE_REGISTRY
from quilt_mcp.server import QuiltServer, create_server
from tests.contract.cases import RESOURCES, Row
from tests.contract.surfaces import AnyClient
from tests.support import apps
from tests.support.worlds import in_world

PAGE_SIZE = 24


@pytest.fixture
def mcp_parity_server(data_dir: Path) -> QuiltServer:
    """A server without workflows and requirements, so that the lists have only what the registry declares."""
    return create_server()


def wire(listed: list[Any]) -> list[dict[str, Any]]:
    """Return the listed components in their JSON form."""
    return [
        one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed if isinstance(one, BaseModel)
    ]


@in_world("admin")
async def test_a_page_of_the_list_equals_the_golden(world: World, mcp_golden: SnapshotAssertion) -> None:
    """The page has both static resources and entities of a database."""
    server = create_server(apps.current_settings().model_copy(update={"list_page_size": PAGE_SIZE}))
    async with Client(server) as client:
        page = await client.list_resources_mcp()
    assert {"nextCursor": page.next_cursor, "resources": wire(page.resources)} == mcp_golden(
        name="discovery/resources-page"
    )


async def test_get_resource_lists_the_registry(mcp_parity_server: QuiltServer) -> None:
    async with Client(mcp_parity_server) as client:
        listings = [(await client.call_tool(TOOL_NAME, one)).structured_content or {} for one in ({}, {"uri": None})]
        listing = (await client.call_tool(TOOL_NAME, {"uri": ""})).structured_content or {}
    assert [one["data"] for one in listings] == [listing["data"]] * 2
    assert (listing["uri"], bool(listing["timestamp"])) == ("", True)
    assert sorted(row["uri"] for rows in listing["data"].values() for row in rows) == sorted(RESOURCE_REGISTRY)
    assert sorted(row.uri for row in RESOURCES) == sorted(RESOURCE_REGISTRY)


def shorten(row: Row) -> str:
    """Return a URI as the description of the tool shows it."""
    has_parameters = "parameters" in RESOURCE_REGISTRY[row.uri]
    path = row.uri.partition("{?")
    return path[0] + ("?" if path[1] or has_parameters else "")


async def test_get_resource_is_described_in_at_most_forty_lines_that_name_every_uri(
    mcp_parity_server: QuiltServer,
) -> None:
    async with Client(mcp_parity_server) as client:
        [lines] = [(one.description or "").splitlines() for one in await client.list_tools() if one.name == TOOL_NAME]
    assert len(lines) <= 40
    rest = dict(line.split("://", 1) for line in lines if ":// " in line)
    named = [f"{scheme}://{path}" for scheme in rest for one in rest[scheme].split(", ") for path in expand(one)]
    assert sorted(named) == sorted(map(shorten, RESOURCES))


def expand(listed: str) -> list[str]:
    """Return the paths that `epics?[/{id}[/hierarchy?|/trace?]]` stands for, without marks of administrators."""
    start, _, rest = listed.strip().removesuffix("]").partition("[")
    start, ends, depth = start.removesuffix(" (admin)"), [""], 0
    for one in rest:
        depth += (one == "[") - (one == "]")
        if one == "|" and not depth:
            ends.append("")
        else:
            ends[-1] += one
    return [start, *(start.removesuffix("?") + path for end in ends if end for path in expand(end))]


@in_world("admin")
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.soak)])
async def test_the_text_of_a_resource_is_a_part_of_the_tools_text(step: int, world: World, client: AnyClient) -> None:
    """mcp-parity compares values. Here the two surfaces have the same characters."""
    for row in RESOURCES[::step]:
        [content] = await client.read_resource(row.example_uri)
        [block] = (await client.call_tool_mcp(TOOL_NAME, {"uri": row.example_uri})).content
        assert isinstance(content, TextResourceContents)
        assert isinstance(block, TextContent)
        assert f'"data":{content.text}}}' in block.text

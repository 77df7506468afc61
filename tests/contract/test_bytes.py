"""Budgets for the bytes that a client receives before its first read. Every conversation contains them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from quilt_mcp.app.domain import Domain
from quilt_mcp.core.answers import to_json
from quilt_mcp.core.registry import define
from quilt_mcp.core.surfaces import TOOL_NAME
from quilt_mcp.server import create_server, find_domains
from quilt_mcp.services import resources as quilt
from quilt_mcp.workflows import resources as workflows

TOOLS, DESCRIPTION, DISCOVERY = 105, 26, 250
"""The most bytes for each resource, so that there is room for the next one: of tools/list without those that analyse
code, of the description of the reading tool, and of the discovery of the Quilt part."""
QUILT = {row["category"] for row in (*quilt.RESOURCES, *workflows.RESOURCES)}
"""The categories of the Quilt part: the Quilt domain and workflows. Requirements, config and info are counted apart."""
READ_TOOL, OTHER_TOOL, ANALYSIS_TOOL, ANALYSIS_TOOLS = 800, 1050, 1800, 6600
"""The most bytes of one tool in the answer to `tools/list`, and of the five analysis tools. The reading tool is counted
without its description, which has the URI of each resource."""
STEP_OF_LIST = 150
"""The most bytes of the schema of a step in a list of steps."""
RESOURCE, REQUIREMENTS = 300, 390
"""The most bytes of one resource in discovery, as the average of its category. Requirements have filters."""

QUERY_TOOL, QUERY_BYTES = "athena_query", 900
"""The tool that runs queries, and the most bytes that it adds to `tools/list`."""
WORKFLOW_TOOLS = {"workflow_create", "workflow_add_step", "workflow_update_step", "workflow_delete"}


@dataclass
class Counted:
    """Bytes of UTF-8, without spaces between JSON tokens.

    Attributes:
        tools: of each tool in the answer to `tools/list`.
        analysis: the names of the tools that analyse code.
        description: of the description of the tool that reads.
        discovery: of each category in the data of `get_resource()`.
        resources: how many resources each category has.
    """

    tools: dict[str, int]
    analysis: set[str]
    description: int
    discovery: dict[str, int]
    resources: dict[str, int]


def get_readme(bucket: str) -> dict[str, str]:
    """The README of a bucket, as text."""
    return {"bucket": bucket}


def add_resource(domain: Domain) -> Domain:
    """Add the next resource, with a function and a row."""
    row = define("quilt://buckets/{bucket}/readme", get_readme, name="README", values={"bucket": lambda _: ["a"]})
    return replace(domain, resources=[*domain.resources, row]) if domain.name == "quilt" else domain


@pytest.fixture(params=[list, partial(map, add_resource)], ids=["today", "with the next resource"])
async def counted(request: pytest.FixtureRequest, data_dir: Path) -> Counted:
    async with Client(create_server(domains=[*request.param(find_domains())])) as client:
        tools = (await client.list_tools_mcp()).tools
        answer = await client.call_tool(TOOL_NAME, {})
    data: dict[str, Any] = (answer.structured_content or {})["data"]
    tags = {tool.name: ((tool.meta or {}).get("fastmcp") or {}).get("tags", []) for tool in tools}
    [described] = [tool.description for tool in tools if tool.name == TOOL_NAME]
    return Counted(
        description=count(described),
        tools={one.name: count(one.model_dump(mode="json", by_alias=True, exclude_none=True)) for one in tools},
        analysis={name for name, given in tags.items() if "analysis" in given},
        discovery={category: count(rows) for category, rows in data.items()},
        resources={category: len(rows) for category, rows in data.items()},
    )


def count(value: Any) -> int:
    return len(to_json(value).encode())


def count_list(sizes: Iterable[int]) -> int:
    """Return the bytes of a list with brackets and commas."""
    return sum(size + 1 for size in sizes) + 1


def test_each_tool_stays_within_its_budget(counted: Counted) -> None:
    budgets = {name: ANALYSIS_TOOL if name in counted.analysis else OTHER_TOOL for name in counted.tools}
    budgets[TOOL_NAME] = READ_TOOL + counted.description
    budgets["workflow_create"] += STEP_OF_LIST
    assert {name: size for name, size in counted.tools.items() if size > budgets[name]} == {}
    assert sum(counted.tools[name] for name in counted.analysis) <= ANALYSIS_TOOLS


def test_each_category_stays_within_its_budget(counted: Counted) -> None:
    sizes = {category: size / counted.resources[category] for category, size in counted.discovery.items()}
    budgets = dict.fromkeys(sizes, RESOURCE) | {"requirements": REQUIREMENTS}
    assert {category: size for category, size in sizes.items() if size > budgets[category]} == {}


def test_the_tools_without_the_analysis_tools_stay_small(counted: Counted) -> None:
    others = counted.tools.keys() - counted.analysis - {QUERY_TOOL}
    assert others == {TOOL_NAME, *WORKFLOW_TOOLS}
    assert counted.tools[QUERY_TOOL] <= QUERY_BYTES
    resources = sum(counted.resources.values())
    assert counted.description <= DESCRIPTION * resources
    assert count_list(counted.tools[name] for name in others) <= TOOLS * resources


def test_the_discovery_of_quilt_stays_small(counted: Counted) -> None:
    assert counted.discovery.keys() - QUILT == {"requirements", "config", "info"}
    size = count_list(len(f'"{name}":') + counted.discovery[name] for name in counted.discovery.keys() & QUILT)
    assert size <= DISCOVERY * sum(counted.resources[name] for name in counted.resources.keys() & QUILT)

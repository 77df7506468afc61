"""Budgets for the bytes that a client receives before its first read. Every conversation contains them.

`python -m tests.bench byte_counts` prints the current sizes.
"""

from pathlib import Path

import pytest

from quilt_mcp.core.surfaces import TOOL_NAME
from tests.bench.byte_counts import MOST_TOOLS, QUILT, ByteCounts, count_bytes

READ_TOOL, OTHER_TOOL, ANALYSIS_TOOL, ANALYSIS_TOOLS = 2000, 1050, 1800, 6600
"""The most bytes of one tool in the answer to `tools/list`, and of the five analysis tools."""
RESOURCE, REQUIREMENTS = 300, 390
"""The most bytes of one resource in discovery, as the average of its category. Requirements have filters."""

WORKFLOW_TOOLS = {"workflow_create", "workflow_add_step", "workflow_update_step", "workflow_delete"}


@pytest.fixture
async def counted(data_dir: Path) -> ByteCounts:
    return await count_bytes()


def test_each_tool_stays_within_its_budget(counted: ByteCounts) -> None:
    budgets = {name: ANALYSIS_TOOL if name in counted.analysis else OTHER_TOOL for name in counted.tools}
    budgets[TOOL_NAME] = READ_TOOL
    assert {name: size for name, size in counted.tools.items() if size > budgets[name]} == {}
    assert sum(counted.tools[name] for name in counted.analysis) <= ANALYSIS_TOOLS


def test_each_category_stays_within_its_budget(counted: ByteCounts) -> None:
    sizes = {category: size / counted.resources[category] for category, size in counted.discovery.items()}
    budgets = dict.fromkeys(sizes, RESOURCE) | {"requirements": REQUIREMENTS}
    assert {category: size for category, size in sizes.items() if size > budgets[category]} == {}


def test_the_tools_without_the_analysis_tools_stay_small(counted: ByteCounts) -> None:
    assert counted.tools.keys() - counted.analysis == {TOOL_NAME, *WORKFLOW_TOOLS}
    assert counted.tools_list <= MOST_TOOLS


def test_the_discovery_of_quilt_stays_small(counted: ByteCounts) -> None:
    assert counted.discovery.keys() - QUILT == {"requirements", "config", "info"}
    assert counted.quilt_discovery <= counted.most_discovery

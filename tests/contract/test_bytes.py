"""What a client gets before it reads anything, in bytes, as data: an agent pays for it in every conversation.

`python -m tests.bench byte_counts` prints the counts of the tree as it is.
"""

from pathlib import Path

import pytest

from tests.bench.byte_counts import MOST_DISCOVERY, MOST_TOOLS, ByteCounts, count_bytes

TOOLS = {
    "get_resource": 1945,
    "workflow_create": 857,
    "workflow_add_step": 1101,
    "workflow_update_step": 1133,
    "symbolic_check": 3441,
    "find_path_to_exception": 3256,
    "compare_functions": 3248,
    "analyze_branches": 2825,
    "health_check": 944,
}
DISCOVERY = {
    "admin": 1025,
    "athena": 764,
    "auth": 758,
    "config": 547,
    "info": 266,
    "metadata": 1062,
    "permissions": 567,
    "requirements": 4238,
    "tabulator": 244,
    "workflow": 546,
}


@pytest.fixture
async def counted(data_dir: Path) -> ByteCounts:
    return await count_bytes()


def test_each_tool_takes_these_bytes_of_tools_list(counted: ByteCounts) -> None:
    assert counted.tools == TOOLS


def test_each_category_takes_these_bytes_of_discovery(counted: ByteCounts) -> None:
    assert counted.discovery == DISCOVERY


def test_the_tools_that_analyse_no_code_stay_small(counted: ByteCounts) -> None:
    """The target is MOST_TOOLS; this much more is what 37 URIs and the schemas of three workflow tools take."""
    assert counted.analysis < counted.tools.keys()
    assert counted.tools_list <= MOST_TOOLS + 1_000


def test_the_discovery_of_quilt_stays_small(counted: ByteCounts) -> None:
    assert counted.quilt_discovery <= MOST_DISCOVERY

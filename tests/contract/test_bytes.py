"""What a client gets before it reads anything, in bytes, as data: an agent pays for it in every conversation.

`python -m tests.bench byte_counts` prints the counts of the tree as it is.
"""

from pathlib import Path

import pytest

from tests.bench.byte_counts import MOST_DISCOVERY, MOST_TOOLS, ByteCounts, count_bytes

TOOLS = {
    "get_resource": 2333,
}
DISCOVERY = {
    "admin": 1025,
}


@pytest.fixture
async def counted(data_dir: Path) -> ByteCounts:
    return await count_bytes()


def test_each_tool_takes_these_bytes_of_tools_list(counted: ByteCounts) -> None:
    assert counted.tools == TOOLS


def test_each_category_takes_these_bytes_of_discovery(counted: ByteCounts) -> None:
    assert counted.discovery == DISCOVERY


def test_the_tools_that_analyse_no_code_stay_small(counted: ByteCounts) -> None:
    assert counted.analysis < counted.tools.keys()
    assert counted.tools_list <= MOST_TOOLS


def test_the_discovery_of_quilt_stays_small(counted: ByteCounts) -> None:
    assert counted.quilt_discovery <= MOST_DISCOVERY

"""The bytes that a client receives before its first read: `tools/list` and the answer of `get_resource()`.

Every conversation of an agent contains them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fastmcp import Client

from quilt_mcp.commands.logs import configure_logging
from quilt_mcp.core.answers import to_json
from quilt_mcp.core.surfaces import TOOL_NAME
from quilt_mcp.server import create_server
from quilt_mcp.services import resources as quilt
from quilt_mcp.workflows import resources as workflows
from tests.bench.outcome import Outcome, Run, Table, Target

MOST_TOOLS, MOST_OF_RESOURCE = 5120, 238
"""The most bytes of tools/list without the tools that analyse code, and of one resource in the discovery of the Quilt
part, as the average: 7,140 bytes for 30 resources."""
ANALYSIS = "analysis"
"""The tag of the tools that analyse code."""
QUILT = frozenset(row["category"] for row in (*quilt.RESOURCES, *workflows.RESOURCES))
"""The categories of the Quilt part: the Quilt domain and workflows. Requirements, config and info are counted apart."""


@dataclass(frozen=True)
class ByteCounts:
    """Bytes of UTF-8, without spaces between JSON tokens.

    Attributes:
        tools: of each tool in the answer to `tools/list`.
        analysis: the names of the tools that analyse code.
        discovery: of each category in the data of `get_resource()`.
        resources: how many resources each category has.
    """

    tools: dict[str, int]
    analysis: frozenset[str]
    discovery: dict[str, int]
    resources: dict[str, int]

    @property
    def tools_list(self) -> int:
        """The bytes of the list without the tools that analyse code, with brackets and commas."""
        return _of_list(size for name, size in self.tools.items() if name not in self.analysis)

    @property
    def all_tools(self) -> int:
        """The bytes of the whole list."""
        return _of_list(self.tools.values())

    @property
    def quilt_discovery(self) -> int:
        """The bytes of an object with only the categories of the Quilt part."""
        return _of_list(_of_key(name, size) for name, size in self.discovery.items() if name in QUILT)

    @property
    def most_discovery(self) -> int:
        """The most bytes that an object with only the categories of the Quilt part can have."""
        return MOST_OF_RESOURCE * sum(count for name, count in self.resources.items() if name in QUILT)

    @property
    def all_discovery(self) -> int:
        """The bytes of all data."""
        return _of_list(_of_key(name, size) for name, size in self.discovery.items())


async def count_bytes() -> ByteCounts:
    """Count the bytes of our server, in memory."""
    async with Client(create_server()) as client:
        tools = (await client.list_tools_mcp()).tools
        answer = await client.call_tool(TOOL_NAME, {})
    data: dict[str, Any] = (answer.structured_content or {})["data"]
    tags = {tool.name: ((tool.meta or {}).get("fastmcp") or {}).get("tags", []) for tool in tools}
    return ByteCounts(
        tools={tool.name: _bytes(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in tools},
        analysis=frozenset(name for name, given in tags.items() if ANALYSIS in given),
        discovery={category: _bytes(rows) for category, rows in sorted(data.items())},
        resources={category: len(rows) for category, rows in data.items()},
    )


async def run(run: Run) -> Outcome:
    """Count the bytes. They are the same in every run."""
    del run
    with configure_logging("ERROR"):
        counted = await count_bytes()
    tools = [(name, f"{size:,}") for name, size in counted.tools.items()]
    tools += [("all", f"{counted.all_tools:,}"), ("all but the analysis tools", f"{counted.tools_list:,}")]
    discovery = [(name, f"{size:,}") for name, size in counted.discovery.items()]
    discovery += [("all", f"{counted.all_discovery:,}"), ("the Quilt resources", f"{counted.quilt_discovery:,}")]
    return Outcome(
        tables=[Table("tools/list", ("tool", "bytes"), tools), Table("Discovery", ("category", "bytes"), discovery)],
        targets=[
            _target("tools/list without the analysis tools", counted.tools_list, MOST_TOOLS),
            _target("discovery of the Quilt resources", counted.quilt_discovery, counted.most_discovery),
        ],
        figures={
            "tools/list [bytes]": counted.all_tools,
            "tools/list without the analysis tools [bytes]": counted.tools_list,
            "discovery [bytes]": counted.all_discovery,
            "discovery of the Quilt resources [bytes]": counted.quilt_discovery,
        },
    )


def _target(what: str, measured: int, most: int) -> Target:
    return Target(f"{what}: at most {most:,} bytes", f"{measured:,}", measured <= most)


def _bytes(value: Any) -> int:
    return len(to_json(value).encode())


def _of_key(name: str, size: int) -> int:
    return len(f'"{name}":') + size


def _of_list(sizes: Iterable[int]) -> int:
    """Return the bytes of a list with brackets and commas."""
    found = list(sizes)
    return 2 + sum(found) + max(0, len(found) - 1)

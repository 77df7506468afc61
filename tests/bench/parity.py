"""mcp-parity's tool compared with our own tool, the native read and ResourcesAsTools, in memory."""

from contextlib import AsyncExitStack
from statistics import median

from fastmcp import Client
from mcp_parity import add_get_resource

from quilt_mcp.commands.process import configure_logging
from quilt_mcp.core.surfaces import TOOL_NAME, ResourceSurface
from tests.bench import estimates
from tests.bench.interleaving import Effort, Samples, interleave
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds, ratio
from tests.bench.synthetic import PAYLOADS, ServableFastMCP, payload_uri, payloads, server_of
from tests.bench.synthetic import server_with_resources_as_tools as with_resources_as_tools

NATIVE, PARITY, OWN, AS_TOOLS = "native", "mcp-parity", "get_resource", "ResourcesAsTools"
LEAST = 2.5
"""The target for ResourcesAsTools, as a multiple of mcp-parity's tool."""


async def run(run: Run) -> Outcome:
    """Measure the synthetic payloads."""
    effort = Effort(run.seconds(3), at_least=2 if run.quick else 7, at_most=2 if run.quick else 400)
    with configure_logging("ERROR"):
        measured = {name: await _measure(payload_uri(size), effort) for name, size in PAYLOADS.items()}
    arms = (NATIVE, PARITY, OWN, AS_TOOLS)
    rows = [(name, *(milliseconds(median(found[arm])) for arm in arms)) for name, found in measured.items()]
    targets = [target for name, found in measured.items() for target in _compare(name, found)]
    return Outcome([Table("A read with each tool, in memory", ("answer", *arms), rows)], targets)


async def _measure(uri: str, effort: Effort) -> Samples:
    parity = ServableFastMCP("parity", payloads())
    parity.add_provider(ResourceSurface(parity.manager))
    add_get_resource(parity)
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(Client(parity))
        own = await stack.enter_async_context(Client(server_of(payloads())))
        other = await stack.enter_async_context(Client(with_resources_as_tools(payloads())))
        arms = {
            NATIVE: lambda: one.read_resource(uri),
            PARITY: lambda: one.call_tool("get_resource", {"uri": uri}),
            OWN: lambda: own.call_tool(TOOL_NAME, {"uri": uri}),
            AS_TOOLS: lambda: other.call_tool("read_resource", {"uri": uri}),
        }
        return await interleave(arms, effort)


def _compare(name: str, found: Samples) -> list[Target]:
    own = estimates.paired_ratio(found[PARITY], found[OWN])
    others = estimates.paired_ratio(found[AS_TOOLS], found[PARITY])
    return [
        Target(f"{name}: mcp-parity's tool takes no longer than ours", ratio(own), reached=own.value <= 1.0),
        Target(f"{name}: ResourcesAsTools takes {LEAST} times as long", ratio(others), reached=others.value >= LEAST),
    ]

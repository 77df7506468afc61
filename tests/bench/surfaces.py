"""The tool compared with the native read and ResourcesAsTools, for each resource, in memory and over transports."""

import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fastmcp import Client, FastMCP

from quilt_mcp.app import App
from quilt_mcp.commands.logs import configure_logging
from quilt_mcp.commands.startup import enter_world
from quilt_mcp.core.surfaces import TOOL_NAME
from quilt_mcp.server import create_manager, create_server
from quilt_mcp.settings import Settings
from tests.bench import estimates
from tests.bench.byte_counts import QUILT
from tests.bench.estimates import Estimate
from tests.bench.interleaving import Effort, Samples, interleave
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds, ratio
from tests.bench.processes import QUILT_MCP, on_http, on_stdio, other_server
from tests.bench.synthetic import PAYLOADS, payload_uri, payloads, server_of, server_with_resources_as_tools
from tests.bench.wire import PROTOCOLS, Call, HTTPConnection, StdioServer, parse_result, read, tool
from tests.contract.cases import RESOURCES

ALONE = ("metadata://templates", "metadata://templates/analytics")
"""Resources that need no Quilt stack."""
NATIVE, AGAIN, TOOL, AS_TOOLS = "native", "native again", "get_resource", "ResourcesAsTools"
MODES = {"legacy": "legacy", "modern": "2026-07-28"}
MOST = 1.10
"""The limit for the tool, as a multiple of the native read."""
LEAST = {"memory": 4.0, "stdio": 3.0, "http": 3.5}
"""The target for ResourcesAsTools, as a multiple of the tool."""
SMALL = payload_uri(PAYLOADS["1 KB"])

Ask = Callable[[str], Awaitable[object]]


@dataclass(frozen=True)
class Ways:
    """The three ways to read a URI."""

    native: Ask
    tool: Ask
    as_tools: Ask


@dataclass(frozen=True)
class Cell:
    """One resource with one transport and one protocol."""

    uri: str
    level: str
    protocol: str
    samples: Samples

    @property
    def place(self) -> str:
        """The transport and the protocol."""
        return f"{self.level}, {self.protocol}"

    def over_native(self, arm: str = TOOL) -> Estimate:
        """The median of the paired ratios to the native read."""
        return estimates.paired_ratio(self.samples[arm], self.samples[NATIVE])

    def over_tool(self) -> Estimate:
        """Return the time of ResourcesAsTools as a multiple of the tool's."""
        return estimates.paired_ratio(self.samples[AS_TOOLS], self.samples[TOOL])


async def run(run: Run) -> Outcome:
    """Measure every Quilt resource of the demo world, and the synthetic payloads."""
    protocols = ["modern"] if run.quick else list(PROTOCOLS)
    quilt = [
        row.example_uri for row in RESOURCES if row.category in QUILT and (not run.quick or row.example_uri in ALONE)
    ]
    sizes = [payload_uri(size) for name, size in PAYLOADS.items() if not run.quick or name == "1 KB"]
    effort = Effort(run.seconds(0.7), at_least=2 if run.quick else 7, at_most=2 if run.quick else 300)
    world = None if run.quick else "admin"
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for level, connect in {"memory": _in_memory, "stdio": _over_stdio, "http": _over_http}.items():
            for protocol in protocols:
                for uris, of_quilt in ((quilt, True), (sizes, False)):
                    if run.quick and of_quilt != (level == "stdio"):
                        continue  # each server takes a second to start
                    async with connect(protocol, folder, world, of_quilt=of_quilt) as ways:
                        cells += [await _measure(uri, level, protocol, ways, effort) for uri in uris]
    return _outcome(cells)


async def _measure(uri: str, level: str, protocol: str, ways: Ways, effort: Effort) -> Cell:
    arms = {
        NATIVE: lambda: ways.native(uri),
        AGAIN: lambda: ways.native(uri),
        TOOL: lambda: ways.tool(uri),
        AS_TOOLS: lambda: ways.as_tools(uri),
    }
    return Cell(uri, level, protocol, await interleave(arms, effort))


@asynccontextmanager
async def _in_memory(protocol: str, folder: Path, world: str | None, *, of_quilt: bool) -> AsyncIterator[Ways]:
    with configure_logging("ERROR"), enter_world(world):
        ours = create_server() if of_quilt else server_of(payloads())
        theirs = server_with_resources_as_tools(create_manager(App(Settings())) if of_quilt else payloads())
        async with _client(ours, protocol) as one, _client(theirs, protocol) as other:
            yield Ways(
                one.read_resource,
                lambda uri: one.call_tool(TOOL_NAME, {"uri": uri}),
                lambda uri: other.call_tool("read_resource", {"uri": uri}),
            )


def _client(server: FastMCP, protocol: str) -> Client:  # type: ignore[type-arg]  # the transport is FastMCP's own
    return Client(server, mode=MODES[protocol])


@asynccontextmanager
async def _over_stdio(protocol: str, folder: Path, world: str | None, *, of_quilt: bool) -> AsyncIterator[Ways]:
    ours, theirs = _commands(world, of_quilt=of_quilt)
    with on_stdio(ours, protocol, folder) as one, on_stdio(theirs, protocol, folder) as other:
        yield _ways(protocol, one, other)


@asynccontextmanager
async def _over_http(protocol: str, folder: Path, world: str | None, *, of_quilt: bool) -> AsyncIterator[Ways]:
    async with AsyncExitStack() as stack:
        connections = []
        for command in _commands(world, of_quilt=of_quilt):
            port, _ = await stack.enter_async_context(on_http(command, folder))
            connections.append(await stack.enter_async_context(HTTPConnection(port, protocol)))
        yield _ways(protocol, *connections)


def _commands(world: str | None, *, of_quilt: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not of_quilt:
        return other_server("payloads"), other_server("payloads-as-tools")
    demo = (f"--demo={world}",) if world else ()
    serve = (*QUILT_MCP, "serve")
    return (*serve, *demo), (*other_server("quilt-as-tools"), *demo)


def _ways(protocol: str, ours: StdioServer | HTTPConnection, theirs: StdioServer | HTTPConnection) -> Ways:
    return Ways(
        _make_reader(ours, lambda uri: read(protocol, uri)),
        _make_reader(ours, lambda uri: tool(protocol, TOOL_NAME, uri=uri)),
        _make_reader(theirs, lambda uri: tool(protocol, "read_resource", uri=uri)),
    )


def _make_reader(server: StdioServer | HTTPConnection, make: Callable[[str], Call]) -> Ask:
    """Return a function that reads a URI. It checks the first answer and reuses the request."""
    ready: dict[str, Call] = {}

    async def ask(uri: str) -> None:
        if uri in ready:
            await server.ask(ready[uri])
        else:
            parse_result(await server.ask(make(uri)))
            ready[uri] = make(uri)

    return ask


def _outcome(cells: list[Cell]) -> Outcome:
    return Outcome(
        tables=[
            _table("get_resource over resources/read", cells, lambda cell: ratio(cell.over_native()), _ABOUT_RATIOS),
            _table("The same: ratio of the 95th percentiles", cells, lambda cell: ratio(_of_95(cell))),
            _table("Control: resources/read over itself", cells, lambda cell: ratio(cell.over_native(AGAIN))),
            _table("ResourcesAsTools over get_resource", cells, lambda cell: ratio(cell.over_tool())),
            _table("Median of resources/read, ms", cells, lambda cell: milliseconds(_median(cell))),
        ],
        targets=[*_wire_targets(cells), *_memory_target(cells), *_as_tools_targets(cells)],
        figures=_figures(cells),
    )


def _figures(cells: list[Cell]) -> dict[str, float]:
    """Return, for each place and surface, the geometric mean over the Quilt URIs and the median of each payload."""
    medians: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        what = cell.uri if cell.uri.startswith("payload:") else "Quilt URIs"
        for arm in (NATIVE, TOOL):
            medians[f"{cell.place}: {arm}, {what} [ms]"].append(estimates.estimate(cell.samples[arm]).value * 1000)
    return {name: estimates.geometric_mean(found) for name, found in medians.items()}


_ABOUT_RATIOS = "Median of the ratios of one repetition each, with its 95 % confidence interval."


def _of_95(cell: Cell) -> Estimate:
    return estimates.ratio_of_95(cell.samples[TOOL], cell.samples[NATIVE])


def _median(cell: Cell) -> float:
    return estimates.estimate(cell.samples[NATIVE]).value


def _table(title: str, cells: list[Cell], show: Callable[[Cell], str], note: str = "") -> Table:
    places = list(dict.fromkeys(cell.place for cell in cells))
    found = defaultdict(str, {(cell.uri, cell.place): show(cell) for cell in cells})
    uris = dict.fromkeys(cell.uri for cell in cells)
    return Table(title, ("resource", *places), [(uri, *(found[uri, place] for place in places)) for uri in uris], note)


def _wire_targets(cells: list[Cell]) -> list[Target]:
    of_quilt = [cell for cell in cells if cell.level != "memory" and not cell.uri.startswith("payload:")]
    by_place = {place: [cell for cell in of_quilt if cell.place == place] for place in {c.place: 0 for c in of_quilt}}
    return [_wire_target(place, found) for place, found in by_place.items()]


def _wire_target(place: str, cells: list[Cell]) -> Target:
    """Compare medians. `surely not` counts the resources with their whole interval above the limit."""
    ratios = {cell.uri: cell.over_native() for cell in cells}
    worst = max(ratios, key=lambda uri: ratios[uri].value)
    within = sum(one.value <= MOST for one in ratios.values())
    surely = sum(one.low > MOST for one in ratios.values())
    return Target(
        f"{place}: get_resource at most {MOST:.2f} times resources/read, for each Quilt URI",
        f"{within} of {len(ratios)}, {surely} surely not; the most is {ratio(ratios[worst])}, {worst}",
        within == len(ratios),
    )


def _memory_target(cells: list[Cell]) -> list[Target]:
    ratios = [c.over_native().value for c in cells if c.level == "memory" and not c.uri.startswith("payload:")]
    if not ratios:
        return []
    mean = estimates.geometric_mean(ratios)
    text = f"memory: get_resource at most {MOST:.2f} times resources/read, geometric mean over the Quilt URIs"
    return [Target(text, f"{mean:.2f}", mean <= MOST)]


def _as_tools_targets(cells: list[Cell]) -> list[Target]:
    small = [cell for cell in cells if cell.uri == SMALL]
    return [
        Target(
            f"{cell.place}: at least {LEAST[cell.level]:g} times as fast as ResourcesAsTools, 1 KB that cost nothing",
            ratio(cell.over_tool()),
            cell.over_tool().value >= LEAST[cell.level],
        )
        for cell in small
    ]

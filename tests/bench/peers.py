"""`quilt-mcp serve` and other servers with the same data over HTTP: processor time and time of an answer.

Every round measures each server once with each kind of request, in a random order. The servers answer the same rows;
`serve` puts its envelope around them.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from quilt_mcp.core.surfaces import TOOL_NAME
from tests.bench.estimates import Estimate, paired_ratio
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds, ratio
from tests.bench.payloads import PAYLOADS, payload_uri
from tests.bench.processes import on_http, other_on_http, peer, processor_seconds
from tests.bench.typescript import NotInstalledError, typescript_server
from tests.bench.wire import Call, HTTPConnection, WrongAnswerError, parse_result, read, tool

OURS, AGAIN = "quilt-mcp serve", "the same again"
SERVE = (sys.executable, "-m", "tests.bench.payloads", "serve")
BARE, AS_TOOLS, LOW_LEVEL = "bare FastMCP", "ResourcesAsTools", "low-level server of mcp"
TYPESCRIPT, PREPARED = "TypeScript SDK", "Starlette, prepared bytes"
TOOL, READ = "tool", "read"
ERAS = {"modern": "newest", "legacy": "older"}
SIZES = {"1 KB": 8, "1 MB": 2}
"""The sizes of the data, and the number of connections."""
PEERS = {BARE: "fastmcp", AS_TOOLS: "resources-as-tools", LOW_LEVEL: "low-level", PREPARED: "prepared"}
"""The servers of peer_servers.py."""
CONTROL = (0.9, 1.1)

Address = tuple[int, int]
"""The port and the process id of a server."""


@dataclass(frozen=True)
class Cell:
    """One server with one kind of request."""

    server: str
    size: str
    era: str
    surface: str

    def of(self, server: str, surface: str | None = None) -> "Cell":
        """Return the cell of another server, or also of another request."""
        return Cell(server, self.size, self.era, surface or self.surface)


@dataclass
class Measured:
    """For each round, the processor time of the server for one answer and the time between answers, in seconds."""

    processor: list[float] = field(default_factory=list)
    elapsed: list[float] = field(default_factory=list)


Results = Mapping[Cell, Measured]


async def run(run: Run) -> Outcome:
    """Measure all servers in turns."""
    results: dict[Cell, Measured] = defaultdict(Measured)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        addresses, skipped = await _start(stack, folder, run)
        cells = _list_cells(list(addresses), quick=run.quick)
        for _ in range(run.times(6, quick=1)):
            for cell in random.sample(cells, len(cells)):
                await _measure(addresses[cell.server], cell, run.seconds(0.35), results[cell])
    return compare_results(results, skipped)


async def _start(stack: AsyncExitStack, folder: Path, run: Run) -> tuple[dict[str, Address], str]:
    """Start the servers. Return their addresses, and why one of them is missing."""
    addresses = {name: await stack.enter_async_context(on_http(SERVE, folder)) for name in (OURS, AGAIN)}
    if run.alone:
        return addresses, ""
    for name in (BARE, PREPARED) if run.quick else PEERS:
        addresses[name] = await stack.enter_async_context(other_on_http(peer(PEERS[name]), folder))
    if run.quick:
        return addresses, ""
    try:
        command = await asyncio.to_thread(typescript_server, run.folder / "typescript")
    except NotInstalledError as reason:
        return addresses, f"{TYPESCRIPT} is skipped: {reason}."
    addresses[TYPESCRIPT] = await stack.enter_async_context(other_on_http(command, folder))
    return addresses, ""


def _list_cells(servers: list[str], *, quick: bool) -> list[Cell]:
    return [
        Cell(server, size, era, surface)
        for server in servers
        for size in SIZES
        for era in ERAS
        for surface in (TOOL, READ)
        if (server, surface) != (AS_TOOLS, READ) and not (quick and (size, era) != ("1 KB", "modern"))
    ]


async def _measure(address: Address, cell: Cell, seconds: float, into: Measured) -> None:
    """Send requests for some seconds, at least two over each connection."""
    port, pid = address
    request, count = _make_request(cell), SIZES[cell.size]
    async with _connect(port, cell.era, count) as connections:
        _check(await connections[0].ask(request), cell)
        processor, started = processor_seconds(pid), time.perf_counter()
        answers = await asyncio.gather(*(_ask(one, request, started + seconds) for one in connections))
        elapsed = time.perf_counter() - started
        into.processor.append((processor_seconds(pid) - processor) / sum(answers))
        into.elapsed.append(elapsed / sum(answers))


def _make_request(cell: Cell) -> Call:
    uri = payload_uri(PAYLOADS[cell.size])
    if cell.surface == READ:
        return read(cell.era, uri)
    return tool(cell.era, "read_resource" if cell.server == AS_TOOLS else TOOL_NAME, uri=uri)


@asynccontextmanager
async def _connect(port: int, era: str, count: int) -> AsyncIterator[list[HTTPConnection]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(HTTPConnection(port, era)) for _ in range(count)]


def _check(answer: bytes, cell: Cell) -> None:
    """Check that an answer is no error and has about the size of the data.

    Raises:
        WrongAnswerError: it is not.
    """
    parse_result(answer)
    if len(answer) < PAYLOADS[cell.size]:
        raise WrongAnswerError(f"{cell}: {answer[:500]!r}")


async def _ask(connection: HTTPConnection, request: Call, until: float) -> int:
    number = 0
    while number < 2 or time.perf_counter() < until:
        await connection.ask(request)
        number += 1
    return number


def compare_results(results: Results, skipped: str) -> Outcome:
    """Return the tables and the targets of results, with why a server was skipped."""
    sizes = [size for size in SIZES if any(cell.size == size for cell in results)]
    return Outcome(
        tables=[_table(size, results, skipped) for size in sizes],
        targets=_targets(results),
        figures={
            f"{cell.size}, {ERAS[cell.era]}, {cell.surface}: processor [µs]": 1e6 * median(found.processor)
            for cell, found in results.items()
            if cell.server == OURS
        },
    )


def _table(size: str, results: Results, skipped: str) -> Table:
    present = {cell.server for cell in results}, {(cell.era, cell.surface) for cell in results if cell.size == size}
    servers = [name for name in (OURS, AGAIN, *PEERS, TYPESCRIPT) if name in present[0]]
    kinds = [(era, surface) for era in ERAS for surface in (TOOL, READ) if (era, surface) in present[1]]
    rows = [
        (server, *(_show(Cell(server, size, era, surface), results) for era, surface in kinds)) for server in servers
    ]
    columns = ("server", *(f"{ERAS[era]} protocol, {surface}" for era, surface in kinds))
    note = (
        "Each cell: processor time of the server for an answer (in brackets, over that of `serve`, as the median of "
        f"pairs); time between answers over {SIZES[size]} connections. {skipped}"
    )
    return Table(f"{size} over HTTP", columns, rows, note.strip())


def _show(cell: Cell, results: Results) -> str:
    if cell not in results:
        return ""
    found = results[cell]
    return (
        f"{1e6 * median(found.processor):,.0f} µs ({over(results, cell, OURS).value:.2f}); "
        f"{milliseconds(median(found.elapsed))} ms"
    )


def over(results: Results, cell: Cell, other: str, surface: str | None = None) -> Estimate:
    """Return the processor time of a cell over that of another server or request, in the same round."""
    return paired_ratio(results[cell].processor, results[cell.of(other, surface)].processor)


def _targets(results: Results) -> list[Target]:
    """The targets that all kinds of requests of a size must reach: the worst of them counts."""
    small, large = ([cell for cell in results if (cell.server, cell.size) == (OURS, size)] for size in SIZES)
    found = [_control([over(results, cell.of(AGAIN), OURS) for cell in (*small, *large)])]
    if bare := [over(results, cell.of(BARE), OURS) for cell in small if cell.of(BARE) in results]:
        found.insert(0, _at_least(f"1 KB: {BARE} over serve, processor time", 2.0, bare))
    if any(cell.server == TYPESCRIPT for cell in results):
        for size, cells, least in (("1 KB", small, 2.0), ("1 MB", large, 1.5)):
            if ratios := [over(results, cell.of(TYPESCRIPT), OURS) for cell in cells]:
                found.append(_at_least(f"{size}: {TYPESCRIPT} over serve, processor time", least, ratios))
    if tools := [cell for cell in large if cell.surface == TOOL]:
        ratios = [over(results, cell, OURS, READ) for cell in tools]
        found.append(_at_most("1 MB: tool over read, processor time", 1.4, ratios))
    return found


def _at_least(text: str, limit: float, ratios: list[Estimate]) -> Target:
    worst = min(ratios, key=lambda one: one.value)
    return Target(f"{text}: at least {limit:g}", ratio(worst), worst.value >= limit)


def _at_most(text: str, limit: float, ratios: list[Estimate]) -> Target:
    worst = max(ratios, key=lambda one: one.value)
    return Target(f"{text}: at most {limit:g}", ratio(worst), worst.value <= limit)


def _control(ratios: list[Estimate]) -> Target:
    low, high = CONTROL
    values = [one.value for one in ratios]
    return Target(
        f"control: a second process of serve over the first, {low:g} to {high:g}",
        f"{min(values):.2f} to {max(values):.2f}",
        low <= min(values) and max(values) <= high,
    )

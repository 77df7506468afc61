"""The time of a read among many resources: the look-up alone, and a whole read by a client in memory."""

import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from fastmcp import Client

from quilt_mcp.commands.logs import configure_logging
from quilt_mcp.core.registry import UriIndex
from quilt_mcp.core.surfaces import TOOL_NAME
from tests.bench.estimates import estimate, paired_ratio
from tests.bench.interleaving import Arm, Effort, Samples, interleave
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds, ratio
from tests.bench.synthetic import numbered, numbered_fastmcp, server_of, static_uris, template_uris

SIZES = (19, 100, 1_000, 10_000)
OPERATIONS = ("read static", "read template", "tool static", "tool template")
OURS, FASTMCP = "ours", "FastMCP"
READ_TOOLS = {OURS: TOOL_NAME, FASTMCP: "read_resource"}
MOST_GROWTH, MOST_STATIC, MOST_TEMPLATE = 1.15, 0.2e-6, 3e-6
_LOOKUPS = 2_000


async def run(run: Run) -> Outcome:
    """Measure with 19, 100, 1,000 and 10,000 resources, half of them templates."""
    sizes = SIZES[:2] if run.quick else SIZES
    lookups = await _lookups(sizes, Effort(run.seconds(5), at_least=run.times(20)))
    effort = Effort(run.seconds(60), at_least=run.times(20))
    arms: dict[str, Arm] = {}
    making: list[tuple[str, ...]] = []
    with configure_logging("ERROR"):
        async with AsyncExitStack() as stack:
            for size in sizes:
                started = time.perf_counter()
                ours = server_of(numbered(size))
                between = time.perf_counter()
                theirs = numbered_fastmcp(size)
                making.append((f"{size:,}", *map(milliseconds, (between - started, time.perf_counter() - between))))
                for name, server in ((OURS, ours), (FASTMCP, theirs)):
                    arms |= _arms(name, size, await stack.enter_async_context(Client(server)))
            samples = await interleave(arms, effort)
    return Outcome(
        tables=[_lookup_table(sizes, lookups), *_tables(sizes, samples), _making_table(making)],
        targets=[*_lookup_targets(sizes[-1], lookups), *_growth_targets(sizes, samples)],
        figures={f"{name} [ms]": estimate(found).value * 1000 for name, found in samples.items() if OURS in name},
    )


async def _lookups(sizes: tuple[int, ...], effort: Effort) -> Samples:
    """The seconds of one look-up, of the last static resource and of the last template."""
    arms: dict[str, Arm] = {}
    for size in sizes:
        index = UriIndex(numbered(size).registry)
        arms[f"static, {size}"] = _finding(index.find, static_uris(size)[-1])
        arms[f"template, {size}"] = _finding(index.find, _fill(template_uris(size)[-1]))
    samples = await interleave(arms, effort)
    return {name: [one / _LOOKUPS for one in found] for name, found in samples.items()}


def _finding(find: Callable[[str], object], uri: str) -> Arm:
    async def arm() -> None:
        for _ in range(_LOOKUPS):
            find(uri)

    return arm


def _fill(template: str) -> str:
    return template.replace("{key}", "value-1")


def _name(server: str, operation: str, size: int) -> str:
    return f"{server}: {operation}, {size}"


def _arms(server: str, size: int, client: Client[Any]) -> Mapping[str, Arm]:
    """The four operations, each on the last resource of its kind."""
    static, template, read_tool = static_uris(size)[-1], _fill(template_uris(size)[-1]), READ_TOOLS[server]
    arms: tuple[Arm, ...] = (
        lambda: client.read_resource(static),
        lambda: client.read_resource(template),
        lambda: client.call_tool(read_tool, {"uri": static}),
        lambda: client.call_tool(read_tool, {"uri": template}),
    )
    return {_name(server, operation, size): arm for operation, arm in zip(OPERATIONS, arms, strict=True)}


def _lookup_table(sizes: tuple[int, ...], lookups: Samples) -> Table:
    def shown(kind: str, size: int) -> str:
        return f"{estimate(lookups[f'{kind}, {size}']).value * 1e6:.2f}"

    rows = [(kind, *(shown(kind, size) for size in sizes)) for kind in ("static", "template")]
    return Table("Look-up alone, µs", ("resource", *(f"{size:,}" for size in sizes)), rows)


def _tables(sizes: tuple[int, ...], samples: Samples) -> list[Table]:
    columns = ("operation", *(f"{size:,}" for size in sizes))

    def row(server: str, operation: str, shown: Callable[[int], str]) -> tuple[str, ...]:
        return (f"{server}: {operation}", *(shown(size) for size in sizes))

    def median(server: str, operation: str) -> Callable[[int], str]:
        return lambda size: milliseconds(estimate(samples[_name(server, operation, size)]).value)

    def growth(server: str, operation: str) -> Callable[[int], str]:
        base = samples[_name(server, operation, sizes[0])]
        return lambda size: ratio(paired_ratio(samples[_name(server, operation, size)], base))

    both = [(server, operation) for server in (OURS, FASTMCP) for operation in OPERATIONS]
    note = f'"{FASTMCP}: tool" is read_resource of ResourcesAsTools; the rest of FastMCP its local provider.'
    return [
        Table("A read by a client in memory, median, ms", columns, [row(*one, median(*one)) for one in both], note),
        Table(f"The same over that with {sizes[0]} resources", columns, [row(*one, growth(*one)) for one in both]),
    ]


def _making_table(rows: list[tuple[str, ...]]) -> Table:
    return Table("Making the server, ms", ("resources", OURS, FASTMCP), rows)


def _lookup_targets(size: int, lookups: Samples) -> list[Target]:
    found = {kind: estimate(lookups[f"{kind}, {size}"]).value for kind in ("static", "template")}
    return [
        Target(
            f"look-up among {size:,}: {kind} at most {most * 1e6:g} µs",
            f"{found[kind] * 1e6:.2f} µs",
            found[kind] <= most,
        )
        for kind, most in (("static", MOST_STATIC), ("template", MOST_TEMPLATE))
    ]


def _growth_targets(sizes: tuple[int, ...], samples: Samples) -> list[Target]:
    targets = []
    for operation in OPERATIONS:
        grown = paired_ratio(samples[_name(OURS, operation, sizes[-1])], samples[_name(OURS, operation, sizes[0])])
        text = f"{operation}: with {sizes[-1]:,} resources at most {MOST_GROWTH} times that with {sizes[0]}"
        targets.append(Target(text, ratio(grown), grown.value <= MOST_GROWTH))
    return targets

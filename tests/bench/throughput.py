"""How many reads a second `quilt-mcp serve --transport http` answers, and how long each takes, under load."""

import asyncio
import random
import tempfile
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from quilt_mcp.core.surfaces import TOOL_NAME
from tests.bench.estimates import estimate, percentile_95
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds
from tests.bench.processes import QUILT_MCP, memory, on_http, processor_seconds
from tests.bench.wire import Call, HTTPConnection, WrongAnswerError, parse_result, read, tool

URI = "metadata://templates"
"""About 2.5 KB, and no call to any other system."""
CONNECTIONS = (1, 8, 64, 200)
WORKERS = (1, 2)
NATIVE, AGAIN, TOOL = "resources/read", "resources/read again", TOOL_NAME
_PROTOCOL = "modern"
_CALLS: dict[str, Call] = {
    NATIVE: read(_PROTOCOL, URI),
    AGAIN: read(_PROTOCOL, URI),
    TOOL: tool(_PROTOCOL, TOOL_NAME, uri=URI),
}


@dataclass(frozen=True)
class Load:
    """One kind of request, and the server that receives it."""

    workers: int
    connections: int
    surface: str


@dataclass
class Measured:
    """The results of a load, over all its turns.

    Attributes:
        rates: answers a second, for each turn.
        times: the seconds that each answer took.
        processor: the server's processor time for an answer, in seconds, for each turn.
        errors: the number of requests without an answer or with a wrong one.
    """

    rates: list[float] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    errors: int = 0


async def run(run: Run) -> Outcome:
    """Load a server with one process and one with two alternately, each load several times."""
    connections = (1, 8) if run.quick else CONNECTIONS
    turn_seconds = 0.1 if run.quick else 1.2 * min(run.scale, 2.0)
    measured: dict[Load, Measured] = defaultdict(Measured)
    with tempfile.TemporaryDirectory() as made:
        async with AsyncExitStack() as stack:
            servers = {}
            for workers in (2,) if run.quick else WORKERS:
                command = (*QUILT_MCP, "serve", f"--workers={workers}")
                servers[workers] = await stack.enter_async_context(on_http(command, Path(made)))
                await _turn(servers[workers], Load(workers, 8, NATIVE), turn_seconds, Measured())
            before = {workers: memory(pid) for workers, (_, pid) in servers.items()}
            loads = [
                Load(workers, count, surface) for workers in servers for count in connections for surface in _CALLS
            ]
            for _ in range(run.times(3, quick=1)):
                random.shuffle(loads)
                for load in loads:
                    await _turn(servers[load.workers], load, turn_seconds, measured[load])
            after = {workers: memory(pid) for workers, (_, pid) in servers.items()}
    return _outcome(measured, before, after)


async def _turn(server: tuple[int, int], load: Load, seconds: float, into: Measured) -> None:
    port, pid = server
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(HTTPConnection(port, _PROTOCOL)) for _ in range(load.connections)]
        parse_result(await opened[0].ask(_CALLS[load.surface]))
        count, processor, started = len(into.times), processor_seconds(pid), time.perf_counter()
        await asyncio.gather(*(_ask(one, _CALLS[load.surface], started + seconds, into) for one in opened))
        elapsed, answers = time.perf_counter() - started, len(into.times) - count
    if answers:
        into.rates.append(answers / elapsed)
        into.processor.append((processor_seconds(pid) - processor) / answers)


async def _ask(connection: HTTPConnection, request: Call, until: float, into: Measured) -> None:
    while (started := time.perf_counter()) < until:
        try:
            answer = await connection.ask(request)
        except (WrongAnswerError, OSError, EOFError):
            into.errors += 1
            return
        into.times.append(time.perf_counter() - started)
        into.errors += b'"success":false' in answer or b'"error":{' in answer[:100]


def _outcome(measured: dict[Load, Measured], before: dict[int, int], after: dict[int, int]) -> Outcome:
    loads = sorted(measured, key=lambda load: (load.workers, load.connections, list(_CALLS).index(load.surface)))
    answers = {workers: sum(len(measured[one].times) for one in loads if one.workers == workers) for workers in before}
    columns = ("processes, connections, request", "answers/s", "median, ms", "95 %, ms", "processor, ms", "errors")
    memory_rows = [
        (str(workers), f"{before[workers] / 2**20:.0f}", f"{after[workers] / 2**20:.0f}", f"{answers[workers]:,}")
        for workers in before
    ]
    return Outcome(
        tables=[
            Table(f"Load, {URI}", columns, [_row(load, measured[load]) for load in loads], _NOTE),
            Table("Memory of the server, MiB", ("processes", "before", "after", "answers between"), memory_rows),
        ],
        targets=[_no_errors(measured), *([_two_processes(measured)] if len(before) > 1 else [])],
        figures={
            f"{load.workers} processes, {load.connections} connections: {load.surface}, processor [ms]": 1000
            * estimate(measured[load].processor).value
            for load in loads
            if load.surface != AGAIN
        },
    )


_NOTE = "The load is made on the same machine. `processor` is the server's time for one answer."


def _row(load: Load, found: Measured) -> tuple[str, ...]:
    rate, slow = estimate(found.rates), estimate(found.times, percentile_95)
    return (
        f"{load.workers}, {load.connections}, {load.surface}",
        f"{rate.value:.0f} ({rate.low:.0f}-{rate.high:.0f})",
        milliseconds(estimate(found.times).value),
        f"{milliseconds(slow.value)} ({milliseconds(slow.low)}-{milliseconds(slow.high)})",
        milliseconds(estimate(found.processor).value),
        str(found.errors),
    )


def _no_errors(measured: dict[Load, Measured]) -> Target:
    most = max(load.connections for load in measured)
    found = [one for load, one in measured.items() if load.connections == most]
    errors, answers = sum(one.errors for one in found), sum(len(one.times) for one in found)
    return Target(f"{most} connections: no error", f"{errors} errors in {answers:,} answers", errors == 0)


def _two_processes(measured: dict[Load, Measured]) -> Target:
    rates = {load: estimate(one.rates).value for load, one in measured.items() if load.surface == TOOL}
    best = {workers: max(rate for load, rate in rates.items() if load.workers == workers) for workers in WORKERS}
    return Target(
        "two processes answer more than one",
        f"{best[2] / best[1]:.2f} times: {best[2]:.0f}/s and {best[1]:.0f}/s",
        best[2] > best[1],
    )

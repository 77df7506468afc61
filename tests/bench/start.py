"""The time until a new server gives its first answer, compared with a bare FastMCP server, from outside."""

import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.bench.estimates import estimate, paired_ratio
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds, ratio
from tests.bench.processes import QUILT_MCP, ROOT, environment, memory
from tests.bench.wire import Call, StdioServer, call, parse_result, read

BARE, AGAIN = "bare FastMCP", "bare FastMCP again"
OURS, DEMO = "quilt-mcp serve", "quilt-mcp serve --demo"
_BARE_COMMAND = (sys.executable, str(ROOT / "tests" / "bench" / "bare_server.py"))
_SERVE = (*QUILT_MCP, "serve")
COMMANDS = {BARE: _BARE_COMMAND, AGAIN: _BARE_COMMAND, OURS: _SERVE, DEMO: (*_SERVE, "--demo")}
QUICK = (BARE, OURS)
GREETED, LISTED, READ = "handshake answered", "tools listed", "first read answered"
FIRST_STEP = {"legacy": GREETED, "modern": LISTED}
PROTOCOLS = {"legacy": "older", "modern": "newest"}
MOST = 1.1

Times = dict[tuple[str, str, str], list[float]]
"""Seconds since the start of the process, by protocol, step and server."""


async def run(run: Run) -> Outcome:
    """Start each server repeatedly, with both protocols. The first start compiles bytecode and is not measured."""
    times: Times = defaultdict(list)
    sizes: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        turns = [(protocol, name) for protocol in PROTOCOLS for name in (QUICK if run.quick else COMMANDS)]
        for protocol, name in () if run.quick else turns:
            _start(name, protocol, folder)
        for _ in range(run.times(12, quick=1)):
            random.shuffle(turns)
            for protocol, name in turns:
                steps, size = _start(name, protocol, folder)
                sizes[name].append(size)
                for step, seconds in steps.items():
                    times[protocol, step, name].append(seconds)
    return _outcome(times, sizes)


def _start(name: str, protocol: str, folder: Path) -> tuple[dict[str, float], int]:
    """Return the seconds from the start to the end of each step, and the memory after the last, in bytes."""
    steps: dict[str, float] = {}
    uri = "bare://greeting" if name in {BARE, AGAIN} else "metadata://templates"
    requests: dict[str, Call] = {LISTED: call(protocol, "tools/list"), READ: read(protocol, uri)}
    started = time.perf_counter()
    with StdioServer(COMMANDS[name], protocol, environment=environment(folder), log=folder / "log") as server:
        server.initialize()
        if protocol == "legacy":
            steps[GREETED] = time.perf_counter() - started
        for step, request in requests.items():
            answer = server.send(request)
            steps[step] = time.perf_counter() - started
            parse_result(answer)
        return steps, memory(server.process.pid)


def _outcome(times: Times, sizes: dict[str, list[float]]) -> Outcome:
    places = [(one, step) for one in PROTOCOLS for step in (GREETED, LISTED, READ) if (one, step, OURS) in times]
    rows = [_row(protocol, step, times) for protocol, step in places]
    columns = ("protocol, step", *(f"{name}, ms" for name in COMMANDS), f"{OURS} over bare", "bare again over bare")
    memory_rows = [(name, f"{estimate(found).value / 2**20:.0f}") for name, found in sizes.items() if name != AGAIN]
    return Outcome(
        tables=[
            Table("From the start of the process, medians", columns, rows),
            Table("Memory after that, MiB", ("server", "MiB"), memory_rows),
        ],
        targets=[target for protocol in PROTOCOLS for target in _targets(protocol, times)],
        figures={
            f"{protocol}: {step} [ms]": estimate(times[protocol, step, OURS]).value * 1000 for protocol, step in places
        },
    )


def _row(protocol: str, step: str, times: Times) -> tuple[str, ...]:
    bare = times[protocol, step, BARE]
    found = {name: times[protocol, step, name] for name in COMMANDS}
    medians = (milliseconds(estimate(samples).value) if samples else "" for samples in found.values())
    ratios = (ratio(paired_ratio(found[name], bare)) if found[name] else "" for name in (OURS, AGAIN))
    return (f"{PROTOCOLS[protocol]} protocol, {step}", *medians, *ratios)


def _targets(protocol: str, times: Times) -> Iterator[Target]:
    """The first answer and the first read of `quilt-mcp serve`."""
    of = f"stdio, {PROTOCOLS[protocol]} protocol"
    for step, text in ((FIRST_STEP[protocol], "first answer"), (READ, "first read")):
        found = paired_ratio(times[protocol, step, OURS], times[protocol, step, BARE])
        yield Target(f"{of}: {text} within {MOST} times a bare server's", ratio(found), found.value <= MOST)

"""How long a client waits for its first answer from a server that it starts, against a bare FastMCP server."""

import random
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.bench.estimates import estimate, paired_ratio
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds, ratio
from tests.bench.processes import QUILT_MCP, ROOT, environment, memory
from tests.bench.wire import Call, StdioServer, call, checked, read

BARE, AGAIN, OURS = "bare FastMCP", "bare FastMCP again", "quilt-mcp serve"
_BARE_COMMAND = (sys.executable, str(ROOT / "tests" / "bench" / "bare_server.py"))
COMMANDS = {BARE: _BARE_COMMAND, AGAIN: _BARE_COMMAND, OURS: (*QUILT_MCP, "serve")}
URIS = {BARE: "bare://greeting", AGAIN: "bare://greeting", OURS: "metadata://templates"}
GREETED, READ, LISTED = "handshake answered", "first read answered", "tools listed"
MOST = 1.15

Times = dict[tuple[str, str, str], list[float]]
"""Seconds since the process was started, by era, step and server."""


async def run(run: Run) -> Outcome:
    """Start each server again and again, in both eras; each was started once before, so that bytecode is there."""
    times: Times = defaultdict(list)
    sizes: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in () if run.quick else (BARE, OURS):
            _start(name, "legacy", folder)
        turns = [(era, name) for era in ("legacy", "modern") for name in COMMANDS if not (run.quick and name == AGAIN)]
        for _ in range(run.times(15, quick=1)):
            random.shuffle(turns)
            for era, name in turns:
                steps, size = _start(name, era, folder)
                sizes[name].append(size)
                for step, seconds in steps.items():
                    times[era, step, name].append(seconds)
    return _outcome(times, sizes)


def _start(name: str, era: str, folder: Path) -> tuple[dict[str, float], int]:
    """Since the start: the seconds until each step was done; and the memory after the last, in bytes."""
    steps: dict[str, float] = {}
    requests: dict[str, Call] = {READ: read(era, URIS[name]), LISTED: call(era, "tools/list")}
    started = time.perf_counter()
    with StdioServer(COMMANDS[name], era, environment=environment(folder), log=folder / "log") as server:
        server.greet()
        if era == "legacy":
            steps[GREETED] = time.perf_counter() - started
        for step, request in requests.items():
            answer = server.send(request)
            steps[step] = time.perf_counter() - started
            checked(answer)
        return steps, memory(server.process.pid)


def _outcome(times: Times, sizes: dict[str, list[float]]) -> Outcome:
    places = list(dict.fromkeys((era, step) for era, step, _ in sorted(times)))
    rows = [_row(era, step, times) for era, step in places]
    columns = ("era, step", *(f"{name}, ms" for name in COMMANDS), f"{OURS} over bare", "bare again over bare")
    memory_rows = [(name, f"{estimate(found).value / 2**20:.0f}") for name, found in sizes.items() if name != AGAIN]
    first = {"legacy": GREETED, "modern": READ}
    return Outcome(
        tables=[
            Table("From the start of the process, medians", columns, rows),
            Table("Memory after that, MiB", ("server", "MiB"), memory_rows),
        ],
        targets=[_target(era, step, times) for era, step in first.items()],
        figures={f"{era}: {step} [ms]": estimate(times[era, step, OURS]).value * 1000 for era, step in places},
    )


def _row(era: str, step: str, times: Times) -> tuple[str, ...]:
    bare = times[era, step, BARE]
    found = {name: times[era, step, name] for name in COMMANDS}
    medians = (milliseconds(estimate(samples).value) if samples else "" for samples in found.values())
    ratios = (ratio(paired_ratio(found[name], bare)) if found[name] else "" for name in (OURS, AGAIN))
    return (f"{era}, {step}", *medians, *ratios)


def _target(era: str, step: str, times: Times) -> Target:
    found = paired_ratio(times[era, step, OURS], times[era, step, BARE])
    return Target(f"stdio, {era}: {step} within {MOST} times a bare server's", ratio(found), found.value <= MOST)

"""How long one caller's `workflow://workflows` takes while four others read a stack that does not answer.

In this process, without a network: each read of the stack blocks its thread for half a second and fails.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

from fastmcp import Client

from quilt_mcp.commands.logs import configure_logging
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.server import QuiltServer, create_server
from quilt_mcp.services.stack.caller import RequestCallers
from quilt_mcp.settings import Settings
from tests.bench.estimates import estimate, percentile_95
from tests.bench.outcome import Outcome, Run, Table, Target
from tests.http.test_admission import signed_in

GREEDY = ("ann", "ben", "cy", "di")
READS = 16
STACK_SECONDS = 0.5
MOST_SLOWER = 3.0


async def run(run: Run) -> Outcome:
    """Measure without and with the other readers."""
    times = run.times(300, quick=3)
    with (
        patch.object(RequestCallers, "_find_stack", wait_for_the_stack),
        tempfile.TemporaryDirectory() as directory,
        configure_logging("ERROR", "console"),
    ):
        mcp = create_server(
            Settings(
                data_dir=Path(directory),
                catalog_url="https://quilt.example.com",
                rate_limit="none",
            )
        )
        await measure(mcp, times)
        idle = await measure(mcp, times)
        async with reading_greedily(mcp):
            loaded = await measure(mcp, times)
    rows = [
        (name, *(f"{estimate(found, statistic).scale(1000).value:.1f}" for statistic in (min, percentile_95)))
        for name, found in (("idle", idle), ("while four others read", loaded))
    ]
    ratio = percentile_95(loaded) / percentile_95(idle)
    return Outcome(
        tables=[Table("workflow://workflows of a fifth caller", ("", "fastest, ms", "95 %, ms"), rows)],
        targets=[Target(f"at most {MOST_SLOWER:g} times the idle time", f"{ratio:.2f}", ratio <= MOST_SLOWER)],
    )


def wait_for_the_stack(_: object) -> NoReturn:
    time.sleep(STACK_SECONDS)
    raise Unavailable("The stack did not respond in time.")


async def measure(mcp: QuiltServer, times: int) -> list[float]:
    """Return the seconds of each read of the fifth caller."""
    found = []
    with signed_in("eve"):
        async with Client(mcp) as client:
            for _ in range(times):
                started = time.perf_counter()
                await client.read_resource("workflow://workflows")
                found.append(time.perf_counter() - started)
    return found


@asynccontextmanager
async def reading_greedily(mcp: QuiltServer) -> AsyncIterator[None]:
    """Let four callers read the stack, each with as many concurrent reads as it may have, until the context ends."""

    async def read() -> None:
        while True:
            await mcp.manager.respond("auth://status", surface="tool")

    tasks = []
    for subject in GREEDY:
        with signed_in(subject):
            tasks += [asyncio.create_task(read()) for _ in range(READS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

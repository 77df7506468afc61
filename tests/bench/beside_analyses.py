"""How long a read of auth://status takes beside analyses of endless code, compared with an idle server.

The world is signed out, so that the read itself takes little time.
"""

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from tests.bench.analysis import ENDLESS
from tests.bench.estimates import estimate, percentile_95
from tests.bench.outcome import Outcome, Run, Table, Target, milliseconds
from tests.bench.processes import QUILT_MCP, on_http
from tests.bench.wire import HTTPConnection, parse_result, read, tool

URI, CALLERS, MOST = "auth://status", 32, 3.0
_PROTOCOL = "modern"
_READ = read(_PROTOCOL, URI)
_ANALYSIS_SECONDS, _PAUSE = 10.0, 0.02


async def run(run: Run) -> Outcome:
    """Alternate between an idle server and one with endless analyses from several connections."""
    idle: list[float] = []
    busy: list[float] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port, _ = await stack.enter_async_context(on_http((*QUILT_MCP, "serve"), folder))
        reader = await stack.enter_async_context(HTTPConnection(port, _PROTOCOL))
        parse_result(await reader.ask(_READ))
        callers = [
            await stack.enter_async_context(HTTPConnection(port, _PROTOCOL)) for _ in range(2 if run.quick else CALLERS)
        ]
        await _analyse(callers[0], 1.0)  # starts the sandbox
        for _ in range(run.times(3, quick=1)):
            idle += await _measure(reader, run.times(100))
            analyses = [asyncio.create_task(_analyse(one, _ANALYSIS_SECONDS)) for one in callers]
            await asyncio.sleep(1.0)
            busy += await _measure(reader, run.times(100))
            await asyncio.gather(*analyses)
    return _outcome(idle, busy, len(callers))


async def _measure(connection: HTTPConnection, times: int) -> list[float]:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        await connection.ask(_READ)
        found.append(time.perf_counter() - started)
        await asyncio.sleep(_PAUSE)
    return found


async def _analyse(connection: HTTPConnection, seconds: float) -> None:
    """Send an analysis of endless code. It ends at its timeout, or is refused because others wait."""
    arguments = {"code": ENDLESS, "function_name": "f", "timeout_seconds": seconds}
    await connection.ask(tool(_PROTOCOL, "symbolic_check", **arguments))


def _outcome(idle: list[float], busy: list[float], callers: int) -> Outcome:
    rows = [
        (name, milliseconds(estimate(found).value), milliseconds(percentile_95(found)), str(len(found)))
        for name, found in (("idle", idle), (f"beside {callers} endless analyses", busy))
    ]
    times = percentile_95(busy) / percentile_95(idle)
    outcome = Outcome([Table(f"{URI} over HTTP", ("server", "median, ms", "95 %, ms", "reads"), rows)])
    outcome.figures["95 % beside analyses, times idle"] = times
    outcome.targets.append(
        Target(f"95 % of the reads beside analyses at most {MOST:g} times idle", f"{times:.1f} times", times <= MOST)
    )
    return outcome

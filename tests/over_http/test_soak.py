"""The long run over HTTP: many requests over many connections, no error, and memory that stays."""

import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.over_http.load import Load
from tests.over_http.processes import ServerProcess, serve

CONNECTIONS, ROUND = 200, 20_000
WARM_UP, ROUNDS = 3, 5  # by then what waits for a garbage collection has levelled off
GROWTH = 0.03


def memory(pids: Iterable[int]) -> int:
    """The resident memory of these processes together, in KiB."""
    status = [Path(f"/proc/{pid}/status").read_text(encoding="ascii") for pid in pids]
    return sum(int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0]) for text in status)


async def one_round(server: ServerProcess) -> int:
    """The memory of the workers after it."""
    load, started = Load(server.port), time.perf_counter()
    await load.run(CONNECTIONS, ROUND)
    assert (load.answered, load.broken, load.wrong) == (ROUND, 0, {})
    used, seconds = memory(server.workers), time.perf_counter() - started
    sys.stdout.write(f"{ROUND} requests, {CONNECTIONS} connections: {ROUND / seconds:.0f} a second, {used} KiB\n")
    return used


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory in /proc")
async def test_a_hundred_thousand_requests_make_no_error_and_memory_stays(tmp_path: Path) -> None:
    async with serve(tmp_path, "--workers", "2") as server:
        workers = server.workers
        used = [await one_round(server) for _ in range(WARM_UP + ROUNDS)]
        assert server.workers == workers
        assert "Traceback" not in server.log
    assert used[-1] <= used[WARM_UP - 1] * (1 + GROWTH)

"""The long run over HTTP: many requests over many connections, without an error or a memory leak."""

import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.http.load import Load
from tests.support.server_process import HTTPServerProcess, serve_http

CONNECTIONS, ROUND = 200, 20_000
WARM_UP, ROUNDS = 3, 5  # by then, garbage collections have reached a steady state
GROWTH = 0.03


def memory(pids: Iterable[int]) -> int:
    """Return the resident memory of these processes, in KiB."""
    status = [Path(f"/proc/{pid}/status").read_text(encoding="ascii") for pid in pids]
    return sum(int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0]) for text in status)


async def one_round(server: HTTPServerProcess) -> int:
    """Run the load and return the memory of the workers."""
    load, started = Load(server.port), time.perf_counter()
    await load.run(CONNECTIONS, ROUND)
    assert (load.answered, load.broken, load.wrong) == (ROUND, 0, {})
    used, seconds = memory(server.workers), time.perf_counter() - started
    sys.stdout.write(f"{ROUND} requests, {CONNECTIONS} connections: {ROUND / seconds:.0f} a second, {used} KiB\n")
    return used


@pytest.mark.soak
@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory in /proc")
async def test_many_requests_cause_no_error_and_no_memory_leak(tmp_path: Path) -> None:
    async with serve_http(tmp_path, "--workers", "2") as server:
        workers = server.workers
        used = [await one_round(server) for _ in range(WARM_UP + ROUNDS)]
        assert server.workers == workers
        assert "Traceback" not in server.log
    assert used[-1] <= used[WARM_UP - 1] * (1 + GROWTH)

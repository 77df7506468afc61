"""`quilt-mcp serve --transport http --workers 2` under load."""

import os
import signal
import sys
from http import HTTPStatus
from pathlib import Path

import httpx2
import pytest

from tests.over_http.load import Load, during
from tests.over_http.processes import is_running, left_in, serve
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
CONNECTIONS, REQUESTS = 16, 2000


async def test_no_read_is_lost_when_a_worker_is_killed_nor_when_all_are_renewed(tmp_path: Path) -> None:
    async with serve(tmp_path, "--workers", "2", TMPDIR=str(tmp_path)) as server:
        before = server.workers
        load = Load(server.port)
        await during(load, CONNECTIONS, REQUESTS, REQUESTS // 4, lambda: os.kill(before[0], signal.SIGKILL))
        assert (load.answered, load.wrong) == (REQUESTS, {})
        assert 0 < load.broken <= CONNECTIONS
        await until(lambda: len(server.workers) == 2)
        assert before[1] in server.workers
        assert f"worker {before[0]} has ended with status -9" in server.log

        before = server.workers
        load = Load(server.port)
        await during(load, CONNECTIONS, REQUESTS, 10, lambda: server.process.send_signal(signal.SIGHUP))
        assert (load.answered, load.wrong) == (REQUESTS, {})
        await until(lambda: "all workers are renewed" in server.log)
        await until(lambda: not set(before) & set(server.workers))

        load, before = Load(server.port), server.workers
        await load.run(CONNECTIONS, 200)
        assert (load.answered, load.broken, len(before)) == (200, 0, 2)
        assert await server.stop(signal.SIGTERM) == 143
        assert not any(is_running(pid) for pid in before)
        assert left_in(tmp_path) == []
        assert "Traceback" not in server.log


async def test_no_worker_outlives_a_parent_that_is_killed_and_the_metrics_are_of_all_workers(tmp_path: Path) -> None:
    async with serve(tmp_path, "--workers", "2") as server, httpx2.AsyncClient(trust_env=False) as client:
        workers = server.workers
        answer = await client.get(f"http://127.0.0.1:{server.port}/metrics")
        assert answer.status_code == HTTPStatus.OK
        assert "process_virtual_memory_bytes" not in answer.text  # which is of one process
        assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
        await until(lambda: not any(is_running(pid) for pid in workers))

"""`quilt-mcp serve --transport http --workers 2`."""

import asyncio
import os
import signal
import sys
from functools import partial
from http import HTTPStatus
from pathlib import Path

import httpx2
import pytest

from tests.http.load import Load, during
from tests.http.web import request
from tests.support.processes import is_running
from tests.support.server_process import HTTPServerProcess, serve_http, temporary_files
from tests.support.waiting import SECONDS, until, until_awaited

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
CONNECTIONS, REQUESTS = 16, 2000


@pytest.mark.soak
async def test_no_read_is_lost_when_a_worker_is_killed_or_all_are_replaced(tmp_path: Path) -> None:
    async with serve_http(tmp_path, "--workers", "2", TMPDIR=str(tmp_path)) as server:
        before = server.workers
        load = Load(server.port)
        await during(load, CONNECTIONS, REQUESTS, REQUESTS // 4, lambda: os.kill(before[0], signal.SIGKILL))
        assert (load.answered, load.wrong) == (REQUESTS, {})
        assert load.broken <= CONNECTIONS
        await until(lambda: len(server.workers) == 2 and before[0] not in server.workers)
        assert before[1] in server.workers
        assert f"Child process [{before[0]}] died" in server.log

        before = server.workers
        load = Load(server.port)
        await during(load, CONNECTIONS, REQUESTS, 10, lambda: server.process.send_signal(signal.SIGHUP))
        assert (load.answered, load.wrong) == (REQUESTS, {})
        await until(lambda: not set(before) & set(server.workers) and len(server.workers) == 2)

        load, before = Load(server.port), server.workers
        await load.run(CONNECTIONS, 200)
        assert (load.answered, load.broken, len(before)) == (200, 0, 2)
        assert await server.stop(signal.SIGTERM) == 0
        assert not any(is_running(pid) for pid in before)
        assert temporary_files(tmp_path) == []
        assert "Traceback" not in server.log


@pytest.mark.soak
async def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    async with serve_http(tmp_path, "--workers", "2") as server:
        workers = server.workers
        assert await server.stop(signal.SIGKILL) == -signal.SIGKILL
        await until(lambda: not any(is_running(pid) for pid in workers))


def gauges_of(pid: int, directory: Path) -> list[Path]:
    return list(directory.rglob(f"gauge_live*_{pid}.db"))


@pytest.mark.soak
async def test_the_metrics_are_those_of_all_workers(tmp_path: Path) -> None:
    """A killed worker leaves its counters, and no gauge."""
    read = request("resources/read", uri="metadata://examples")
    async with serve_http(tmp_path, "--workers", "2", TMPDIR=str(tmp_path)) as server:
        base_url = f"http://127.0.0.1:{server.port}"

        async def post() -> int:
            async with httpx2.AsyncClient(base_url=base_url, trust_env=False) as client:
                return (await client.post(**read)).status_code

        async def metrics() -> str:
            async with httpx2.AsyncClient(base_url=base_url, trust_env=False) as client:
                return (await client.get("/metrics")).text

        assert await asyncio.gather(*(post() for _ in range(20))) == [HTTPStatus.OK] * 20
        before = server.workers
        os.kill(before[0], signal.SIGKILL)
        await until(lambda: len(server.workers) == 2 and before[0] not in server.workers)
        shown = await metrics()
        assert 'quilt_mcp_reads_total{outcome="ok",surface="resource",uri="metadata://examples"} 20.0' in shown
        assert "process_virtual_memory_bytes" not in shown  # of one process only
        assert gauges_of(before[0], tmp_path) == []
        assert await server.stop(signal.SIGTERM) == 0


def are_renewed(server: HTTPServerProcess, before: list[int]) -> bool:
    return len(server.workers) == len(before) and not set(before) & set(server.workers)


def metrics_files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.db"))


@pytest.mark.soak
async def test_renewed_workers_leave_no_files_and_keep_the_sums(tmp_path: Path) -> None:
    read = request("resources/read", uri="metadata://examples")
    async with (
        serve_http(tmp_path, "--workers", "2", TMPDIR=str(tmp_path)) as server,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=SECONDS) as client,
    ):
        shown = 'quilt_mcp_reads_total{outcome="ok",surface="resource",uri="metadata://examples"} '
        files = metrics_files(tmp_path)
        for count in (1, 2, 3):
            assert (await client.post(**read)).status_code == HTTPStatus.OK
            assert f"{shown}{count}.0" in (await client.get("/metrics")).text
            before = server.workers
            server.process.send_signal(signal.SIGHUP)
            await until(partial(are_renewed, server, before))

        async def are_merged() -> bool:
            """Return whether the files of the processes that ended are. An old worker can still be ending."""
            assert f"{shown}3.0" in (await client.get("/metrics")).text
            return len(metrics_files(tmp_path)) <= len(files) + 2

        await until_awaited(are_merged)
        assert sum(path.stat().st_size for path in metrics_files(tmp_path)) < 2 * 1024 * 1024


async def test_ctrl_c_ends_all_workers(tmp_path: Path) -> None:
    async with serve_http(tmp_path, "--workers", "2") as server:
        workers = server.workers
        assert await server.stop(signal.SIGINT) == 130
        assert not any(is_running(pid) for pid in workers)

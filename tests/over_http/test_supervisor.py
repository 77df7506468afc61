"""The parent of worker processes, with workers that need no server."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from quilt_mcp.http import listening, supervisor, worker_process
from quilt_mcp.http.listening import SharedPort, listen
from quilt_mcp.http.supervisor import Supervisor
from quilt_mcp.http.worker_process import WorkerProcess
from tests.waiting import SECONDS, until

SCRIPT = Path(__file__).with_name("small_worker.py")


class Family:
    """A supervisor that runs, and its workers."""

    def __init__(self, directory: Path, port: SharedPort, count: int) -> None:
        self.port = port.port
        self.directory = directory
        self.ended: list[int] = []
        start = partial(WorkerProcess, [sys.executable, "-S", str(SCRIPT), str(directory)], environment=os.environ)
        self.supervisor = Supervisor(start, port, count, seconds_to_finish=0, when_ended=self.ended.append)
        self.is_ready = asyncio.Event()
        self.running = asyncio.create_task(self.supervisor.run(self.is_ready.set))

    async def ask(self) -> int:
        """The process id of who answers a new connection."""
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                return int(await reader.readline())
            finally:
                writer.close()

    async def workers(self) -> set[int]:
        """The process ids of those who answer many connections."""
        found: set[int] = set()
        for _ in range(60):
            with suppress(ConnectionError, ValueError):  # of one that is being ended
                found.add(await self.ask())
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send this process a signal, which is for the supervisor."""
        os.kill(os.getpid(), number)


@asynccontextmanager
async def family(directory: Path, count: int = 2) -> AsyncIterator[Family]:
    found = Family(directory, SharedPort("127.0.0.1", 0), count)
    try:
        await asyncio.wait(
            [found.running, asyncio.create_task(found.is_ready.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        yield found
    finally:
        if not found.running.done():
            found.signal(signal.SIGINT)
        await found.running


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "SPARE_SECONDS", 0.5)
    monkeypatch.setattr(worker_process, "POLL_SECONDS", 0.01)


def is_running(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_each_worker_answers_a_share(tmp_path: Path) -> None:
    async with family(tmp_path, 3) as found:
        assert len(await found.workers()) == 3


async def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    async with family(tmp_path) as found:
        first, second = await found.workers()
        os.kill(first, signal.SIGKILL)
        await until(lambda: found.ended == [first])
        workers = await found.workers()
        assert len(workers) == 2
        assert second in workers
        assert first not in workers


async def test_one_that_crashes_again_and_again_waits_longer_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the others are given all connections meanwhile."""
    async with family(tmp_path) as found:
        first, second = await found.workers()
        (tmp_path / "broken").touch()
        os.kill(first, signal.SIGKILL)
        await until(lambda: len(found.ended) == 3)
        assert await found.workers() == {second}
        told = [record.getMessage() for record in caplog.records]
        assert [text.rpartition(" in ")[2] for text in told] == ["0 s", "1 s", "2 s"]
        assert ["status -9" in text or "status 3" in text for text in told] == [True] * 3
        (tmp_path / "broken").unlink()
        await until(lambda: len(supervised(found)) == 2)
        assert len(await found.workers()) == 2


def supervised(found: Family) -> list[WorkerProcess]:
    return [worker for worker in found.supervisor._running if worker.is_running]  # nothing public tells


async def test_sighup_renews_all_and_no_connection_is_lost(tmp_path: Path) -> None:
    async with family(tmp_path) as found:
        before = await found.workers()
        answers: list[int] = []

        async def keep_asking() -> None:
            while not set(answers[-40:]).isdisjoint(before) or len(answers) < 40:
                answers.append(await found.ask())

        found.signal(signal.SIGHUP)
        await keep_asking()
        await until(lambda: set(found.ended) == before)
        assert (await found.workers()).isdisjoint(before)


async def test_the_old_go_on_when_the_new_do_not_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with family(tmp_path) as found:
        before = await found.workers()
        (tmp_path / "broken").touch()
        found.signal(signal.SIGHUP)
        await until(lambda: "the old ones go on" in caplog.text)
        assert await found.workers() == before


async def test_an_old_one_finishes_what_it_answers(tmp_path: Path) -> None:
    async with family(tmp_path, 1) as found:
        [old] = await found.workers()
        (tmp_path / "slow").touch()
        asking = asyncio.create_task(found.ask())
        await asyncio.sleep(0.1)  # by then the worker has taken the connection
        found.signal(signal.SIGHUP)
        await until(lambda: len(supervised(found)) == 2)
        (tmp_path / "slow").unlink()
        assert await asking == old
        await until(lambda: found.ended == [old])


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_ends_all(number: signal.Signals, status: int, tmp_path: Path) -> None:
    async with family(tmp_path) as found:
        workers = await found.workers()
        found.signal(number)
        assert await found.running == status
    assert [pid for pid in workers if is_running(pid)] == []


@pytest.mark.parametrize("hint", ["after its time", "at a second signal"])
async def test_one_that_does_not_end_is_killed(hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deaf").touch()
    monkeypatch.setattr(supervisor, "SPARE_SECONDS", 0.5 if hint == "after its time" else SECONDS)
    async with family(tmp_path) as found:
        workers = await found.workers()
        found.signal(signal.SIGTERM)
        if hint == "at a second signal":
            await asyncio.sleep(0.1)
            found.signal(signal.SIGTERM)
        assert await found.running == 143
    assert [pid for pid in workers if is_running(pid)] == []


async def test_workers_that_do_not_start_end_all(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    async with family(tmp_path) as found:
        assert await found.running == supervisor.FAILED
    assert supervised(found) == []


def test_a_port_of_another_process_is_not_joined() -> None:
    port = SharedPort("127.0.0.1", 0)
    with port.open(), pytest.raises(OSError, match="in use"):
        SharedPort("127.0.0.1", port.port)
    with listen("127.0.0.1", 0) as alone, pytest.raises(OSError, match="in use"):
        SharedPort("127.0.0.1", alone.getsockname()[1])


@pytest.mark.parametrize("has_own_queues", ["Linux", "macOS"])
def test_listening_sockets_are_of_tcp_by_number_and_send_at_once(
    has_own_queues: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HAS_OWN_QUEUES", has_own_queues == "Linux")
    port = SharedPort("127.0.0.1", 0)
    with port.open() as first, port.open() as second, listen("127.0.0.1", 0) as alone:
        assert first.getsockname() == second.getsockname()
        for one in (first, second, alone):
            assert one.proto == socket.IPPROTO_TCP
            assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert bool(first.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)) is (has_own_queues == "Linux")
    port.close()

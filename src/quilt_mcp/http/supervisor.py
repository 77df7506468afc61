"""The parent of worker processes: it starts them, replaces those that crash, renews them on SIGHUP, and ends them.

Each worker has a listening socket of its own, which the parent holds open: connections that wait in it while one worker
ends are taken by the next. It is closed while the worker, having crashed again and again, waits for its next start: the
kernel then gives all connections to the others.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from quilt_mcp.http.listening import SharedPort
from quilt_mcp.http.worker_process import POLL_SECONDS, WorkerProcess

STEADY_SECONDS = 30.0  # a worker that has run as long is replaced at once
LONGEST_PAUSE = 30.0
SPARE_SECONDS = 5.0
FAILED = 1

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Slot:
    listener: socket.socket | None = None
    worker: WorkerProcess | None = None
    crashes: int = 0


class Supervisor:
    """Keeps worker processes running until a signal ends them.

    Args:
        start: starts a worker on a socket.
        port: where they listen.
        count: how many.
        seconds_to_finish: how long the requests of a worker that is to end may take.
        when_ended: called with the process id of each worker that has ended.
    """

    def __init__(
        self,
        start: Callable[[socket.socket], WorkerProcess],
        port: SharedPort,
        count: int,
        *,
        seconds_to_finish: float,
        when_ended: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._start_on = start
        self._port = port
        self._seconds_to_finish = seconds_to_finish + SPARE_SECONDS
        self._when_ended = when_ended
        self._slots = [_Slot(port.open()) for _ in range(count)]
        self._running: set[WorkerProcess] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._renewing = asyncio.Lock()
        self._is_ending = self._is_in_hurry = False

    async def run(self, when_ready: Callable[[], None] = lambda: None) -> int:
        """Serve until SIGTERM, on which the workers finish their requests, or SIGINT, which ends them at once.

        A second signal always ends them at once.

        Args:
            when_ready: called when all workers serve.

        Returns:
            The exit status: 128 plus the signal; 1 if a worker does not start.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[int] = loop.create_future()

        def end(status: int) -> None:
            if outcome.done():
                self._is_in_hurry = True
            else:
                outcome.set_result(status)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, 128 + number)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(self._renew_all()))
        self._spawn(self._start_all(when_ready, lambda: end(FAILED)))
        try:
            status = await outcome
            if status == 128 + signal.SIGTERM:
                await self._finish_all()
            return status
        finally:
            await self._kill_all()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    async def _start_all(self, when_ready: Callable[[], None], when_failed: Callable[[], None]) -> None:
        workers = [self._start(slot) for slot in self._slots]
        if all(await asyncio.gather(*(worker.ready() for worker in workers))):
            when_ready()
        else:
            when_failed()

    def _start(self, slot: _Slot, *, instead: bool = True) -> WorkerProcess:
        """Start a worker in the slot, or only with its socket, beside the slot's own worker."""
        slot.listener = slot.listener or self._port.open()
        worker = self._start_on(slot.listener)
        self._running.add(worker)
        if instead:
            slot.worker = worker
        self._spawn(self._watch(slot, worker))
        return worker

    async def _watch(self, slot: _Slot, worker: WorkerProcess) -> None:
        status = await worker.ended()
        self._running.discard(worker)
        self._when_ended(worker.pid)
        if slot.worker is worker:
            await self._replace(slot, worker, status)

    async def _replace(self, slot: _Slot, worker: WorkerProcess, status: int) -> None:
        while slot.worker is worker and not self._is_ending:
            slot.crashes = 1 if worker.age > STEADY_SECONDS else slot.crashes + 1
            pause = min(2.0 ** (slot.crashes - 2), LONGEST_PAUSE) if slot.crashes > 1 else 0.0
            logger.error("worker %d has ended with status %d; another in %g s", worker.pid, status, pause)
            if pause and slot.listener:
                slot.listener.close()
                slot.listener = None
            await asyncio.sleep(pause)
            if slot.worker is worker and not self._is_ending:
                try:
                    self._start(slot)
                except OSError as error:
                    logger.exception("no other worker can be started: %s", error.strerror)

    async def _renew_all(self) -> None:
        """Put a new worker in the place of each, one after the other, until one does not start."""
        async with self._renewing:
            for slot in self._slots:
                if self._is_ending:
                    return
                worker = self._start(slot, instead=False)
                if not await worker.ready():
                    worker.kill()
                    logger.error("worker %d did not start; the old ones go on", worker.pid)
                    return
                old, slot.worker = slot.worker, worker
                if old is not None and old.is_running:
                    self._spawn(old.finish(self._seconds_to_finish))
                if not worker.is_running:  # in the meantime: nobody watched for it
                    self._spawn(self._replace(slot, worker, FAILED))
            logger.info("all workers are renewed")

    async def _finish_all(self) -> None:
        self._is_ending = True
        for worker in self._running:
            self._spawn(worker.finish(self._seconds_to_finish))
        while self._running and not self._is_in_hurry:  # noqa: ASYNC110 - processes set no event on every system
            await asyncio.sleep(POLL_SECONDS)

    async def _kill_all(self) -> None:
        self._is_ending = True
        for worker in self._running:
            worker.kill()
        for worker in list(self._running):
            await worker.ended()
        for task in self._tasks:
            task.cancel()
        for slot in self._slots:
            if slot.listener:
                slot.listener.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)  # a task that nobody holds may be collected
        task.add_done_callback(self._tasks.discard)

"""Several processes that serve one port, run by uvicorn's supervisor.

uvicorn starts the workers, replaces those that die or hang, and on SIGHUP replaces all of them one by one, each after
its successor serves. All workers accept connections from the same listening socket. So connections that wait in it are
not lost when a worker dies.
"""

import logging
import math
import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing import parent_process
from threading import Thread
from types import FrameType

from uvicorn import Config
from uvicorn.supervisors import Multiprocess

from quilt_mcp.http.overload import Flag

HEALTH_CHECK_SECONDS = 30
"""How long a worker may take to answer a health check. A worker that starts answers as soon as it has its imports."""
START_SECONDS = 60.0
STABLE_SECONDS = 60.0
"""A worker that dies sooner after the previous replacement makes the next pause longer."""
MAX_PAUSE_SECONDS = 30.0
SPARE_SECONDS = 5.0
FAILED = 1

logger = logging.getLogger(__name__)


class Workers(Multiprocess):
    """uvicorn's supervisor, with an exit status, a start message and a bounded shutdown.

    It takes over the signal handlers of the process.

    Args:
        config: of each worker; its application must be a factory that can be pickled.
        listener: the socket that all workers accept connections from.
        leaving: set on SIGTERM; the workers return 503 for /ready then.
        pause: how long they still accept requests after SIGTERM, in seconds.
        when_ready: called once, when all workers serve.
    """

    def __init__(
        self, config: Config, listener: socket.socket, *, leaving: Flag, pause: float, when_ready: Callable[[], None]
    ) -> None:
        super().__init__(config, [listener])
        self._leaving = leaving
        self._pause = pause
        self._when_ready = when_ready
        self._status = FAILED
        self._respawn_pause = 1.0
        self._last_respawn = self._next_respawn = -math.inf
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._exit_on_signal)

    def run_until_signal(self) -> int:
        """Serve until SIGTERM or SIGINT; the workers then finish their requests.

        Returns:
            The exit status: 0 after SIGTERM, 130 after SIGINT, or 1 if a worker failed to start.
        """
        logging.getLogger("uvicorn.error").setLevel(logging.INFO)  # which worker ended, and why
        self.run()
        return self._status

    def init_processes(self) -> None:
        """Start the workers and wait until they serve. The supervisor handles those that fail."""
        super().init_processes()
        if all(process.wait_until_ready(START_SECONDS, self.should_exit) for process in self.processes):
            self._when_ready()
        elif not all(process.process.is_alive() for process in self.processes):
            self.should_exit.set()

    def keep_subprocess_alive(self) -> None:
        """Replace dead workers, at most once in a growing number of seconds while they keep dying and others serve."""
        pauses = time.monotonic() < self._next_respawn and any(one.process.is_alive() for one in self.processes)
        if self._leaving.value or self.should_exit.is_set() or pauses:
            return
        before = [process.pid for process in self.processes]
        super().keep_subprocess_alive()
        if before == [process.pid for process in self.processes]:
            return
        recently = time.monotonic() - self._last_respawn < STABLE_SECONDS
        self._respawn_pause = min(2 * self._respawn_pause, MAX_PAUSE_SECONDS) if recently else 1.0
        self._last_respawn = time.monotonic()
        self._next_respawn = self._last_respawn + self._respawn_pause

    def terminate_all(self) -> None:
        """Close our listening sockets and ask the workers to end. When they end, new connections are refused."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()

    def join_all(self) -> None:
        """Wait for the workers to end; kill those that exceed the time for their requests."""
        end = time.monotonic() + (self.config.timeout_graceful_shutdown or 0) + SPARE_SECONDS
        for worker in self.processes:
            worker.process.join(max(end - time.monotonic(), 0))
            if worker.process.is_alive():
                logger.error("worker %d did not end in time and is killed", worker.pid)
                worker.kill()
        super().join_all()

    def _exit_on_signal(self, number: int, _: FrameType | None) -> None:
        """Exit also while workers are being replaced: uvicorn looks at its own queue of signals only afterwards.

        A second signal ends the workers immediately.
        """
        if self._leaving.value:
            self._status = 128 + number
            for worker in self.processes:
                worker.process.kill()
        else:
            self._status = 0 if number == signal.SIGTERM else 128 + number
        pause = self._pause if number == signal.SIGTERM and not self._leaving.value else 0
        self._leaving.value = True
        # In a thread of its own: the interrupted main thread can hold the lock of the event.
        Thread(target=self._exit_after, args=(pause,), daemon=True).start()

    def _exit_after(self, pause: float) -> None:
        logger.info("shutting down: /ready returns 503; in %g s, new connections are refused", pause)
        time.sleep(pause)
        self.should_exit.set()


def exit_with_parent() -> None:
    """End this process when its parent ends, even if the parent is killed. Does nothing in the main process."""
    parent = parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(FAILED)

    Thread(target=wait, daemon=True, name="parent").start()

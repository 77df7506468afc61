"""A worker process, as its parent sees it."""

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, cast

READY = b"ready\n"
START_SECONDS = 60.0
POLL_SECONDS = 0.05


class WorkerProcess:
    """A process that serves on a socket which it gets as its last argument, by descriptor.

    It writes "ready" to stdout when it serves. On SIGTERM it takes no more connections, finishes its requests and ends.
    When its stdin ends, its parent is gone, and it ends at once.

    Args:
        command: what it runs.
        listener: where it serves.
        environment: its environment variables.
    """

    def __init__(self, command: Sequence[str], listener: socket.socket, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - the command is this program's own
            [*command, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=[listener.fileno()],
            env=dict(environment),
            start_new_session=True,  # Ctrl-C is for the parent alone
        )
        self._started = time.monotonic()
        self._stdout = cast("IO[bytes]", self._process.stdout)
        os.set_blocking(self._stdout.fileno(), False)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.monotonic() - self._started

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    async def ready(self) -> bool:
        """Wait until it serves; False if it ends before, or takes too long."""
        said = b""
        while not said.endswith(READY) and self.is_running and self.age < START_SECONDS:
            said += self._stdout.read() or b""  # None while there is nothing
            await asyncio.sleep(POLL_SECONDS)
        return said.endswith(READY)

    async def ended(self) -> int:
        """Wait for its end; the exit status, or minus the signal that killed it."""
        while (status := self._process.poll()) is None:  # noqa: ASYNC110 - processes set no event on every system
            await asyncio.sleep(POLL_SECONDS)
        cast("IO[bytes]", self._process.stdin).close()
        self._stdout.close()
        return status

    async def finish(self, seconds: float) -> None:
        """Let it finish its requests; kill it after so many seconds."""
        self._process.terminate()
        try:
            async with asyncio.timeout(seconds):
                await self.ended()
        except TimeoutError:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

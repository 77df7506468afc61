"""The zygote, as the server sees it: start it, let it fork a child for a request, and end it.

The zygote's own code is in `jail/zygote.py`.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import anyio

from quilt_mcp.analysis.child import Child, send_kill
from quilt_mcp.analysis.messages import Envelope, Limits

# -P, -s: no current directory or user site; -B: no bytecode files. The environment has only the variables below.
COMMAND = (sys.executable, "-P", "-s", "-B", "-X", "utf8", "-m", "quilt_mcp.analysis.jail.zygote")


class Surroundings(NamedTuple):
    """What can change results from process to process: the hash seed of texts, and the time zone."""

    hash_seed: int
    time_zone: str


FIRST = Surroundings(1, "UTC0")
SECOND = Surroundings(2, "MOVED-5:45SUMMER,M3.5.0,M10.5.0")
"""Those of the process that repeats results."""

_START_SECONDS = 60.0
_FORK_SECONDS = 10.0
_END_SECONDS = 5.0
_POLL_SECONDS = 0.01


class ZygoteLost(Exception):
    """The zygote has ended, or does not respond."""


@contextmanager
def _reporting_loss() -> Iterator[None]:
    """Raise ZygoteLost for an error of the system, such as too many open files or processes."""
    try:
        yield
    except OSError as failure:
        raise ZygoteLost from failure


class ZygoteProcess:
    """A running zygote.

    Attributes:
        layers: for each layer of the jail, whether it works. A child of the zygote has tried them.
    """

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self.layers: dict[str, bool] = {}

    @classmethod
    async def start(cls, command: Sequence[str], surroundings: Surroundings = FIRST) -> "ZygoteProcess":
        """Start a zygote and wait until it is ready.

        Raises:
            ZygoteLost: it cannot be started, ended, or was not ready in time.
        """
        with _reporting_loss():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                with (
                    theirs
                ):  # not in a thread: a call that is cancelled there would lose the process that it has started
                    process = _spawn(command, theirs, surroundings)
            except OSError:
                ours.close()
                raise
            ours.setblocking(False)  # noqa: FBT003 - socket has no keyword for it
            started = cls(process, ours)
            try:
                started.layers = await started._read_layers()
            except BaseException:  # also a cancellation, which is raised again
                with anyio.CancelScope(shield=True):
                    await started.close()
                raise
        return started

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    async def fork(self, limits: Limits, envelope: Envelope) -> Child:
        """Let the zygote fork a child for a request.

        Raises:
            ZygoteLost: no child started.
        """
        with _reporting_loss():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            ours.setblocking(False)  # noqa: FBT003 - socket has no keyword for it
            try:
                with theirs, os.fdopen(os.memfd_create("request"), "wb") as file:
                    file.write(json.dumps(envelope).encode())
                    file.flush()
                    os.lseek(file.fileno(), 0, os.SEEK_SET)
                    socket.send_fds(self._control, [json.dumps(limits).encode()], [file.fileno(), theirs.fileno()])
                return Child(await _wait_for_pidfd(ours), ours)
            except BaseException:  # also a cancellation, which is raised again
                ours.close()
                raise

    async def close(self) -> None:
        """End the zygote and its children, and wait until it has ended."""
        self._control.close()
        try:
            with anyio.move_on_after(_END_SECONDS):
                while self.is_alive:  # noqa: ASYNC110 - the end of the process sets no event
                    await anyio.sleep(_POLL_SECONDS)
        finally:  # also if the caller is cancelled
            self._process.kill()
            self._process.wait()

    async def _read_layers(self) -> dict[str, bool]:
        with anyio.move_on_after(_START_SECONDS):
            await anyio.wait_readable(self._control)
            message = self._control.recv(4096)
            if message:
                layers: dict[str, bool] = json.loads(message)["layers"]
                return layers
        raise ZygoteLost


def _spawn(command: Sequence[str], control: socket.socket, surroundings: Surroundings) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - this project's own module
        command,
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={"PYTHONHASHSEED": str(surroundings.hash_seed), "TZ": surroundings.time_zone},
        cwd="/",
        start_new_session=True,
    )


async def _wait_for_pidfd(channel: socket.socket) -> int:
    """Return the pidfd that the child sends first."""
    try:
        with anyio.move_on_after(_FORK_SECONDS):
            await anyio.wait_readable(channel)
        return _receive_pidfd(channel)
    except BlockingIOError:
        raise ZygoteLost from None
    except anyio.get_cancelled_exc_class():
        channel.settimeout(_FORK_SECONDS)  # the child starts nevertheless, so receive its pidfd and kill it
        pidfd = _receive_pidfd(channel)
        send_kill(pidfd)
        os.close(pidfd)
        raise


def _receive_pidfd(channel: socket.socket) -> int:
    message, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not (message and descriptors):
        raise ZygoteLost
    return descriptors[0]

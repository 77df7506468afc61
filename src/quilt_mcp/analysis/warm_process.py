"""The server's side of the zygote: starting it, and handing a request to a child of it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

# -I: no environment, no user site, no current directory; -B: writes no byte code
COMMAND = (sys.executable, "-I", "-B", "-X", "utf8", "-m", "quilt_mcp.analysis.zygote")
_START_SECONDS = 60.0
_FORK_SECONDS = 10.0
_END_SECONDS = 5.0
_POLL_SECONDS = 0.01


class ZygoteLost(Exception):
    """The zygote has ended, or does not do its work."""


class WarmProcess:
    """A running zygote.

    Attributes:
        layers: for each layer of the jail whether it holds, as a child of the zygote found by trying.
    """

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control
        self.layers: dict[str, bool] = {}

    @classmethod
    async def start(cls, command: Sequence[str]) -> "WarmProcess":
        """Start a zygote, and wait until it is ready.

        Raises:
            ZygoteLost: it ended, or was not ready in time.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)  # noqa: FBT003 - the only form it has
        with theirs:  # not in a thread: a call that is cancelled then would lose the process that it has started
            started = cls(_spawn(command, theirs), ours)
        try:
            started.layers = await started._hello()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await started.close()
            raise
        return started

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    async def fork(self, limits: Mapping[str, int], envelope: Mapping[str, Any]) -> tuple[int, socket.socket]:
        """Have a child begin with a request.

        Args:
            limits: `memory_limit_mb` and `cpu_seconds`.
            envelope: what only the child reads.

        Returns:
            A handle of the child (a pidfd), and the socket on which its answer comes. The caller closes both.

        Raises:
            ZygoteLost: no child began.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)  # noqa: FBT003 - the only form it has
        request = os.memfd_create("request")
        try:
            with theirs, os.fdopen(request, "wb", closefd=False) as file:
                file.write(json.dumps(envelope).encode())
                file.flush()
                os.lseek(request, 0, os.SEEK_SET)
                socket.send_fds(self._control, [json.dumps(limits).encode()], [request, theirs.fileno()])
            return await _handle(ours), ours
        except OSError as failure:
            ours.close()
            raise ZygoteLost from failure
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(request)

    async def close(self) -> None:
        """End the zygote and its children, and wait until it has ended."""
        self._control.close()
        try:
            with anyio.move_on_after(_END_SECONDS):
                while self.is_alive:  # noqa: ASYNC110 - the end of a process sets no event
                    await anyio.sleep(_POLL_SECONDS)
        finally:  # also if the caller is cancelled meanwhile
            self._process.kill()
            self._process.wait()

    async def _hello(self) -> dict[str, bool]:
        with anyio.move_on_after(_START_SECONDS):
            await anyio.wait_readable(self._control)
            hello = self._control.recv(4096)
            if hello:
                layers: dict[str, bool] = json.loads(hello)["layers"]
                return layers
        raise ZygoteLost


def _spawn(command: Sequence[str], control: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command,
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )


async def _handle(channel: socket.socket) -> int:
    """The child's handle, which it sends before all else."""
    try:
        with anyio.move_on_after(_FORK_SECONDS):
            await anyio.wait_readable(channel)
        return _received_handle(channel)
    except BlockingIOError:
        raise ZygoteLost from None
    except anyio.get_cancelled_exc_class():
        channel.settimeout(_FORK_SECONDS)  # a child is on its way, and would go on alone if nobody took its handle
        handle = _received_handle(channel)
        _kill(handle)
        os.close(handle)
        raise


def _received_handle(channel: socket.socket) -> int:
    message, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not (message and descriptors):
        raise ZygoteLost
    return descriptors[0]


async def end(handle: int) -> None:
    """Kill a child, if it lives, wait until it is gone, and close its handle."""
    try:
        _kill(handle)
        with anyio.move_on_after(_END_SECONDS, shield=True):
            await anyio.wait_readable(handle)
    finally:
        os.close(handle)


def _kill(handle: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)

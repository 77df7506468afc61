"""The processes of the sandbox, as the server sees them: the zygote, its replacement, and its children.

The zygote's own code is in `jail/zygote.py`.
"""

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import anyio

from quilt_mcp.analysis.messages import (
    ANSWER_BYTES,
    ANSWER_DEPTH,
    ANSWER_ITEMS,
    ANSWER_TEXT,
    READY,
    STREAM_BYTES,
    Answer,
    Envelope,
    Limits,
    error,
)
from quilt_mcp.analysis.policy import Policy
from quilt_mcp.core.uris import replace_surrogates

_KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Child:
    """A running child."""

    pidfd: int  # a file descriptor of the process. It cannot refer to another process, as a process id could.
    channel: socket.socket  # the socket on which the child sends its answers. Only the child has the other end.

    async def read_answer(self, seconds: float) -> Answer:
        """Return the answer. The child is killed after these seconds, and also if the caller is cancelled."""
        received = bytearray()
        try:
            with anyio.move_on_after(seconds) as timeout:
                await self._receive(received)
        finally:
            self.channel.close()
            await self._kill()
        if len(received) > STREAM_BYTES:
            return error("ResultTooLarge", "The result is larger than the sandbox accepts.")
        if timeout.cancelled_caught:
            stopped = {"status": "timeout", "message": f"The analysis was stopped after {seconds:g} seconds."}
            return parse_last_line(received, "partial") or stopped
        return parse_last_line(received, "answer") or error(
            "WorkerDied",
            "The analysis ended without a usable answer: it reached a memory or CPU time limit, or crashed.",
        )

    async def _receive(self, received: bytearray) -> None:
        while len(received) <= STREAM_BYTES:
            await anyio.wait_readable(self.channel)
            try:
                data = self.channel.recv(65536)
            except ConnectionResetError:
                return
            if not data:
                return
            received += data

    async def _kill(self) -> None:
        """Kill the child and wait until it has ended."""
        try:
            send_kill(self.pidfd)
            with anyio.move_on_after(_KILL_SECONDS, shield=True):
                await anyio.wait_readable(self.pidfd)
        finally:
            os.close(self.pidfd)


def send_kill(pidfd: int) -> None:
    """Send SIGKILL to a process, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def parse_last_line(received: bytearray, kind: str) -> Answer | None:
    """Return the answer in the last complete line; None if it is not valid, or not of this kind: `answer` or `partial`.

    Analysed code may have written the line, so its size, depth and form are checked.
    """
    lines = bytes(received).rsplit(b"\n", 2)
    last = lines[-2] if len(lines) > 1 else b""  # an incomplete line, or nothing, follows it
    if len(last) > ANSWER_BYTES:
        return None
    try:
        line: object = json.loads(last, parse_constant=_refuse_constant)
        answer: object = line.get(kind) if isinstance(line, dict) else None
        if not isinstance(answer, dict) or not isinstance(answer.get("status"), str) or not _is_small(answer):
            return None
        valid: Answer = json.loads(replace_surrogates(json.dumps(answer, ensure_ascii=False, allow_nan=False)))
    except (ValueError, RecursionError):
        return None
    return valid


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_small(answer: dict[str, object]) -> bool:
    """Return whether every text, list and object has at most the allowed length and depth."""
    level: list[object] = [answer]
    for _ in range(ANSWER_DEPTH + 1):
        if any(isinstance(one, str) and len(one) > ANSWER_TEXT for one in level):
            return False
        containers = [one for one in level if isinstance(one, dict | list)]
        if any(len(one) > ANSWER_ITEMS for one in containers):
            return False
        level = [inner for one in containers for inner in ([*one, *one.values()] if isinstance(one, dict) else one)]
    return not level


# -P, -s: no current directory or user site; -B: no bytecode files. The environment has only the variables below.
COMMAND = (sys.executable, "-P", "-s", "-B", "-X", "utf8", "-m", "quilt_mcp.analysis.jail.zygote")


class Surroundings(NamedTuple):
    """What can change results from process to process: the hash seed of texts, and the time zone."""

    hash_seed: int
    time_zone: str


FIRST = Surroundings(1, "UTC0")
SECOND = Surroundings(2, "MOVED-5:45SUMMER,M3.5.0,M10.5.0")
"""Those of the process that repeats results."""
FURTHER = (Surroundings(3, "WEST11"), Surroundings(4, "EAST-13"))
"""Those of further processes, which repeat findings that can depend on the process."""

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
    """A running zygote."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._process = process
        self._control = control

    @classmethod
    async def start(cls, command: Sequence[str], surroundings: Surroundings = FIRST) -> "ZygoteProcess":
        """Start a zygote and wait until it is ready. `ZygoteLost`: that failed, or took too long."""
        with _reporting_loss():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                # not in a thread: a call that is cancelled there would lose the process that it has started
                with theirs:
                    process = _spawn(command, theirs, surroundings)
            except OSError:
                ours.close()
                raise
            ours.setblocking(False)  # noqa: FBT003 - socket has no keyword for it
            started = cls(process, ours)
            try:
                await started._wait_until_ready()
            except BaseException:  # also a cancellation, which is raised again
                with anyio.CancelScope(shield=True):
                    await started.close()
                raise
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    async def fork(self, limits: Limits, envelope: Envelope) -> Child:
        """Let the zygote fork a child for a request. `ZygoteLost`: no child started."""
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

    async def _wait_until_ready(self) -> None:
        with anyio.move_on_after(_START_SECONDS):
            await anyio.wait_readable(self._control)
            if self._control.recv(len(READY)):
                return
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


_LONGEST_PAUSE_SECONDS = 60.0


class ZygoteKeeper:
    """A zygote, which is started when it is needed, and the children that it forks."""

    def __init__(self, command: Sequence[str], surroundings: Surroundings, policy: Policy) -> None:
        self._command = command
        self._surroundings = surroundings
        self._policy = policy
        self._zygote: ZygoteProcess | None = None
        self._starting = anyio.Lock()
        self._failed_starts = 0
        self._no_start_before = -math.inf

    @property
    def pid(self) -> int | None:
        """The process id of the zygote, or None before the first child and after `close`."""
        return self._zygote.pid if self._zygote else None

    async def run_child(self, envelope: Envelope) -> Answer:
        """Run one analysis in a child. If the caller is cancelled, the child is killed."""
        seconds = envelope["seconds"]
        limits: Limits = {"memory_limit_mb": self._policy.memory_limit_mb, "cpu_seconds": 2 * math.ceil(seconds) + 5}
        try:
            for _ in range(2):  # replace once a zygote that has just ended
                zygote = await self._start_zygote()
                try:
                    child = await zygote.fork(limits, envelope)
                except ZygoteLost:
                    if self._zygote is zygote:  # another call may have replaced it
                        await self.close()
                else:
                    return await child.read_answer(seconds)
        except ZygoteLost:
            pass
        return error("SandboxUnavailable", "The sandbox process does not start. Repeat the call in a minute.")

    async def close(self) -> None:
        """End the zygote and its children. The next analysis starts a new zygote."""
        zygote, self._zygote = self._zygote, None
        if zygote:
            with anyio.CancelScope(shield=True):
                await zygote.close()

    async def _start_zygote(self) -> ZygoteProcess:
        """Return the running zygote. Start one if there is none, but not again at once after it has failed."""
        async with self._starting:
            if self._zygote and self._zygote.is_alive:
                return self._zygote
            await self.close()
            if anyio.current_time() < self._no_start_before:
                raise ZygoteLost
            try:
                self._zygote = await ZygoteProcess.start(self._command, self._surroundings)
            except ZygoteLost:
                self._failed_starts += 1
                pause = min(2.0 ** min(self._failed_starts, 10), _LONGEST_PAUSE_SECONDS)
                self._no_start_before = anyio.current_time() + pause
                raise
            self._failed_starts = 0
            return self._zygote

"""The child process of one analysis, as the server sees it: wait for its answer, and kill it."""

import contextlib
import json
import os
import signal
import socket
from dataclasses import dataclass

import anyio

from quilt_mcp.analysis.messages import (
    ANSWER_BYTES,
    ANSWER_DEPTH,
    ANSWER_ITEMS,
    ANSWER_TEXT,
    STREAM_BYTES,
    Answer,
    error,
)
from quilt_mcp.core.uris import replace_surrogates

_KILL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Child:
    """A running child.

    Attributes:
        pidfd: a file descriptor of the process. It cannot refer to another process, as a process id could.
        channel: the socket on which the child sends its answers. Only the child has the other end.
    """

    pidfd: int
    channel: socket.socket

    async def read_answer(self, seconds: float) -> Answer:
        """Return the child's answer. The child is killed before this returns, also if the caller is cancelled.

        Args:
            seconds: how long the child can run.
        """
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
    """Return the answer in the last complete line.

    Analysed code may have written the line, so its size, depth and form are checked.

    Args:
        received: lines of JSON. Each is an object with one key, the kind.
        kind: `answer` or `partial`.

    Returns:
        None if the line has another kind or is not valid.
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
        valid: Answer = json.loads(replace_surrogates(json.dumps(answer, ensure_ascii=False)))
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

"""The server's door to the sandbox: one analysis in, one checked answer out, and never longer than its time.

Nothing of the submitted code is parsed, imported or run here, and nothing is unpickled: the answer is JSON, measured
and looked at before use. The first analysis starts the zygote; without one the server has no process but its own.
"""

import json
import math
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from quilt_mcp import runtime_context
from quilt_mcp.analysis.answers import Answer, error, missing_layers
from quilt_mcp.analysis.gate_rules import RULES
from quilt_mcp.analysis.policy import LONGEST_TIMEOUT_SECONDS, SHORTEST_TIMEOUT_SECONDS, Policy
from quilt_mcp.analysis.warm_process import COMMAND, WarmProcess, ZygoteLost, end
from quilt_mcp.uri_rules import sendable

ANSWER_BYTES = 256 * 1024  # of one answer
STREAM_BYTES = 4 * 1024 * 1024  # of all that a child may say: the answers that it keeps for later, and the last
_DEPTH = 16
_LONGEST_PAUSE_SECONDS = 60.0


class Sandbox:
    """One zygote, started when it is first needed and again when it has ended.

    Args:
        command: what starts the zygote.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._warm: WarmProcess | None = None
        self._starting = anyio.Lock()
        self._slots = anyio.CapacityLimiter(1)
        self._failed_starts = 0
        self._no_start_before = -math.inf

    async def analyse(self, request: Mapping[str, Any], *, seconds: float, policy: Policy, concurrency: int) -> Answer:
        """Run one analysis in a child of its own. If the caller is cancelled, the child is killed.

        Args:
            request: `tool`, `code`, and the tool's parameters, in JSON types.
            seconds: of wall clock that the child has. Waiting for a free place may take as long again.
            policy: what the code is held to.
            concurrency: how many children there may be at once.

        Returns:
            The tool's answer: an object with a text `status`. With status `error` it has `error_type` and `message`;
            with error type `Refused` also the `rule` and the `line`.
        """
        refusal = _out_of_bounds(request, seconds, policy)
        if refusal:
            return refusal
        self._slots.total_tokens = concurrency
        with anyio.move_on_after(seconds) as waiting:
            await self._slots.acquire()
        if waiting.cancelled_caught:
            return error("Busy", "Too many analyses are running. Try again in a minute.")
        try:
            return await self._in_child(request, seconds, policy)
        finally:
            self._slots.release()

    async def close(self) -> None:
        """End the zygote and every child. The next analysis starts a new one."""
        warm, self._warm = self._warm, None
        if warm:
            with anyio.CancelScope(shield=True):
                await warm.close()

    async def _in_child(self, request: Mapping[str, Any], seconds: float, policy: Policy) -> Answer:
        limits = {"memory_limit_mb": policy.memory_limit_mb, "cpu_seconds": 2 * math.ceil(seconds) + 5}
        envelope = {"policy": policy.as_json(), "request": {**request, "timeout_seconds": seconds}}
        try:
            for _ in range(2):  # a zygote that has just ended is replaced once
                warm = await self._running()
                refusal = missing_layers(warm.layers, policy)
                if refusal:
                    return refusal
                try:
                    handle, channel = await warm.fork(limits, envelope)
                except ZygoteLost:
                    if self._warm is warm:  # and no other call has replaced it meanwhile
                        await self.close()
                else:
                    return await _converse(handle, channel, seconds)
        except ZygoteLost:
            pass
        return error("SandboxUnavailable", "The process that analyses does not start. Try again in a minute.")

    async def _running(self) -> WarmProcess:
        """The zygote, alive.

        Raises:
            ZygoteLost: it does not start, or did not a moment ago.
        """
        async with self._starting:
            if self._warm and self._warm.is_alive:
                return self._warm
            await self.close()
            if anyio.current_time() < self._no_start_before:
                raise ZygoteLost
            try:
                self._warm = await WarmProcess.start(self._command)
            except ZygoteLost:
                self._failed_starts += 1
                pause = min(2.0**self._failed_starts, _LONGEST_PAUSE_SECONDS)
                self._no_start_before = anyio.current_time() + pause
                raise
            self._failed_starts = 0
            return self._warm


_sandbox: Sandbox | None = None


async def analyse(request: Mapping[str, Any], *, timeout: float) -> Answer:  # noqa: ASYNC109 - a child's wall clock
    """Run one analysis under the settings in force, as `Sandbox.analyse` does."""
    global _sandbox  # noqa: PLW0603 - one process has one zygote
    if _sandbox is None:
        _sandbox = Sandbox()
    settings = runtime_context.settings()
    return await _sandbox.analyse(
        request, seconds=timeout, policy=Policy.of(settings), concurrency=settings.analysis_concurrency
    )


async def close() -> None:
    """End the sandbox's processes, if there are any. To be called when the server ends."""
    global _sandbox
    closing, _sandbox = _sandbox, None
    if closing:
        await closing.close()


def _out_of_bounds(request: Mapping[str, Any], seconds: float, policy: Policy) -> Answer | None:
    if not SHORTEST_TIMEOUT_SECONDS <= seconds <= LONGEST_TIMEOUT_SECONDS:  # also false for NaN
        return error(
            "InvalidTimeout",
            f"timeout_seconds must be from {SHORTEST_TIMEOUT_SECONDS} to {LONGEST_TIMEOUT_SECONDS}.",
        )
    code = request.get("code")
    if not isinstance(code, str):
        return error("InvalidCode", "`code` must be text.")
    # measured here too, so that no larger text goes on; the gate decides by the same number
    if len(code.encode("utf-8", "surrogatepass")) > policy.code_size_bytes:
        return error("Refused", RULES["size"], rule="size", line=None)
    return None


async def _converse(handle: int, channel: socket.socket, seconds: float) -> Answer:
    """Take the child's answer, for as long as it may take; the child is gone afterwards, in every case."""
    received = bytearray()
    try:
        with anyio.move_on_after(seconds) as clock:
            await _receive(channel, received)
    finally:
        channel.close()
        await end(handle)
    if len(received) > STREAM_BYTES:
        return error("ResultTooLarge", "The result is longer than the sandbox passes on.")
    if clock.cancelled_caught:
        stopped = {"status": "timeout", "message": f"The analysis was stopped after {seconds:g} seconds."}
        return _last(received, "partial") or stopped
    return _last(received, "answer") or error(
        "WorkerDied", "The analysis ended without a usable answer: it met a limit of memory or time, or crashed."
    )


async def _receive(channel: socket.socket, received: bytearray) -> None:
    while len(received) <= STREAM_BYTES:
        await anyio.wait_readable(channel)
        try:
            data = channel.recv(65536)
        except ConnectionResetError:
            return
        if not data:
            return
        received += data


def _last(received: bytearray, kind: str) -> Answer | None:
    """The last complete line, if it is of this kind and in order."""
    lines = bytes(received).rsplit(b"\n", 2)
    if len(lines) < 2 or len(lines[-2]) > ANSWER_BYTES:  # noqa: PLR2004 - a line, and what follows it
        return None
    try:
        line = json.loads(lines[-2], parse_constant=_refuse_constant)
        answer = line[kind]
        if not isinstance(answer["status"], str) or _depth(answer) > _DEPTH:
            return None
        checked: Answer = json.loads(sendable(json.dumps(answer, ensure_ascii=False)))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return checked


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _depth(value: Any) -> int:
    """How many arrays and objects lie within one another; it stops counting beyond what is allowed."""
    level, depth = [value], 0
    while level and depth <= _DEPTH:
        containers = [one for one in level if isinstance(one, dict | list)]
        level = [inner for one in containers for inner in (one.values() if isinstance(one, dict) else one)]
        depth += 1
    return depth

"""Keeps one zygote: it is started when it is needed, and replaced when it has ended."""

import math
from collections.abc import Sequence

import anyio

from quilt_mcp.analysis.messages import Answer, Envelope, Limits, check_layers, error
from quilt_mcp.analysis.policy import Policy
from quilt_mcp.analysis.zygote_process import Surroundings, ZygoteLost, ZygoteProcess

_LONGEST_PAUSE_SECONDS = 60.0


class ZygoteKeeper:
    """A zygote, and the children that it forks.

    Args:
        command: starts the zygote.
        surroundings: of the zygote.
        policy: what analysed code can use.
    """

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
        limits: Limits = {
            "memory_limit_mb": self._policy.memory_limit_mb,
            "cpu_seconds": 2 * math.ceil(seconds) + 5,
        }
        try:
            for _ in range(2):  # replace once a zygote that has just ended
                zygote = await self._start_zygote()
                if missing := check_layers(zygote.layers, self._policy):
                    return missing
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
        """Return the running zygote. Start one if there is none.

        Raises:
            ZygoteLost: it does not start, or has failed to start a moment ago.
        """
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
                pause = min(2.0**self._failed_starts, _LONGEST_PAUSE_SECONDS)
                self._no_start_before = anyio.current_time() + pause
                raise
            self._failed_starts = 0
            return self._zygote

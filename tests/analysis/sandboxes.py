"""Sandboxes for tests, and what is sent to them."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from quilt_mcp.analysis.policy import Policy
from quilt_mcp.analysis.sandbox import Sandbox
from quilt_mcp.analysis.warm_process import COMMAND
from tests.waiting import SECONDS

PYTHON = COMMAND[:-2]


def script(name: str) -> tuple[str, ...]:
    """What starts a zygote from a script beside this file."""
    return (*PYTHON, str(Path(__file__).with_name(name)))


UNGATED = script("ungated.py")  # runs what it is sent, in the jail alone
HONEST = {
    "tool": "symbolic_check",
    "function_name": "f",
    "code": "def f(x: int) -> int:\n    'post: _ != 42'\n    return x",
}


@asynccontextmanager
async def running(command: Sequence[str] = COMMAND) -> AsyncIterator[Sandbox]:
    """A sandbox that is closed afterwards."""
    sandbox = Sandbox(command)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def ask(
    sandbox: Sandbox, code: str, *, seconds: float = 1, policy: Policy | None = None, **request: Any
) -> dict[str, Any]:
    """The sandbox's answer to this code, sent as a symbolic check of `f`."""
    async with asyncio.timeout(SECONDS):
        return await sandbox.analyse(
            {**HONEST, "code": code, **request}, seconds=seconds, policy=policy or Policy(), concurrency=8
        )


async def ask_all(sandbox: Sandbox, codes: Mapping[str, str], policy: Policy) -> dict[str, dict[str, Any]]:
    """The answers to all of these, several at a time."""
    places = asyncio.Semaphore(8)

    async def one(code: str) -> dict[str, Any]:
        async with places:
            return await ask(sandbox, code, seconds=10, policy=policy)

    answers = await asyncio.gather(*map(one, codes.values()))
    return dict(zip(codes, answers, strict=True))


def zygote_of(sandbox: Sandbox) -> int:
    """The number of the zygote's process."""
    assert sandbox._warm is not None
    return sandbox._warm._process.pid

"""Sandboxes for tests, and requests to them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from quilt_mcp.analysis.messages import Request
from quilt_mcp.analysis.processes import COMMAND
from quilt_mcp.analysis.sandbox import Sandbox
from quilt_mcp.app import App, P
from tests.support.settings import Settings
from tests.support.waiting import SECONDS

PYTHON = COMMAND[:-2]
SETTINGS = Settings(analysis_concurrency=8)


def script(name: str) -> tuple[str, ...]:
    """Return the command that starts a zygote from a script in this folder."""
    return (*PYTHON, str(Path(__file__).with_name(name)))


UNGATED = script("ungated.py")  # runs any code in the jail, without the other barriers
HONEST: Request = {
    "tool": "symbolic_check",
    "function_name": "f",
    "code": "def f(x: int) -> int:\n    'post: _ != 42'\n    return x",
}


@asynccontextmanager
async def running(command: Sequence[str] = COMMAND, settings: Settings = SETTINGS) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(settings, command=command)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def ask(sandbox: Sandbox, code: object, *, seconds: float = 1, **request: Any) -> dict[str, Any]:
    """Return the answer to this code, sent as a symbolic check of `f`."""
    async with asyncio.timeout(SECONDS):
        sent = cast("Request", {**HONEST, "code": code, **request})
        return dict(await sandbox.analyse(sent, seconds=seconds))


async def ask_all(sandbox: Sandbox, codes: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the answers to all of these, which are not reduced. Eight are sent at the same time."""
    places = asyncio.Semaphore(8)

    async def one(code: str) -> dict[str, Any]:
        async with places:
            return await ask(sandbox, code, seconds=60, whole_file=True)

    answers = await asyncio.gather(*map(one, codes.values()))
    return dict(zip(codes, answers, strict=True))


def zygote_of(sandbox: Sandbox) -> int:
    """Return the process id of the zygote, which must run."""
    assert sandbox.zygote_pid is not None
    return sandbox.zygote_pid


class AppWithSandbox(App):
    """An app with the given sandbox."""

    def __init__(self, sandbox: Sandbox, settings: Settings = SETTINGS) -> None:
        super().__init__(settings)
        self._sandbox = sandbox

    def part(self, kind: Callable[[Any], P]) -> P:
        """Return the sandbox, or another part of the app."""
        return cast("P", self._sandbox) if kind is Sandbox else super().part(kind)

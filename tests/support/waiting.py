"""Waits for conditions, with a limit that keeps tests from hanging."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType

import quilt_mcp.services.athena_read_service

SECONDS = 120.0  # enough for any operation on a busy machine
SERVICES = str(Path(quilt_mcp.services.athena_read_service.__file__).parent)


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop run until the condition is true.

    Raises:
        TimeoutError: the condition is still false after SECONDS.
    """
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - other threads and processes cannot set an event here
            await asyncio.sleep(0.01)


async def until_awaited(condition: Callable[[], Awaitable[object]], *, seconds: float = SECONDS) -> None:
    """Repeat a request until its result is true.

    Raises:
        TimeoutError: the result is still false after this time.
    """
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - other processes cannot set an event here
            await asyncio.sleep(0.01)


def threads_reading() -> list[str]:
    """Return the threads that run a service function or a part of one, even if no task waits for the result."""
    stacks = sys._current_frames()  # noqa: SLF001 - documented, and the only way to read the stacks of other threads
    return [thread.name for thread in threading.enumerate() if _in_service(stacks.get(thread.ident or 0))]


def _in_service(frame: FrameType | None) -> bool:
    return any(one.f_code.co_filename.startswith(SERVICES) for one, _ in traceback.walk_stack(frame))

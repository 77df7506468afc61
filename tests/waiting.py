"""Waiting for what has to happen, and never longer than a test may hang."""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import quilt_mcp.services

SECONDS = 60.0  # in which anything on a busy machine has certainly come to its end
SERVICES = str(Path(quilt_mcp.services.__file__).parent)


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop run until the condition holds.

    Raises:
        TimeoutError: it does not come to hold.
    """
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - what happens in other threads and processes sets no event here
            await asyncio.sleep(0.01)


def threads_reading() -> list[str]:
    """The threads that run a service function, or a part of one, also where nobody waits for it any more."""
    stacks = sys._current_frames()  # documented, and the only way to see where other threads are
    return [thread.name for thread in threading.enumerate() if _in_service(stacks.get(thread.ident or 0))]


def _in_service(frame: FrameType | None) -> bool:
    return any(one.f_code.co_filename.startswith(SERVICES) for one, _ in traceback.walk_stack(frame))

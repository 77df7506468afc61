"""`quilt-mcp serve --transport http` as processes."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

from quilt_mcp.commands.install import executable
from tests.waiting import SECONDS, until

STARTED = re.compile(r"Starting MCP server .* on http://[^ ]*:([1-9]\d*)/mcp")


class ServerProcess:
    """A server's process, which may have worker processes."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log
        self.port = 0

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return self._log.read_text(encoding="utf-8")

    @property
    def workers(self) -> list[int]:
        """The process ids of its workers; on Linux."""
        pid = self.process.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]

    async def started(self) -> None:
        """Wait until it serves."""
        await until(lambda: STARTED.search(self.log) or self.process.returncode is not None)
        found = STARTED.search(self.log)
        assert found, self.log
        self.port = int(found[1])

    async def stop(self, number: signal.Signals) -> int:
        """Send a signal; the exit status."""
        self.process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            return await self.process.wait()


@asynccontextmanager
async def serve(directory: Path, *arguments: str, **environment: str) -> AsyncIterator[ServerProcess]:
    """A server on a free port, with its log in the directory."""
    log = directory / f"{token_hex(4)}.log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            executable(),
            *("serve", "--transport", "http", "--port", "0", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=stderr,
            env=os.environ | {"HOME": str(directory), "XDG_DATA_HOME": str(directory)} | environment,
        )
    server = ServerProcess(process, log)
    try:
        await server.started()
        yield server
    finally:
        if process.returncode is None:
            await server.stop(signal.SIGKILL)


def left_in(directory: Path) -> list[str]:
    """The names of the temporary files that this project has left behind."""
    return [path.name for path in directory.iterdir() if path.name.startswith("quilt-mcp-")]


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return False

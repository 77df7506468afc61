"""The processes that are measured: how they are started, and how much memory and processor time they take."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.bench.wire import StdioServer, wait_for_port

ROOT = Path(__file__).parent.parent.parent
QUILT_MCP = (sys.executable, "-c", "import sys; from quilt_mcp.cli import main; sys.exit(main())")
"""What the command `quilt-mcp` runs, in the revision that this process imports."""
_TICK = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS = 10


def other_server(name: str) -> tuple[str, ...]:
    """The command of a server of tests/bench/servers.py; it takes the arguments of `quilt-mcp serve`."""
    return (sys.executable, "-m", "tests.bench.servers", name)


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """The environment of a process: without what this one has set for Python and for our server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("QUILT_MCP_", "AWS_"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start would compile all that it imports
    given = {"data_dir": str(folder / "data")} | settings
    return kept | {f"QUILT_MCP_{name.upper()}": value for name, value in given.items()}


@contextmanager
def on_stdio(
    command: tuple[str, ...], era: str, folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[StdioServer]:
    """A server that has been greeted."""
    given = environment(folder, **(settings or {}))
    with StdioServer(command, era, environment=given, log=_new_log(folder)) as server:
        server.greet()
        yield server


@asynccontextmanager
async def on_http(
    command: tuple[str, ...], folder: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[int, int]]:
    """The port on which a server listens, and its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = _new_log(folder)
    given = environment(folder, **(settings or {}))
    process = _started([*command, "--transport", "http", "--port", str(port)], given, log)
    try:
        await wait_for_port(port, process, log)
        yield port, process.pid
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _new_log(folder: Path) -> Path:
    return folder / f"{len(list(folder.glob('*.log')))}.log"


def _started(command: list[str], given: dict[str, str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=given)


def peak_memory(pid: int) -> int:
    """The most memory that a process has had so far, in bytes."""
    return _status(pid, "VmHWM")


def memory(pid: int) -> int:
    """The memory that a process and its children have now, in bytes."""
    return sum(_status(one, "VmRSS") for one in _family(pid))


def processor_seconds(pid: int) -> float:
    """The processor time that a process and its children have taken so far."""
    total = 0
    for one in _family(pid):
        fields = Path(f"/proc/{one}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICK


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *map(int, children)]


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0

"""The processes that are measured: how they are started, and how much memory and processor time they take."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from tests.support.processes import children
from tests.support.server_process import ROOT, run_http
from tests.support.waiting import until

__all__ = ["ROOT"]
QUILT_MCP = (sys.executable, "-c", "import sys; from quilt_mcp.commands.entry import main; sys.exit(main())")
"""What the command `quilt-mcp` runs, in the revision that this process imports."""
_MEASURED = """
import json, sys, time
from pathlib import Path
from secrets import token_hex
from quilt_mcp.commands.entry import main
status = main()
taken = {"seconds": time.process_time(), "memory": Path("/proc/self/status").read_text(encoding="utf-8")}
sys.stdout.write(f"\\n{json.dumps(taken)}")
sys.exit(status)
"""
"""Runs the command, and then writes what it took: a parent only learns the larger of its own peak and the child's."""
_CPUCLOCK_SCHED = 2
"""With the id of a process, the id of its clock of processor time: clock_getcpuclockid(3), which Python lacks."""
RUNNING = re.compile(r"running on http://127\.0\.0\.1:([1-9]\d*)")


def peer(name: str) -> tuple[str, ...]:
    """The command of a server of tests/bench/peer_servers.py."""
    return (sys.executable, "-m", "tests.bench.peer_servers", name)


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """Return the environment of a process, without this process's settings for Python and for our server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("QUILT_MCP_", "AWS_"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each start would compile all imported modules
    given = {"data_dir": str(folder / "data")} | settings
    return kept | {f"QUILT_MCP_{name.upper()}": value for name, value in given.items()}


class Finished(NamedTuple):
    """A command that has ended.

    Attributes:
        seconds: from the start to the end.
        processor_seconds: of the process.
        peak_memory: in bytes.
        output: of stdout and stderr.
    """

    seconds: float
    processor_seconds: float
    peak_memory: int
    output: str


def run_command(arguments: Sequence[str], folder: Path, **settings: str) -> Finished:
    """Run `quilt-mcp` with these arguments in a new process.

    Raises:
        RuntimeError: it fails.
    """
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *arguments],
        env=environment(folder, **settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"{arguments} failed: {done.stderr}{done.stdout}")
    output, _, last = done.stdout.rpartition("\n")
    taken = json.loads(last)
    return Finished(seconds, taken["seconds"], _find_bytes(taken["memory"], "VmHWM"), output + done.stderr)


@asynccontextmanager
async def on_http(command: tuple[str, ...], folder: Path) -> AsyncIterator[tuple[int, int]]:
    """Run a server that takes the arguments of `serve`. Return its port and its process id."""
    async with run_http(command, environment(folder), folder) as server:
        yield server.port, server.process.pid
        await server.stop(signal.SIGTERM)


@asynccontextmanager
async def other_on_http(command: Sequence[str], folder: Path) -> AsyncIterator[tuple[int, int]]:
    """Run a server that writes its address to stderr. Return its port and its process id."""
    log = folder / f"{token_hex(4)}.log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=DEVNULL, stderr=stderr, env=environment(folder)
        )
    try:
        await until(lambda: RUNNING.search(log.read_text(errors="replace")) or process.returncode is not None)
        found = RUNNING.search(text := log.read_text(errors="replace"))
        assert found, text
        yield int(found[1]), process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def memory(pid: int) -> int:
    """The memory that a process and its children have now, in bytes."""
    status = (Path(f"/proc/{one}/status").read_text(encoding="utf-8") for one in _family(pid))
    return sum(_find_bytes(one, "VmRSS") for one in status)


def processor_seconds(pid: int) -> float:
    """The processor time that a process and its children have taken so far, as the kernel counts it."""
    return sum(time.clock_gettime((~one << 3) | _CPUCLOCK_SCHED) for one in _family(pid))


def _family(pid: int) -> list[int]:
    return [pid, *children(pid)]


def _find_bytes(status: str, name: str) -> int:
    for line in status.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0

"""Servers as processes of their own: `quilt-mcp serve` over stdio and HTTP, and a server in a demo world over stdio."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from quilt_mcp.commands.install import executable
from tests.support.processes import children, command_line
from tests.support.waiting import SECONDS, until

ROOT = Path(__file__).parents[2]
STARTED = re.compile(r"Starting MCP server .* on (http://[^ ]*:([1-9]\d*)/(?:mcp|sse))")
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class HTTPServerProcess:
    """A server over HTTP. It can have worker processes.

    Attributes:
        process: the process.
        port: the port on which it listens.
        url: for clients.
    """

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.port, self.url = 0, ""
        self._log = log

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return self._log.read_text(encoding="utf-8")

    @property
    def output(self) -> str:
        """What it has written to stdout."""
        return self._log.with_suffix(".out").read_text(encoding="utf-8")

    @property
    def workers(self) -> list[int]:
        """The process ids of its workers, on Linux."""
        return [pid for pid in children(self.process.pid) if b"spawn_main" in command_line(pid)]

    async def wait_until_started(self) -> None:
        """Wait until it serves."""
        await until(lambda: STARTED.search(self.log) or self.process.returncode is not None)
        found = STARTED.search(self.log)
        assert found, self.log
        self.url, self.port = found[1], int(found[2])

    async def stop(self, number: signal.Signals) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            return await self.process.wait()


@asynccontextmanager
async def serve_http(
    directory: Path, *arguments: str, transport: str = "http", **environment: str
) -> AsyncIterator[HTTPServerProcess]:
    """Run `quilt-mcp serve` on a free port, with its log and its home in the directory. It does not wait for others."""
    home = {"HOME": str(directory), "XDG_DATA_HOME": str(directory)}
    given = os.environ | home | {"QUILT_MCP_DRAIN_SECONDS": "0"} | environment
    async with run_http((executable(), "serve", *arguments), given, directory, transport) as server:
        yield server


@asynccontextmanager
async def run_http(
    command: Sequence[str], environment: Mapping[str, str], directory: Path, transport: str = "http"
) -> AsyncIterator[HTTPServerProcess]:
    """Run a command that takes the arguments of `quilt-mcp serve`, with its log in the directory.

    Without `--port`, it serves on a free port.
    """
    log = directory / f"{token_hex(4)}.log"
    _accept_ctrl_c()
    with log.open("wb") as stderr, log.with_suffix(".out").open("wb") as stdout:
        process = await asyncio.create_subprocess_exec(
            *command,
            *("--transport", transport, *(() if "--port" in command else ("--port", "0"))),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=environment,
        )
    server = HTTPServerProcess(process, log)
    try:
        await server.wait_until_started()
        yield server
    finally:
        if process.returncode is None:
            await server.stop(signal.SIGKILL)


def _accept_ctrl_c() -> None:
    """Let child processes receive SIGINT. Background jobs of a shell ignore it, and child processes inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def temporary_files(directory: Path) -> list[str]:
    """Return the names of this project's temporary files."""
    return [path.name for path in directory.iterdir() if path.name.startswith("quilt-mcp-")]


class StdioServerProcess:
    """A server over stdio. Tests write and read lines of JSON-RPC."""

    def __init__(
        self, process: asyncio.subprocess.Process, stdout: asyncio.StreamReader, pipe: asyncio.BaseTransport
    ) -> None:
        self._process = process
        self._pipe = pipe
        self._last_id = 0
        assert process.stdin
        assert process.stderr
        self.stdin, self.stdout, self._stderr = process.stdin, stdout, process.stderr

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a request and return the next message."""
        await self.send(method, **parameters)
        async with asyncio.timeout(SECONDS):
            message: dict[str, Any] = json.loads(await self.stdout.readline())
        assert (message["jsonrpc"], message["id"]) == ("2.0", self._last_id)
        return message

    async def send(self, method: str, **parameters: Any) -> int:
        """Send a request and return its id."""
        self._last_id += 1
        await self._write({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": parameters})
        return self._last_id

    async def notify(self, method: str, **parameters: Any) -> None:
        """Send a notification."""
        await self._write({"jsonrpc": "2.0", "method": method, "params": parameters})

    async def wait_for_log(self, text: str) -> str:
        """Wait for a log line with this text. Return all lines up to it that were not returned before."""
        log = ""
        async with asyncio.timeout(SECONDS):
            while text not in log and (line := await self._stderr.readline()):
                log += line.decode()
        assert text in log
        return log

    def close_stdout(self) -> None:
        """Close the reading end of its stdout, as the death of a client does."""
        self._pipe.close()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    async def end(self) -> tuple[int, str, str]:
        """Wait for the end. Return the exit status and the rest of stdout and stderr."""
        async with asyncio.timeout(SECONDS):
            stdout, stderr = await asyncio.gather(self.stdout.read(), self._stderr.read())
            return await self._process.wait(), stdout.decode(), stderr.decode()

    async def _write(self, message: dict[str, Any]) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")
        await self.stdin.drain()


@asynccontextmanager
async def serve_stdio(
    *arguments: str, environment: Mapping[str, str] = os.environ
) -> AsyncIterator[StdioServerProcess]:
    """Run `quilt-mcp serve`, after the handshake."""
    _accept_ctrl_c()
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        executable(),
        *("serve", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=writing,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    os.close(writing)
    stdout = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(reading, "rb")
    )
    server = StdioServerProcess(process, stdout, pipe)
    try:
        await server.ask("initialize", **CLIENT)
        await server.notify("notifications/initialized")
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await server.end()
        pipe.close()


@asynccontextmanager
async def connect_to_world(world: str, mode: str, directory: Path) -> AsyncIterator[tuple[Client[Any], Any]]:
    """Run a server in a demo world. Return a client over stdio, and the world's `url` and `directory`.

    The server's log is `directory/log`.
    """
    file = directory / "world.json"
    arguments = ["-m", "tests.support.world_server", world, str(file)]
    transport = StdioTransport(
        sys.executable, arguments, dict(os.environ), str(ROOT), keep_alive=False, log_file=directory / "log"
    )
    async with Client(transport, mode=mode, timeout=SECONDS, init_timeout=SECONDS) as client:
        await client.list_resources()  # the file is complete before the first answer
        yield client, json.loads(file.read_text(encoding="utf-8"), object_hook=lambda found: SimpleNamespace(**found))

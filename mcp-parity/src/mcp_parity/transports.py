"""The connections to servers in other processes, and what is seen of them beside the answers."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Unpack

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports import ClientTransport, StreamableHttpTransport
from fastmcp.client.transports.base import SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from mcp_parity.shown import read_json

LONGEST_LINE = 128 * 1024 * 1024
MOST_NOISE = 1_000
_GRACE = 2.0  # the seconds in which a server may end after its stdin is closed, as in the SDK

Sent = MemoryObjectReceiveStream[SessionMessage]
Received = MemoryObjectSendStream[SessionMessage | Exception]


class Command(ClientTransport):
    """A server that is started by a command and speaks over its stdin and stdout.

    The SDK has such a transport too, but it only logs what is no message, and reads a line of any length.

    Attributes:
        noise: the lines of stdout that are no messages, and how many were reported.
    """

    def __init__(
        self, command: str, arguments: list[str], directory: str | None, errors: IO[bytes] | None = None
    ) -> None:
        self._command = [shutil.which(command) or command, *arguments]
        self._directory = directory
        self._environment = dict(os.environ)
        self._errors = errors
        self._process: asyncio.subprocess.Process | None = None
        self.noise: list[str] = []
        self._reported = 0

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        """Start the process, and connect to it."""
        options = transport_options or TransportOptions()
        self.noise, self._reported = [], 0
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._errors,
            cwd=self._directory,
            env=self._environment,
            limit=LONGEST_LINE,
            start_new_session=True,
        )
        received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process, received)
            tasks.start_soon(_write, process, sent, received)
            try:
                async with options.session_class(incoming, outgoing, **session_kwargs) as session:
                    yield session
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop(process)
                tasks.cancel_scope.cancel()

    async def _read(self, process: asyncio.subprocess.Process, received: Received) -> None:
        """Pass on the messages, until the server has printed too much else."""
        assert process.stdout  # noqa: S101 - it is a pipe
        async with received:
            while len(self.noise) < MOST_NOISE:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    self.noise.append(f"a line of more than {LONGEST_LINE:,} bytes")
                    return
                if not line:
                    return
                message = self._parse(line)
                if message is not None:
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # what comes after the end
                        await received.send(message)

    def _parse(self, line: bytes) -> SessionMessage | None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self.noise.append(line.decode(errors="replace").rstrip("\r\n"))
            return None
        try:
            read_json(line.decode())
        except ValueError as error:
            self.noise.append(f"{error}: {line.decode(errors='replace')}")
        return SessionMessage(message)

    def take_noise(self) -> str:
        """Return a sentence about the lines that are no messages since the last call; empty if there are none."""
        new, self._reported = self.noise[self._reported :], len(self.noise)
        if not new:
            return ""
        more = f" and {len(new) - 1} more lines" if len(new) > 1 else ""
        shown = ascii(new[0][:120])
        return f"the server writes to stdout what is no message of MCP: {shown}{more}; log to stderr instead"

    @property
    def ended(self) -> int | None:
        """The exit status of the process; None while it runs."""
        return self._process.returncode if self._process else None

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin:
            process.stdin.close()
        with anyio.move_on_after(_GRACE):
            while process.returncode is None:  # noqa: ASYNC110 - `wait` waits for all that hold the pipes
                await anyio.sleep(0.02)
        self.kill()

    def kill(self) -> None:
        """Kill the process and all that it started. Nothing happens if they have ended."""
        if self._process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)


async def _write(process: asyncio.subprocess.Process, sent: Sent, received: Received) -> None:
    assert process.stdin  # noqa: S101 - it is a pipe
    try:
        async with sent:
            async for message in sent:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        await received.aclose()  # the session sees that the connection has ended


class Remote(StreamableHttpTransport):
    """A server at a URL.

    Attributes:
        refused: the HTTP status of the last request, if it is an error.
    """

    def __init__(self, url: str, headers: dict[str, str] | None = None, auth: Any = None) -> None:
        super().__init__(url, headers=headers, auth=auth, httpx_client_factory=self._create)
        self.refused = ""

    def _create(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
        **_: Any,
    ) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(
            headers=headers, timeout=timeout or httpx2.Timeout(30.0, read=300.0), auth=auth, follow_redirects=True
        )
        client.event_hooks["response"].append(self._note)
        return client

    async def _note(self, response: httpx2.Response) -> None:
        if response.request.method == "POST":  # a server may refuse the GET request for notifications
            is_error = response.status_code >= httpx2.codes.BAD_REQUEST
            self.refused = f"HTTP {response.status_code} {response.reason_phrase}".strip() if is_error else ""


def describe_transport(server: Any) -> str:
    """Return what a transport knows about a failure, as the end of a sentence; empty if it knows nothing."""
    if isinstance(server, Remote) and server.refused:
        login = " (a server that wants a login: README, Configuration)" if "HTTP 401" in server.refused else ""
        return f" ({server.refused}){login}"
    if isinstance(server, Command):
        ended = "" if server.ended is None else f" (the process has ended with status {server.ended})"
        noise = server.take_noise()
        return ended + (f"; {noise}" if noise else "")
    return ""

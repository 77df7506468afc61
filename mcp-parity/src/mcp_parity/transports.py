"""How a server is reached, with what is seen beside its answers: a process over stdio, or a URL."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, Unpack

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports import ClientTransport, StreamableHttpTransport
from fastmcp.client.transports.base import SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from mcp_parity.values import read_json

LONGEST_LINE = 128 * 1024 * 1024
MOST_NOISE = 1_000
MOST_UNANSWERED = 1_000
LONGEST_NOISE = 120
_ASKED = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
"""The requests of servers that need a capability of the client."""
_SHOWN = 65_536  # bytes in which a message of MCP says that it is one
_MESSAGES = ("application/json", "text/event-stream")
_FAILURE = re.compile(r"(?i)error|exception|fatal|failed|cannot|could not|missing|required|invalid|not found|no such")
_GRACE = 2.0  # the seconds in which a server may end after its stdin is closed, as in the SDK

Sent = MemoryObjectReceiveStream[SessionMessage]
Received = MemoryObjectSendStream[SessionMessage | Exception]


class Command(ClientTransport):
    """A server that is started by a command and speaks over its stdin and stdout.

    The SDK has such a transport too, but it only logs what is no message, and reads a line of any length.
    The lines that are no messages are the `noise`, also those of earlier processes. `unanswered` counts the server's
    requests of which it has not read the answers: more are read only when it does.
    """

    def __init__(self, command: str, arguments: list[str], directory: str | None) -> None:
        self._command = [shutil.which(command) or command, *arguments]
        self._directory = directory
        self._environment = dict(os.environ)
        self.errors: IO[bytes] | None = None
        self.largest = LONGEST_LINE
        self._process: asyncio.subprocess.Process | None = None
        self.noise: list[str] = []
        self._reported = self._earlier_noise = self.unanswered = 0
        self._stopped = False
        self._asked, self._answered, self._offered = set[int | str](), set[int | str](), set[str]()

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        options = transport_options or TransportOptions()
        self._reported = self._earlier_noise = len(self.noise)
        self.unanswered, self._stopped = 0, False
        self._asked, self._answered, self._offered = set(), set(), set()
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self.errors,
            cwd=self._directory,
            env=self._environment,
            limit=self.largest,
            start_new_session=True,
        )
        received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, sent = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process, received)
            tasks.start_soon(self._write, process, sent, received)
            try:
                async with options.session_class(incoming, outgoing, **session_kwargs) as session:
                    yield session
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop(process)
                tasks.cancel_scope.cancel()

    async def _read(self, process: asyncio.subprocess.Process, received: Received) -> None:
        """Pass on the messages, until the server has printed too much else. Wait while it reads no answers."""
        assert process.stdout  # noqa: S101 - it is a pipe
        async with received:
            while len(self.noise) - self._earlier_noise < MOST_NOISE:
                while self.unanswered > MOST_UNANSWERED:  # noqa: ASYNC110 - few servers ask so much
                    await anyio.sleep(0.02)
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    self._note(f"a line of more than {self.largest:,} bytes")
                    return
                if not line:
                    await _wait_for_end(process)
                    return
                message = self._parse(line)
                if message is not None:
                    self._judge(message, line)
                    self.unanswered += isinstance(message.message, JSONRPCRequest)
                    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # what comes after the end
                        await received.send(message)

    def _parse(self, line: bytes) -> SessionMessage | None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            self._note(line.decode(errors="replace").rstrip("\r\n"))
            return None
        try:
            read_json(line.decode())
        except ValueError as error:
            self._note(f"{error}: {line.decode(errors='replace')}")
        return SessionMessage(message)

    def _judge(self, message: SessionMessage, line: bytes) -> None:
        """Note an answer that belongs to no request, and a request that the client has not offered to answer."""
        found, wrong = message.message, ""
        if isinstance(found, JSONRPCRequest):
            if _ASKED.get(found.method, "") not in {"", *self._offered}:
                wrong = "a request that the client does not offer to answer"
        elif not hasattr(found, "method") and found.id is not None:
            known = "" if found.id in self._asked else "an answer with an id that no request has"
            wrong = "an answer to a request that was answered before" if found.id in self._answered else known
            self._answered.add(found.id)
        if wrong:
            self._note(f"{wrong}: {line.decode(errors='replace').rstrip()}")

    async def _write(self, process: asyncio.subprocess.Process, sent: Sent, received: Received) -> None:
        assert process.stdin  # noqa: S101 - it is a pipe
        try:
            async with sent:
                async for message in sent:
                    if isinstance(message.message, JSONRPCRequest):
                        self._asked.add(message.message.id)
                        self._offered |= ((message.message.params or {}).get("capabilities") or {}).keys()
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(text.encode() + b"\n")
                    await process.stdin.drain()
                    self.unanswered -= not hasattr(message.message, "method")
        except (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            await _wait_for_end(process)
            await received.aclose()  # the session sees that the connection has ended

    def _note(self, line: str) -> None:
        self.noise.append(line[:LONGEST_NOISE])

    def take_noise(self) -> str:
        """Return a sentence about the lines that are no messages since the last call; empty if there are none."""
        new, self._reported = self.noise[self._reported :], len(self.noise)
        if not new:
            return ""
        more = f" and {len(new) - 1} more lines" if len(new) > 1 else ""
        shown = ascii(new[0])
        return f"the server writes to stdout what is no message of MCP: {shown}{more}; {advise(new[0])}"

    @property
    def ended(self) -> int | None:
        """The exit status of a process that has ended by itself; None while it runs."""
        return self._process.returncode if self._process and not self._stopped else None

    def last_error(self) -> str:
        """Return the last line of stderr, after the last that names a failure; empty if nobody keeps them."""
        if self.errors is None:
            return ""
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, size - 4096))
        lines = [line.strip() for line in self.errors.read().decode(errors="replace").strip().splitlines()]
        failures = [line for line in lines if _FAILURE.search(line)]
        return " … ".join(dict.fromkeys([*failures[-1:], *lines[-1:]]))

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        self._stopped = self._stopped or process.returncode is None
        if process.stdin:
            process.stdin.close()
        await _wait_for_end(process)
        self.kill()

    def kill(self) -> None:
        """Kill the process and all that it started. Nothing happens if they have ended."""
        if self._process is None:
            return
        self._stopped = self._stopped or self._process.returncode is None
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)


def advise(line: str) -> str:
    """Return what to do about a line that is no message: a log belongs elsewhere, and a message can be wrong."""
    if "does not offer to answer" in line:
        return "ask only what the client's capabilities name"
    return "send valid JSON-RPC 2.0" if re.search(r'"(jsonrpc|result)"', line) else "log to stderr instead"


async def _wait_for_end(process: asyncio.subprocess.Process) -> None:
    with anyio.move_on_after(_GRACE):
        while process.returncode is None:  # noqa: ASYNC110 - `wait` waits for all that hold the pipes
            await anyio.sleep(0.02)


@dataclass
class Exchange:
    """What was seen of an HTTP request and its answer. The challenge is `WWW-Authenticate`: the login it wants."""

    status: str = ""
    content_type: str = ""
    challenge: str = ""
    size: int = 0
    start: bytes = b""
    ended: bool = False
    has_session: bool = False

    @property
    def lost_session(self) -> bool:
        """Whether the server has ended the session, so that the client must begin another."""
        return self.has_session and self.status[:3] == "404"

    @property
    def wants_login(self) -> bool:
        """Whether the server refuses the request for lack of a login, or of one that may do more."""
        return self.status[:3] == "401" or (self.status[:3] == "403" and self.challenge != "")

    @property
    def is_message(self) -> bool:
        """Whether the server answered with a message of MCP, and wants neither a login nor a new session."""
        return b'"jsonrpc"' in self.start and not self.wants_login and not self.lost_session

    def __str__(self) -> str:
        """Return it as a part of a sentence."""
        if not self.status:
            return "there is no HTTP answer"
        ended = "the session has ended" if self.lost_session else ""
        parts = [f"HTTP {self.status}", self.challenge, ended or self.content_type]
        if self.content_type in _MESSAGES and self.status[0] == "2" and not (self.is_message and self.ended):
            parts.append(f"{self.size:,} bytes{'' if self.ended else ' without an end'}")
            parts[-1] += f": {self.start[:40].decode(errors='replace')!a}" if self.start else ""
        return ", ".join(filter(None, parts))


class _Body(httpx2.AsyncByteStream):
    """The body of an answer, unpacked. It is no longer than a client can hold."""

    def __init__(self, body: Any, exchange: Exchange, most: int, *, is_packed: bool) -> None:
        self._body = body
        self._exchange = exchange
        self._most = most
        self._unpack = zlib.decompressobj(wbits=47) if is_packed else None  # gzip, or deflate with its header

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = self._exchange
        async for packed in self._body:
            # a few bytes can be gigabytes
            part = self._unpack.decompress(packed, self._most - seen.size + 1) if self._unpack else packed
            seen.size += len(part)
            seen.start += part[: _SHOWN - len(seen.start)]
            if seen.size > self._most:
                raise httpx2.StreamError(f"more than {self._most:,} bytes")
            yield part
        if self._unpack and not self._unpack.eof:
            raise httpx2.StreamError("the packed answer is not complete")
        seen.ended = True

    async def aclose(self) -> None:
        await self._body.aclose()


class Remote(StreamableHttpTransport):
    """A server at a URL. `last` is the last request that wants an answer."""

    def __init__(self, url: str, headers: dict[str, str] | None = None, auth: Any = None) -> None:
        super().__init__(url, headers=headers, auth=auth, httpx_client_factory=self._create)
        self.last = Exchange()
        self.has_login = bool(headers or auth)
        self.largest = LONGEST_LINE

    def _create(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
        **_: Any,
    ) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(headers=headers, timeout=timeout or httpx2.Timeout(30.0, read=300.0), auth=auth)
        client.headers["accept-encoding"] = "identity"  # a few compressed bytes can be gigabytes
        client.event_hooks |= {"request": [self._begin], "response": [self._note]}
        return client

    async def _begin(self, request: httpx2.Request) -> None:
        if request.method != "POST" or "seen" in request.extensions:  # a redirect and a second try are the same request
            return
        # a login, a notification and an answer to the server are no such request
        if b'"jsonrpc"' in request.content and {"id", "method"} <= json.loads(request.content).keys():
            request.extensions["seen"] = self.last = Exchange(has_session="mcp-session-id" in request.headers)

    async def _note(self, response: httpx2.Response) -> None:
        seen = response.request.extensions.get("seen") or Exchange()
        seen.status = f"{response.status_code} {response.reason_phrase}".strip()
        seen.content_type = response.headers.get("content-type", "").partition(";")[0]
        seen.challenge = response.headers.get("www-authenticate", "")
        seen.size, seen.start, seen.ended = 0, b"", False
        encoding = response.headers.get("content-encoding", "").lower().replace("identity", "")
        is_packed = encoding in ("gzip", "x-gzip", "deflate")
        response.stream = _Body(response.stream, seen, self.largest, is_packed=is_packed)
        if encoding:
            seen.content_type += f" in {encoding}, which was not asked for"
            del response.headers["content-encoding"]
        if encoding and not is_packed:
            raise httpx2.StreamError(seen.content_type)


def describe_transport(server: Any) -> str:
    """Return what a transport knows about a failure, as the end of a sentence; empty if it knows nothing."""
    if isinstance(server, Remote):
        return f" ({server.last}{'; give it a token or headers' if server.last.wants_login else ''})"
    if isinstance(server, Command):
        ended = "" if server.ended is None else f" (the process has ended with status {server.ended})"
        ended += "; it does not read the answers to its requests" if server.unanswered > MOST_UNANSWERED else ""
        noise = server.take_noise()
        if line := server.last_error():
            ended += f"; the last line of stderr: {line}"
        return ended + (f"; {noise}" if noise else "")
    return ""

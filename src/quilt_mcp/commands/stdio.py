"""The server over stdio. It does for clients what the MCP library does not.

- A request with text that is not valid Unicode, or an id that is none, gets an error. The library replaces characters,
  or sends no answer.
- A line that is no message gets an error and a log line. The library drops it.
- U+2028 and U+2029 in answers are escaped: some clients end a line there.
- Requests in progress when stdin ends are answered, as with `printf ... | quilt-mcp serve`. The library cancels them.
- A client that asks for `server/discover` can still send `initialize`. The library keeps a connection in the protocol
  of its first request, so the second request starts another connection.

The library uses `sys.stdin.buffer` and `sys.stdout.buffer` as they are if they have no descriptor.
tests/contract/test_invalid_unicode.py fails if that changes.
"""

import io
import json
import logging
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from functools import partial
from threading import Condition, Lock

from fastmcp import FastMCP
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json
from typing_extensions import Buffer

from quilt_mcp.app.message_text import Refusal, find_refusal
from quilt_mcp.commands.startup import read_own_settings, start_server
from quilt_mcp.console.process import run_stoppable
from quilt_mcp.core.answers import escape_separators
from quilt_mcp.demo.late import LateWorld
from quilt_mcp.http.audit import auditing, open_audit_log

ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(?:result|error)"')
CHUNK = 65_536
POLL_SECONDS = 0.05
WITHOUT_DATA = {"initialize", "ping", "prompts/list", "resources/templates/list", "server/discover", "tools/list"}
"""The methods that are answered before a demo world is built."""

logger = logging.getLogger(__name__)


def serve_stdio(demo: str | None = None) -> int:
    """Serve until the client disconnects, or Ctrl-C or SIGTERM. Return the exit status."""
    settings = read_own_settings()
    client = take_client()
    with start_server(settings, demo, is_late=True) as (mcp, world):
        late = world if isinstance(world, LateWorld) else None
        log = mcp.app.part(open_audit_log)
        with auditing(log, mcp, mcp.manager, "stdio") if log.is_on else nullcontext():
            run_stdio(mcp, client, seconds_to_finish=settings.deadline_seconds, world=late)
        return client.status if client else 0


class Client:
    """The streams of the client. Descriptors 0 and 1 are replaced by the null device and stderr.

    So child processes do not read the client's messages, and what is printed does not reach the client.
    """

    def __init__(self) -> None:
        self._input, self._output = os.dup(0), os.dup(1)
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - it has no other name
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        self._lock = Lock()
        self.status = 0
        """The exit status of the process: 1 if answers cannot be written, such as to a full disk."""

    def read_lines(self) -> Iterator[bytes]:
        """Yield the lines that the client sends, without their line breaks."""
        incomplete = bytearray()
        while chunk := self._read():
            *lines, tail = chunk.split(b"\n")
            for line in lines:
                yield bytes(incomplete) + line
                incomplete.clear()
            incomplete += tail
        if incomplete:
            yield bytes(incomplete)

    def _read(self) -> bytes:
        # a file object would have a lock, which Python would wait for at exit while a thread still reads
        while True:
            with suppress(BlockingIOError):  # another program that has the same stream can set this
                return os.read(self._input, CHUNK)
            select.select((self._input,), (), ())

    def write(self, content: bytes) -> None:
        """Send whole lines, from any thread."""
        left = memoryview(content)
        with self._lock:
            while left:
                try:
                    left = left[os.write(self._output, left) :]
                except BlockingIOError:
                    select.select((), (self._output,), ())
                except OSError as error:
                    if not isinstance(error, BrokenPipeError):
                        self.status = 1
                        logger.error("stdout: %s", error.strerror)  # noqa: TRY400 - the message is the reason
                    raise BrokenPipeError from error

    def is_there(self) -> bool:
        """Return whether the client can receive answers. On Windows, only a write shows that it cannot."""
        if sys.platform == "win32":
            return True
        poll = select.poll()
        poll.register(self._output, 0)
        # macOS reports POLLNVAL for a terminal
        return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def take_client() -> Client | None:
    """Take the standard streams of this process; return None if they are not files, as in a program that embeds it."""
    try:
        usual = [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)] == [0, 1, 2]
    except (io.UnsupportedOperation, AttributeError):  # replaced, or closed
        return None
    return Client() if usual else None


class _Requests:
    """The requests that have no answer yet."""

    def __init__(self) -> None:
        self._awaited: set[str] = set()
        self._changed = Condition()  # one thread reads messages, others answer them

    def begin(self, message: JSONRPCMessage) -> None:
        with self._changed:
            if isinstance(message, JSONRPCRequest):
                self._awaited.add(str(message.id))
            elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                self._awaited.discard(str((message.params or {}).get("requestId")))

    def end(self, line: bytes) -> None:
        if answer := ANSWER.match(line):
            with self._changed:
                self._awaited.discard(str(json.loads(answer[1])))
                self._changed.notify_all()

    @property
    def has_unanswered(self) -> bool:
        return bool(self._awaited)

    def wait(self, client: Client, *, seconds: float) -> None:
        """Wait until all requests are answered, for at most this time and while the client is there."""
        until = time.monotonic() + seconds
        with self._changed:
            while self._awaited and time.monotonic() < until and client.is_there():
                self._changed.wait(POLL_SECONDS)


def run_stdio(mcp: FastMCP, client: Client | None, *, seconds_to_finish: float, world: LateWorld | None = None) -> None:
    """Serve until stdin ends and the requests in progress are answered, which may take the given time.

    A world is built after the first answer, and before the first request that reads. Without a client, `sys.stdin` and
    `sys.stdout` are used as they are.
    """
    run = partial(run_stoppable, lambda: mcp.run(transport="stdio", show_banner=False))
    logger.info("Starting MCP server 'quilt-mcp' with transport 'stdio'")
    try:
        if client is None:
            if world:
                world.build()
            run()
            return
        requests = _Requests()
        messages = _Messages(client, requests, seconds_to_finish=seconds_to_finish, world=world)
        sys.stdin = io.TextIOWrapper(messages, encoding="utf-8")
        sys.stdout = _Output(_Answers(client, requests, world), encoding="utf-8")
        while messages.is_open:
            run(check=messages.check_client)
    except* BrokenPipeError:
        logger.info("the client disconnected before it received all responses")


def _parse(line: bytes) -> JSONRPCMessage | Refusal:
    """Parse a message, as the MCP library does; return why a line is none."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        if error.errors(include_url=False, include_context=False, include_input=False)[0]["type"] == "json_invalid":
            return Refusal(PARSE_ERROR, "The line is not JSON. Send each message as one line of JSON, without headers.")
    found = from_json(line)
    request_id = found.get("id") if isinstance(found, dict) and "method" in found else None
    text = "The line is no message of JSON-RPC 2.0. Send an object with `jsonrpc`, `method` and, for a request, `id`."
    return Refusal(INVALID_REQUEST, text, request_id=request_id if isinstance(request_id, str | int) else None)


class _Messages(io.BufferedIOBase):
    """The messages that the MCP library reads. They end at the end of each of its connections."""

    def __init__(
        self, client: Client, requests: _Requests, *, seconds_to_finish: float, world: LateWorld | None
    ) -> None:
        self._client = client
        self._world = world
        self._requests = requests
        self._seconds_to_finish = seconds_to_finish
        self._chunks = self._read_chunks()
        self._has_discovered: bool | None = None  # None before the first request, False after any other one
        self.is_open = True

    def readable(self) -> bool:
        return True

    def read1(self, _: int = -1) -> bytes:
        return next(self._chunks, b"")

    def check_client(self) -> None:
        """Check that the client reads: a thread that waits for it cannot be stopped.

        Raises:
            BrokenPipeError: it has closed its stream, or has not read all responses in their time.
        """
        if not self._client.is_there() or (not self.is_open and self._requests.has_unanswered):
            raise BrokenPipeError

    def _read_chunks(self) -> Iterator[bytes]:
        for line in self._client.read_lines():
            if line.isspace() or not line:
                continue
            message = find_refusal(line) or _parse(line)
            if isinstance(message, Refusal):
                logger.warning("a message is refused: %s %s", message.message, message.details or "")
                if message.is_request:
                    self._client.write(message.to_error() + b"\n")
                continue
            if self._starts_connection(message):
                self._requests.wait(self._client, seconds=self._seconds_to_finish)
                yield b""
            if self._world and isinstance(message, JSONRPCRequest) and message.method not in WITHOUT_DATA:
                self._world.build()
            self._requests.begin(message)
            yield line + b"\n"
        self._requests.wait(self._client, seconds=self._seconds_to_finish)
        self.is_open = False

    def _starts_connection(self, message: JSONRPCMessage) -> bool:
        """Return whether a message is the handshake of a client that has only asked for `server/discover`."""
        if not isinstance(message, JSONRPCRequest):
            return False
        starts = bool(self._has_discovered) and message.method == "initialize"
        self._has_discovered = message.method == "server/discover" and self._has_discovered is not False
        return starts


class _Answers(io.BufferedIOBase):
    """Sends the lines that the MCP library writes."""

    name = "stdout"

    def __init__(self, client: Client, requests: _Requests, world: LateWorld | None) -> None:
        self._client = client
        self._requests = requests
        self._world = world

    def writable(self) -> bool:
        return True

    def write(self, lines: Buffer, /) -> int:
        content = bytes(lines)
        try:
            self._client.write(escape_separators(content))
        finally:
            for line in content.split(b"\n"):
                self._requests.end(line)
        if self._world:
            self._world.start()
        return len(content)


class _Output(io.TextIOWrapper):
    """Text goes to stderr. Only the MCP library writes to `buffer`, which goes to the client."""

    def write(self, text: str, /) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

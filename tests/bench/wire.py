"""A minimal JSON-RPC client over stdio and HTTP. It takes almost no time, so ratios are those of the servers.

Answers are bytes and are not parsed, except by `parse_result` before the measurement.
"""

import asyncio
import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

LEGACY, MODERN = "2025-11-25", "2026-07-28"
PROTOCOLS = {"legacy": LEGACY, "modern": MODERN}
"""The protocol version with a handshake, and the one without."""
_CLIENT = {"name": "bench", "version": "1"}
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_SESSION = re.compile(rb"mcp-session-id: *(\S+)", re.IGNORECASE)


class WrongAnswerError(Exception):
    """The answer is not the one that the benchmark needs."""


class Call(NamedTuple):
    """A request that can be sent repeatedly, each time with another id."""

    method: str
    name: str
    rest: bytes

    def message(self, number: int) -> bytes:
        """Return the JSON text with this id."""
        return b'{"jsonrpc":"2.0","id":%d,%s' % (number, self.rest)


def call(protocol: str, method: str, parameters: Mapping[str, Any] | None = None) -> Call:
    """Create a request of this protocol, "legacy" or "modern"."""
    given = dict(parameters or {}) | ({"_meta": _META} if protocol == "modern" else {})
    rest = json.dumps({"method": method, "params": given}, separators=(",", ":")).encode()[1:]
    return Call(method, str(given.get("name") or given.get("uri") or ""), rest)


def read(protocol: str, uri: str) -> Call:
    """`resources/read`."""
    return call(protocol, "resources/read", {"uri": uri})


def tool(protocol: str, name: str, **arguments: Any) -> Call:
    """`tools/call`."""
    return call(protocol, "tools/call", {"name": name, "arguments": arguments})


def parse_result(answer: bytes) -> dict[str, Any]:
    """Return the result in an answer.

    Raises:
        WrongAnswerError: it is an error, of the protocol or of a tool.
    """
    parsed = json.loads(answer)
    result: dict[str, Any] = parsed.get("result") or {}
    if not result or result.get("isError"):
        raise WrongAnswerError(answer[:2000].decode(errors="replace"))
    return result


_INITIALIZE = call("legacy", "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT})
_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


class StdioServer:
    """A server process on stdio. It takes one request at a time."""

    def __init__(self, command: Sequence[str], protocol: str, *, environment: Mapping[str, str], log: Path) -> None:
        self.protocol = protocol
        self._number = 0
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, env=dict(environment)
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def initialize(self) -> None:
        """Complete the handshake, if the protocol has one."""
        if self.protocol == "legacy":
            parse_result(self.send(_INITIALIZE))
            self._write(_INITIALIZED)

    def send(self, request: Call) -> bytes:
        """Send a request and return the line with the answer.

        Raises:
            WrongAnswerError: the process has ended.
        """
        self._number += 1
        expected = b'"id":%d,' % self._number
        self._write(request.message(self._number))
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if expected in line[:60]:
                return line
        raise WrongAnswerError(f"the server ended:\n{_end_of(self._log)}")

    def _write(self, message: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(message + b"\n")
        self.process.stdin.flush()


class HTTPConnection:
    """A persistent connection to a server on loopback. It takes one request at a time."""

    def __init__(self, port: int, protocol: str) -> None:
        self.protocol = protocol
        self._port = port
        self._number = 0
        self._session = b""

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        if self.protocol == "legacy":
            head, body = await self._exchange("initialize", "", _INITIALIZE.message(0))
            parse_result(_remove_framing(body))
            if found := _SESSION.search(head):
                self._session = b"Mcp-Session-Id: %s\r\n" % found[1]
            await self._exchange("notifications/initialized", "", _INITIALIZED)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def ask(self, request: Call) -> bytes:
        """Send a request and return the JSON text of the answer.

        Raises:
            WrongAnswerError: the status is not 200.
        """
        self._number += 1
        head, body = await self._exchange(request.method, request.name, request.message(self._number))
        if not head.startswith(b"HTTP/1.1 200"):
            raise WrongAnswerError((head + body)[:2000].decode(errors="replace"))
        return _remove_framing(body)

    async def _exchange(self, method: str, name: str, message: bytes) -> tuple[bytes, bytes]:
        routing = f"Mcp-Method: {method}\r\n" + (f"Mcp-Name: {name}\r\n" if name else "")
        self._writer.write(
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
            b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            b"MCP-Protocol-Version: %s\r\n%s%sContent-Length: %d\r\n\r\n"
            % (
                self._port,
                PROTOCOLS[self.protocol].encode(),
                self._session,
                routing.encode() if self.protocol == "modern" else b"",
                len(message),
            )
            + message
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        if length := _LENGTH.search(head):
            return head, await self._reader.readexactly(int(length[1]))
        return head, await self._chunks() if b"chunked" in head.lower() else b""

    async def _chunks(self) -> bytes:
        parts = []
        while size := int(await self._reader.readline(), 16):
            parts.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readexactly(2)
        return b"".join(parts)


def _remove_framing(body: bytes) -> bytes:
    """Return the JSON text of an answer, also from the last event of a stream."""
    if body.startswith(b"{"):
        return body
    _, found, data = body.rpartition(b"data: ")
    return data.strip() if found else body


def _end_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-2000:]

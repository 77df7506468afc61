"""A server over HTTP without an SDK or a framework. Each of its faults is one that only raw bytes can have."""

import asyncio
import gzip
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from tests.raw_server import METHODS


def _head(status: str, headers: str = "", body: bytes = b"") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n".encode() + body


JSON = "content-type: application/json\r\n"
STREAM = _head("200 OK", "content-type: text/event-stream\r\n")
BEARER = 'www-authenticate: Bearer realm="shop"\r\n'
REFUSAL = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "no"}}'
ENDED = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}'
ONCE = "ends the first session"
PACKS = "packs all answers"
SCOPE = 'www-authenticate: Bearer error="insufficient_scope", scope="files:read"\r\n'


class Fault(NamedTuple):
    """What is sent in place of an answer: a text, then a piece again and again. Then the server waits, or closes."""

    text: bytes = b""
    piece: bytes = b""
    most: int = 1 << 40
    waits: bool = False


FAULTS = {
    "never answers": Fault(waits=True),
    "answers only the head": Fault(_head("200 OK", JSON), waits=True),
    "closes without an answer": Fault(),
    "closes in the middle": Fault(_head("200 OK", JSON + "content-length: 100\r\n", b'{"jsonrpc"')),
    "closes the stream": Fault(STREAM + b'data: {"jsonrpc"'),
    "has a body without end": Fault(_head("200 OK", JSON), b"x" * 65_536),
    "has a stream without end": Fault(STREAM, b"data: {}\n\n" * 1_000),
    "has comments without end": Fault(STREAM, b": \n\n" * 1_000),
    "has a long line": Fault(STREAM + b"data: ", b"x" * 65_536, 100_000_000),
    "is compressed": Fault(_head("200 OK", JSON + "content-encoding: gzip\r\n", b"\x1f\x8b")),
    "ends in gzip": Fault(_head("200 OK", JSON + "content-encoding: gzip\r\n", gzip.compress(b"[]")[:-4])),
    "is a bomb": Fault(_head("200 OK", JSON + "content-encoding: gzip\r\n", gzip.compress(b" " * 100_000_000))),
    "is in another packing": Fault(_head("200 OK", JSON + "content-encoding: br\r\n", b"\x1f\x8b")),
    "ends the session": Fault(_head("404 Not Found", JSON, ENDED)),
    ONCE: Fault(_head("404 Not Found", JSON, ENDED)),
    "is no HTTP": Fault(b"220 mail.example.com ESMTP\r\n"),
    "is a page": Fault(_head("200 OK", "content-type: text/html; charset=utf-8\r\n", b"<title>Welcome</title>")),
    "is no JSON": Fault(_head("200 OK", JSON, b"{]")),
    "redirects for ever": Fault(_head("307 Temporary Redirect", "location: /mcp\r\n")),
    "redirects elsewhere": Fault(_head("307 Temporary Redirect", "location: http://127.0.0.1:9/other\r\n")),
    "wants a login": Fault(_head("401 Unauthorized", BEARER)),
    "wants a token": Fault(_head("401 Unauthorized", JSON, REFUSAL)),
    "wants another scope": Fault(_head("403 Forbidden", SCOPE)),
    "fails": Fault(_head("503 Service Unavailable")),
}


ASKS_FIRST = "asks before it answers"


class RawServer:
    """Answers as `raw_server` does, but requests of the method `when`, or all, with a fault."""

    def __init__(self, fault: str, when: str, refusal: dict[str, Any]) -> None:
        self._fault = fault
        self._when = when
        self._error = refusal
        self._is_answered = asyncio.Event()
        self._left = 1 if fault == ONCE else sys.maxsize

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and close the connection."""
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = [line for line in head.lower().splitlines() if line.startswith("content-length:")]
            body = await reader.readexactly(int(length[0].split(":")[1])) if length else b""
            request = json.loads(body) if body.startswith(b"{") else {}
            if head.startswith("GET ") and self._when != "GET":
                writer.write(_head("405 Method Not Allowed"))
            elif self._fault == ASKS_FIRST and request.get("method") == self._when:
                self._is_answered.clear()
                writer.write(STREAM + b'data: {"jsonrpc": "2.0", "id": "x", "method": "ping"}\n\n')
                await self._is_answered.wait()
                writer.write(b"data: %b\n\n" % _answer(request, self._error).partition(b"\r\n\r\n")[2])
            elif "result" in request:
                self._is_answered.set()
                writer.write(_head("202 Accepted"))
            elif self._fault == PACKS:
                first, separator, answer = _answer(request, self._error).partition(b"\r\n\r\n")
                writer.write(first + (b"\r\ncontent-encoding: gzip" if answer else b"") + separator)
                writer.write(gzip.compress(answer) if answer else b"")
            elif self._fault and self._left and self._when in ("", request.get("method", "GET")):
                await self._fail(writer)
            else:
                writer.write(_answer(request, self._error))
        writer.close()

    async def _fail(self, writer: asyncio.StreamWriter) -> None:
        self._left -= 1
        fault = FAULTS[self._fault]
        writer.write(fault.text)
        for _ in range(fault.most // len(fault.piece) if fault.piece else 0):
            writer.write(fault.piece)
            await writer.drain()
        await writer.drain()
        if fault.waits:
            await asyncio.sleep(600)


def _answer(request: dict[str, Any], refusal: dict[str, Any]) -> bytes:
    if not {"id", "method"} <= request.keys():
        return _head("202 Accepted")
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
    method = METHODS.get(request["method"])
    try:
        if refusal and request["method"] == "resources/read":
            answer["error"] = refusal
        elif method is None:
            answer["error"] = {"code": -32601, "message": "no such method"}
        else:
            answer["result"] = method(request.get("params") or {})
    except LookupError as error:
        answer["error"] = {"code": -32002, "message": f"no resource {error}"}
    session = "mcp-session-id: s1\r\n" if request["method"] == "initialize" else ""
    return _head("200 OK", JSON + session, json.dumps(answer).encode())


@contextmanager
def serve_raw(fault: str = "", when: str = "", refusal: dict[str, Any] | None = None) -> Iterator[str]:
    """Serve in a thread, and yield the URL. Requests of a method, or all, are answered with a fault.

    A refusal is the error that answers each read.
    """
    raw, loop = RawServer(fault, when, refusal or {}), asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(raw.serve, "127.0.0.1", 0))
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def stop() -> None:
        server.close()
        tasks = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield url
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

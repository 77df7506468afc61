"""A small HTTP/1.1 server on 127.0.0.1 that can be stopped at once, and then leaves no socket and no thread behind."""

import json
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

JOIN_SECONDS = 5


class Request(NamedTuple):
    """A request, with those of its headers that tell who asks for what."""

    method: str
    path: str
    bearer: str | None
    target: str | None
    """The operation, in AWS's JSON protocol."""
    body: bytes
    signature: str = ""
    """Of AWS: the whole Authorization header, which names the access key."""
    aws_token: str | None = None
    """Of AWS: the session's token, which belongs to a temporary access key."""

    @property
    def form(self) -> dict[str, str]:
        """The body, as a form."""
        return dict(parse_qsl(self.body.decode()))


class Answer(NamedTuple):
    """A status and a body: bytes go out as they are, everything else as JSON."""

    status: int
    body: Any


class LoopbackServer(ThreadingHTTPServer):
    """Serves each connection in a thread of its own; `receive` answers the requests."""

    daemon_threads = True

    def __init__(self, receive: Callable[[Request], Answer], port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.receive = receive
        self.port: int = self.server_port
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        # The short interval is how long stop() may have to wait for the loop.
        self._loop = threading.Thread(target=self.serve_forever, args=(0.02,), name="demo-stack", daemon=True)

    def start(self) -> None:
        """Serve, in a thread."""
        self._loop.start()

    def stop(self) -> None:
        """Stop serving and cut every connection. Stopping twice does nothing."""
        if self._loop.is_alive():
            self.shutdown()
            self._loop.join()
        self.server_close()
        with self._lock:
            connections = dict(self._connections)
        for connection, thread in connections.items():
            with suppress(OSError):  # the other side was first
                connection.shutdown(socket.SHUT_RDWR)
            thread.join(JOIN_SECONDS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, which `stop` can find; the base class keeps no list of daemon threads."""
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        with self._lock:
            self._connections[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, at its end."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a failure on standard error, unless it is only that the client has gone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # with it, each answer on a kept connection waits for a delayed ACK: 40 ms

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name for it
        """Log nothing: standard error belongs to the program."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        authorization = self.headers.get("Authorization", "")
        scheme, _, token = authorization.partition(" ")
        bearer, target = token if scheme == "Bearer" else None, self.headers.get("X-Amz-Target")
        aws_token = self.headers.get("X-Amz-Security-Token")
        request = Request(self.command, urlsplit(self.path).path, bearer, target, body, authorization, aws_token)
        status, content = cast("LoopbackServer", self.server).receive(request)
        encoded = content if isinstance(content, bytes) else json.dumps(content).encode()
        with suppress(ConnectionError):  # a client that has stopped waiting
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(encoded)

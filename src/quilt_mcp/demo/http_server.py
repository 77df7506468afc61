"""A small HTTP/1.1 server on 127.0.0.1. It stops immediately, and leaves no socket and no thread.

With a certificate, it is also the proxy through which clients reach the hosts of the certificate, and it serves them
itself. The certificate is one for all hosts of the demo, from an authority that is thrown away. The addresses are the
same in each run, so that answers are too.
"""

import json
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

import trustme


class Addresses(NamedTuple):
    """Where the parts of a Quilt stack are."""

    catalog: str
    registry: str
    s3_proxy: str

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(get_host(url) for url in self)


def get_host(url: str) -> str:
    return urlsplit(url).hostname or ""


ACME_HOSTS = Addresses(
    "https://quilt.acme.example.com",
    "https://quilt-registry.acme.example.com",
    "https://quilt-s3-proxy.acme.example.com",
)

NORTHWIND_REGISTRY = "https://quilt-registry.northwind.example.org"
"""The stack of another company. It records what it is sent, and does nothing else."""

FOREIGN = "https://quilt-registry.elsewhere.example.net"
"""A host on another domain. It records what it is sent, and is not a stack."""


class Certificate(NamedTuple):
    """The hosts that a server can prove to be, and what a client needs to believe it."""

    hosts: frozenset[str]
    context: ssl.SSLContext
    authority: bytes
    """The certificate of the authority, in PEM."""


@cache
def make_certificate() -> Certificate:
    """Make the certificate for the demo's hosts. A process makes it once."""
    hosts = ACME_HOSTS.hosts | {get_host(url) for url in (FOREIGN, NORTHWIND_REGISTRY)}
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*sorted(hosts)).configure_cert(context)
    return Certificate(hosts, context, authority.cert_pem.bytes())


JOIN_SECONDS = 5

Connection = socket.socket | tuple[bytes, socket.socket]
"""What the base class calls a request. It is always a socket here; datagrams would be tuples."""


class Request(NamedTuple):
    """A request, with the headers that identify the caller and the operation."""

    method: str
    path: str
    bearer: str | None
    target: str | None
    """The operation, in the JSON protocol of AWS."""
    body: bytes
    signature: str = ""
    """The whole Authorization header. In AWS it contains the access key."""
    aws_token: str | None = None
    """The session token of a temporary access key of AWS."""
    host: str = ""
    """The name of the host that the client asked, without the port."""

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))


class Answer(NamedTuple):
    """A status and a body. Bytes are sent unchanged, those of an iterator one after another, all else as JSON."""

    status: int
    body: object
    headers: tuple[tuple[str, str], ...] = ()


class LoopbackServer(ThreadingHTTPServer):
    """Serves each connection in its own thread. `receive` returns the responses."""

    daemon_threads = True

    def __init__(self, receive: Callable[[Request], Answer], port: int, certificate: Certificate | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.receive = receive
        self.certificate = certificate
        self._stopped = False
        self.port: int = self.server_port
        self._connections: set[socket.socket] = set()
        self._handlers: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._loop = threading.Thread(target=self._serve, name="demo-stack", daemon=True)

    def start(self) -> None:
        self._loop.start()

    def _serve(self) -> None:
        while not self._stopped:
            self.handle_request()

    def stop(self) -> None:
        """Stop serving and close every connection. Stopping twice does nothing."""
        with self._lock:
            self._stopped = True
        if self._loop.is_alive():
            with suppress(OSError):  # the loop waits for a connection
                socket.create_connection(("127.0.0.1", self.port)).close()
            self._loop.join(JOIN_SECONDS)
        self.server_close()
        with self._lock:
            connections = set(self._connections)
        for connection in connections:
            with suppress(OSError):  # the client has closed it
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # TLS would change the state that a thread reads
        for thread in self._handlers:  # also those that have closed their connection and are about to end
            thread.join(JOIN_SECONDS)

    def process_request(self, request: Connection, client_address: object) -> None:
        """Serve a connection in a thread that `stop` can find. The base class keeps no list of daemon threads."""
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        with self._lock:
            self._connections.add(cast("socket.socket", request))
        thread.start()
        self._handlers = [*(one for one in self._handlers if one.is_alive()), thread]

    def shutdown_request(self, request: Connection) -> None:
        with self._lock:
            self._connections.discard(cast("socket.socket", request))
        super().shutdown_request(request)

    @contextmanager
    def secure(self, connection: socket.socket, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
        """Use TLS on a connection, which `stop` can still find and close."""
        with context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as secured:
            with self._lock:
                if self._stopped:
                    raise ConnectionAbortedError("the server has been stopped")
                self._connections.add(secured)
            try:
                secured.do_handshake()
                yield secured
            finally:
                with self._lock:
                    self._connections.discard(secured)

    def handle_error(self, request: Connection, client_address: object) -> None:
        """Write a failure to standard error.

        It is none if the client has disconnected or does not trust the certificate, or if `stop` closes connections.
        """
        if not (self._stopped or isinstance(sys.exception(), ConnectionError | ssl.SSLError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise each response on a kept connection waits 40 ms for a delayed ACK

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
        """Log nothing. Standard error belongs to the program."""

    def do_CONNECT(self) -> None:
        """Open a tunnel to a host of the certificate, and serve that host in it."""
        server = cast("LoopbackServer", self.server)
        self.close_connection = True
        if server.certificate is None or self.path.rpartition(":")[0] not in server.certificate.hosts:
            self.send_error(HTTPStatus.FORBIDDEN, "This proxy reaches the hosts of the demo only")
            return
        self.send_response(HTTPStatus.OK)
        self.end_headers()
        with server.secure(self.connection, server.certificate.context) as secured:
            _Handler(secured, self.client_address, server)

    def _answer(self) -> None:
        if sys.platform == "linux":  # a client with Nagle's algorithm sends the body after this acknowledgement
            with suppress(OSError):  # the connection is closed
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        authorization = self.headers.get("Authorization", "")
        scheme, _, token = authorization.partition(" ")
        bearer, target = token if scheme == "Bearer" else None, self.headers.get("X-Amz-Target")
        aws_token = self.headers.get("X-Amz-Security-Token")
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
        path = urlsplit(self.path).path
        request = Request(self.command, path, bearer, target, body, authorization, aws_token, host)
        with suppress(ConnectionError, ssl.SSLError):  # the client has disconnected
            self._send(cast("LoopbackServer", self.server).receive(request))

    do_GET = do_POST = do_PUT = do_HEAD = _answer  # noqa: N815 - the names that the base class calls

    def _send(self, answer: Answer) -> None:
        content = answer.body
        self.send_response(answer.status)
        if "Content-Type" not in dict(answer.headers):
            self.send_header("Content-Type", "application/json")
        for name, value in answer.headers:
            self.send_header(name, value)
        if isinstance(content, Iterator):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in content:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.write(b"0\r\n\r\n")
            return
        encoded = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(encoded)

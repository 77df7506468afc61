"""A server that sends given bytes, such as a redirect or a body without an end."""

import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

RECEIVE_BYTES = 65_536

Respond = Callable[[bytes], Iterable[bytes]]
"""Makes the parts of a response from the request, as it arrived. Each connection serves one request."""


class RawServer:
    """The address of a server, and what it received.

    Attributes:
        url: its address.
        requests: every request as it arrived, in the order of arrival.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.requests: list[bytes] = []


@contextmanager
def raw_server(respond: Respond) -> Iterator[RawServer]:
    """Serve until the context ends. A response that has no end stops when its client closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = RawServer(listener)
        threads: list[threading.Thread] = []

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                request = _receive(connection)
                server.requests.append(request)
                for part in respond(request):
                    connection.sendall(part)

        def accept() -> None:
            with suppress(OSError):  # the listener is closed
                while True:
                    connection, _ = listener.accept()
                    threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
                    threads[-1].start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield server
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def _receive(connection: socket.socket) -> bytes:
    """Return a whole request. Its head and its body can arrive one after the other."""
    request, chunk = b"", connection.recv(RECEIVE_BYTES)
    while chunk:
        request += chunk
        head, end, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if end and len(body) >= (int(length[1]) if length else 0):
            break
        chunk = connection.recv(RECEIVE_BYTES)
    return request


def make_response(status: str, body: bytes, *headers: str) -> bytes:
    """Return a whole response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body

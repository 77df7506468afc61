"""Listening sockets."""

import errno
import os
import socket
import sys
from ipaddress import ip_address
from typing import Any

BACKLOG = 2048
HAS_WORKERS = os.name == "posix"
"""Whether a process can be given a socket to listen on."""
HAS_OWN_QUEUES = sys.platform == "linux"
"""Whether sockets that share a port get their connections in turn; elsewhere the last one gets all."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket of this process alone.

    Raises:
        OSError: the address cannot be listened on.
    """
    return _bound(host, port)


class SharedPort:
    """A port on which several sockets listen; on Linux the kernel gives each connection to one of them.

    Raises:
        OSError: the address cannot be listened on, or another process does.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        alone = _bound(host, port)  # it fails where another process listens: shared ones would join that
        self.port: int = alone.getsockname()[1]
        self._one = None if HAS_OWN_QUEUES else alone
        if HAS_OWN_QUEUES:
            alone.close()

    def close(self) -> None:
        """Keep the port no longer; those who listen on it go on."""
        if self._one:
            self._one.close()

    def open(self) -> socket.socket:
        """One more listening socket; elsewhere than on Linux, one more handle of the same.

        Raises:
            OSError: as for the class.
        """
        return self._one.dup() if self._one else _bound(self._host, self.port, is_shared=True)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server on this host.

    Raises:
        OSError: the name is not known.
    """
    return ip_address(_resolve(host, 0)[4][0]).is_loopback


def _bound(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    family, kind, protocol, _, address = _resolve(host, port)
    # The protocol is TCP by number: without it asyncio leaves Nagle's algorithm on, and answers wait for 40 ms.
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # Linux hands it on to each connection
        listener.bind(address)
        listener.listen(BACKLOG)  # from here on clients may connect; they wait until the server has started
    except OSError:
        listener.close()
        raise
    return listener


def _resolve(host: str, port: int) -> Any:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)[0]
    except UnicodeError as error:  # a part of it is empty or too long, which no name server is asked about
        raise OSError(errno.EINVAL, "not a host's name") from error

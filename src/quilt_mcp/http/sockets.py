"""Listening sockets."""

import errno
import os
import socket
from ipaddress import ip_address
from typing import NamedTuple

BACKLOG = 256
"""How many connections can wait until they are accepted. Those that wait longer than their client are useless."""


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Clients can connect from then on; they wait until a server accepts.

    Raises:
        OSError: the address cannot be used.
    """
    found = _resolve(host, port)
    # With the protocol number, asyncio turns off Nagle's algorithm. With 0 it does not, and answers wait for 40 ms.
    listener = socket.socket(found.family, found.kind, found.protocol)
    try:
        if os.name == "posix":  # on Windows this option lets two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # on Linux, connections inherit it
        listener.bind(found.address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on this host.

    Raises:
        OSError: the name cannot be resolved.
    """
    return ip_address(str(_resolve(host, 0).address[0])).is_loopback


class _Address(NamedTuple):
    family: int
    kind: int
    protocol: int
    address: tuple[str | int, ...] | tuple[int, bytes]


def _resolve(host: str, port: int) -> _Address:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except UnicodeError as error:  # an empty or too long label, which is never looked up
        raise OSError(errno.EINVAL, "not a valid host name") from error
    family, kind, protocol, _, address = found[0]
    return _Address(family, kind, protocol, address)

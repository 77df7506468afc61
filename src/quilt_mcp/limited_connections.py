"""Connections on which the read timeout is for an answer as a whole.

A socket's own timeout begins anew with every byte, so that an answer which is sent a byte at a time never ends.
"""

import io
import time
from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

SHORTEST = 0.001  # a timeout of 0 would be none at all: the socket would no longer wait


class _LimitedReader(io.RawIOBase):
    """Reads from a socket for as long as its timeout, counted once from here on."""

    def __init__(self, connected: Any, raw: io.RawIOBase) -> None:
        self._socket, self._raw = connected, raw
        limit = connected.gettimeout()
        self._until = None if limit is None else time.monotonic() + limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._until is not None:
            left = self._until - time.monotonic()
            if left <= 0:
                raise TimeoutError("the answer has not come as a whole in time")
            self._socket.settimeout(max(left, SHORTEST))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _LimitedSocket:
    """A connected socket whose files, one for each answer, have a limit as a whole."""

    def __init__(self, connected: Any) -> None:
        self._socket = connected

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def makefile(self, mode: str, *_: Any, **__: Any) -> io.BufferedReader:
        """What http.client reads an answer from; it asks for nothing but `rb`."""
        return io.BufferedReader(_LimitedReader(self._socket, self._socket.makefile(mode, buffering=0)))


class _LimitedHTTPConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = _LimitedSocket(self.sock)


class _LimitedHTTPSConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock: Any = _LimitedSocket(self.sock)


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _LimitedHTTPConnection


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _LimitedHTTPSConnection


POOLS = {"http": _HTTPPool, "https": _HTTPSPool}
"""What a urllib3.PoolManager takes as its `pool_classes_by_scheme`."""

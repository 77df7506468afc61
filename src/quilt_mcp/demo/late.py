"""A demo world that a server builds after its first answer, or before the first request that reads.

Its libraries and data cost as much as the server itself, and clients wait only some seconds for the first answer.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from threading import Lock, Thread

from quilt_mcp.app.domain import Domain
from quilt_mcp.demo.place import open_place


class LateWorld:
    """The world. Until it is built, the process is in its place, with its settings.

    Args:
        name: one of the plans.
        domains: write their data into the world.
        now: the time of the demo.
        directory: that of the place.
    """

    def __init__(self, name: str, domains: Sequence[Domain], now: datetime, directory: Path) -> None:
        self._name, self._domains, self._now, self._directory = name, domains, now, directory
        self._lock = Lock()
        self._stack = ExitStack()
        self._state = "planned"

    def start(self) -> None:
        """Begin to build it in a thread, once."""
        if self._state == "planned":
            Thread(target=self.build, name="demo world", daemon=True).start()

    def build(self) -> None:
        """Build it unless it is built, and wait until it is."""
        if self._state == "built":
            return
        with self._lock:
            if self._state == "planned":
                world = import_module("quilt_mcp.demo.world").furnish(
                    self._directory, self._name, domains=self._domains, now=self._now
                )
                self._stack.enter_context(world)
                self._state = "built"

    def close(self) -> None:
        """Leave it, after a thread that builds it."""
        with self._lock:
            self._state = "closed"
            self._stack.close()


@contextmanager
def late_world(name: str, *, domains: Sequence[Domain], now: datetime) -> Iterator[LateWorld]:
    """Enter the place of a world until the context ends. The arguments are those of `demo_world`."""
    with open_place() as directory:
        world = LateWorld(name, domains, now, directory)
        try:
            yield world
        finally:
            world.close()

"""The reload: it replaces all workers by ones that have read the settings again.

A secret that was removed is valid until the last old worker has ended. So a reload that fails is repeated until no old
worker is left, and the number of old workers is a metric.
"""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

START_SECONDS = 60.0
"""How long a worker may take until it serves, or at least answers health checks. It has then loaded its libraries."""
HEALTH_CHECK_SECONDS = 30
"""How long a worker may take to answer a health check, after it has started."""
MAX_PAUSE_SECONDS = 30.0

logger = logging.getLogger(__name__)


class Count(Protocol):
    """A number that several processes share."""

    value: int


@dataclass(frozen=True)
class WorkerSettings:
    """Which settings a worker has.

    Attributes:
        read_at: before it read them, in seconds since 1970. What changed later, it does not know.
        outdated: how many workers have the settings from before the last SIGHUP.
    """

    read_at: float
    outdated: Count


class WorkerProcess(Protocol):
    """What a reload needs of a worker: the methods of uvicorn's, and whether it has begun to serve."""

    @property
    def pid(self) -> int | None: ...

    @property
    def has_started(self) -> bool: ...

    def is_alive(self, timeout: float = ...) -> bool: ...

    def has_ended(self) -> bool: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def join(self) -> None: ...


W = TypeVar("W", bound=WorkerProcess)


class Reload(Generic[W]):
    """Replaces workers one by one, each after its successor serves. `step` does what can be done without waiting.

    Args:
        workers: the running ones. Others can replace them too, such as those that died.
        start: starts a worker, which reads the settings.
        outdated: where to write how many workers have old settings.
        seconds_to_finish: how long a worker may take to end.
    """

    def __init__(
        self,
        workers: list[W],
        start: Callable[[], W],
        outdated: Count,
        *,
        seconds_to_finish: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workers, self._start, self._outdated = workers, start, outdated
        self._seconds_to_finish, self._clock = seconds_to_finish, clock
        self._old: list[W] = []
        self._successor: W | None = None
        self._ending: list[tuple[W, float]] = []
        self._begun = 0.0
        self._pause, self._next_attempt = 1.0, -math.inf
        self._is_noted = False

    def begin(self) -> None:
        """Replace all workers, also one that starts now: it can have read the settings already."""
        self._old = [*self._workers, *([self._successor] if self._successor else [])]
        self._begun, self._is_noted = self._clock(), False
        self._pause, self._next_attempt = 1.0, -math.inf
        self._outdated.value = len(self._workers)

    def step(self) -> None:
        self._end_old_workers()
        if not self._old:
            return
        waiting = [number for number, worker in enumerate(self._workers) if worker in self._old]
        if not waiting:
            self._complete()
        elif self._successor is None:
            if self._clock() >= self._next_attempt:
                self._successor = self._start()
        elif not self._successor.is_alive(timeout=HEALTH_CHECK_SECONDS):
            self._successor.kill()
            self._successor.join()
            self._successor = None
            self._next_attempt = self._clock() + self._pause
            self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)
            self._note()
        elif self._successor.has_started:
            self._retire(self._workers[waiting[0]])
            self._workers[waiting[0]], self._successor = self._successor, None
            self._pause = 1.0
        elif self._clock() >= self._begun + START_SECONDS:
            self._note()
        self._outdated.value = sum(worker in self._old for worker in self._workers)

    def stop(self) -> list[W]:
        """Replace no more workers. Return those that are not among the running ones and still have to end."""
        others = [worker for worker, _ in self._ending] + ([self._successor] if self._successor else [])
        self._old, self._successor, self._ending = [], None, []
        return others

    def _complete(self) -> None:
        if self._successor is not None:  # all old workers died in the meantime, and have been replaced
            self._retire(self._successor)
        self._old, self._successor = [], None
        logger.info("the reload is complete: all workers have the new settings")

    def _note(self) -> None:
        if self._is_noted:
            return
        self._is_noted = True
        old = sum(worker in self._old for worker in self._workers)
        logger.error(
            "the reload is not complete: %d of %d workers have the old settings, and accept the old secrets. It is "
            "repeated until all are new",
            old,
            len(self._workers),
        )

    def _retire(self, worker: W) -> None:
        worker.terminate()
        self._ending.append((worker, self._clock() + self._seconds_to_finish))

    def _end_old_workers(self) -> None:
        """Kill those that exceed the time for their requests. They would accept old secrets."""
        for worker, until in self._ending:
            if not worker.has_ended() and self._clock() >= until:
                logger.error("worker %d did not end in time and is killed", worker.pid)
                worker.kill()
                worker.join()
        self._ending = [(worker, until) for worker, until in self._ending if not worker.has_ended()]

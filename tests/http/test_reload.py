"""The reload of workers: all get the new settings, also if some start slowly, die or hang. Without processes."""

from ctypes import c_int
from itertools import pairwise
from typing import Any

import pytest

from quilt_mcp.http.reload import MAX_PAUSE_SECONDS, START_SECONDS, Reload

FINISH_SECONDS = 35.0


class Worker:
    """A worker that starts, dies and hangs when the test says so. It has the settings of its start."""

    def __init__(self, number: int, settings: str) -> None:
        self.pid, self.settings = number, settings
        self.has_started = self.is_dead = self.is_hung = self.is_asked_to_end = False

    def is_alive(self, timeout: float = 0) -> bool:
        return not (self.is_dead or self.is_hung)

    def has_ended(self) -> bool:
        return self.is_dead

    def terminate(self) -> None:
        self.is_asked_to_end = True

    def kill(self) -> None:
        self.is_dead = True

    def join(self) -> None:
        assert self.is_dead  # it would wait for ever


class Supervisor:
    """Two workers with old settings, and a clock that stands still."""

    def __init__(self) -> None:
        self.now, self.settings, self.started = 0.0, "old", list[Worker]()
        self.outdated = c_int()
        self.workers = [self.start(), self.start()]
        for one in self.workers:
            one.has_started = True
        given: dict[str, Any] = {"seconds_to_finish": FINISH_SECONDS, "clock": lambda: self.now}
        self.reload = Reload(self.workers, self.start, self.outdated, **given)

    def start(self) -> Worker:
        self.started.append(Worker(len(self.started), self.settings))
        return self.started[-1]

    def begin(self, settings: str) -> None:
        self.settings = settings
        self.reload.begin()

    def step(self, seconds: float = 0.5) -> None:
        self.now += seconds
        self.reload.step()

    def finish(self) -> None:
        """Continue until the reload is complete. All workers start, and end."""
        for _ in range(100):
            self.step()
            self.started[-1].has_started = True
            for one in self.started:
                one.is_dead |= one.is_asked_to_end

    @property
    def found(self) -> list[str]:
        return [one.settings for one in self.workers]


@pytest.fixture
def supervisor() -> Supervisor:
    return Supervisor()


def test_an_old_worker_ends_after_its_successor_serves(supervisor: Supervisor) -> None:
    before = list(supervisor.workers)
    supervisor.begin("new")
    assert supervisor.outdated.value == 2
    supervisor.step()
    supervisor.step()
    assert (supervisor.workers, len(supervisor.started)) == (before, 3)
    supervisor.started[2].has_started = True
    supervisor.step()
    assert (supervisor.found, supervisor.outdated.value) == (["new", "old"], 1)
    assert [one.is_asked_to_end for one in before] == [True, False]
    supervisor.finish()
    assert (supervisor.found, supervisor.outdated.value, len(supervisor.started)) == (["new", "new"], 0, 4)


@pytest.mark.parametrize("failure", ["is_dead", "is_hung"])
def test_a_reload_is_repeated_until_all_workers_are_new(
    failure: str, supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that was late ended the reload, and a removed token was valid in the other worker without end."""
    supervisor.begin("new")
    supervisor.step()
    supervisor.started[2].has_started = supervisor.started[0].is_dead = True
    attempts: list[float] = []
    for _ in range(12):  # to start the second one
        while len(supervisor.started) == 3 + len(attempts):
            supervisor.step()
        attempts.append(supervisor.now)
        setattr(supervisor.started[-1], failure, True)
    assert (supervisor.found, supervisor.outdated.value) == (["new", "old"], 1)
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert pauses == sorted(pauses)
    assert MAX_PAUSE_SECONDS <= pauses[-1] <= MAX_PAUSE_SECONDS + 1
    assert [one.getMessage()[:56] for one in caplog.records] == [
        "the reload is not complete: 1 of 2 workers have the old "
    ]
    supervisor.step(MAX_PAUSE_SECONDS)
    supervisor.finish()
    assert (supervisor.found, supervisor.outdated.value) == (["new", "new"], 0)


def test_a_worker_that_starts_slowly_is_let_live(supervisor: Supervisor, caplog: pytest.LogCaptureFixture) -> None:
    supervisor.begin("new")
    for _ in range(10):
        supervisor.step(START_SECONDS / 2)
    assert (len(supervisor.started), supervisor.outdated.value) == (3, 2)
    assert [one.getMessage()[:26] for one in caplog.records] == ["the reload is not complete"]
    supervisor.finish()
    assert (supervisor.found, len(supervisor.started)) == (["new", "new"], 4)


def test_a_worker_that_started_before_the_last_signal_is_replaced_too(supervisor: Supervisor) -> None:
    supervisor.begin("between")
    supervisor.step()
    supervisor.begin("new")
    supervisor.finish()
    assert (supervisor.found, supervisor.outdated.value) == (["new", "new"], 0)


def test_old_workers_that_died_are_not_replaced_twice(supervisor: Supervisor) -> None:
    supervisor.begin("new")
    supervisor.step()
    supervisor.workers[:] = [supervisor.start(), supervisor.start()]  # as the supervisor replaces dead ones
    supervisor.step()
    assert (supervisor.outdated.value, supervisor.started[2].is_asked_to_end) == (0, True)


def test_an_old_worker_that_does_not_end_is_killed(supervisor: Supervisor) -> None:
    before = supervisor.workers[0]
    supervisor.begin("new")
    supervisor.step()
    supervisor.started[2].has_started = True
    supervisor.step()
    supervisor.step(FINISH_SECONDS - 1)
    assert (before.is_asked_to_end, before.is_dead) == (True, False)
    supervisor.step(1)
    assert before.is_dead


def test_a_server_that_ends_gets_the_workers_that_have_not_ended(supervisor: Supervisor) -> None:
    before = supervisor.workers[0]
    supervisor.begin("new")
    supervisor.step()
    supervisor.started[2].has_started = True
    supervisor.step()
    supervisor.step()
    assert supervisor.reload.stop() == [before, supervisor.started[3]]
    supervisor.step()
    assert len(supervisor.started) == 4

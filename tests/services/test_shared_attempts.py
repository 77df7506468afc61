"""Threads that wait for the same attempt get its result or its failure."""

import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from quilt_mcp.core.errors import ResourceFailure
from quilt_mcp.services.lists import SharedAttempts, copy_failure
from quilt_mcp.services.stack.failures import RoleChanged

GIVEN: dict[str, Any] = {"message": "It failed.", "details": "why", "retry_after_seconds": 7}


def failure_types(above: type[ResourceFailure] = ResourceFailure) -> Iterator[type[ResourceFailure]]:
    for one in above.__subclasses__():
        yield one
        yield from failure_types(one)


@pytest.mark.parametrize("kind", sorted({*failure_types()}, key=str))
def test_every_failure_can_be_raised_in_another_thread(kind: type[ResourceFailure]) -> None:
    wanted = inspect.signature(kind).parameters
    failure = kind(**{name: value for name, value in GIVEN.items() if name in wanted})
    copied = copy_failure(failure)
    assert type(copied) is kind
    assert (copied.args, vars(copied), str(copied)) == (failure.args, vars(failure), str(failure))
    assert copied is not failure


def test_a_thread_that_waits_gets_the_failure_of_the_other() -> None:
    shared, started, release = SharedAttempts[None](), Event(), Event()

    def fail() -> None:
        started.set()
        release.wait()
        raise RoleChanged

    class Waiting(str):
        """A key that says when the second thread has looked it up."""

        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            release.set()
            return str(self) == other

        __hash__ = str.__hash__

    def wait_for_the_other() -> Any:
        started.wait()
        return shared.share(Waiting("key"), lambda: None)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(shared.share, "key", fail), pool.submit(wait_for_the_other)
        failures = [first.exception(), second.exception()]
    assert list(map(type, failures)) == [RoleChanged, RoleChanged]
    assert failures[0] is not failures[1]

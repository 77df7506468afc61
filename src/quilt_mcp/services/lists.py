"""Lists: pages of them, one call for each of their items within a time limit, and one for all who want its result."""

import hashlib
import json
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from threading import Thread
from typing import Generic, TypeVar

from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core import cursors
from quilt_mcp.core.cursors import MAX_LIMIT, Page, parse_limit
from quilt_mcp.core.errors import InvalidTemplateVariable
from quilt_mcp.core.tracing import ReadIsOver

WORKERS = 32
NOT_IN_TIME = "not reached in time"
"""The reason in answers for an item with a call that did not finish in time."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


def fan_out(call: Callable[[K], T], items: Iterable[K], *, seconds: float, workers: int = WORKERS) -> dict[K, T]:
    """Return the result of `call` for each item that finished in time. The others are missing.

    A call that is still running after the time limit continues until its own limit. A call that has not started does
    not start. At most `workers` calls run at the same time.

    Raises:
        Exception: what a call raised. To continue with the other items, a call must return its failure instead.
    """
    futures: dict[K, Future[T]] = {item: Future() for item in items}
    waiting = deque(futures.items())

    def work() -> None:
        with suppress(IndexError):  # no more items
            while True:
                item, future = waiting.popleft()
                _settle(future, call, item)

    # Not an executor: Python waits for its threads at exit, which would delay the shutdown of the server.
    for _ in range(min(workers, len(futures))):
        Thread(target=copy_context().run, args=(work,), name="fan-out", daemon=True).start()
    done, _ = wait(futures.values(), timeout=seconds)
    waiting.clear()
    return {item: future.result() for item, future in futures.items() if future in done}


def _settle(future: Future[T], call: Callable[[K], T], item: K) -> None:
    try:
        future.set_result(call(item))
    except BaseException as error:  # noqa: BLE001 - passed on to the thread that reads the result
        future.set_exception(error)


class Paged(TypedDict):
    """One page of a list."""

    count: int
    """The total of all pages."""
    next_cursor: str | None
    """The `cursor` of the next page; null on the last page."""


MAX_NAME_IN_CURSOR = 120


def cut_page(
    rows: Iterable[T],
    name_of: Callable[[T], str],
    *,
    cursor: str | None,
    limit: str | None,
    scope: Sequence[object],
    largest: int = MAX_LIMIT,
) -> Page[T]:
    """Return the page of a list that starts at a cursor. The rows are sorted by name, and names are unique.

    Args:
        rows: all rows that the caller may see. A cursor selects some of them, and can do nothing else.
        name_of: returns the name of a row.
        cursor: the `next_cursor` of the page before; None for the first page.
        limit: the number of rows per page, as the caller wrote it.
        scope: what identifies the list. A cursor of another list is refused.
        largest: the largest number of rows per page.

    Raises:
        InvalidTemplateVariable: the cursor or the limit is not valid.
    """
    size, tag = parse_limit(limit, largest=largest), cursors.compute_tag(*scope)
    after = cursors.decode(cursor, tag) if cursor else None
    ordered = sorted(rows, key=name_of)
    start = _find_start([name_of(row) for row in ordered], after) if after is not None else 0
    page, end = ordered[start : start + size], start + size
    next_cursor = cursors.encode(_mark(name_of(page[-1])), tag) if end < len(ordered) else None
    return Page(page, len(ordered), next_cursor)


def check_choice(name: str, value: str | None, choices: Sequence[str], advice: str) -> str:
    """Return the value of a parameter, by default the first choice.

    Raises:
        InvalidTemplateVariable: it is no choice.
    """
    if value in (None, *choices):
        return value or choices[0]
    raise InvalidTemplateVariable(
        f"`{name}` must be {' or '.join(choices)}.", details=f"It was {value!a}.", suggested_actions=[advice]
    )


def _mark(name: str) -> str:
    """Return the text for a name in a cursor: the name, or a hash of a name that is too long for a URI."""
    if len(json.dumps(name)) <= MAX_NAME_IN_CURSOR:  # as in a cursor: escapes are long
        return f"={name}"
    return "#" + hashlib.blake2s(name.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _find_start(names: Sequence[str], after: str) -> int:
    if after.startswith("="):
        return bisect_right(names, after[1:])
    found = next((at for at, name in enumerate(names) if _mark(name) == after), None)
    if found is None:
        raise InvalidTemplateVariable(
            "The cursor's page cannot be found.",
            details="The last row of the page before it no longer exists.",
            suggested_actions=["Start without a cursor."],
        )
    return found + 1


class SharedAttempts(Generic[T]):
    """Runs one attempt per key at a time. Threads that come meanwhile wait, and get its result or its failure.

    No lock is held during the attempt. Nothing is remembered after it.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, Future[T]] = {}
        self._lock = threading.Lock()

    def share(self, key: Hashable, attempt: Callable[[], T]) -> T:
        """Run the attempt, or wait for the one with the same key that runs already."""
        while True:
            with self._lock:
                running = self._running.get(key)
                own = Future[T]()
                if running is None:
                    self._running[key] = own
            if running is None:
                return self._run(key, own, attempt)
            failure = running.exception()
            if failure is None:
                return running.result()
            if isinstance(failure, Exception) and not isinstance(failure, ReadIsOver):
                raise copy_failure(failure)
            # Only the other thread's read has ended, so this thread makes the next attempt.

    def _run(self, key: Hashable, future: Future[T], attempt: Callable[[], T]) -> T:
        try:
            result = attempt()
        except BaseException as failure:  # raised again, here and in the threads that wait
            self._end(key)  # first: a thread that waits can make the next attempt
            future.set_exception(failure)
            raise
        self._end(key)
        future.set_result(result)
        return result

    def _end(self, key: Hashable) -> None:
        with self._lock:
            del self._running[key]


def copy_failure(failure: E) -> E:
    """Return the failure without a traceback: a raised exception keeps its own, and other threads raise it too.

    `copy.copy` would call the constructor, which can need other arguments than those in `args`.
    """
    copied = failure.__class__.__new__(failure.__class__, *failure.args)
    copied.__dict__.update(failure.__dict__)
    return copied

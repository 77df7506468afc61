"""The process of a command: its errors, its stdout, and work that a signal can end."""

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TypeVar

INTERRUPTED = 130
"""The exit status after Ctrl-C: 128 plus the signal."""
POLL_SECONDS = 0.5

T = TypeVar("T")


class Misuse(Exception):
    """A command cannot run with these arguments or settings. The message says what to change."""

    status = 2


class Unable(Misuse):
    """A command cannot do its work here. The message says why."""

    status = 1


def is_of_stdout(error: OSError) -> bool:
    """Return whether an error is one of stdout: it names no file, and stdout cannot be written."""
    if error.filename is not None:
        return False
    try:
        sys.stdout.write("\n")  # a flush alone can succeed, because Python discards some of what it could not write
        sys.stdout.flush()
    except OSError:
        return True
    return False


def discard_stdout() -> None:
    """Discard what Python has kept: to write it when the process ends would fail again."""
    with suppress(io.UnsupportedOperation):  # a stream of a program that calls the command
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_stoppable(call: Callable[[], T], *, check: Callable[[], None] = lambda: None) -> T:
    """Return the result of a call that a signal can end at any time.

    The call runs in a daemon thread, and so do all threads that it starts. Otherwise a read from stdin, or from a
    service that does not respond, would keep the process alive.

    Args:
        call: what runs in the thread.
        check: called from time to time; it can end the wait by an exception.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            errors.append(error)

    thread = Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(POLL_SECONDS)  # Windows handles Ctrl-C only between two waits
        check()
    for error in errors:
        raise error
    return results[0]

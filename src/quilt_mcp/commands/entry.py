"""The console script `quilt-mcp`: the standard streams, work that a signal can end, and the error of misuse."""

import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import TypeVar, cast

POLL_SECONDS = 0.5

T = TypeVar("T")


class Misuse(Exception):
    """A command cannot run with these arguments or settings. The message says what to change."""

    status = 2


class Unable(Misuse):
    """A command cannot do its work here. The message says why."""

    status = 1


def open_closed_streams() -> None:
    """Replace streams that the caller has closed by the null device. For Python they do not exist."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends


def choose_encoding() -> None:
    """Write UTF-8 to files and pipes, which have an older encoding on Windows. A terminal keeps its encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")


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


INTERRUPTED = 130  # 128 plus the signal


def main() -> int:
    """Run the command line of this process, and return its exit status."""
    arguments = sys.argv[1:]
    try:
        open_closed_streams()
        if sys.flags.optimize > 1:
            sys.stderr.write("quilt-mcp: Python runs without docstrings, which describe the resources: unset -OO or ")
            sys.stderr.write("PYTHONOPTIMIZE=2.\n")
            return Misuse.status
        _ignore_early_reload(arguments)
        if arguments[:1] == ["serve"]:
            gc.disable()  # until the server is created: hardly anything that the imports create is garbage
        else:  # the stdout of `serve` can be the connection to a client
            choose_encoding()
        return cast("int", import_module("quilt_mcp.commands.cli").main())
    except KeyboardInterrupt:  # during the imports
        return INTERRUPTED


def _ignore_early_reload(arguments: Sequence[str]) -> None:
    """Ignore SIGHUP until the server over HTTP handles it. `systemctl reload` during the start would end it."""
    is_http = arguments[:1] == ["serve"] and any(one.endswith(("http", "sse")) for one in arguments)
    if is_http and sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

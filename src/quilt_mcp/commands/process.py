"""Sets up the process of a command: its log, its demo world, and its signal handlers."""

import logging
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from importlib import import_module
from threading import Thread
from typing import TypeVar

from quilt_mcp.app.build import advise_extra
from quilt_mcp.commands.logs import Format, log_to_stderr
from quilt_mcp.commands.misuse import Misuse

POLL_SECONDS = 0.5

T = TypeVar("T")


@contextmanager
def configure_logging(level: str, form: Format = "console") -> Iterator[None]:
    """Log to stderr from this level, then restore the log, for programs that call a command."""
    loggers = [logging.getLogger(name) for name in ("root", "quilt_mcp", "fastmcp")]
    before = [(logger, logger.level, logger.propagate, logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.handlers = []
    show_warning = warnings.showwarning
    out = log_to_stderr(level, form)
    try:
        yield
    finally:
        if warnings.showwarning is not show_warning:  # else a program that logs them calls this
            logging.captureWarnings(capture=False)
        for logger, old_level, propagate, handlers in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(old_level)
        out.close()


def enter_world(name: str | None) -> AbstractContextManager[object]:
    """Return a context in which this process uses a demo world; None stands for the user's own login.

    Raises:
        Misuse: the demo world is not installed.
    """
    if name is None:
        return nullcontext()
    try:
        module = import_module("quilt_mcp.commands.demo.world")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "moto":
            raise
        raise Misuse(f"The demo world is not installed: {advise_extra('demo')}.") from error
    context: AbstractContextManager[object] = module.demo_world(name, now=datetime.now(UTC))
    return context


def run_stoppable(call: Callable[[], T], *, check: Callable[[], None] = lambda: None) -> T:
    """Return the result of a call that a signal can end at any time.

    The call runs in a daemon thread, and so do all threads that it starts. Otherwise a read from stdin, or from a
    service that does not respond, would keep the process alive.

    Args:
        call: what runs in the thread.
        check: called from time to time; it can end the wait by an exception.
    """
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            outcome.set_exception(error)

    Thread(target=work, daemon=True).start()
    while not outcome.done():
        wait([outcome], timeout=POLL_SECONDS)  # Windows handles Ctrl-C only between two waits
        check()
    return outcome.result()

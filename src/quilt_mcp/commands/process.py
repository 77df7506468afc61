"""How a command runs in its process: its log, the world that it reads, and that a signal can end it."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from threading import Thread
from typing import TypeVar

from cyclopts import CycloptsError

from quilt_mcp.logs import Format, log_to_stderr

POLL_SECONDS = 0.5

T = TypeVar("T")


@contextmanager
def logging_from(level: str, form: Format = "console") -> Iterator[None]:
    """Log to stderr from this level on; afterwards the log is as it was, for programs that call a command."""
    loggers = [logging.getLogger(name) for name in ("root", "quilt_mcp", "fastmcp")]
    before = [(logger, logger.level, logger.propagate, logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.handlers = []
    log_to_stderr(level, form)
    try:
        yield
    finally:
        for logger, old_level, propagate, handlers in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(old_level)


def enter_world(name: str | None) -> AbstractContextManager[object]:
    """A context in which this process lives in a demo world; with None, in the user's own.

    Raises:
        CycloptsError: the demo world is not installed.
    """
    if name is None:
        return nullcontext()
    try:
        module = import_module("quilt_mcp.demo.world")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "moto":
            raise
        raise CycloptsError(
            msg="The demo world is not installed: run `make install EXTRAS=demo` in the source directory"
        ) from error
    context: AbstractContextManager[object] = module.demo_world(name)
    return context


def run_stoppable(call: Callable[[], T]) -> T:
    """The result of a call that a signal may end at any time.

    It runs in a daemon thread, and so do all threads that it starts: a read of stdin, or one from a service that does
    not answer, would else hold the process until it ends.
    """
    outcome: Future[T] = Future()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - handed on whole: the waiting thread raises it
            outcome.set_exception(error)

    Thread(target=work, daemon=True).start()
    while not outcome.done():
        wait([outcome], timeout=POLL_SECONDS)  # on Windows, Ctrl-C is seen only between two waits
    return outcome.result()

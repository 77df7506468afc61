"""The log: one format on stderr for the whole process. stdout carries protocol messages only.

It removes data from the records of libraries. FastMCP, the MCP library, botocore and others log e-mail addresses,
tokens, URIs and excerpts of bodies, in messages and in the texts of exceptions. What remains is where a record comes
from, the constant parts of its message, and the traceback.
"""

import ast
import json
import linecache
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import lru_cache
from pathlib import PurePath
from queue import Full
from typing import Literal, TypeGuard

from quilt_mcp.console.background_log import CLOSE_SECONDS, BackgroundHandler, LineHandler

HIDDEN = "(text not logged)"
MASK = "…"
MAX_FRAMES = 30
MAX_EXCEPTIONS = 30
MAX_SOURCES = 100
LETTERS = re.compile(r"[A-Za-z]{3}")
WARNING = re.compile(r"(?P<file>[^\n]{1,999}?):(?P<line>\d+): (?P<category>\w+): ", re.ASCII)
"""How `warnings.formatwarning` starts a text."""


def is_own(name: str) -> bool:
    return name.partition(".")[0] == "quilt_mcp"


def is_safe(name: str) -> bool:
    """Return whether the messages of a library contain no data. The texts of exceptions can."""
    return name.partition(".")[0] == "uvicorn"


def is_about_source(record: logging.LogRecord) -> bool:
    """Return whether a record only says that source code looks wrong. Python warns of installed code once."""
    found = _find_warning(record)
    return found is not None and found["category"] == "SyntaxWarning"


def mask(record: logging.LogRecord) -> logging.LogRecord:
    masked = copy(record)
    vars(masked).pop("fields", None)  # of our own records only
    if not is_safe(record.name):
        shown = _describe_warning(record) or _find_constant_text(record)
        masked.msg, masked.args = shown or f"{HIDDEN} {record.filename}:{record.lineno} {record.funcName}", None
    error = record.exc_info[1] if record.exc_info else None
    masked.exc_info = masked.stack_info = None
    masked.exc_text = "".join(_describe(error, set())).rstrip() if error else None
    return masked


def _find_warning(record: logging.LogRecord) -> re.Match[str] | None:
    is_warning = record.name == "py.warnings" and isinstance(record.msg, str)
    return WARNING.match(record.msg) if is_warning else None


def _describe_warning(record: logging.LogRecord) -> str | None:
    found = _find_warning(record)
    return found and f"{found['category']}: {HIDDEN} {PurePath(found['file']).name}:{found['line']}"


def _find_constant_text(record: logging.LogRecord) -> str | None:
    """Return the message if it is written like this in the source, with its values masked."""
    template = record.msg
    if not isinstance(template, str) or not LETTERS.search(re.sub(r"%\S", "", template)):
        return None
    if template not in _read_constants(record.pathname):
        return None
    if not record.args:
        return template
    try:
        return template.replace("%r", "%s") % tuple(map(_mask_value, record.args))
    except (TypeError, ValueError):  # such as values by name, of which none is shown
        return template


@lru_cache(MAX_SOURCES)
def _read_constants(path: str) -> frozenset[str]:
    """Return the texts in the source of a module. Python joins those that are written side by side."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return frozenset(value for value in constants if isinstance(value, str))


def _mask_value(value: object) -> object:
    if isinstance(value, BaseException):
        return type(value).__qualname__
    return value if isinstance(value, int | float) else MASK


def _describe(error: BaseException, shown: set[int]) -> Iterator[str]:
    """Yield the lines of a traceback, without the texts of the exceptions. Each exception is shown once."""
    shown.add(id(error))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if _has_room(cause, shown):
        yield from _describe(cause, shown)
        yield "\nThen:\n\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__, limit=-MAX_FRAMES)
    yield f"{type(error).__qualname__}: {HIDDEN}\n"
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            if _has_room(one, shown):
                yield from _describe(one, shown)


def _has_room(error: BaseException | None, shown: set[int]) -> TypeGuard[BaseException]:
    return error is not None and id(error) not in shown and len(shown) < MAX_EXCEPTIONS


CONSOLE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MAX_CHARACTERS = 4_000
"""The maximum length of a message in the console format."""
MAX_WAITING = 4_000
"""How many records can wait while nobody reads stderr. More are lost, and counted."""

_ENCODER = json.JSONEncoder(ensure_ascii=True, default=str)

Format = Literal["console", "json"]


class JSONFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the record's own `fields`."""

    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_text:
            line["traceback"] = record.exc_text
        elif record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _ENCODER.encode(line)


class ConsoleFormatter(logging.Formatter):
    """One line for people, followed by the traceback if there is one."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in the standard library
        """Return the record with its message on one line. Libraries log client input, which must not forge lines."""
        record.message = _escape(record.message)
        return super().formatMessage(record)


def _escape(message: str) -> str:
    if len(message) <= MAX_CHARACTERS and message.isprintable():
        return message.rstrip()
    text = message.rstrip()  # uvicorn ends a message with a line break, to put the traceback below it
    line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text[:MAX_CHARACTERS])
    return line if len(text) <= MAX_CHARACTERS else f"{line}... ({len(text):,} characters)"


class StderrHandler(BackgroundHandler):
    """Writes records to stderr in a thread, without what libraries know of clients and of other systems."""

    def __init__(self, *, patience: float = CLOSE_SECONDS) -> None:
        super().__init__(LineHandler(sys.stderr), MAX_WAITING, patience=patience)
        self._lost = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the record. Below WARNING, libraries log whole messages."""
        if is_own(record.name) or is_safe(record.name):
            return True
        return record.levelno >= logging.WARNING and not is_about_source(record)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Format the record now: what it refers to can change."""
        found: logging.LogRecord = super().prepare(record if is_own(record.name) else mask(record))
        return found

    def enqueue(self, record: logging.LogRecord) -> None:
        """Add the record to the queue. After a loss, wait for half of the room, so that there are few gaps.

        Raises:
            Full: there is no room.
        """
        if self._lost and self.waiting > MAX_WAITING // 2:
            raise Full
        self._report_lost()
        super().enqueue(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in the standard library
        """Count a record that has no room. Of another, say only that it is lost: its text can hold data."""
        del record
        if isinstance(sys.exception(), Full):
            self._lost += 1
        else:
            self._say("a record of the log could not be written")

    def flush(self) -> None:
        """Wait until all records are written, or a few seconds if nobody reads stderr."""
        self._report_lost()
        super().flush()

    def _report_lost(self) -> None:
        lost, self._lost = self._lost, 0
        if lost:
            self._say(f"{lost} records of the log were lost: stderr was not read")

    def _say(self, text: str) -> None:
        self.put(self.prepare(logging.LogRecord(__name__, logging.ERROR, __file__, 0, text, None, None)))


def log_to_stderr(level: str, form: Format = "console") -> StderrHandler:
    """Log to stderr: this project from this level; libraries their warnings and errors, without the data in them.

    FastMCP has its own handlers otherwise.
    """
    out = StderrHandler()
    out.setFormatter(JSONFormatter() if form == "json" else ConsoleFormatter(CONSOLE))
    logging.basicConfig(level=logging.WARNING, handlers=[out], force=True)
    logging.captureWarnings(capture=True)
    for name, lowest in (("quilt_mcp", level), ("fastmcp", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(lowest)
    return out


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


def flush_log() -> None:
    """Write all records of the log that wait. A signal can end the process without its usual end."""
    for handler in logging.getLogger().handlers:
        handler.flush()

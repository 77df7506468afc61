"""The log: one format on stderr for the whole process. stdout carries protocol messages only."""

import json
import logging
import sys
import time
from contextlib import suppress
from typing import Literal, TextIO

from quilt_mcp.commands.log_masking import is_own, is_safe, mask

CONSOLE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MAX_CHARACTERS = 4_000
"""The maximum length of a message in the console format."""

_ENCODER = json.JSONEncoder(ensure_ascii=True, default=str)

Format = Literal["console", "json"]


class _Formatter(logging.Formatter):
    """Formats the time of the records of one second once."""

    decimal_mark = ","
    _second = -1
    _text = ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - the name there
        """Return the local time, with milliseconds."""
        second = int(record.created)
        if second != self._second:
            self._text = time.strftime(datefmt or self.default_time_format, time.localtime(second))
            self._second = second
        return f"{self._text}{self.decimal_mark}{int(record.msecs):03}"


class JSONFormatter(_Formatter):
    """One JSON object per line: time, level, logger, message, and the record's own `fields`."""

    decimal_mark = "."

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON, with its traceback as the text `traceback`."""
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


class ConsoleFormatter(_Formatter):
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


class SafeHandler(logging.StreamHandler[TextIO]):
    """Writes records to a stream, without what libraries know of clients and of other systems."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record. Below WARNING, libraries log whole messages, so these records are dropped."""
        if is_own(record.name):
            super().emit(record)
        elif record.levelno >= logging.WARNING or is_safe(record.name):
            super().emit(mask(record))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in the standard library
        """Say only that a record is lost. The base class would write the record and its exception as they are."""
        del record
        with suppress(OSError, ValueError):
            sys.stderr.write("a record of the log could not be written\n")


def log_to_stderr(level: str, form: Format = "console") -> None:
    """Log to stderr: this project from this level; libraries their warnings and errors, without the data in them.

    FastMCP has its own handlers otherwise.
    """
    out = SafeHandler(sys.stderr)
    out.setFormatter(JSONFormatter() if form == "json" else ConsoleFormatter(CONSOLE))
    logging.basicConfig(level=logging.WARNING, handlers=[out], force=True)
    logging.captureWarnings(capture=True)
    for name, lowest in (("quilt_mcp", level), ("fastmcp", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(lowest)

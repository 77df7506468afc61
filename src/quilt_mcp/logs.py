"""The log: one format on stderr for everything in the process. stdout belongs to the protocol."""

import json
import logging
import sys
from copy import copy
from typing import Any, Literal

CONSOLE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LONGEST = 4_000
"""How many characters of a message the console shows."""

Format = Literal["console", "json"]


class JSONFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the fields that a record brings as `fields`."""

    default_msec_format = "%s.%03d"

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON; a traceback is text under `traceback`."""
        line: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


class ConsoleFormatter(logging.Formatter):
    """A line for people, and below it the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The record, its message on one line: libraries log what clients sent, which must not pass for other lines."""
        shown = copy(record)
        shown.msg, shown.args = _on_one_line(record.getMessage()), None
        return super().format(shown)


def _on_one_line(message: str) -> str:
    text = message.rstrip()  # uvicorn ends one with a line break, to have the traceback below it
    line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text[:LONGEST])
    return line if len(text) <= LONGEST else f"{line}... ({len(text):,} characters)"


def log_to_stderr(level: str, form: Format = "console") -> None:
    """Send the log from this level on to stderr: FastMCP's too, which else goes its own way."""
    out = logging.StreamHandler(sys.stderr)
    out.setFormatter(JSONFormatter() if form == "json" else ConsoleFormatter(CONSOLE))
    # Others only warn: below that botocore and urllib3 tell requests with their headers, credentials among them.
    logging.basicConfig(level=logging.WARNING, handlers=[out], force=True)
    for name in ("quilt_mcp", "fastmcp"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(level)

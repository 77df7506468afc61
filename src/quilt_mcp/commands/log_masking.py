"""Removes data from the log records of libraries.

FastMCP, the MCP library, botocore and others log e-mail addresses, tokens, URIs and excerpts of bodies, in messages and
in the texts of exceptions. What remains is where a record comes from, the constant parts of its message, and the
traceback.
"""

import linecache
import logging
import re
import traceback
from collections.abc import Iterator, Mapping
from copy import copy

HIDDEN = "(text not logged)"
MASK = "…"
MAX_FRAMES = 30
MAX_CAUSES = 10
LETTERS = re.compile(r"[A-Za-z]{3}")


def is_own(name: str) -> bool:
    """Return whether a logger belongs to this project, which logs no data."""
    return name.partition(".")[0] == "quilt_mcp"


def is_safe(name: str) -> bool:
    """Return whether the messages of a library contain no data. The texts of exceptions can."""
    return name.partition(".")[0] == "uvicorn"


def mask(record: logging.LogRecord) -> logging.LogRecord:
    """Return a copy of a library's record without data."""
    masked = copy(record)
    vars(masked).pop("fields", None)  # of our own records only
    if not is_safe(record.name):
        masked.msg, masked.args = _find_constant_text(record) or f"{HIDDEN} {_find_place(record)}", None
    error = record.exc_info[1] if record.exc_info else None
    masked.exc_info = masked.stack_info = None
    masked.exc_text = "".join(_describe(error)).rstrip() if error else None
    return masked


def _find_place(record: logging.LogRecord) -> str:
    return f"{record.filename}:{record.lineno} {record.funcName}"


def _find_constant_text(record: logging.LogRecord) -> str | None:
    """Return the message if it is written like this in the source, with its values masked."""
    template = record.msg
    if not isinstance(template, str) or not LETTERS.search(re.sub(r"%\S", "", template)):
        return None
    source = "".join(linecache.getlines(record.pathname))
    literal = repr(template)[1:-1]
    if f'"{literal}"' not in source and f"'{literal}'" not in source:
        return None
    if not record.args:
        return template
    given, masked = record.args, template.replace("%r", "%s")
    try:
        if isinstance(given, Mapping):
            return masked % {name: _mask_value(value) for name, value in given.items()}
        return masked % tuple(map(_mask_value, given))
    except (TypeError, ValueError, KeyError):
        return template


def _mask_value(value: object) -> object:
    if isinstance(value, BaseException):
        return type(value).__qualname__
    return value if isinstance(value, int | float) else MASK


def _describe(error: BaseException, depth: int = 0) -> Iterator[str]:
    """Yield the lines of a traceback, without the texts of the exceptions."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and depth < MAX_CAUSES:
        yield from _describe(cause, depth + 1)
        yield "\nThen:\n\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__, limit=-MAX_FRAMES)
    yield f"{type(error).__qualname__}: {HIDDEN}\n"
    if isinstance(error, BaseExceptionGroup) and depth < MAX_CAUSES:
        for one in error.exceptions[:MAX_CAUSES]:
            yield from _describe(one, depth + 1)

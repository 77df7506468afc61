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
from pathlib import PurePath
from typing import TypeGuard

HIDDEN = "(text not logged)"
MASK = "…"
MAX_FRAMES = 30
MAX_EXCEPTIONS = 30
LETTERS = re.compile(r"[A-Za-z]{3}")
WARNING = re.compile(r"(?P<file>[^\n]{1,999}?):(?P<line>\d+): (?P<category>\w+): ", re.ASCII)
"""How `warnings.formatwarning` starts a text."""


def is_own(name: str) -> bool:
    """Return whether a logger belongs to this project, which logs no data."""
    return name.partition(".")[0] == "quilt_mcp"


def is_safe(name: str) -> bool:
    """Return whether the messages of a library contain no data. The texts of exceptions can."""
    return name.partition(".")[0] == "uvicorn"


def is_about_source(record: logging.LogRecord) -> bool:
    """Return whether a record only says that source code looks wrong. Python warns of installed code once."""
    found = _find_warning(record)
    return found is not None and found["category"] == "SyntaxWarning"


def mask(record: logging.LogRecord) -> logging.LogRecord:
    """Return a copy of a library's record without data."""
    masked = copy(record)
    vars(masked).pop("fields", None)  # of our own records only
    if not is_safe(record.name):
        masked.msg, masked.args = _describe_warning(record) or _find_constant_text(record) or _hide(record), None
    error = record.exc_info[1] if record.exc_info else None
    masked.exc_info = masked.stack_info = None
    masked.exc_text = "".join(_describe(error, set())).rstrip() if error else None
    return masked


def _hide(record: logging.LogRecord) -> str:
    return f"{HIDDEN} {record.filename}:{record.lineno} {record.funcName}"


def _find_warning(record: logging.LogRecord) -> re.Match[str] | None:
    is_warning = record.name == "py.warnings" and isinstance(record.msg, str)
    return WARNING.match(record.msg) if is_warning else None


def _describe_warning(record: logging.LogRecord) -> str | None:
    """Return the category of a warning and where it comes from."""
    found = _find_warning(record)
    return found and f"{found['category']}: {HIDDEN} {PurePath(found['file']).name}:{found['line']}"


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

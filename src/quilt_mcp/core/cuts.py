"""What an answer leaves out so that clients and models can show it: rows that do not fit, and ends of texts."""

from collections.abc import Sequence
from typing import TypeVar

from quilt_mcp.core.answers import to_json

PAGE_CHARACTERS = 40_000
"""Where a page ends if it has not ended at its number of rows. Some clients show 50,000 characters of one answer."""
LARGEST_ANSWER = 60_000
"""More characters than any answer has: a page, what stands beside its rows, and the longest text of one row."""

T = TypeVar("T")


def fit(rows: Sequence[T], room: int = PAGE_CHARACTERS) -> list[T]:
    """Return as many of the first rows as have this number of characters in JSON together, and at least one."""
    for count, row in enumerate(rows):
        room -= len(to_json(row)) + 1
        if room < 0 and count:
            return list(rows[:count])
    return list(rows)


def fit_beside(rows: Sequence[T], rest: object) -> list[T]:
    """Return as many of the first rows as fit into an answer with the rest of it, and at least a quarter of a page."""
    return fit(rows, max(PAGE_CHARACTERS - len(to_json(rest)), PAGE_CHARACTERS // 4))


def cut_text(text: str, most: int) -> tuple[str, bool]:
    """Return the start of a text, and whether its end is left out."""
    return text[:most], len(text) > most

"""The pages of lists, and integers that a caller wrote in a URI, such as the size of a page."""

import re
from dataclasses import dataclass
from typing import Generic, TypeVar

from quilt_mcp.core.errors import InvalidTemplateVariable

MAX_LIMIT = 200
DEFAULT_LIMIT = 50
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list.

    Attributes:
        rows: in the order of the list.
        total: the number of rows of all pages.
        next_cursor: the cursor of the next page; None on the last page.
    """

    rows: list[T]
    total: int
    next_cursor: str | None


def parse_limit(text: str | None, *, default: int = DEFAULT_LIMIT, largest: int = MAX_LIMIT) -> int:
    """Parse the number of rows per page.

    Raises:
        InvalidTemplateVariable: it is not an integer from 1 to `largest`.
    """
    advice = f"Omit `limit` for pages of {default}. Use `next_cursor` to read further pages."
    return parse_integer("limit", text, default=default, largest=largest, advice=advice)


def parse_integer(name: str, text: str | None, *, default: int, largest: int, advice: str) -> int:
    """Parse the value of a parameter.

    Args:
        name: of the parameter.
        text: as the caller wrote it; None if the parameter is absent.
        default: the value of an absent parameter.
        largest: the largest value.
        advice: the suggested action.

    Raises:
        InvalidTemplateVariable: it is not an integer from 1 to `largest`.
    """
    if text is None:
        return default
    if re.fullmatch(r"[0-9]{1,4}", text) and 1 <= int(text) <= largest:
        return int(text)
    raise InvalidTemplateVariable(
        f"`{name}` must be an integer from 1 to {largest}.", details=f"It was {text!a}.", suggested_actions=[advice]
    )

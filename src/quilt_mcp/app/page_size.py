"""Integers that a caller wrote in a URI, such as the size of the pages of a list."""

import re

from quilt_mcp.core.errors import InvalidTemplateVariable

MAX_LIMIT = 200
DEFAULT_LIMIT = 50


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

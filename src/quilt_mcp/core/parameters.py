"""Values of the parameters of a URI: numbers, and words of a list."""

import re
from collections.abc import Sequence
from typing import TypeVar

from quilt_mcp.core.errors import InvalidTemplateVariable

T = TypeVar("T", bound=str)


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


def parse_choice(name: str, text: str | None, known: Sequence[T]) -> T | None:
    """Parse the value of a parameter that has one of a few values; None if it is absent.

    Raises:
        InvalidTemplateVariable: it is none of those that are known.
    """
    found = next((one for one in known if one == text), None)
    if text is None or found is not None:
        return found
    raise InvalidTemplateVariable(
        f"`{name}` must be one of: {', '.join(known)}.",
        details=f"It was {text!a}.",
        suggested_actions=[f"Use one of these values, or omit `{name}`."],
    )

"""The reasons why an import writes nothing."""

from collections.abc import Callable
from typing import NamedTuple

MOST_KEPT = 1000
"""The maximum number of rejections in a report. The others are only counted."""


class Rejection(NamedTuple):
    """A reason why a record is not imported."""

    line: int
    """The first line of the record in the file, counted from 1; 0 if the reason concerns the whole import."""
    field: str | None
    """The field or column; None if the reason concerns the whole line."""
    reason: str
    """What is wrong, and what to change."""


class Rejections:
    """Collects rejections.

    Args:
        announce: called with each of the first ones, when it is found.

    Attributes:
        first: the first ones that were found, in that order.
        count: the number of all.
    """

    def __init__(self, announce: Callable[[Rejection], object]) -> None:
        self._announce = announce
        self.first: list[Rejection] = []
        self.count = 0

    def add(self, line: int, field: str | None, reason: str) -> None:
        """Add a rejection of a record."""
        self.take(Rejection(line, field, reason))

    def take(self, rejection: Rejection) -> None:
        """Add a rejection that has the names of the file."""
        self.count += 1
        if self.count <= MOST_KEPT:
            self.first.append(rejection)
            self._announce(rejection)

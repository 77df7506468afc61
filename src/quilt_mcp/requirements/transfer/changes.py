"""The changes that an import makes in the database."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

MOST_LISTED = 1000
"""The maximum number of changed records in a report. The others are only counted."""

Action = Literal["created", "updated", "deleted"]


class FieldChange(NamedTuple):
    """The change of a field. References are shown by name."""

    field: str
    before: object
    after: object


class Change(NamedTuple):
    """The change of one record."""

    action: Action
    line: int
    """The line of the record in the file; 0 if the file does not have it."""
    kind: str
    name: str
    """Its reference ID or name, or else its ID."""
    fields: list[FieldChange]
    """What an update changes."""


@dataclass
class Changes:
    """Collects changes.

    Attributes:
        created: the number of new records by kind.
        updated: the number of changed records by kind.
        unchanged: the number of records by kind that are equal to their rows.
        deleted: the number of deleted rows by kind.
        first: the first changes, in the order in which they are written.
    """

    created: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    first: list[Change] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of all changes."""
        return self.created.total() + self.updated.total() + self.deleted.total()

    def add(self, change: Change) -> None:
        """Add a change."""
        counts = {"created": self.created, "updated": self.updated, "deleted": self.deleted}
        counts[change.action][change.kind] += 1
        if len(self.first) < MOST_LISTED:
            self.first.append(change)

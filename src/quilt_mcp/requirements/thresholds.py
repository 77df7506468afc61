"""Numbers that decide between two ways to read the same rows. The answers are equal; the times are not."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The numbers, as measured for both databases.

    Attributes:
        few_rows: up to this number of rows of a list, all of them are found and sorted.
        most_values: the maximum number of values of a filter for which each value has its own query.
        most_projects: the maximum number of a caller's projects that a search looks up in the index. With more, both
            databases are faster when they compare the project of each match.
    """

    few_rows: int = 5000
    most_values: int = 20
    most_projects: int = 32


DEFAULT = Thresholds()

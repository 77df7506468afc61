"""The results of a benchmark, for printing, storing and comparing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.estimates import Estimate


@dataclass(frozen=True)
class Run:
    """The options of a run.

    Attributes:
        quick: only check that it works; the figures mean nothing.
        scale: factor for the usual duration.
        folder: data that is slow to create, kept between runs.
        alone: without the peers.
    """

    quick: bool
    scale: float
    folder: Path
    alone: bool = False

    def seconds(self, usual: float) -> float:
        """Return the duration for a measurement with this usual duration."""
        return 0.0 if self.quick else usual * self.scale

    def times(self, usual: int, quick: int = 2) -> int:
        """Return the number of repetitions for this usual number."""
        return quick if self.quick else max(quick, round(usual * self.scale))


@dataclass(frozen=True)
class Table:
    """Rows of text below a title; `note` says what the columns mean."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


@dataclass(frozen=True)
class Target:
    """A target, the measured value, and whether it reaches the target."""

    text: str
    measured: str
    reached: bool


@dataclass
class Outcome:
    """The result of one benchmark.

    Attributes:
        tables: for people.
        targets: the targets and their results.
        figures: times, sizes or numbers of calls by name, for `make bench-compare`. Lower is better.
    """

    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)


def milliseconds(seconds: float) -> str:
    """A time for a table, in milliseconds."""
    return f"{seconds * 1000:.3g}" if seconds < 1 else f"{seconds * 1000:.0f}"


def ratio(estimate: Estimate) -> str:
    """A ratio for a table, with its interval."""
    return f"{estimate.value:.2f} ({estimate.low:.2f}-{estimate.high:.2f})"

"""What a benchmark hands over to be printed, kept and compared."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.estimates import Estimate


@dataclass(frozen=True)
class Run:
    """How a benchmark is to be run.

    Attributes:
        quick: only show that it works; its figures mean nothing.
        scale: how much longer, or shorter, to measure than usual.
        folder: where data that is expensive to make is kept from one run to the next.
    """

    quick: bool
    scale: float
    folder: Path

    def seconds(self, usual: float) -> float:
        """How long to measure what usually is measured so long."""
        return 0.0 if self.quick else usual * self.scale

    def times(self, usual: int, quick: int = 2) -> int:
        """How often to do what usually is done so often."""
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
    """Something that is aimed at, what was measured, and whether that is enough."""

    text: str
    measured: str
    reached: bool


@dataclass(frozen=True)
class Line:
    """One line of a chart: its points are (x, y)."""

    name: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """Lines over one x axis; both axes may be logarithmic. `name` is the file's."""

    name: str
    title: str
    x: str
    y: str
    lines: list[Line]
    log_x: bool = False
    log_y: bool = False


@dataclass
class Outcome:
    """The result of one benchmark.

    Attributes:
        tables: for people.
        targets: what it was to show.
        charts: drawn beside.
        figures: by name, what `make bench-compare` compares: times, sizes or numbers of calls, the less the better.
    """

    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)


def milliseconds(seconds: float) -> str:
    """A time for a table, in milliseconds."""
    return f"{seconds * 1000:.3g}" if seconds < 1 else f"{seconds * 1000:.0f}"


def ratio(estimate: Estimate) -> str:
    """A ratio for a table, with its interval."""
    return f"{estimate.value:.2f} ({estimate.low:.2f}-{estimate.high:.2f})"

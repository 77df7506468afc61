"""Statistics of repeated measurements: medians and ratios, each with a 95 % confidence interval.

The intervals are bootstrapped: the figure is computed again from random draws of the measurements. The draws are
seeded, so that the same measurements give the same intervals.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

DRAWS = 400
_OUTSIDE = 0.025
_SEED = 20261


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % confidence interval. With one measurement, all three values are the same."""

    value: float
    low: float
    high: float


def estimate(samples: Sequence[float]) -> Estimate:
    """The median of the measurements."""
    source = random.Random(_SEED)  # noqa: S311 - statistics, no secret
    drawn = sorted(median(source.choices(samples, k=len(samples))) for _ in range(DRAWS))
    return Estimate(median(samples), drawn[int(_OUTSIDE * DRAWS)], drawn[-1 - int(_OUTSIDE * DRAWS)])


def paired_ratio(samples: Sequence[float], base: Sequence[float]) -> Estimate:
    """The median of the ratios of measurements that were made in the same repetition."""
    return estimate([one / other for one, other in zip(samples, base, strict=True)])

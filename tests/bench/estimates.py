"""Statistics of repeated measurements: medians, 95th percentiles and ratios, each with a 95 % confidence interval.

The intervals are bootstrapped: the figure is computed again from random draws of the measurements. The draws are
seeded, so that the same measurements give the same intervals.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

DRAWS = 400
_OUTSIDE = 0.025
_SEED = 20261

Statistic = Callable[[Sequence[float]], float]


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % confidence interval. With one measurement, all three values are the same."""

    value: float
    low: float
    high: float

    def scale(self, factor: float) -> "Estimate":
        """Return the same estimate in another unit."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)


def percentile_95(samples: Sequence[float]) -> float:
    """Return the smallest measurement that 95 % of all do not exceed."""
    return sorted(samples)[max(0, math.ceil(0.95 * len(samples)) - 1)]


def estimate(samples: Sequence[float], statistic: Statistic = median) -> Estimate:
    """The statistic of the measurements."""
    return _interval(statistic(samples), lambda draw: statistic([samples[place] for place in draw]), len(samples))


def paired_ratio(samples: Sequence[float], base: Sequence[float]) -> Estimate:
    """The median of the ratios of measurements that were made in the same repetition."""
    return estimate([one / other for one, other in zip(samples, base, strict=True)])


def ratio_of_95(samples: Sequence[float], base: Sequence[float]) -> Estimate:
    """The ratio of the 95th percentiles; the repetitions are drawn as pairs."""

    def ratio(draw: Sequence[int]) -> float:
        return percentile_95([samples[place] for place in draw]) / percentile_95([base[place] for place in draw])

    return _interval(ratio(range(len(samples))), ratio, len(samples))


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean of ratios: twice as fast and half as fast cancel out."""
    return math.exp(fmean(map(math.log, ratios)))


def _interval(value: float, of_draw: Callable[[Sequence[int]], float], size: int) -> Estimate:
    source = random.Random(_SEED)  # noqa: S311 - statistics, no secret
    drawn = sorted(of_draw(source.choices(range(size), k=size)) for _ in range(DRAWS))
    return Estimate(value, drawn[int(_OUTSIDE * DRAWS)], drawn[-1 - int(_OUTSIDE * DRAWS)])

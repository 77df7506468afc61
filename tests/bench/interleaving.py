"""Alternates between the arms of a comparison: each repetition runs every arm once, in a new random order.

Other load on the machine then affects all arms equally, so ratios within one run are comparable and times are not.
"""

import gc
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

Arm = Callable[[], Awaitable[object]]
Samples = dict[str, list[float]]


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Attributes:
        seconds: for one comparison; it may take longer to reach `at_least`.
        at_least: repetitions.
        at_most: repetitions.
    """

    seconds: float
    at_least: int = 7
    at_most: int = 400


async def interleave(arms: Mapping[str, Arm], effort: Effort) -> Samples:
    """Run the arms, and return the seconds of each repetition. The first repetition is not counted."""
    samples: Samples = {name: [] for name in arms}
    for arm in arms.values():
        await arm()
    gc.collect()
    gc.freeze()  # as our servers do: garbage collections skip the objects that exist already
    order, until = list(arms), time.perf_counter() + effort.seconds
    for repetition in range(effort.at_most):
        if repetition >= effort.at_least and time.perf_counter() > until:
            break
        random.shuffle(order)
        for name in order:
            started = time.perf_counter()
            await arms[name]()
            samples[name].append(time.perf_counter() - started)
    gc.unfreeze()
    return samples

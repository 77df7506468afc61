"""Runs the things that are compared in turn: each repetition runs every arm once, in an order drawn anew.

What else the machine does then falls on all arms alike, and ratios within one run mean something where times do not.
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


async def interleaved(arms: Mapping[str, Arm], effort: Effort) -> Samples:
    """The seconds that each arm took in each repetition, after one that is not counted."""
    samples: Samples = {name: [] for name in arms}
    for arm in arms.values():
        await arm()
    gc.collect()
    gc.freeze()  # as our servers do: what is there already shall not be looked through again and again
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

"""How many of the cases of a test run in every run, if many are alike. The others belong to `make soak`."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings


def choose_every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases as parameters of a test: one of each `step` for every run, and the others for `make soak`."""
    return [pytest.param(case, marks=[pytest.mark.soak] * (at % step > 0)) for at, case in enumerate(cases)]


THOROUGH = 100
"""The examples of a test in a thorough run, if the test does not say how many it needs."""


def count_examples(thorough: int) -> int:
    """Return how many examples of Hypothesis a test tries: as many in a thorough run, and half of them in others."""
    return thorough * settings().max_examples // THOROUGH

"""Choosing the cases of a test that run in every run, if many cases are alike."""

from collections.abc import Iterable
from typing import Any

import pytest


def choose_every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Return the cases as parameters of a test: one of each `step` for every run, and the others for `make soak`."""
    return [pytest.param(case, marks=[pytest.mark.soak] * (at % step > 0)) for at, case in enumerate(cases)]

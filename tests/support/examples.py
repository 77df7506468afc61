"""How many examples of Hypothesis a run tries. Each process of pytest registers all profiles: it gets one by name."""

from hypothesis import settings

THOROUGH = 100
"""The examples of a test in a thorough run, if the test does not say how many it needs."""


def register_profiles() -> None:
    """Register the profiles of the tests, and load that of `make test`. A busy machine is no failure."""
    settings.register_profile("thorough", deadline=None, max_examples=THOROUGH)
    settings.register_profile("tests", deadline=None, max_examples=THOROUGH // 2)
    settings.register_profile("ci", settings.get_profile("tests"), derandomize=True, database=None)
    settings.load_profile("tests")


def count_examples(thorough: int) -> int:
    """Return how many examples a test tries: as many in a thorough run, and half of them in others."""
    return thorough * settings().max_examples // THOROUGH

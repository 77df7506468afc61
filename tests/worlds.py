"""Putting a test into worlds."""

import pytest


def in_world(*names: str) -> pytest.MarkDecorator:
    """Run the test once in each of these worlds; those of one world run in one process, which enters it once."""
    marks = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]
    return pytest.mark.parametrize("world", marks, indirect=True)

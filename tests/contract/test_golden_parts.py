"""The parts in which `make golden` writes the goldens."""

import pytest

from tests.contract.cases import HOME
from tests.contract.conftest import worlds_of
from tests.worlds.table import WORLDS


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_each_world_is_in_one_part_and_home_is_in_the_first(count: int) -> None:
    """Two parts must not write the same file, and no part but the first may write the goldens of home."""
    others = [world for number in range(count) for world in worlds_of(f"{number + 1}/{count}")]
    assert worlds_of("home") == {HOME}
    assert sorted([HOME, *others]) == sorted(WORLDS)


def test_worlds_are_chosen_by_name() -> None:
    assert worlds_of("member  empty") == {"member", "empty"}
    assert worlds_of(HOME) == {HOME}


def test_a_name_of_no_world_is_refused_with_all_names() -> None:
    with pytest.raises(pytest.UsageError, match=rf"no world nope; worlds: {HOME}, .*empty"):
        worlds_of("member nope")

"""A page ends at its rows or at about 40,000 characters, and the pages together have each row once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.core.cuts import PAGE_CHARACTERS, cut_text, fit
from quilt_mcp.core.registry import parameters_of
from quilt_mcp.demo.world import World
from quilt_mcp.resources import RESOURCE_REGISTRY
from tests.contract.cases import RESOURCES
from tests.support.python_caller import read
from tests.support.worlds import in_world

REST = 4_000
"""What an answer has beside its rows."""
TREES = ("/hierarchy", "/trace", "/coverage", "/contents", "/object")
"""Not lists: a page of a tree has whole branches, and a file has a page of its own."""
LISTS = [
    row
    for row in RESOURCES
    if "limit" in parameters_of(RESOURCE_REGISTRY[row.uri]) and not any(tree in row.uri for tree in TREES)
]


@in_world("admin")
@pytest.mark.parametrize(
    "row", [row for row in LISTS if not any(tree in row.uri for tree in TREES)], ids=lambda row: row.uri
)
async def test_the_largest_pages_of_a_list_fit_into_an_answer_and_have_each_row_once(row: object, world: World) -> None:
    uri = row.example_uri  # type: ignore[attr-defined]  # a row of the inventory
    seen, cursor, count = list[str](), "", None
    while cursor is not None:
        page = await read(f"{uri}?limit=100{f'&cursor={cursor}' if cursor else ''}")
        assert len(json.dumps(page, ensure_ascii=False)) <= PAGE_CHARACTERS + REST
        for beside in ("other_data_catalogs", "types"):  # on the first page
            page.pop(beside, None)
        lists = [value for value in page.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
        seen += [json.dumps(one, sort_keys=True) for rows in lists for one in rows]
        cursor, count = page["next_cursor"], page.get("count")
    assert len(set(seen)) == len(seen)
    assert count is None or len(seen) == count


@given(st.lists(st.text(max_size=50), max_size=40), st.integers(1, 500))
def test_rows_that_fit_are_the_first_ones_and_as_many_as_possible(rows: list[str], room: int) -> None:
    found = fit(rows, room)
    assert rows[: len(found)] == found
    assert bool(found) == bool(rows)
    sizes = [len(json.dumps(row, ensure_ascii=False)) for row in rows]
    if len(found) < len(rows):
        assert sum(sizes[: len(found) + 1]) + len(found) + 1 > room - 20 * len(rows)


@pytest.mark.parametrize(
    ("text", "most", "expected"), [("", 0, ("", False)), ("ab", 2, ("ab", False)), ("abc", 2, ("ab", True))]
)
def test_a_cut_text_says_so(text: str, most: int, expected: tuple[str, bool]) -> None:
    assert cut_text(text, most) == expected

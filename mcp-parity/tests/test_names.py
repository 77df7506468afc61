"""The names of the goldens."""

from itertools import combinations
from pathlib import PurePosixPath

from mcp_parity.settings import Names

URIS = [
    "shop://a/b",
    "Shop://a/b",
    "shop://A/b",
    "/a/b",
    "shop://a--member/b",
    "shop://a/b--member",
    "shop://a/../b",
    "shop://a/./b",
    "shop://a//b",
    "shop://a/b?x=1",
    "shop://a/b?x=2",
    "shop://" + "x" * 300,
    "shop://" + "x" * 299 + "y",
    "shop://ä",
    "shop://a%2Fb",
    "shop://c",
    "shop://c.json/d",
]


def test_names_are_readable() -> None:
    names = Names(["shop://orders/7", "/search/Ada"])
    assert names.data("shop://orders/7", "") == "data/shop/orders/7"
    assert names.error("shop://orders/7", "member") == "errors/shop/orders/7--member"
    assert names.data("/search/Ada", "") == "data/-/search/Ada"


def test_all_names_differ_in_all_worlds_on_a_disk_that_ignores_case() -> None:
    names = Names(URIS)
    made = [name(uri, world) for uri in URIS for world in ("", "member") for name in (names.data, names.error)]
    assert [pair for pair in combinations(made, 2) if pair[0].casefold() == pair[1].casefold()] == []
    assert names.all(["", "member"]) >= set(made)


def test_no_folder_has_the_name_of_a_golden() -> None:
    names = Names(URIS)
    made = {f"{name(uri, '')}.json".casefold() for uri in URIS for name in (names.data, names.error)}
    assert not made & {str(folder) for one in made for folder in PurePosixPath(one).parents}


def test_names_stay_in_the_directory_of_the_goldens() -> None:
    names = Names(URIS)
    parts = [part for uri in URIS for part in names.data(uri, "").split("/")]
    assert not {"", ".", ".."} & set(parts)
    assert max(map(len, parts)) <= 120

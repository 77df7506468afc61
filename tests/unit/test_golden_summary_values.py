"""No difference between two answers is passed over in the pull request's summary, and sameness is never told."""

import json
from itertools import product
from pathlib import Path

from tests.unit.golden_repository import CSV, Repository, answer, row

VALUES = json.loads("""[
    null, true, 1, 1.0, 2, "x", {}, {"a": 1}, {"a": null}, {"a": 1, "b": 2}, {"a": {"b": 1}}, [], [1], [1, 2], [2, 1],
    [[1]], [{}], [{"a": 1}], [{"a": true}], [{"a": 1}, {}], [{}, {"a": 1}], [{"a": 1}, {"b": 1}], [null]
]""")


def test_no_difference_is_passed_over(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    pairs = {f"pair://{one}/{other}": (one, other) for one, other in product(range(len(VALUES)), repeat=2)}
    for side, tag in enumerate(("before", "after")):
        repository.files = {CSV: [row(uri, uri) for uri in pairs]} | {
            f"golden/data/{uri.replace('://', '/')}.json": answer(uri, {"x": VALUES[pair[side]]})
            for uri, pair in pairs.items()
        }
        repository.commit(tag)

    text = repository.summary("before", "after").stdout

    told = {line.strip("# `") for line in text.splitlines() if line.startswith("### ")}
    assert told == {uri for uri, (one, other) in pairs.items() if one != other}

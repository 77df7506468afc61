"""The pull request's summary lists every difference between two answers, and never lists equal answers."""

import json
from itertools import product
from pathlib import Path

from tests.repository import CSV, Repository, answer, row

VALUES = json.loads("""[
    null, true, 1, 1.0, 2, "x", {}, {"a": 1}, {"a": null}, {"a": 1, "b": 2}, {"a": {"b": 1}}, [], [1], [1, 2], [2, 1],
    [[1]], [{}], [{"a": 1}], [{"a": true}], [{"a": 1}, {}], [{}, {"a": 1}], [{"a": 1}, {"b": 1}], [null]
]""")


def test_exactly_the_answers_that_differ_are_listed(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    pairs = {f"pair://{one}/{other}": (one, other) for one, other in product(range(len(VALUES)), repeat=2)}
    for side, tag in enumerate(("before", "after")):
        repository.files = {CSV: [row(uri, uri) for uri in pairs]} | {
            f"golden/data/{uri.replace('://', '/')}.json": answer(uri, {"x": VALUES[pair[side]]})
            for uri, pair in pairs.items()
        }
        repository.commit(tag)

    text = repository.summary("before", "after").stdout

    listed = {line.strip("# `") for line in text.splitlines() if line.startswith("### ")}
    assert listed == {uri for uri, (one, other) in pairs.items() if one != other}

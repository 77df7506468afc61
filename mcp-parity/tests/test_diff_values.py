"""The pull request's summary lists every difference between two answers, and never lists equal answers."""

import json
import re
from itertools import product

from mcp_parity.comparison import document_changes
from tests.repository import CSV, answer, row, summarize

VALUES = json.loads("""[
    null, false, true, 0, 0.0, -0.0, 1, 1.0, 2, "x",
    {}, {"a": 1}, {"a": null}, {"a": 1, "b": 2}, {"a": {"b": 1}}, [], [1], [1, 2], [2, 1],
    [[1]], [{}], [{"a": 1}], [{"a": true}], [{"a": 1}, {}], [{}, {"a": 1}], [{"a": 1}, {"b": 1}], [null]
]""")


def test_rows_that_only_python_treats_as_equal_are_compared_with_their_own_row() -> None:
    before = [{"text": "a", "flag": True}, {"text": "b", "flag": 1}]
    after = [{"text": "c", "flag": 1}, {"text": "c", "flag": True}]
    assert {change.thing for change in document_changes(before, after)} == {"`[].text`"}


def test_exactly_the_answers_that_differ_are_listed() -> None:
    pairs = {f"pair://{one}/{other}": (one, other) for one, other in product(range(len(VALUES)), repeat=2)}
    before, after = (
        {CSV: [row(uri, uri) for uri in pairs]}
        | {
            f"golden/data/{uri.replace('://', '/')}.json": answer(uri, {"x": VALUES[pair[side]]})
            for uri, pair in pairs.items()
        }
        for side in (0, 1)
    )

    text = summarize(before, after).text

    headings = [line for line in text.splitlines() if line.startswith("### ")]
    lines = [line for line in text.splitlines() if line.startswith("The same in ")]
    listed = set(re.findall(r"`(pair://[^`]+)`", "\n".join(headings + lines)))
    different = {uri for uri, (one, other) in pairs.items() if one != other}
    assert listed <= different
    more = sum(int(found) for line in headings for found in re.findall(r"and (\d+) more", line))
    assert len(headings) + more == len(different)

"""JSON values are equal if their types are, too. The order of keys makes no difference."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_parity.comparison import document_changes
from mcp_parity.settings import parse_volatile
from mcp_parity.values import are_equal, find_differences, mask

# Few different values, many of which Python treats as equal: two that are drawn are often almost the same.
KEYS = st.sampled_from(["a", "", "Last Seen", "a.b", "x[]", "[0]", 'q"', "\\", "é", "/a/", " "])


@settings(deadline=None, database=None)
@given(st.lists(KEYS, min_size=1, max_size=3))
def test_a_volatile_value_can_have_any_key(keys: list[str]) -> None:
    one: Any = {"a": [1, 2]}
    for key in reversed(keys):
        one = {key: one}
    other = json.loads(json.dumps(one).replace("[1, 2]", "[1, 3]"))
    [found] = find_differences([one], [other], "contents")
    volatile = parse_volatile(f"x://a {found.volatile}").where
    masked = (mask({"contents": [value]}, [volatile]) for value in (one, other))
    assert list(find_differences(*masked)) == []
    assert "<differs>" in json.dumps(mask({"contents": [one]}, [volatile]))


LEAVES = st.sampled_from([None, False, 0, 0.0, -0.0, True, 1, 1.0, "", "1"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None, database=None)
@given(VALUES, VALUES)
@example(3, 3.0)
@example([True], [1])
@example(0.0, -0.0)
@example({"a": [1, {"b": -0.0}]}, {"a": [1, {"b": 0.0}]})
@example({"a": 1, "b": 2}, {"b": 2, "a": 1})
@example([0.0], [0.0, 0.0])
@example(None, {})
def test_values_differ_exactly_if_their_texts_with_sorted_keys_do(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert are_equal(one, other) is same
    assert (not list(find_differences(one, other))) is same
    assert (not list(document_changes(one, other))) is same

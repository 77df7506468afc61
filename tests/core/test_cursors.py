"""Cursors: decoding returns the encoded value, and other texts are refused."""

import base64
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp.core import cursors
from quilt_mcp.core.errors import InvalidTemplateVariable

TAG = cursors.compute_tag("list", "me")


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=60))
def test_decoding_returns_the_encoded_value(after: str) -> None:
    assert cursors.decode(cursors.encode(after, TAG), TAG) == after


KINDS = {
    str: st.text(max_size=60),  # the longest sort key, with characters of four bytes
    int: st.integers(0, 10**9),
    bytes: st.binary(max_size=16),
    UUID: st.none() | st.uuids(),
    datetime: st.none() | st.datetimes(timezones=st.just(UTC)),
}


@given(st.sampled_from([[bytes, int, str], [bytes, int, datetime], [UUID, UUID, int, int]]), st.data())
def test_decoding_returns_the_encoded_values_and_no_others(types: list[type], data: st.DataObject) -> None:
    values: list[Any] = [data.draw(KINDS[kind]) for kind in types]
    cursor = cursors.encode_values(values, TAG)
    assert len(cursor) <= cursors.MAX_LENGTH
    assert cursors.decode_values(cursor, TAG, types) == values
    with pytest.raises(InvalidTemplateVariable):
        cursors.decode_values(cursor, TAG, [*types, int])


def raw(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


GOOD = cursors.encode("a://b", TAG)
WRONG = {
    "of another caller": cursors.encode("a://b", cursors.compute_tag("list", "you")),
    "of another version": raw([2, TAG, "a://b"]),
    "an offset": raw({"offset": 100}),
    "a number for a text": raw([1, TAG, 7]),
    "too many parts": raw([1, TAG, "a", "b"]),
    "null": raw(None),
    "nested deeply": base64.urlsafe_b64encode(b"[" * 380).decode(),
    "truncated": GOOD[:-3],
    "longer": GOOD + "AA",
    "padded": GOOD + "=",
    "with blanks": f" {GOOD}",
    "not ASCII": "ünlesbar",
    "of another alphabet": raw([1, TAG, "a://??>>"]).replace("-", "+").replace("_", "/") + "+",
    "garbage": "!!!!",
    "too long": "A" * 513,
    "spaced differently": base64.urlsafe_b64encode(json.dumps([1, TAG, "a://b"]).encode()).decode().rstrip("="),
    "no UTF-8": base64.urlsafe_b64encode(b'[1,"\xff","x"]').decode().rstrip("="),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_text_that_encode_did_not_make_is_refused(name: str) -> None:
    with pytest.raises(InvalidTemplateVariable, match="cursor"):
        cursors.decode(WRONG[name], TAG)


@given(st.text(max_size=600))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidTemplateVariable):
        cursors.decode(text, TAG)


def test_each_scope_has_its_own_short_tag() -> None:
    tags = {cursors.compute_tag(*scope) for scope in [("a",), ("b",), ("a", "b"), ("ab",), (None,)]}
    assert len(tags) == 5
    assert {len(tag) for tag in tags} == {12}

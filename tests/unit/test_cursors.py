"""Cursors: what one is made for it gives back, and nothing else is one."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quilt_mcp import cursors
from quilt_mcp.errors import InvalidTemplateVariable

TAG = cursors.tag_of("list", "me")


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=60))
def test_a_cursor_gives_back_what_it_was_made_of(after: str) -> None:
    assert cursors.decode(cursors.encode(after, TAG), TAG) == after


def raw(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


GOOD = cursors.encode("a://b", TAG)
WRONG = {
    "of another caller": cursors.encode("a://b", cursors.tag_of("list", "you")),
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
def test_whatever_is_not_made_by_encode_is_refused(name: str) -> None:
    with pytest.raises(InvalidTemplateVariable, match="cursor"):
        cursors.decode(WRONG[name], TAG)


@given(st.text(max_size=600))
def test_no_text_breaks_the_decoder(text: str) -> None:
    with pytest.raises(InvalidTemplateVariable):
        cursors.decode(text, TAG)


def test_a_tag_tells_scopes_apart_and_is_short() -> None:
    tags = {cursors.tag_of(*scope) for scope in [("a",), ("b",), ("a", "b"), ("ab",), (None,)]}
    assert len(tags) == 5
    assert {len(tag) for tag in tags} == {12}

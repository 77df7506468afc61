"""Values of analysed code, in the form that an answer can hold."""

import json
import math
from enum import Enum
from inspect import Signature, signature
from typing import Any

import pytest

from quilt_mcp.analysis.rendering import TEXT_LENGTH, counterexample, plain, source_text


class Colour(Enum):
    RED = 1


class Loud:
    def __repr__(self) -> str:
        raise KeyError("a secret")


@pytest.mark.parametrize("value", [0, -1, 2**64, 10**400, True, None, "", "é", "\x00", 0.5, -0.0])
def test_what_json_can_hold_stays_as_it_is(value: Any) -> None:
    assert (plain(value), type(plain(value))) == (value, type(value))
    assert json.loads(json.dumps(plain(value))) == value


@pytest.mark.parametrize(
    "value",
    [
        [1, "a"],
        (1,),
        (1, 2),
        (),
        {"k": [None]},
        {1, 2},
        b"\xff",
        "\ud800",
        math.inf,
        [math.nan],
        1 << 4200,
        [1 << 4200],
    ],
)
def test_other_values_become_source_that_makes_them_again(value: Any) -> None:
    text = plain(value)
    assert isinstance(text, str)
    assert text.isascii()
    assert repr(eval(text)) == repr(value)  # noqa: S307 - this file's own values
    json.dumps(text, allow_nan=False).encode()


def test_an_integer_that_python_does_not_write_is_told() -> None:
    assert source_text(10**5000).startswith("0x")
    assert source_text([10**5000]).startswith("[0x")


def test_a_member_is_told_by_its_name() -> None:
    assert source_text([Colour.RED]) == "[Colour.RED]"


def test_no_repr_gets_out_that_raises_or_tells_an_address() -> None:
    assert source_text(Loud()) == "<Loud without a repr>"
    assert source_text(object()) == "<object object>"


def test_texts_are_bounded() -> None:
    assert len(source_text("x" * 10**6)) == TEXT_LENGTH
    assert len(str(plain("x" * 10**6))) == TEXT_LENGTH


def test_arguments_are_told_by_how_they_are_given() -> None:
    def f(a: int, *rest: int, k: str, **more: int) -> None: ...

    bound = signature(f).bind(1, 2, k="x", z=3)
    assert isinstance(bound.signature, Signature)
    told = counterexample("f", bound, violation="v", actual_result="r")
    assert told["call"] == "f(1, 2, k='x', z=3)"
    assert (told["args"], told["kwargs"]) == ({"a": 1, "rest": "(2,)"}, {"k": "x", "more": "{'z': 3}"})

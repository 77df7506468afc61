"""Values of analysed code in answers."""

import json
import math

import pytest

from quilt_mcp.analysis.engine.source_text import TEXT_LENGTH, to_json_value, write_source
from tests.analysis.engine_runs import check


class Loud:
    def __init__(self, seed: int) -> None:
        self.hidden = seed + 1

    def __repr__(self) -> str:
        raise KeyError("a secret")


SCALARS = [0, -1, 2**53 - 1, 1 - 2**53, True, None, "", "é", "\x00", 0.5, -0.0]


@pytest.mark.parametrize("value", [*SCALARS, [], {}, [1, "a", None, 0.5], {"a": [{"b": [True]}]}])
def test_json_values_stay_unchanged(value: object) -> None:
    found = to_json_value(value)
    assert (found, type(found)) == (value, type(value))
    assert json.loads(json.dumps(found)) == value
    assert to_json_value(str(value)) == str(value)  # a text that looks like one stays a text


@pytest.mark.parametrize(
    "value",
    [
        *([(1,), "a"], (1,), (1, 2), (), {1: [None]}, {1, 2}, b"\xff", "\ud800", math.inf, [math.nan]),
        *(2**53, -(2**53), 10**400, 1 << 4200, [1 << 4200], [True, 2**53]),
        *({1: 2}, [[[[[[1]]]]]], ["\ud800"], {"a": {1}}),
    ],
)
def test_other_values_become_source_text_that_evaluates_to_them(value: object) -> None:
    text = to_json_value(value)
    assert isinstance(text, str)
    assert text.isascii()
    assert repr(eval(text)) == repr(value)  # noqa: S307 - values of this file


def test_values_that_are_too_long_or_have_no_source_text() -> None:
    assert write_source([10**5000 + 1]).startswith("[0x")
    assert write_source(-(3 << 9000)) == "(-0x3 << 9000)"
    assert len(write_source("xy" * 10**6)) == len(str(to_json_value("xy" * 10**6))) == TEXT_LENGTH
    assert isinstance(to_json_value([0] * 1_000), str)
    assert write_source(["x" * 10**6, b"y" * 999]) == "['x' * 1000000, b'y' * 999]"
    assert write_source(Loud(1), globals()) == "<Loud without a repr>"
    assert write_source(iter({1: 2}.items())) == "<dict_itemiterator object>"


@pytest.mark.filterwarnings("ignore")  # CrossHair uses deprecated parts of the standard library
def test_iterators_have_what_is_left_and_keyword_arguments_are_separate() -> None:
    rest = iter([1, "a", 2])
    next(rest)
    assert write_source([rest, iter(())]) == "[iter(['a', 2]), iter([])]"
    answer = check("def f(a: bool, *rest: bool, k: bool, **more: bool) -> None:\n    'post: False'\n")
    found = answer["counterexamples"][0]
    assert (found["args"], found["kwargs"]) == ({"a": False, "rest": "()"}, {"k": False, "more": {}})

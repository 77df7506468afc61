"""The encoder of answers, which code cannot reach."""

import json
from typing import Any

import pytest

from quilt_mcp.analysis.jail.zygote import Unwritable, write_json
from quilt_mcp.analysis.messages import ANSWER_DEPTH, ANSWER_ITEMS, ANSWER_TEXT
from quilt_mcp.analysis.processes import parse_last_line


class Text(str):
    """A text that says that it is short."""

    __slots__ = ()

    def __len__(self) -> int:
        return 0


class Names(dict[str, object]):
    """An object with other names than it contains."""

    def items(self) -> Any:
        return [("status", "verified")]


class Number(int):
    """A number that is written as another."""

    def __repr__(self) -> str:
        return "1"


VALUES: list[object] = [
    None,
    True,
    False,
    0,
    -(10**300),
    1.5,
    -0.0,
    1e308,
    "",
    'a"\\\n\u2028é\U0001f600',
    [],
    {},
    [[1, {"a": [None]}], "x"],
]


def test_json_is_that_of_the_library() -> None:
    assert [write_json(value) for value in VALUES] == [json.dumps(value).encode() for value in VALUES]


def test_tuple_is_an_array() -> None:
    assert write_json((1, (2,))) == b"[1, [2]]"


UNWRITABLE: list[object] = [
    *(Text("x"), Names(), Number(5), float("nan"), float("inf"), {1: 2}, {Text("x"): 1}, object(), {1}, b"x", 1j),
    *([0] * (ANSWER_ITEMS + 1), json.loads("[" * (ANSWER_DEPTH + 1) + "]" * (ANSWER_DEPTH + 1))),
]


def is_written(value: object) -> bool:
    try:
        write_json({"status": [value]} if not isinstance(value, list) else value)
    except Unwritable:
        return False
    return True


def test_other_values_are_not_written() -> None:
    assert [value for value in UNWRITABLE if is_written(value)] == []


def test_long_text_is_cut() -> None:
    written = json.loads(write_json("x" * (ANSWER_TEXT + 1)))
    assert (len(written), written[-1]) == (ANSWER_TEXT, "…")


@pytest.mark.parametrize(
    ("part", "accepted"),
    [
        ("x" * ANSWER_TEXT, True),
        ("x" * (ANSWER_TEXT + 1), False),
        ([0] * ANSWER_ITEMS, True),
        ([0] * (ANSWER_ITEMS + 1), False),
        ({"x" * (ANSWER_TEXT + 1): 0}, False),
        (["x" * (ANSWER_TEXT + 1)], False),
    ],
)
def test_server_refuses_an_answer_with_a_longer_part(part: object, accepted: bool) -> None:  # noqa: FBT001 - pytest passes parameters by name
    line = json.dumps({"answer": {"status": "verified", "part": part}}) + "\n"
    assert (parse_last_line(bytearray(line.encode()), "answer") is not None) == accepted

"""The JSON texts of answers: the same values, and the same refusals, as json.dumps."""

import json
import struct
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Flag, IntEnum, StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from quilt_mcp.core.answers import MAX_LEVELS, GetResourceSuccess, ResourceMetadata, to_json


class Color(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Renamed(StrEnum):
    """A text with another text as its value."""

    ONE = "one"

    def __init__(self, _: str) -> None:
        self._value_ = "another"


class Rights(Flag):
    READ = 1


class Point(NamedTuple):
    x: int
    y: int


class Row(BaseModel):
    since: datetime
    ratio: float = 0.5


def has_text_keys(value: object, depth: int = 0) -> bool:
    if depth > MAX_LEVELS:
        return True
    inner = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list | tuple) else []
    is_plain = not isinstance(value, dict) or all(isinstance(key, str) for key in value)
    return is_plain and all(has_text_keys(one, depth + 1) for one in inner)


def dumps(value: object) -> str:
    def default(found: object) -> object:
        if isinstance(found, BaseModel):
            return found.model_dump(mode="json")
        raise TypeError(f"{type(found).__name__} is not a JSON type")

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=default)
    if not has_text_keys(value):
        raise TypeError("a key is not a text")
    return text


def outcome(write: Callable[[object], str], value: object) -> object:
    """Return what a client reads, in which 1, 1.0, true and -0.0 are different values; or the type of the error."""
    try:
        return repr(json.loads(write(value), object_pairs_hook=list))
    except (TypeError, ValueError, RecursionError) as error:
        return type(error)


NEAR_ZERO = st.floats(min_value=-1e-3, max_value=1e-3)
TEXTS = st.text(st.characters()) | st.text(st.characters(categories=["Cs", "Cc", "L"]))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**200), 2**200), TEXTS, st.floats(), NEAR_ZERO
)
FOREIGN = st.sampled_from(
    [
        *(
            datetime(2026, 1, 2, tzinfo=UTC),
            date(2026, 1, 2),
            timedelta(1),
            Decimal("1.5"),
            UUID(int=1),
            PurePosixPath("a"),
        ),
        *(b"bytes", bytearray(b"bytes"), {1}, frozenset({"a"}), 1j, ..., object, len),
        *(Color.RED, Level.LOW, Renamed.ONE, Rights.READ, Point(1, 2), (1, "a"), (), {}.keys()),
        *(Row(since=datetime(2026, 1, 2, tzinfo=UTC)), Row(since=datetime(2026, 1, 2, tzinfo=UTC), ratio=float("nan"))),
    ]
)
KEYS = st.one_of(TEXTS, st.integers(), st.floats(), NEAR_ZERO, st.booleans(), st.none()) | st.sampled_from(
    [Color.RED, Level.LOW, Renamed.ONE, b"a", (1, 2), date(2026, 1, 2), UUID(int=1)]
)


def nest(leaves: st.SearchStrategy[object], keys: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=12)


@given(nest(SCALARS, TEXTS))
@example({"id": "0b9f2c1e-6a", "e-6": "e-7}", "zero": "0.0000"})
@example([1e-5, -1.5e-5, 1e-6, 9.99e-9, 1e-10, 1e16, 1e22, 123456789012345680.0, 5e-324, -0.0])
@example(2**64)
@example("\ud800")
def test_values_are_those_of_json_dumps(value: object) -> None:
    assert outcome(to_json, value) == outcome(dumps, value)


@given(nest(SCALARS | FOREIGN, KEYS))
def test_values_of_other_types_are_written_or_refused_as_json_dumps_does(value: object) -> None:
    assert outcome(to_json, value) == outcome(dumps, value)


@pytest.mark.parametrize("bits", [0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8 << 48, 0xFFFF_FFFF_FFFF_FFFF, (0x7FF0 << 48) + 1])
@pytest.mark.parametrize("copies", [1, 2], ids=["one reference", "two references"])
def test_no_infinity_and_no_nan_becomes_null(bits: int, copies: int) -> None:
    rows = [{"name": f"row {number}", "ratio": number / 7, "owner": None} for number in range(500)]
    unusual = [struct.unpack("<d", struct.pack("<Q", bits))[0]] * copies
    while unusual:
        rows[250 + len(unusual)]["ratio"] = unusual.pop()
    for data in (rows, [rows, rows], {"rows": rows, "first": rows[251]}):
        with pytest.raises(ValueError, match="not JSON compliant"):
            to_json(data)


def circular() -> object:
    found: list[object] = []
    found.append({"a": found})
    return found


def nested(depth: int) -> object:
    found: object = 1
    for _ in range(depth):
        found = [found]
    return found


def moved() -> object:
    found = OrderedDict(a=1, b=2)
    found.move_to_end("a")
    return found


@pytest.mark.parametrize(
    "make",
    [
        circular,
        moved,
        lambda: nested(100_000),
        lambda: 10**5000,
        lambda: {1: "a", "1": "b"},
        lambda: {"a": (one for one in "ab")},
    ],
    ids=["circular", "order", "too deep", "long number", "two equal keys", "generator"],
)
def test_unusual_values_are_written_or_refused_as_json_dumps_does(make: Callable[[], object]) -> None:
    assert outcome(to_json, make()) == outcome(dumps, make())


@pytest.mark.parametrize("make", [nested, lambda depth: {"a": 2**70, "b": nested(depth - 1)}], ids=["plain", "unusual"])
def test_data_have_a_maximum_depth(make: Callable[[int], object]) -> None:
    assert outcome(to_json, make(MAX_LEVELS - 1)) == outcome(dumps, make(MAX_LEVELS - 1))
    with pytest.raises(ValueError, match=f"more than {MAX_LEVELS} levels"):
        to_json(make(MAX_LEVELS))


def test_what_is_not_json_is_named() -> None:
    with pytest.raises(TypeError, match="datetime is not a JSON type"):
        to_json({"since": datetime(2026, 1, 2, tzinfo=UTC)})


def test_discovery_has_the_text_of_json_dumps() -> None:
    row = ResourceMetadata(
        uri="a://b", name='"B" ☃', description="\n", is_template=False, requires_admin=True, category="a"
    )
    discovery = GetResourceSuccess(uri="", resource_name="Available Resources", data={"a": [row]})
    assert discovery.data_json == dumps({"a": [row]})

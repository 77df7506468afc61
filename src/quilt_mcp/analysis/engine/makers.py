"""Make values: containers, and instances of the classes of the code."""

import copy
import enum
import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

from quilt_mcp.analysis.engine.crosshair import satisfies_invariants
from quilt_mcp.analysis.messages import MODULE_NAME

Annotation: TypeAlias = object
"""The annotation of a parameter or an element: a class, or a form of `typing`."""
Maker = Callable[[], object]
"""Makes a new value each time."""

MOST_BOUNDARIES = 40
"""Maximum number of combinations of boundary values."""


class Unusable(Exception):
    """These values make no argument: the constructor of a class refuses them, or an invariant does not hold."""


def find_subclasses(cls: type) -> Iterator[type]:
    """Yield the subclasses of a class that the code defines."""
    subclasses: list[type] = cls.__subclasses__()
    for one in subclasses:
        if one.__module__ == MODULE_NAME:
            yield one
            yield from find_subclasses(one)


def combine(rows: Sequence[Sequence[Maker]], limit: int) -> Iterator[tuple[Maker, ...]]:
    """Yield all combinations up to the limit; if they are more, all at the same index, then each varied alone."""
    if math.prod(map(len, rows)) <= limit:
        yield from _multiply(rows)
        return
    first = tuple(row[0] for row in rows)
    for together in zip_longest(*rows):
        yield tuple(maker or row[0] for maker, row in zip(together, rows, strict=True))
    for at, row in enumerate(rows):
        yield from ((*first[:at], maker, *first[at + 1 :]) for maker in row)


def _multiply(rows: Sequence[Sequence[Maker]]) -> Iterator[tuple[Maker, ...]]:
    if not rows:
        yield ()
        return
    for maker in rows[0]:
        for rest in _multiply(rows[1:]):
            yield (maker, *rest)


def same(value: object) -> object:
    """Return the value."""
    return value


def list_integer_flags(cls: type[enum.IntFlag]) -> tuple[Maker, ...]:
    """Return makers of members, and of values with bits that no member has: the class keeps these bits."""
    combined = functools.reduce(operator.or_, cls)
    unknown = 1 << int(combined).bit_length()
    values = (0, *cls, combined, unknown, unknown | combined, unknown << 1)
    return tuple(functools.partial(same, cls(one)) for one in values)


def call(make: Callable[..., object], makers: Sequence[Maker]) -> object:
    """Call a function with one new value of each maker."""
    return make(*(one() for one in makers))


def fill(kind: Callable[[list[object]], object], makers: Sequence[Maker]) -> object:
    """Return a container with one new value of each maker."""
    return kind([one() for one in makers])


def pack(*values: object) -> tuple[object, ...]:
    """Return the values."""
    return values


def make_mapping(make: Callable[[dict[object, object]], object], pairs: Sequence[tuple[Maker, Maker]]) -> object:
    """Return a mapping with one new key and value of each pair."""
    return make({key(): value() for key, value in pairs})


def create(cls: type, names: Sequence[str], *values: object) -> object:
    """Return a new instance.

    Raises:
        Unusable: the constructor raises, or an invariant of the class does not hold.
    """
    try:
        created: object = cls(**dict(zip(names, values, strict=True)))
        if satisfies_invariants(created):
            return created
    except Exception as error:  # of the constructor or of an invariant
        raise Unusable from error
    raise Unusable


def copy_again(value: object) -> object:
    """Return a deep copy, so that a value that occurs twice is not the same object. A test could not write that.

    Raises:
        Unusable: the copy raises.
    """
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise Unusable from error


def is_hashable(value: object) -> bool:
    """Return whether a value can be in a set."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def sort(values: list[Any]) -> list[Any]:
    """Return the values in order, if they have one."""
    try:
        return sorted(values)
    except TypeError:
        return values

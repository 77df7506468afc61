"""Make found arguments simpler, so that a counterexample is easy to read: small numbers, short texts and containers.

Simpler values have the same type, and each step must have the same judgement.
"""

import dataclasses
import time
import types
import typing
from collections.abc import Callable, Collection, Iterator
from inspect import BoundArguments
from typing import AnyStr, Union

from quilt_mcp.analysis.engine.candidates import find_annotation
from quilt_mcp.analysis.engine.makers import Annotation, Unusable, create
from quilt_mcp.analysis.messages import MODULE_NAME

_MOST_STEPS, _MOST_TRIES, _LONGEST = 60, 400, 0.1
_SINGLE = 8
_SMALL = (0, 1, -1, 2, 3, 5, 10, 100, 1000)
_SMALL_FLOATS = (0.0, 1.0, -1.0, 0.5, 0.1, 2.0, 10.0, 100.0)
_LETTERS = "a0 "
_EXCEPTIONS = (Exception, ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError)


def simplify(arguments: BoundArguments, keeps: Callable[[BoundArguments], bool]) -> BoundArguments:
    """Return the simplest arguments that were found in a short time.

    Args:
        arguments: the found arguments.
        keeps: whether other arguments have the same judgement.
    """
    started, tries = time.process_time(), 0
    for _ in range(_MOST_STEPS):
        for simpler in _list_simpler(arguments):
            tries += 1
            if tries > _MOST_TRIES or time.process_time() - started > _LONGEST:
                return arguments
            if keeps(simpler):
                arguments = simpler
                break
        else:
            return arguments
    return arguments


def _list_simpler(arguments: BoundArguments) -> Iterator[BoundArguments]:
    values = arguments.arguments
    for name, value in values.items():
        for simpler in _simplify(find_annotation(arguments.signature.parameters[name]), value):
            yield BoundArguments(arguments.signature, {**values, name: simpler})


def _simplify(annotation: Annotation, value: object) -> Iterator[object]:
    """Yield simpler values of the type, the simplest ones first."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {Union, types.UnionType}:
        if value is not None and type(None) in inner:
            yield None
        fitting = [one for one in inner if (typing.get_origin(one) or one) is type(value)]
        yield from _simplify(fitting[0], value) if fitting else ()
    elif isinstance(annotation, typing.NewType):
        yield from _simplify(annotation.__supertype__, value)
    elif isinstance(value, Exception) and type(value) is not annotation:
        yield from (cls() for cls in _EXCEPTIONS if cls is annotation)
    elif type(value) is (origin or annotation):
        yield from _simplify_exact(inner, value)


def _simplify_exact(inner: tuple[Annotation, ...], value: object) -> Iterator[object]:
    match value:
        case bool():
            return
        case int():
            yield from _simplify_integer(value)
        case float():
            known = (*_SMALL_FLOATS, float(round(value)) if abs(value) < 1 << 53 else value, float(f"{value:.3g}"))
            yield from (one for one in known if _is_shorter(one, value))
        case str() | bytes():
            yield from _simplify_text(value)
        case list() | set() | frozenset():
            yield from _simplify_items(type(value), inner[0] if inner else None, value)
        case tuple():
            of_each = [inner[0]] * len(value) if inner[1:] == (...,) else inner
            for at, one in enumerate(zip(of_each, value, strict=True) if len(of_each) == len(value) else ()):
                yield from ((*value[:at], simpler, *value[at + 1 :]) for simpler in _simplify(*one))
        case dict():
            yield from _simplify_mapping(inner, value)
        case _ if type(value).__module__ == MODULE_NAME and dataclasses.is_dataclass(value):
            yield from _simplify_instance(value)


def _simplify_integer(value: int) -> Iterator[int]:
    yield from (one for one in _SMALL if (abs(one), one < 0) < (abs(value), value < 0))
    if not value:
        return
    if value < 0:
        yield -value
    size = abs(value).bit_length()
    sign = -1 if value < 0 else 1
    yield from (sign << power for power in (size // 2, size - 1) if 1 << power < abs(value))
    yield from (sign * (abs(value) >> shift) for shift in (size // 2, size // 4, 1) if shift)
    yield value - sign


def _is_shorter(one: float, value: float) -> bool:
    return (len(repr(one)), one < 0, abs(one)) < (len(repr(value)), value < 0, abs(value))


def _simplify_text(value: str | bytes) -> Iterator[object]:
    if isinstance(value, bytes):
        yield from _shorten(value)
        return
    yield from _shorten(value)
    yield from _simplify_letters(value)


def _shorten(value: AnyStr) -> Iterator[AnyStr]:
    half = len(value) // 2
    yield from (one for one in (value[:0], value[:half], value[half:]) if len(one) < len(value))
    for at in range(min(len(value), _SINGLE)):
        yield value[:at] + value[at + 1 :]


def _simplify_letters(value: str) -> Iterator[str]:
    for at in range(min(len(value), _SINGLE)):
        rank = _LETTERS.find(value[at])
        for letter in _LETTERS[: rank if rank >= 0 else None]:
            yield value[:at] + letter + value[at + 1 :]


def _simplify_items(
    kind: Callable[[list[object]], object], element: Annotation, value: Collection[object]
) -> Iterator[object]:
    items = list(value)
    half = len(items) // 2
    yield from (kind(one) for one in ([], items[:half], items[half:]) if len(one) < len(items))
    for at in range(min(len(items), _SINGLE)):
        yield kind([*items[:at], *items[at + 1 :]])
    for at in range(min(len(items), _SINGLE)):
        yield from (kind([*items[:at], simpler, *items[at + 1 :]]) for simpler in _simplify(element, items[at]))


def _simplify_mapping(inner: tuple[Annotation, ...], value: dict[object, object]) -> Iterator[object]:
    pairs = list(value.items())
    for at in range(min(len(pairs), _SINGLE)):
        yield dict([*pairs[:at], *pairs[at + 1 :]])
    for key, one in pairs[: _SINGLE if len(inner) > 1 else 0]:
        yield from ({**value, key: simpler} for simpler in _simplify(inner[1], one))


def _simplify_instance(value: object) -> Iterator[object]:
    cls = type(value)
    hints = typing.get_type_hints(cls)
    values = {one.name: getattr(value, one.name) for one in dataclasses.fields(cls) if one.init}  # type: ignore[arg-type] # it is a dataclass
    for name, one in values.items():
        for simpler in _simplify(hints[name], one):
            try:
                yield create(cls, list(values), *{**values, name: simpler}.values())
            except Unusable:
                continue

"""Arguments that share an object: wherever two parts of the arguments have the same declared type, one is given twice.

All other arguments are made of separate objects, because a test writes them as separate values.
"""

import copy
import dataclasses
import types
import typing
from collections import deque
from collections.abc import Iterator
from enum import Enum
from inspect import BoundArguments, Parameter, Signature
from itertools import permutations
from typing import Any, Union

from quilt_mcp.analysis.messages import MODULE_NAME

SHARED = "the result is different if the same object is given twice"
_CHANGEABLE = (list, dict, set, deque, bytearray)
_PLAIN = (int, float, bool, str, bytes, None, type(None))
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_MOST_PARTS = 12
UNKNOWN = ""
"""The declared type of a part that has none: it can be the same object as any part of its class."""


def has_only_plain_values(signature: Signature) -> bool:
    """Return whether no argument can be or contain an object for which `share` yields something."""
    return all(
        one.kind not in _VARIADIC and any(one.annotation is plain for plain in _PLAIN)
        for one in signature.parameters.values()
    )


def share(arguments: BoundArguments) -> Iterator[BoundArguments]:
    """Yield copies of the arguments in which one object stands in two places of the same declared type.

    A container of one object has it twice.
    """
    parameters = arguments.signature.parameters
    parts: dict[int, tuple[object, str]] = {}
    for name, value in arguments.arguments.items():
        _collect(parameters[name].annotation, value, parts)
    for (one, kind), (other, other_kind) in permutations(parts.values(), 2):
        if type(one) is type(other) and (kind == other_kind or UNKNOWN in {kind, other_kind}):
            memo: dict[int, object] = {}
            memo[id(other)] = copy.deepcopy(one, memo)
            values = {name: copy.deepcopy(value, memo) for name, value in arguments.arguments.items()}
            yield BoundArguments(arguments.signature, values)
    for name, value in arguments.arguments.items():
        if isinstance(value, list | deque) and len(value) == 1 and has_identity(value[0]):
            yield BoundArguments(arguments.signature, {**arguments.arguments, name: type(value)([value[0]] * 2)})


def _collect(annotation: object, value: object, parts: dict[int, tuple[object, str]]) -> None:
    """Add the objects in a value that have an identity, with their declared types. The annotation None is unknown."""
    if typing.get_origin(annotation) in {Union, types.UnionType}:
        fitting = [one for one in typing.get_args(annotation) if (typing.get_origin(one) or one) is type(value)]
        annotation = fitting[0] if fitting else None
    if id(value) in parts or len(parts) >= _MOST_PARTS:
        return
    if has_identity(value):
        own = type(value).__module__ == MODULE_NAME
        declared = (
            f"{typing.get_origin(annotation) or annotation}{typing.get_args(annotation)}" if annotation else UNKNOWN
        )
        parts[id(value)] = (value, type(value).__qualname__ if own else declared)
    for inner, one in _parts_of(annotation, value):
        _collect(inner, one, parts)


def _parts_of(annotation: object, value: object) -> Iterator[tuple[object, object]]:
    """Yield what a value contains, each with its declared type; None if it has none."""
    inner = typing.get_args(annotation)
    if isinstance(value, dict):
        yield from ((inner[1] if len(inner) > 1 else None, one) for one in value.values())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        hints = typing.get_type_hints(type(value))
        yield from ((hints.get(name), one) for name, one in zip(value._fields, value, strict=True))
    elif isinstance(value, list | tuple | deque):
        is_fixed = isinstance(value, tuple) and len(inner) == len(value) and inner[-1:] != (Ellipsis,)
        yield from zip(inner if is_fixed else [inner[0] if inner else None] * len(value), value, strict=True)
    elif type(value).__module__ == MODULE_NAME and not isinstance(value, Enum):
        hints = typing.get_type_hints(type(value)) if dataclasses.is_dataclass(value) else {}
        yield from ((hints.get(name), one) for name, one in _attributes(value))


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """Yield the attributes of an object, also those in slots."""
    slots = (name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()))
    for name in dict.fromkeys((*getattr(value, "__dict__", {}), *slots)):
        if hasattr(value, name):
            yield name, getattr(value, name)


def separate(arguments: BoundArguments) -> BoundArguments:
    """Return the arguments without an object that occurs twice in them or their containers."""
    seen: dict[int, object] = {}
    values = {name: _separate(one, seen) for name, one in arguments.arguments.items()}
    return BoundArguments(arguments.signature, values)


def _separate(value: Any, seen: dict[int, object]) -> Any:
    if type(value) in {list, tuple, deque}:
        return type(value)([_separate(one, seen) for one in value])
    if type(value) is dict:
        return {key: _separate(one, seen) for key, one in value.items()}
    if not has_identity(value):
        return value
    if id(value) in seen:
        return copy.deepcopy(value)
    seen[id(value)] = value
    return value


def has_identity(value: object) -> bool:
    """Return whether code can tell this object from an equal one by changing it."""
    own = type(value).__module__ == MODULE_NAME and not isinstance(value, Enum)
    return own or isinstance(value, _CHANGEABLE)

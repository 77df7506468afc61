"""Arguments that share an object: the same one for two parameters, or twice in a container.

All other arguments are made of separate objects, because a test writes them as separate values.
"""

import copy
import types
import typing
from collections import deque
from collections.abc import Iterator
from enum import Enum
from inspect import BoundArguments, Parameter, Signature
from itertools import combinations
from typing import Any, Union

from quilt_mcp.analysis.messages import MODULE_NAME

SHARED = "the result is different if the same object is given twice"
_CHANGEABLE = (list, dict, set, deque, bytearray)
_PLAIN = (int, float, bool, str, bytes, None, type(None))
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def has_only_plain_values(signature: Signature) -> bool:
    """Return whether no argument can be or contain an object for which `share` yields something."""
    return all(
        one.kind not in _VARIADIC and any(one.annotation is plain for plain in _PLAIN)
        for one in signature.parameters.values()
    )


def share(arguments: BoundArguments) -> Iterator[BoundArguments]:
    """Yield arguments with a shared object: each pair of parameters of one type, and the items of each container."""
    values = arguments.arguments
    for one, other in combinations(values, 2):
        if _has_identity(values[one]) and _can_share(arguments, one, other):
            yield BoundArguments(arguments.signature, {**values, other: values[one]})
            yield BoundArguments(arguments.signature, {**values, one: values[other]})
    for name, value in values.items():
        repeated = _repeat(value)
        if repeated is not None:
            yield BoundArguments(arguments.signature, {**values, name: repeated})


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
    if not _has_identity(value):
        return value
    if id(value) in seen:
        return copy.deepcopy(value)
    seen[id(value)] = value
    return value


def _has_identity(value: object) -> bool:
    own = type(value).__module__ == MODULE_NAME and not isinstance(value, Enum)
    return own or isinstance(value, _CHANGEABLE)


def _can_share(arguments: BoundArguments, one: str, other: str) -> bool:
    if type(arguments.arguments[one]) is not type(arguments.arguments[other]):
        return False
    parameters = arguments.signature.parameters
    own = type(arguments.arguments[one]).__module__ == MODULE_NAME
    return own or bool(_list_types(parameters[one].annotation) & _list_types(parameters[other].annotation))


def _list_types(annotation: Any) -> set[str]:
    """Return the texts of the types that a union has, or of the type itself. Not all types are hashable."""
    if typing.get_origin(annotation) in {Union, types.UnionType}:
        return {repr(one) for one in typing.get_args(annotation)}
    return {repr(annotation)}


def _repeat(value: object) -> object | None:
    """Return a container of the first item only, as often as it has items, or None if that shares nothing."""
    if isinstance(value, dict):
        items = list(value.values())
        same = len(items) > 1 and _has_identity(items[0]) and len({*map(type, items)}) == 1
        return dict.fromkeys(value, items[0]) if same else None
    if type(value) not in {list, tuple, deque}:
        return None
    items = list(value)  # type: ignore[call-overload] # one of these types
    if not items or not _has_identity(items[0]) or len({*map(type, items)}) > 1:
        return None
    count = len(items) if isinstance(value, tuple) else max(2, len(items))
    return type(value)([items[0]] * count) if count > 1 else None  # type: ignore[call-arg] # the same

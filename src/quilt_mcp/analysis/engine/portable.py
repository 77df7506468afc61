"""Write arguments as JSON, so that another process can make the same ones."""

import datetime as dt
import enum
import json
from collections import ChainMap, deque
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from inspect import BoundArguments, Signature
from types import ModuleType
from typing import Any

from quilt_mcp.analysis.messages import ANSWER_TEXT, MODULE_NAME

Portable = list[Any]
"""The name of a type, and its content in JSON types."""

_ITERATOR: type = type(iter([]))
_SEQUENCES: Mapping[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
    "iterator": iter,
}
_KINDS = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset", deque: "deque", _ITERATOR: "iterator"}
# JSON has no exact floats, long integers or lone surrogates
_WRITERS: Mapping[type, Callable[[Any], Any]] = {
    int: hex,
    bool: bool,
    type(None): lambda _: None,
    float: float.hex,
    complex: lambda one: [one.real.hex(), one.imag.hex()],
    str: lambda one: one.encode("utf-8", "surrogatepass").hex(),
    bytes: bytes.hex,
    Decimal: str,
    Fraction: str,
    range: lambda one: [one.start, one.stop, one.step],
    dt.date: dt.date.isoformat,
    dt.timedelta: lambda one: [one.days, one.seconds, one.microseconds],
    dt.time: lambda one: [one.isoformat(), one.fold],
    dt.datetime: lambda one: [one.isoformat(), one.fold],
}
_READERS: Mapping[str, Callable[[Any], object]] = {
    "int": lambda text: int(text, 16),
    "bool": bool,
    "NoneType": lambda _: None,
    "float": float.fromhex,
    "complex": lambda parts: complex(*map(float.fromhex, parts)),
    "str": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
    "bytes": bytes.fromhex,
    "Decimal": Decimal,
    "Fraction": Fraction,
    "range": lambda parts: range(*parts),
    "date": dt.date.fromisoformat,
    "timedelta": lambda parts: dt.timedelta(*parts),
    "time": lambda parts: dt.time.fromisoformat(parts[0]).replace(fold=parts[1]),
    "datetime": lambda parts: dt.datetime.fromisoformat(parts[0]).replace(fold=parts[1]),
}


class NotPortable(Exception):
    """A value cannot be written."""


def write_arguments(arguments: BoundArguments) -> dict[str, list[str]]:
    """Return the JSON text of each argument, in parts. The nesting of a text has no limit, unlike that of an answer.

    Raises:
        NotPortable: that is not possible.
    """
    try:
        texts = {name: json.dumps(_write(one)) for name, one in arguments.arguments.items()}
    except (RecursionError, AttributeError) as error:
        raise NotPortable from error
    return {name: [one[at : at + ANSWER_TEXT] for at in range(0, len(one), ANSWER_TEXT)] for name, one in texts.items()}


def read_arguments(
    written: Mapping[str, Sequence[str]], signature: Signature, modules: Sequence[ModuleType]
) -> BoundArguments:
    """Return the arguments that `write_arguments` wrote. Their classes are those of the first module that has the name.

    Raises:
        NotPortable: no module has such a class.
    """
    bound = signature.bind_partial()
    values = {name: json.loads("".join(one)) for name, one in written.items()}
    names = ChainMap(*map(vars, modules))
    bound.arguments.update({name: _read(one, names) for name, one in values.items() if name in signature.parameters})
    return bound


def _write(value: Any) -> Portable:
    kind: Any = type(value)
    if kind in _WRITERS:
        return [kind.__name__, _WRITERS[kind](value)]
    if kind in _KINDS:
        items = value.__reduce__()[1][0] if kind is _ITERATOR else value
        return [_KINDS[kind], [_write(one) for one in items]]
    if kind is dict:
        return ["dict", [[_write(key), _write(one)] for key, one in value.items()]]
    if kind.__module__ != MODULE_NAME:
        raise NotPortable
    if isinstance(value, enum.Enum):
        return ["enum", [kind.__qualname__, _write(value.value)]]
    if kind.__reduce__ is not object.__reduce__ or issubclass(kind, tuple | list | dict | str | int | BaseException):
        raise NotPortable
    slots = [name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ())]
    state = {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in slots}}
    return ["object", [kind.__qualname__, {name: _write(one) for name, one in state.items()}]]


def _read(written: Portable, names: Mapping[str, object]) -> Any:
    kind, content = written
    if kind in _READERS:
        return _READERS[kind](content)
    if kind in _SEQUENCES:
        return _SEQUENCES[kind]([_read(one, names) for one in content])
    if kind == "dict":
        return {_read(key, names): _read(one, names) for key, one in content}
    cls = names.get(content[0])
    if not isinstance(cls, type):
        raise NotPortable
    if kind == "enum":
        return cls(_read(content[1], names))
    made: object = object.__new__(cls)
    for name, one in content[1].items():
        object.__setattr__(made, name, _read(one, names))
    return made

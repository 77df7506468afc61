"""Write values of analysed code for an answer: as Python source text that makes equal values, or as JSON.

The text consists of literals, of names that are checked, and of calls, and has a limited length. It never contains the
repr of a class that the code defines, because that is text of the code's choice.
"""

import builtins
import dataclasses
import inspect
import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from inspect import BoundArguments, Parameter
from itertools import permutations
from types import FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from quilt_mcp.analysis.messages import MODULE_NAME

if TYPE_CHECKING:  # the server imports this module, but not CrossHair
    from quilt_mcp.analysis.engine.subjects import Subject


_MOST_OPEN = 2


def read_attributes(value: object) -> dict[str, object]:
    """Return the attributes in `__dict__` and in slots."""
    found = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def find_arguments(value: object, attributes: Mapping[str, object]) -> dict[str, object] | None:
    """Return arguments with which the class makes an equal object; None if they are not known.

    A parameter takes the attribute of its name, also with an underscore before it, else one that no parameter names.
    """
    cls = type(value)
    if cls.__init__ is object.__init__:
        return None if attributes else {}
    try:
        parameters = inspect.signature(cls).parameters
        stored = {name: _find_stored(name, attributes) for name in parameters}
        found = {name: attributes[key] for name, key in stored.items() if key is not None}
        open_names = [one.name for one in parameters.values() if stored[one.name] is None and one.default is one.empty]
        others = [one for key, one in attributes.items() if key not in stored.values()]
        for chosen in permutations(others, len(open_names)) if len(open_names) <= _MOST_OPEN else ():
            arguments = {**found, **dict(zip(open_names, chosen, strict=True))}
            if read_attributes(cls(**arguments)) == attributes:
                return {name: arguments[name] for name in parameters if name in arguments}
    except Exception:  # noqa: BLE001 - the class is analysed code
        return None
    return None


def _find_stored(name: str, attributes: Mapping[str, object]) -> str | None:
    return next((key for key in (name, f"_{name}") if key in attributes), None)


INTEGER_BITS = 4_096
_REPEATED = 200
# The class of arguments for `Callable`, by module and name: the server imports this module, but not CrossHair
_CALLABLE = "crosshair.libimpl.builtinslib", "SymbolicCallable"
_BASES: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes, float, int)
_ITERATORS = (type(iter(list[Any]())), type(iter(())), type(iter(set[Any]())), type(iter("")), type(iter(range(0))))


class Unwritable(Exception):
    """No source text makes this value."""


Refer = Callable[[object, str], str]
"""Returns the source text that names a class or function, given also the name that it has in its module."""


@dataclasses.dataclass(slots=True)
class Writer:
    """Writes values.

    Attributes:
        refer: names classes and functions.
        make: the name of a function that makes an object from a class and attributes, without `__init__`; None if
            there is none.
        used_make: whether some text calls that function.
        used_sequence: whether some text makes a function that returns values in their order.
    """

    refer: Refer
    make: str | None = None
    used_make: bool = False
    used_sequence: bool = False

    def write(self, value: object) -> str:
        """Return source text for a value.

        Raises:
            Unwritable: there is none.
        """
        simple = _WRITERS.get(type(value))
        if simple:
            return simple(self, value)
        if value is Ellipsis or value is NotImplemented:
            return repr(value)
        if isinstance(value, Enum):
            return self._write_member(value)
        if isinstance(value, type | FunctionType) or inspect.isbuiltin(value):
            return self.refer(value, value.__qualname__)
        if isinstance(value, _ITERATORS):
            return f"iter({self.write(_copy_iterator(value))})"
        return self._write_object(value)

    def join(self, values: "list[object] | tuple[object, ...]") -> str:
        """Return the values as source text, separated by commas."""
        return ", ".join(map(self.write, values))

    def call(self, cls: object, *arguments: object, **named: object) -> str:
        """Return a call of a class."""
        parts = [*map(self.write, arguments), *(f"{check_name(name)}={self.write(one)}" for name, one in named.items())]
        name = cls if isinstance(cls, str) else self.refer(cls, getattr(cls, "__qualname__", ""))
        return f"{name}({', '.join(parts)})"

    def _write_sequence(self, value: Any) -> str:
        """Return a function that ignores its arguments, and returns these values and then the last one again."""
        self.used_sequence = True
        *first, last = value.values[value.idx :] or value.values[-1:]
        if not first:
            return f"(lambda *_, **__: {self.write(last)})"
        return f"(lambda values: lambda *_, **__: next(values, {self.write(last)}))(iter({self.write(first)}))"

    def _write_member(self, value: Enum) -> str:
        cls = type(value)
        name = self.refer(cls, cls.__qualname__)
        if isinstance(value, Flag) and value not in list(cls):
            known = list(value) if sum(one.value for one in value) == value.value else []  # an IntFlag keeps other bits
            return " | ".join(f"{name}.{check_name(one.name)}" for one in known) or f"{name}({int(value.value)})"
        return f"{name}.{check_name(value.name)}"

    def _write_object(self, value: object) -> str:
        cls, attributes = type(value), read_attributes(value)
        if (cls.__module__, cls.__qualname__) == _CALLABLE:
            return self._write_sequence(value)
        if isinstance(value, BaseException):
            return self.call(cls, *value.args)
        if isinstance(value, tuple) and hasattr(cls, "_fields"):
            return self.call(cls, *value)
        base = next((one for one in _BASES if isinstance(value, one)), None)
        if base and not attributes:
            return self.call(cls, base(value))
        if cls is not object and cls.__module__.partition(".")[0] in {"builtins", *sys.stdlib_module_names}:
            raise Unwritable  # the attributes do not show all of its state
        arguments = find_arguments(value, attributes)
        if arguments is not None:
            return self.call(cls, **arguments)
        if self.make is None or not attributes:
            raise Unwritable
        self.used_make = True
        named = [f"{check_name(name)}={self.write(one)}" for name, one in attributes.items()]
        return f"{self.make}({', '.join([self.refer(cls, cls.__qualname__), *named])})"


def check_name(name: str | None) -> str:
    """Return a name that can be part of source text.

    Raises:
        Unwritable: it cannot.
    """
    if name is None or not (name.isidentifier() and name.isascii()):
        raise Unwritable
    return name


def write_name(namespace: Mapping[str, object], value: object, name: str) -> str:
    """Return how code with these names can refer to a class or function; else its full name.

    Raises:
        Unwritable: it has no name outside of the function that defines it, or belongs to the analyser.
    """
    if getattr(builtins, name, None) is value:
        return name
    if found := find_name(namespace, value, name):
        return found
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or module.partition(".")[0] == "crosshair":
        raise Unwritable
    short = next((key for key, one in namespace.items() if _is_module(one, module)), module)
    if module == MODULE_NAME:  # of another file
        short = next((key for key, one in namespace.items() if _has_name(one, name, value)), module)
    first = short.partition(".")[0]
    known = namespace.get(first, sys.modules.get(first))
    if short == module and not isinstance(known, ModuleType):  # the code has another meaning for the module's name
        short = f"__import__({module!r})"
        return ".".join([short, *map(check_name, name.split("."))])
    return ".".join(check_name(part) for part in f"{short}.{name}".split("."))


def find_name(namespace: Mapping[str, object], value: object, name: str) -> str | None:
    """Return the name under which the namespace has a value: the given name, an attribute of a class, or another."""
    found: object = namespace
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
    if found is value:
        return name
    return next((key for key, one in namespace.items() if one is value and key.isidentifier()), None)


def _is_module(value: object, name: str) -> bool:
    return isinstance(value, ModuleType) and value.__name__ == name


def _has_name(module: object, name: str, value: object) -> bool:
    return isinstance(module, ModuleType) and find_name(vars(module), value, name) == name


def _copy_iterator(value: object) -> list[object]:
    reduced = value.__reduce__()  # it does not consume the iterator
    if not isinstance(reduced, tuple):
        raise Unwritable
    content = reduced[1][0] if reduced[1] else ()
    position = reduced[2] if len(reduced) > 2 and isinstance(reduced[2], int) else 0  # noqa: PLR2004 - the state is third
    return list(content)[position:]


def _write_integer(_: Writer, value: int) -> str:
    if value.bit_length() <= INTEGER_BITS:
        return repr(value)
    zeros = (value & -value).bit_length() - 1  # Python refuses to write the value in decimal
    return f"({value >> zeros:#x} << {zeros})" if zeros > _REPEATED else hex(value)


def _write_float(_: Writer, value: float) -> str:
    return repr(value) if value - value == 0 else f"float('{value}')"


def _write_complex(writer: Writer, value: complex) -> str:
    is_plain = value - value == 0 and "-0" not in repr(value)
    return repr(value) if is_plain else writer.call("complex", value.real, value.imag)


def _write_text(_: Writer, value: "str | bytes") -> str:
    if len(value) > _REPEATED and value == value[:1] * len(value):
        return f"{value[:1]!a} * {len(value)}"
    return ascii(value)


def _write_tuple(writer: Writer, value: tuple[object, ...]) -> str:
    return f"({writer.join(value)}{',' if len(value) == 1 else ''})"


def _write_dict(writer: Writer, value: dict[object, object]) -> str:
    return f"{{{', '.join(f'{writer.write(key)}: {writer.write(one)}' for key, one in value.items())}}}"


def _write_set(writer: Writer, value: "set[object]") -> str:
    return f"{{{', '.join(sorted(map(writer.write, value)))}}}" if value else "set()"


def _write_frozenset(writer: Writer, value: "frozenset[object]") -> str:
    return f"frozenset({_write_set(writer, set(value)) if value else ''})"


def _write_deque(writer: Writer, value: "deque[object]") -> str:
    limit = {} if value.maxlen is None else {"maxlen": value.maxlen}
    return writer.call(deque, list(value), **limit)


def _write_moment(writer: Writer, value: "datetime | time") -> str:
    day = [value.year, value.month, value.day] if isinstance(value, datetime) else []
    zone = {} if value.tzinfo is None else {"tzinfo": value.tzinfo}
    clock = [value.hour, value.minute, value.second, value.microsecond]
    while clock and not clock[-1]:
        clock.pop()
    return writer.call(type(value), *day, *clock, **zone, **({"fold": 1} if value.fold else {}))


def _write_duration(writer: Writer, value: timedelta) -> str:
    parts = {"days": value.days, "seconds": value.seconds, "microseconds": value.microseconds}
    return writer.call(timedelta, **{name: one for name, one in parts.items() if one})


def _write_zone(writer: Writer, value: timezone) -> str:
    if value is UTC:
        return f"{writer.refer(timezone, 'timezone')}.utc"
    return writer.call(timezone, *value.__getinitargs__())  # type: ignore[attr-defined] # typeshed does not have it


def _write_pattern(writer: Writer, value: "re.Pattern[str]") -> str:
    return writer.call(re.compile, value.pattern, int(value.flags))


_WRITERS: Mapping[type, Callable[..., str]] = {
    **dict.fromkeys((bool, type(None), range, slice), lambda _, value: repr(value)),
    **dict.fromkeys((str, bytes), _write_text),
    int: _write_integer,
    float: _write_float,
    complex: _write_complex,
    bytearray: lambda writer, value: writer.call("bytearray", bytes(value)),
    list: lambda writer, value: f"[{writer.join(value)}]",
    tuple: _write_tuple,
    dict: _write_dict,
    set: _write_set,
    frozenset: _write_frozenset,
    deque: _write_deque,
    defaultdict: lambda writer, value: writer.call(defaultdict, value.default_factory, dict(value)),
    OrderedDict: lambda writer, value: writer.call(OrderedDict, list(value.items())),
    Counter: lambda writer, value: writer.call(Counter, dict(value)),
    **dict.fromkeys((datetime, time), _write_moment),
    date: lambda writer, value: writer.call(date, value.year, value.month, value.day),
    timedelta: _write_duration,
    timezone: _write_zone,
    Decimal: lambda writer, value: writer.call(Decimal, str(value)),
    Fraction: lambda writer, value: writer.call(Fraction, value.numerator, value.denominator),
    re.Pattern: _write_pattern,
}


TEXT_LENGTH = 2_000
_DEPTH = 5
_EXACT = 2**53  # clients that read all numbers as floats change larger integers, or refuse the answer
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

NO_TEST = (
    "`test` is null: an argument or class has no source text, the test would be too long, or no assertion can show the"
    " result. Reproduce it with `call`."
)

Names = Mapping[str, object]
Value = int | float | bool | str | None | list[object] | dict[str, object]


class Counterexample(TypedDict):
    """Arguments that reproduce the result in plain Python.

    Attributes:
        args: positional arguments by name. Numbers, booleans, null and strings are JSON, and lists of them, and dicts
            with texts as keys; others, and integers from 2**53 on, are Python source text.
        kwargs: the same for keyword-only arguments.
        call: the call as Python source text.
        violation: what happened.
        actual_result: what the call returned or raised.
        path_condition: the preconditions of the contract, or True.
        test: a pytest that fails until the code is corrected; null if there is none. The answer's `message` says why
            then.
    """

    args: dict[str, Value]
    kwargs: dict[str, Value]
    call: str
    violation: str
    actual_result: str
    path_condition: str
    test: str | None


def make_counterexample(
    subject: "Subject",
    arguments: BoundArguments,
    names: Names,
    *,
    violation: str,
    actual_result: str,
    path_condition: str = "True",
    test: str | None = None,
) -> Counterexample:
    """Return the counterexample for a call of a function; `names` are those of the code."""
    parameters = arguments.signature.parameters
    by_keyword = {Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD}
    values = {key: (parameters[key].kind in by_keyword, value) for key, value in arguments.arguments.items()}
    return {
        "args": {key: to_json_value(value, names) for key, (keyword, value) in values.items() if not keyword},
        "kwargs": {key: to_json_value(value, names) for key, (keyword, value) in values.items() if keyword},
        "call": write_call(subject, arguments, names),
        "violation": shorten(violation),
        "actual_result": shorten(actual_result),
        "path_condition": shorten(path_condition),
        "test": test,
    }


def to_json_value(value: object, names: Names = MappingProxyType({})) -> Value:
    """Return the value itself if it fits into JSON, else its source text."""
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int and abs(value) < _EXACT:
        return value
    if type(value) is float and value - value == 0:  # finite
        return value
    if type(value) is str and len(value) <= TEXT_LENGTH and _is_unicode(value):
        return value
    text = write_source(value, names)
    if isinstance(value, list | dict) and len(text) < TEXT_LENGTH and _is_json(value):
        return value
    return text


def _is_json(value: object, depth: int = _DEPTH) -> bool:
    """Return whether JSON has exactly this value."""
    if type(value) is list:
        return depth > 0 and all(_is_json(one, depth - 1) for one in value)
    if type(value) is dict:
        return depth > 0 and all(
            type(key) is str and _is_json(key) and _is_json(one, depth - 1) for key, one in value.items()
        )
    return isinstance(value, str | int | float | None) and to_json_value(value) is value


def write_call(subject: "Subject", arguments: BoundArguments, names: Names) -> str:
    """Return the call as Python source text, such as `f(3, k='a')` or `Class(1).method(2)`."""
    positional = [write_source(value, names) for value in arguments.args]
    keyword = [f"{key}={write_source(value, names)}" for key, value in arguments.kwargs.items()]
    called = subject.name
    if subject.kind in {"method", "property"}:
        called = f"{positional.pop(0)}.{subject.name.rpartition('.')[2]}"
    return shorten(called if subject.kind == "property" else f"{called}({', '.join(positional + keyword)})")


def write_source(value: object, names: Names = MappingProxyType({})) -> str:
    """Return the value as shortened Python source text in ASCII, for code with these names.

    If there is no source text, return its repr without addresses, or its type.
    """
    try:
        text = Writer(lambda one, name: write_name(names, one, name)).write(value)
    except Exception:  # noqa: BLE001 - the class of the value is analysed code
        text = _ADDRESS.sub("", _write_repr(value))
    return shorten(text)


def _write_repr(value: object) -> str:
    try:
        return ascii(value)
    except Exception:  # noqa: BLE001 - the repr is analysed code, or refuses a long integer
        return f"<{type(value).__name__} without a repr>"


def shorten(text: str) -> str:
    """Return the text, cut to TEXT_LENGTH characters."""
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…"


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)

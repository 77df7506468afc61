"""Concrete arguments: boundary values, random values of the types, variations, and unusual forms of the same values.

All arguments are made of separate objects, because a test writes them as separate values. Only `share` gives one object
twice, wherever two parts of the arguments have the same declared type. Only `give_bools` gives `True` for 1.
"""

import copy
import dataclasses
import math
import operator
import types
import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from inspect import BoundArguments, Parameter, Signature
from itertools import permutations, product
from random import Random
from typing import Any, Union

from quilt_mcp.analysis.engine.domains import Annotation, Domains, Maker, Unusable, combine, copy_again, create
from quilt_mcp.analysis.engine.exploration import Judgement, Program, Raised, Run, read_attributes
from quilt_mcp.analysis.engine.scalars import STRIDE, Drawer, Literals
from quilt_mcp.analysis.engine.subjects import walk_parts
from quilt_mcp.analysis.messages import MODULE_NAME

_HARMLESS = 1 << 20
_USUAL = 2**64
_INSERTED = (
    "\n",
    "\ud800",
    "\x00",
    "ß",
    "²",
    " ",
    "0",
    "a",
    "A",
    ".",
    "-",
    "\u2028",
    "\u0661",
    "İ",
    "\x1c",
    "µ",
    "\u03bc",
)
_FACTORS = (2.0, 0.5, -1.0, 1e10, 1e300, 1e-300, 1 / 3)
_COMBINATIONS = 160


class Candidates:
    """Makes arguments for a signature with resolved annotations. The same seed gives the same arguments."""

    def __init__(self, signature: Signature, literals: Literals, seed: int) -> None:
        self._signature = signature
        self._random = Random(seed)  # noqa: S311 - it protects nothing
        self._drawer = Drawer(self._random, literals)
        self._domains = Domains(self._drawer)
        self._domain_of = {
            name: self._domains.find(find_annotation(one), depth=0) for name, one in signature.parameters.items()
        }

    @property
    def usable(self) -> bool:
        """Whether the values of each parameter are known."""
        return all(self._domain_of.values())

    @property
    def modelled(self) -> bool:
        """Whether CrossHair's symbolic values stand for all values of the types."""
        return all(one is not None and one.modelled for one in self._domain_of.values())

    def list_all(self, limit: int) -> list[BoundArguments] | None:
        """Return all arguments of the types; None if these are more than the limit, or a type has further values."""
        rows = [one.boundaries for one in self._domain_of.values() if one and one.complete]
        if len(rows) < len(self._domain_of) or math.prod(map(len, rows)) > limit:
            return None
        return list(self._make_each(product(*rows)))

    def make_boundaries(self) -> Iterator[BoundArguments]:
        """Yield combinations of boundary values, and arguments without those that have a default value."""
        rows = [one.boundaries for one in self._domain_of.values() if one]
        with_default = [one.name for one in self._signature.parameters.values() if one.default is not Parameter.empty]
        for number, arguments in enumerate(self._make_each(combine(rows, _COMBINATIONS))):
            yield arguments
            if with_default and not number % 4:
                yield self._bind({name: one for name, one in arguments.arguments.items() if name not in with_default})

    def _make_each(self, rows: Iterator[tuple[Maker, ...]]) -> Iterator[BoundArguments]:
        for row in rows:
            try:
                yield self._bind({name: make() for name, make in zip(self._domain_of, row, strict=True)})
            except (Unusable, TypeError, ValueError, OverflowError):  # a value that cannot be made
                continue

    def draw(self) -> BoundArguments | None:
        """Return random arguments, or None if these values make no arguments."""
        if not self.usable:
            return None
        try:
            values = {name: domain.draw() for name, domain in self._domain_of.items() if domain}
        except (Unusable, TypeError, ValueError, OverflowError):
            return None
        if len(values) > 1 and self._drawer.happens(15, of=100):  # equal arguments of equal types
            first, *others = values
            if isinstance(values[first], int | float | str | bytes | None):
                equal = [one for one in others if self._annotation(one) == self._annotation(first)]
                value = values[first]
                if type(value) is str and self._drawer.happens(1, of=3):  # equal but for the case of letters
                    value = self._random.choice((value.casefold(), value.upper(), value.swapcase()))
                values |= dict.fromkeys(equal, value)
        return self._bind(values)

    def vary(self, arguments: BoundArguments) -> BoundArguments | None:
        """Return arguments that differ a little from these."""
        values = dict(arguments.arguments)
        if not values:
            return None
        integers = [name for name, one in values.items() if type(one) is int and self._annotation(name) is int]
        if len(integers) > 1 and self._drawer.happens(1, of=5):  # their differences stay
            change = self._random.choice((1, -1, 10, self._drawer.stride, 2 * self._drawer.stride))
            return self._bind({**values, **{name: values[name] + change for name in integers}})
        name = self._random.choice(list(values))
        try:
            values[name] = self._vary(self._annotation(name), values[name])
        except (Unusable, TypeError, ValueError, OverflowError):
            return None
        return self._bind(values)

    def mix(self, one: BoundArguments, other: BoundArguments) -> BoundArguments:
        """Return arguments of which each is from one or the other."""
        both = one.arguments, other.arguments
        values = {name: self._random.choice([each[name] for each in both if name in each]) for name in both[0]}
        return self._bind(values)

    def _annotation(self, name: str) -> Annotation:
        return find_annotation(self._signature.parameters[name])

    def _bind(self, values: dict[str, object]) -> BoundArguments:
        return BoundArguments(
            self._signature, {name: values[name] for name in self._signature.parameters if name in values}
        )

    def _vary(self, annotation: Annotation, value: Any) -> object:
        """Return another value of the same type."""
        origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in {Union, types.UnionType}:
            member = find_member(inner, value)
            return self._vary(member, value) if member else self._redraw(annotation)
        variations: dict[type, Callable[[Any], object]] = {
            int: self._vary_integer,
            float: self._vary_float,
            str: self._vary_text,
            bool: operator.not_,
        }
        if type(value) is annotation and type(value) in variations:
            return variations[type(value)](value)
        if isinstance(annotation, type) and annotation.__module__ == MODULE_NAME and dataclasses.is_dataclass(value):
            return self._vary_instance(value)
        if origin in {list, tuple, set, frozenset} and type(value) is origin:
            element = None if origin is tuple and inner[-1] is not Ellipsis else inner[0]
            return self._vary_container(origin, element, inner, value)
        return self._redraw(annotation)

    def _redraw(self, annotation: Annotation) -> object:
        domain = self._domains.find(annotation)
        if domain is None:
            raise Unusable
        return domain.draw()

    def _vary_integer(self, value: int) -> int:
        changes = (1, -1, 2, -2, 10, 2**31, 2**53, 2**63, 0x110000, STRIDE, STRIDE, -STRIDE)
        stride = self._drawer.stride
        kept = () if stride == 1 else (stride, -stride, stride << 31, stride << 63, stride << 1100)
        change = self._random.choice((*changes, *kept))
        return self._random.choice((value + change, value + change, -value, value * 2, value - change))

    def _vary_float(self, value: float) -> float:
        near = (math.nextafter(value, math.inf), math.nextafter(value, -math.inf), value + 0.1, value + 1, -value)
        further = (value * self._random.random(), value + self._random.uniform(-1, 1))
        return self._random.choice((*near, *further, *(value * one for one in _FACTORS), math.nan, math.inf))

    def _vary_text(self, value: str) -> str:
        at = self._random.randint(0, len(value))
        inserted = self._random.choice((*_INSERTED, self._drawer.draw_text()[:20]))
        match self._drawer.pick_weighted(2, 3, 2, 1):
            case 0:
                return value + "\n"
            case 1:
                return value[:at] + inserted + value[at:]
            case 2:
                return value[:at] + inserted + value[at + 1 :]
        others = (value + value, value[::-1], value.swapcase(), value[:at], value[at:], value[:at] + value[at + 1 :])
        return self._random.choice(others)

    def _vary_container(
        self, kind: Callable[..., Any], element: Annotation, inner: tuple[Annotation, ...], value: Any
    ) -> object:
        items = list(value)
        at = self._random.randrange(len(items)) if items else 0
        if element is None:
            if len(items) > 1 and inner[0] == inner[1] and self._drawer.happens(1, of=4):
                items[:2] = items[1::-1]
            elif items:
                items[at] = self._vary(inner[at], items[at])
            return kind(items)
        match self._drawer.pick_weighted(50, 15, 15, 5, 15):
            case 0 if items:
                items[at] = self._vary(element, items[at])
            case 1 if items:
                del items[at]
            case 2 if items:
                again = copy_again(items[self._random.randrange(len(items))])
                items.insert(at, self._vary(element, again) if kind in {set, frozenset} else again)
            case 3:
                items.reverse()
            case _:
                items.insert(at, self._redraw(element))
        return kind(items)

    def _vary_instance(self, value: Any) -> object:
        cls = type(value)
        hints = typing.get_type_hints(cls)
        values = {one.name: getattr(value, one.name) for one in dataclasses.fields(cls) if one.init}
        if values:
            name = self._random.choice(list(values))
            values[name] = self._vary(hints[name], values[name])
        return create(cls, list(values), *values.values())


def find_annotation(parameter: Parameter) -> Annotation:
    """Return the type of a parameter's value, which is a tuple or dict for a variadic parameter."""
    known = Any if parameter.annotation is Parameter.empty else parameter.annotation
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return tuple[known, ...]  # type: ignore[valid-type] # a type that is computed
    if parameter.kind is Parameter.VAR_KEYWORD:
        return dict[typing.Literal["a", "b", "key"], known]  # type: ignore[valid-type] # the same
    return parameter.annotation


def find_member(members: Iterable[Annotation], value: object) -> Annotation | None:
    """Return the member of a union to which a value belongs."""
    return next((one for one in members if (typing.get_origin(one) or one) is type(value)), None)


def is_harmless(arguments: BoundArguments) -> bool:
    """Return whether all arguments are small enough for loops in C code, which cannot be interrupted."""
    return _are_below(_HARMLESS, arguments)


def rank_size(arguments: BoundArguments) -> int:
    """Return 0 for small numbers, 1 for those that fit into 64 bits, and 2 for larger ones. Readers want small ones."""
    return 0 if _are_below(_HARMLESS, arguments) else 1 if _are_below(_USUAL, arguments) else 2


def _are_below(limit: float, arguments: BoundArguments) -> bool:
    """Return whether all numbers in the arguments are below the limit, apart from infinity."""
    numbers = [one for one in walk_parts(arguments.arguments.values()) if type(one) is int or type(one) is float]
    return not any(limit <= abs(one) < math.inf for one in numbers)


SHARED = "the result is different if the same object is given twice"
_CHANGEABLE = (list, dict, set, deque, bytearray)
_PLAIN = (int, float, bool, str, bytes, None, type(None))
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_MOST_PARTS = 12
_UNKNOWN = ""
"""The declared type of a part that has none: it can be the same object as any part of its class."""


_SIZED = (str, bytes, list, tuple, set, frozenset, dict, deque)


def has_sized_values(signature: Signature) -> bool:
    """Return whether an argument can be a text or a container."""
    waiting = [one.annotation for one in signature.parameters.values()]
    while waiting:
        annotation = waiting.pop()
        if typing.get_origin(annotation) in _SIZED or annotation in _SIZED:
            return True
        waiting += typing.get_args(annotation)
    return False


def limit_length(program: Program, length: int) -> Program:
    """Return a program for which arguments with longer texts and containers violate a precondition."""

    def judge(run: Run, arguments: BoundArguments) -> Judgement:
        outcome = run.call(_are_short, list(arguments.arguments.values()), length)
        if isinstance(outcome, Raised) or not outcome.value:
            return Judgement("longer", outside=True)
        return program(run, arguments)

    return judge


def _are_short(values: Iterable[object], length: int) -> bool:
    for one in values:
        if isinstance(one, _SIZED) and len(one) > length:
            return False
        if isinstance(one, dict) and not (_are_short(one.keys(), length) and _are_short(one.values(), length)):
            return False
        if isinstance(one, list | tuple | set | frozenset | deque) and not _are_short(one, length):
            return False
    return True


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
    parts: dict[int, tuple[object, str]] = {}  # for the id of an object, the object and its declared type
    for name, value in arguments.arguments.items():
        _collect_parts(parameters[name].annotation, value, parts)
    for (one, declared), (other, other_declared) in permutations(parts.values(), 2):
        if type(one) is type(other) and (declared == other_declared or _UNKNOWN in {declared, other_declared}):
            memo: dict[int, object] = {}
            memo[id(other)] = copy.deepcopy(one, memo)
            values = {name: copy.deepcopy(value, memo) for name, value in arguments.arguments.items()}
            yield BoundArguments(arguments.signature, values)
    for name, value in arguments.arguments.items():
        if isinstance(value, list | deque) and len(value) == 1 and has_identity(value[0]):
            yield BoundArguments(arguments.signature, {**arguments.arguments, name: type(value)([value[0]] * 2)})


def _collect_parts(annotation: object, value: object, parts: dict[int, tuple[object, str]]) -> None:
    """Add the objects in a value that have an identity, with their declared types."""
    if typing.get_origin(annotation) in {Union, types.UnionType}:
        annotation = find_member(typing.get_args(annotation), value)
    if id(value) in parts or len(parts) >= _MOST_PARTS:
        return
    if has_identity(value):
        parts[id(value)] = (value, _write_type(annotation, value))
    for inner, one in _list_parts(annotation, value):
        _collect_parts(inner, one, parts)


def _write_type(annotation: object, value: object) -> str:
    """Return the declared type of a part as text. For an object of the code's classes, this is its class."""
    if type(value).__module__ == MODULE_NAME:
        return type(value).__qualname__
    return f"{typing.get_origin(annotation) or annotation}{typing.get_args(annotation)}" if annotation else _UNKNOWN


def _list_parts(annotation: object, value: object) -> Iterator[tuple[object, object]]:
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
        yield from ((hints.get(name), one) for name, one in read_attributes(value).items())


AS_BOOL = "the result is different if `True` is given for 1, or `False` for 0"


def give_bools(arguments: BoundArguments) -> Iterator[BoundArguments]:
    """Yield the arguments with `bool` for each `int` that is 0 or 1: in all of them, and in each one alone."""
    values = arguments.arguments
    parameters = arguments.signature.parameters
    others = {name: _give_bools(find_annotation(parameters[name]), value) for name, value in values.items()}
    changed = {name: one for name, one in others.items() if one is not values[name]}
    for some in (changed, *({name: one} for name, one in changed.items() if len(changed) > 1)):
        if some:
            yield BoundArguments(arguments.signature, {**values, **some})


def _give_bools(annotation: Annotation, value: Any) -> Any:
    """Return a value with other numbers, or the same object if no number can be a `bool`."""
    inner = typing.get_args(annotation)
    if isinstance(annotation, typing.NewType):
        return _give_bools(annotation.__supertype__, value)
    if typing.get_origin(annotation) in {Union, types.UnionType}:
        return _give_bools(find_member(inner, value), value)
    if type(value) is int:
        return bool(value) if annotation is int and value in {0, 1} else value
    if type(value) is dict and inner:
        pairs = {_give_bools(inner[0], key): _give_bools(inner[1], one) for key, one in value.items()}
        return value if _is_same([*pairs, *pairs.values()], [*value, *value.values()]) else pairs
    if isinstance(value, list | tuple | deque):
        items = [_give_bools(declared, one) for declared, one in _list_parts(annotation, value)]
        return value if _is_same(items, value) else getattr(type(value), "_make", type(value))(items)
    return _give_bools_to_object(value)


def _give_bools_to_object(value: Any) -> Any:
    cls: Any = type(value)
    if cls.__module__ != MODULE_NAME or isinstance(value, Enum) or cls.__new__ is not object.__new__:
        return value
    # a constructor that stores a parameter usually gives the attribute its name
    try:
        hints = typing.get_type_hints(cls if dataclasses.is_dataclass(value) else cls.__init__)
    except (NameError, TypeError, AttributeError):  # of a name that the code does not have
        return value
    known = read_attributes(value)
    parts = {name: _give_bools(hints.get(name), one) for name, one in known.items()}
    if _is_same(parts.values(), known.values()):
        return value
    made: object = object.__new__(cls)  # a copy would run `__copy__` of the code
    for name, part in parts.items():
        object.__setattr__(made, name, part)  # the class can be frozen
    return made


def _is_same(items: Iterable[object], others: Iterable[object]) -> bool:
    return all(one is other for one, other in zip(items, others, strict=True))


def separate(arguments: BoundArguments) -> BoundArguments:
    """Return the arguments without an object that occurs twice in them or their containers."""
    seen: dict[int, object] = {}
    values = {name: _copy_repeated(one, seen) for name, one in arguments.arguments.items()}
    return BoundArguments(arguments.signature, values)


def _copy_repeated(value: Any, seen: dict[int, object]) -> Any:
    if type(value) in {list, tuple, deque}:
        return type(value)([_copy_repeated(one, seen) for one in value])
    if type(value) is dict:
        return {key: _copy_repeated(one, seen) for key, one in value.items()}
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

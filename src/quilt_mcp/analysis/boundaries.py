"""Arguments at the edges of their types, on which what all paths seem to say is tried before it is claimed.

There the engine's model of Python is thin: its integers have no size, its floats are partly real numbers, and its texts
are of moderate length.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import BoundArguments, Parameter, Signature
from itertools import islice, product, zip_longest
from typing import Any, Literal, Union

_INTEGERS = (0, 1, -1, 2, 2**31, -(2**31) - 1, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**400, -(10**400), 10**5000)
_FLOATS = (0.0, -0.0, 0.1, 1.0, -1.5, 5e-324, 2.0**53, 1e308, -1e308, float("inf"), float("-inf"), float("nan"))
_TEXTS = ("", "a", "A b", "0", "-1", "²", "ß", "İ", "e\u0301", "\ud800", "\x00\n", "9" * 5000)  # fmt: skip
_BYTES = (b"", b"a", b"0", b"\xff", b"\x00" * 5000)
_VALUES: Mapping[Any, Sequence[Any]] = {
    int: _INTEGERS,
    bool: (False, True),
    float: _FLOATS,
    complex: (0j, 1j, complex("nan"), 1e308j),
    str: _TEXTS,
    bytes: _BYTES,
    None: (None,),
    type(None): (None,),
    Any: (None, 0, 10**400, float("nan"), "", [], {}),
    object: (None, 0, 10**400, float("nan"), "", [], {}),
    Parameter.empty: (None, 0, 10**400, float("nan"), "", [], {}),
}
_COMBINATIONS = 400
_ELEMENTS = 8


def boundary_arguments(signature: Signature) -> Iterator[BoundArguments]:
    """Combinations of boundary values for the parameters, a bounded number; none if a parameter's type has no values.

    Variadic parameters are left empty. Each combination holds values of its own, which may be changed.
    """
    parameters = [one for one in signature.parameters.values() if one.kind not in _VARIADIC]
    makers = [_makers(one.annotation) for one in parameters]
    if not all(makers):
        return
    for chosen in _combinations(makers):
        bound = signature.bind_partial()
        bound.arguments.update({one.name: make() for one, make in zip(parameters, chosen, strict=True)})
        yield bound


_VARIADIC = {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}
_Maker = Callable[[], Any]


def _combinations(makers: list[list[_Maker]]) -> Iterator[tuple[_Maker, ...]]:
    """All combinations if they are few; else all parameters at the same edge, then each by itself at each edge."""
    count = 1
    for each in makers:
        count *= len(each)
    if count <= _COMBINATIONS:
        yield from product(*makers)
        return
    first = tuple(each[0] for each in makers)
    together = zip_longest(*makers)
    alone = ((*first[:at], make, *first[at + 1 :]) for at, each in enumerate(makers) for make in each)
    for chosen in together:
        yield tuple(make or each[0] for make, each in zip(chosen, makers, strict=True))
    yield from islice(alone, _COMBINATIONS)


def _makers(annotation: Any) -> list[_Maker]:
    """Functions that each make a boundary value of this type; none if the type is not known here."""
    values = _known_values(annotation)
    return _composed(annotation) if values is None else [partial(_fresh, value) for value in values]


def _known_values(annotation: Any) -> Sequence[Any] | None:
    try:
        if annotation in _VALUES:
            return _VALUES[annotation]
    except TypeError:  # an annotation that cannot be hashed
        return ()
    if typing.get_origin(annotation) is Literal:
        return typing.get_args(annotation)
    is_enum = isinstance(annotation, type) and issubclass(annotation, enum.Enum)
    return list(annotation) if is_enum else None


def _composed(annotation: Any) -> list[_Maker]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {Union, types.UnionType}:
        return _sum(arguments)
    if origin is typing.Annotated:
        return _makers(arguments[0])
    if isinstance(annotation, typing.NewType):
        return _makers(annotation.__supertype__)
    if dataclasses.is_dataclass(annotation):
        return [] if "inv:" in (annotation.__doc__ or "") else _dataclass(annotation)
    return _container(origin or annotation, arguments)


def _container(kind: Any, arguments: tuple[Any, ...]) -> list[_Maker]:
    if kind in {list, set, frozenset}:
        elements = _makers(arguments[0] if arguments else Any)[:_ELEMENTS]
        rows = [[], *([one] for one in elements), elements[:2], [*elements[:1], *elements[:1]], elements]
        return [partial(_filled, kind, row) for row in rows] if elements else []
    if kind is dict:
        keys, values = (_makers(one)[:_ELEMENTS] for one in (arguments or (str, Any)))
        full = list(zip(keys, values, strict=False))
        rows_of_pairs = [[], *([pair] for pair in full), full]
        return [partial(_mapping, row) for row in rows_of_pairs] if full else []
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        return [
            partial(_filled, tuple, row) for row in islice(zip_longest(*map(_makers, arguments)), _ELEMENTS) if all(row)
        ]
    if kind is tuple:
        return [partial(_filled, tuple, row) for row in ([], _makers(arguments[0] if arguments else Any)[:2])]
    return []


def _dataclass(cls: Any) -> list[_Maker]:
    hints = typing.get_type_hints(cls)
    fields = [one for one in dataclasses.fields(cls) if one.init]
    rows = zip_longest(*(_makers(hints[one.name]) for one in fields))
    return [partial(_instance, cls, [one.name for one in fields], row) for row in islice(rows, _ELEMENTS) if all(row)]


def _sum(types_: tuple[Any, ...]) -> list[_Maker]:
    each = [_makers(one) for one in types_]
    return [make for makers in each for make in makers] if all(each) else []


def _fresh(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict) else value


def _filled(kind: Callable[[list[Any]], Any], makers: Sequence[_Maker]) -> Any:
    return kind([make() for make in makers])


def _mapping(pairs: list[tuple[_Maker, _Maker]]) -> dict[Any, Any]:
    return {key(): value() for key, value in pairs}


def _instance(cls: Any, names: list[str], makers: Sequence[_Maker]) -> Any:
    return cls(**{name: make() for name, make in zip(names, makers, strict=True)})

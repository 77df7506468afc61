"""Repeat a result in another process, which has another hash seed and another time zone.

The first process records how each of its explorations ended: with which arguments, as JSON that another process reads,
or that nothing was found. The second process judges the same arguments, or tries to refute the claim with the same
values and with further ones.
"""

import datetime as dt
import enum
import json
import time
from collections import ChainMap, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from inspect import BoundArguments, Signature
from random import Random
from types import ModuleType
from typing import Any

from quilt_mcp.analysis.engine.candidates import Candidates, is_harmless
from quilt_mcp.analysis.engine.concrete import ConcreteSearch
from quilt_mcp.analysis.engine.exploration import End, Exploration, Program, Scope, Watch
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


Record = Mapping[str, Any]
"""How an exploration ended: the name of its `end`, its `arguments`, its `kinds` of judgements and its `paths`."""


@dataclass(frozen=True, slots=True)
class Start:
    """How an analysis starts.

    Attributes:
        seed: of the random values.
        records: what another process has recorded, if this one repeats its result.
    """

    seed: int = 0
    records: Sequence[Record] | None = None


_RUNS = 80
_MOST_MEMBERS = 1_000


def record(explored: Exploration) -> Record:
    """Return how an exploration ended, as JSON types."""
    found: dict[str, Any] = {"end": explored.end.name, "paths": explored.paths, "decided": explored.decided}
    if explored.end is End.ALL_PATHS:
        found["kinds"] = sorted({write_kind(one) for one in explored.kinds})
    if explored.end is End.STOPPED and explored.arguments:
        try:
            found["arguments"] = write_arguments(explored.arguments)
        except NotPortable:
            found["arguments"] = None
    return found


def write_kind(kind: Hashable) -> str:
    """Return the kind of a judgement as text that does not depend on the process."""
    return repr(sorted(kind)) if isinstance(kind, frozenset) else repr(kind)


def can_repeat(records: Sequence[Record]) -> bool:
    """Return whether another process can repeat these explorations."""
    return all(one["end"] != End.STOPPED.name or one["arguments"] is not None for one in records)


class Replay:
    """Repeats the explorations of another process, in their order.

    Args:
        records: of the other process.
        modules: the code, and the other files that it has imported.
    """

    def __init__(self, records: Sequence[Record], modules: Sequence[ModuleType]) -> None:
        self._waiting = list(records)
        self._modules = modules

    def explore(
        self, program: Program, signature: Signature, seconds: float, watch: Watch, scope: Scope
    ) -> Exploration:
        """Repeat the next exploration. It ends as in the other process, or with End.DIFFERS or End.TIME."""
        known = self._waiting.pop(0)
        found = Exploration(End[known["end"]], known["paths"], known["decided"])
        if found.end not in {End.ALL_PATHS, End.STOPPED}:
            return found
        deadline = time.perf_counter() + seconds
        seen: set[str] = set()

        def note(arguments: Any, judgement: Any) -> None:
            watch.on_judgement(arguments, judgement)
            if not judgement.outside:
                seen.add(write_kind(judgement.kind))

        end: End | None = None
        for number in range(2):
            candidates = Candidates(signature, scope.literals, scope.seed + number)
            chance = Random(scope.seed + number)  # noqa: S311 - it protects nothing
            search = ConcreteSearch(
                program, candidates, replace(watch, on_judgement=note), found, chance, watch.state(), simplifies=False
            )
            if found.end is End.STOPPED:
                return self._repeat(search, known, signature, deadline)
            end = end or _try_to_refute(search, replace(scope, seed=scope.seed + number), deadline)
        if end or not seen <= set(known["kinds"]):
            return Exploration(End.DIFFERS)
        return found if time.perf_counter() < deadline else Exploration(End.TIME)

    def _repeat(self, search: ConcreteSearch, known: Record, signature: Signature, deadline: float) -> Exploration:
        try:
            arguments = read_arguments(known["arguments"], signature, self._modules)
        except (NotPortable, TypeError, ValueError):
            return Exploration(End.DIFFERS)
        end = search.try_all([arguments], deadline)
        return search.found if end is End.STOPPED else Exploration(End.DIFFERS)


def _try_to_refute(search: ConcreteSearch, scope: Scope, deadline: float) -> End | None:
    members = search.candidates.list_all(_MOST_MEMBERS)
    if members is not None:
        return search.try_all(members, deadline)
    edges = [one for one in search.candidates.make_boundaries() if not scope.loops or is_harmless(one)]
    return search.try_all(edges, deadline) or search.try_all(search.draw(_RUNS, harmless=scope.loops), deadline)

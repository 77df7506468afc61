"""The values of an annotation: boundary values, random ones, and all of them where there are few.

What holds on all paths must also hold for such values before it is reported. CrossHair creates values of one kind for
an abstract type, and single members of a Flag: a claim about such a parameter needs all of its values, or is not made.
"""

import collections
import copy
import dataclasses
import enum
import functools
import inspect
import math
import operator
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from inspect import Parameter
from itertools import chain, islice, product, repeat, zip_longest
from typing import Any, Literal, TypeAlias, Union
from weakref import ref

from quilt_mcp.analysis.engine.scalars import BOUNDARIES, Drawer
from quilt_mcp.analysis.engine.subjects import list_invariants
from quilt_mcp.analysis.messages import MODULE_NAME

ORDINARY = {list, set, frozenset, tuple}
CONTAINERS: Mapping[object, Callable[[list[object]], object]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    tuple: tuple,
}
# The kinds of values that an abstract type has
_SEQUENCES = (list, tuple, collections.deque)
KINDS: Mapping[object, tuple[Callable[[list[object]], object], ...]] = {
    **dict.fromkeys((abc.Iterable, abc.Iterator, abc.Generator), (iter,)),
    abc.Iterable: (*_SEQUENCES, set, frozenset, iter, dict.fromkeys),
    **dict.fromkeys((abc.Collection, abc.Container, abc.Sized), (*_SEQUENCES, set, frozenset, dict.fromkeys)),
    **dict.fromkeys((abc.Sequence, abc.Reversible), _SEQUENCES),
    abc.MutableSequence: (list, collections.deque),
    abc.Set: (set, frozenset),
    abc.MutableSet: (set,),
}
TEXT_LIKE = (abc.Iterable, abc.Collection, abc.Container, abc.Sized, abc.Sequence, abc.Reversible)
MAPPINGS: Mapping[object, Callable[[dict[object, object]], object]] = {
    **dict.fromkeys((dict, abc.Mapping, abc.MutableMapping), dict),
    collections.OrderedDict: collections.OrderedDict,
    collections.Counter: collections.Counter,
    collections.defaultdict: functools.partial(collections.defaultdict, None),
}


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
        yield from product(*rows)
        return
    first = tuple(row[0] for row in rows)
    for together in zip_longest(*rows):
        yield tuple(maker or row[0] for maker, row in zip(together, rows, strict=True))
    for at, row in enumerate(rows):
        yield from ((*first[:at], maker, *first[at + 1 :]) for maker in row)


def keep(values: Iterable[object]) -> tuple[Maker, ...]:
    """Return makers of these values, which nothing can change."""
    return tuple(repeat(one).__next__ for one in values)


def list_integer_flags(cls: type[enum.IntFlag]) -> tuple[Maker, ...]:
    """Return makers of members, and of values with bits that no member has: the class keeps these bits."""
    combined = functools.reduce(operator.or_, cls)
    unknown = 1 << int(combined).bit_length()
    values = (0, *cls, combined, unknown, unknown | combined, unknown << 1)
    return keep(map(cls, values))


def _make_container(kind: Callable[[list[object]], object], makers: Sequence[Maker]) -> object:
    return kind([one() for one in makers])


def _make_mapping(make: Callable[[dict[object, object]], object], pairs: Sequence[tuple[Maker, Maker]]) -> object:
    return make({key(): value() for key, value in pairs})


# The objects that this process, which serves one request, made last, with the arguments that they need not show. They
# can be large, so they are not kept.
MADE: collections.deque[tuple[ref[object], dict[str, object]]] = collections.deque(maxlen=5_000)


def create(cls: type, names: Sequence[str], *values: object) -> object:
    """Return a new instance. `Unusable`: the constructor raises, or an invariant of the class does not hold."""
    arguments = dict(zip(names, values, strict=True))
    try:
        created: object = cls(**arguments)
        invariants = list_invariants(cls)
        judged = copy.deepcopy(created) if invariants else created  # they can change it
        if all(one.evaluate({"self": judged}) for one in invariants):
            with suppress(TypeError):  # of a class with slots, which are its arguments as a rule
                MADE.append((ref(created), arguments))
            return created
    except Exception as error:  # of the constructor or of an invariant
        raise Unusable from error
    raise Unusable


def copy_again(value: object) -> object:
    """Return a deep copy, so that a value that occurs twice is not the same object. A test could not write that."""
    try:
        return copy.deepcopy(value)
    except Exception as error:
        raise Unusable from error


def is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


_MOST_MEMBERS = 256
_ELEMENTS = 8
_DEEPEST = 4
VARIADIC = {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}
_EXACT = {int, bool, float, str, bytes, None, type(None)}
_ANYTHING = (Any, object, Parameter.empty, abc.Hashable)


@dataclasses.dataclass(frozen=True, slots=True)
class Domain:
    """The values of a type."""

    boundaries: tuple[Maker, ...]  # make some values at its boundaries
    draw: Maker  # returns a random value
    modelled: bool = False  # whether the symbolic values of CrossHair stand for all values of the type
    complete: bool = False  # whether `boundaries` makes all values of the type


class Domains:
    """Finds the domains of annotations. `drawer` draws the random values."""

    def __init__(self, drawer: Drawer) -> None:
        self._drawer = drawer
        self._random = drawer.random

    def find(self, annotation: Annotation, depth: int = 0) -> Domain | None:
        """Return the domain of a type, or None if its values are not known here."""
        if depth > _DEEPEST:
            return None
        if typing.get_origin(annotation) is Literal:
            return self._from_members(keep(typing.get_args(annotation)))
        if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
            return self._find_enumeration(annotation)
        if is_hashable(annotation) and annotation in BOUNDARIES:
            return self._find_scalar(annotation)
        if any(annotation is one for one in _ANYTHING):
            return self._find_anything(depth)
        return self._compose(annotation, depth)

    def _find_scalar(self, annotation: Annotation) -> Domain:
        plain = BOUNDARIES[annotation]  # containers have the first and the last of them
        values = (*plain[:_ELEMENTS], *self._drawer.list_neighbours(annotation), *plain[_ELEMENTS:])
        makers = keep(values)
        if annotation not in self._drawer.draws:
            exact = annotation in _EXACT
            return dataclasses.replace(self._from_members(makers), modelled=exact, complete=exact)
        modelled = annotation in {*_EXACT, date, timedelta}
        return Domain(makers, self._drawer.draws[annotation], modelled=modelled)

    def _from_members(self, members: Sequence[Maker]) -> Domain:
        return Domain(tuple(members), functools.partial(self._choose, members), complete=True)

    def _choose(self, members: Sequence[Maker]) -> object:
        return self._random.choice(members)()

    def _find_enumeration(self, cls: type[enum.Enum]) -> Domain | None:
        members = list(cls)
        if not members:
            return None
        if not issubclass(cls, enum.Flag):
            found = self._from_members(keep(members))
            return dataclasses.replace(found, modelled=True, complete=len(members) <= _MOST_MEMBERS)
        if issubclass(cls, enum.IntFlag) and vars(cls)["_boundary_"] is enum.KEEP:
            edges = list_integer_flags(cls)
            return Domain(edges, lambda: operator.or_(self._choose(edges), self._choose(edges)))
        if 2 ** len(members) > _MOST_MEMBERS:
            combined = functools.reduce(operator.or_, members)
            return Domain(
                keep((cls(0), *members, combined)),
                lambda: functools.reduce(operator.or_, self._random.sample(members, self._random.randint(1, 3))),
            )
        combinations: dict[Any, None] = {cls(0): None}
        for one in members:
            combinations |= {known | one: None for known in combinations}
        return self._from_members(keep(combinations))

    def _find_anything(self, depth: int) -> Domain:
        scalars = [self.find(one, depth + 1) for one in (int, str, float, bool, None, bytes)]
        known = [one for one in scalars if one]
        edges = [maker for one in known for maker in one.boundaries[:4]]
        empty: list[Maker] = [tuple]
        return Domain((*edges, *empty), lambda: self._random.choice(known).draw())

    def _compose(self, annotation: Annotation, depth: int) -> Domain | None:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in {Union, types.UnionType}:
            return self._unite([self.find(one, depth) for one in arguments])
        if origin in {typing.Annotated, typing.Final}:
            return self.find(arguments[0], depth)
        if isinstance(annotation, typing.NewType):
            return self.find(annotation.__supertype__, depth)
        if isinstance(annotation, typing.TypeVar):
            choices = annotation.__constraints__ or ((annotation.__bound__,) if annotation.__bound__ else (int, str))
            found = self._unite([self.find(one, depth + 1) for one in choices])
            return found and dataclasses.replace(found, modelled=False, complete=False)
        kind = origin or annotation
        if isinstance(kind, type) and kind.__module__ == MODULE_NAME:
            return self._find_class(kind, depth)
        return self._find_container(kind, arguments, depth)

    def _unite(self, parts: list[Domain | None]) -> Domain | None:
        known = [one for one in parts if one]
        if not known:
            return None
        rows = zip_longest(*(one.boundaries for one in known))
        makers = tuple(maker for maker in chain.from_iterable(rows) if maker)
        whole = len(known) == len(parts)
        return Domain(
            makers,
            lambda: self._random.choice(known).draw(),
            modelled=whole and all(one.modelled for one in known),
            complete=whole and all(one.complete for one in known),
        )

    def _find_container(self, kind: Annotation, arguments: tuple[Annotation, ...], depth: int) -> Domain | None:
        element = arguments[0] if arguments else Any
        if kind is tuple and arguments and arguments[-1] is not Ellipsis:
            return self._find_product(arguments, tuple, depth)
        if kind in CONTAINERS:
            return self._fill([CONTAINERS[kind]], element, depth, modelled=kind in ORDINARY)
        if kind in MAPPINGS:
            pair = (element, int) if kind is collections.Counter else arguments
            return self._find_mapping(kind, pair or (Any, Any), depth)
        return self._find_abstract(kind, element, depth)

    def _find_abstract(self, kind: Annotation, element: Annotation, depth: int) -> Domain | None:
        if kind is abc.Hashable:
            return self._find_anything(depth)
        if kind is range:
            edges: tuple[Maker, ...] = (lambda: range(0), lambda: range(3), lambda: range(5, 0, -2))
            return Domain(edges, lambda: range(self._drawer.draw_length(), self._drawer.draw_length()))
        if kind not in KINDS:
            return None
        found = self._fill(list(KINDS[kind]), element, depth, modelled=False)
        if kind in TEXT_LIKE and element in {str, int, Any, object}:
            text = self.find(bytes if element is int else str, depth + 1)
            return self._unite([found, text, None])  # None: other types of the kind are left out
        return found

    def _fill(
        self, kinds: Sequence[Callable[[list[object]], object]], element: Annotation, depth: int, *, modelled: bool
    ) -> Domain | None:
        """Return the domain of containers of these kinds."""
        inner = self.find(element, depth + 1)
        if inner is None:
            return Domain(tuple(functools.partial(kind, []) for kind in kinds), lambda: kinds[0]([]))
        edges = [*inner.boundaries[:_ELEMENTS], *inner.boundaries[-3:]]
        rows = [(), *((one,) for one in edges), edges[:2], (edges[0], edges[0]), edges[:3], edges[2::-1], edges]

        def draw() -> object:
            length = self._drawer.draw_length() if depth == 0 else self._random.randint(0, 3)
            drawn = [inner.draw() for _ in range(length)]
            if drawn and self._drawer.happens(3, of=10):  # duplicates
                drawn.append(copy_again(self._random.choice(drawn)))
            if self._drawer.happens(15, of=100):  # a frequent precondition
                with suppress(TypeError):
                    drawn.sort()
            return self._random.choice(kinds)(drawn) if all(map(is_hashable, drawn)) else kinds[0](drawn)

        makers = tuple(functools.partial(_make_container, kind, row) for row in rows for kind in kinds)
        return Domain(makers, draw, modelled=modelled and inner.modelled)

    def _find_mapping(self, kind: Annotation, arguments: tuple[Annotation, ...], depth: int) -> Domain | None:
        keys, values = (self.find(one, depth + 1) for one in arguments)
        if keys is None or values is None:
            return None
        make = MAPPINGS[kind]
        pairs = list(zip(keys.boundaries[:_ELEMENTS], values.boundaries[:_ELEMENTS], strict=False))
        rows = [[], *([pair] for pair in pairs), pairs[:2], pairs]

        def draw() -> object:
            return make({keys.draw(): values.draw() for _ in range(self._random.choice((0, 1, 1, 2, 3, 4)))})

        makers = tuple(functools.partial(_make_mapping, make, row) for row in rows)
        return Domain(makers, draw, modelled=kind is dict and keys.modelled and values.modelled)

    def _find_product(self, types_: Sequence[Annotation], make: Callable[..., object], depth: int) -> Domain | None:
        """Return the domain of values that are made from one value of each type."""
        parts = [self.find(one, depth + 1) for one in types_]
        known = [one for one in parts if one]
        if len(known) < len(parts):
            return None
        build: Callable[[list[object]], object] = tuple if make is tuple else lambda values: make(*values)
        rows = list(islice(combine([one.boundaries for one in known], MOST_BOUNDARIES), MOST_BOUNDARIES))
        count = math.prod(len(one.boundaries) for one in known)
        return Domain(
            tuple(functools.partial(_make_container, build, row) for row in rows),
            lambda: build([one.draw() for one in known]),
            modelled=all(one.modelled for one in known),
            complete=count == len(rows) and all(one.complete for one in known),
        )

    def _find_class(self, cls: type, depth: int) -> Domain | None:
        """Return the domain of a class of the code and its subclasses. Their constructors have annotated parameters."""
        if getattr(cls, "_is_protocol", False) or depth >= _DEEPEST:
            return None
        if typing.is_typeddict(cls):
            return self._find_typed_dict(cls, depth)
        classes = [one for one in (cls, *find_subclasses(cls)) if not inspect.isabstract(one)]
        return self._unite([self._find_instances(one, depth) for one in classes])

    def _find_typed_dict(self, cls: type, depth: int) -> Domain | None:
        """Return the domain of a TypedDict, without and with the keys that are not required."""
        hints = typing.get_type_hints(cls)
        required = tuple(one for one in hints if one in vars(cls)["__required_keys__"])
        parts = [
            self._find_product([hints[one] for one in names], functools.partial(create, dict, names), depth)
            for names in dict.fromkeys((required, tuple(hints)))
        ]
        found = self._unite(parts)
        # a value can have its keys in any order
        return found and dataclasses.replace(found, modelled=False, complete=False)

    def _find_instances(self, cls: type, depth: int) -> Domain | None:
        try:
            signature = inspect.signature(cls)
            annotated = cls if dataclasses.is_dataclass(cls) or issubclass(cls, tuple) else cls.__init__
            hints = typing.get_type_hints(annotated)
        except (TypeError, ValueError, NameError):
            return None
        parameters = [one for one in signature.parameters.values() if one.kind not in VARIADIC]
        annotations = [hints.get(one.name, Parameter.empty) for one in parameters]
        names = [one.name for one in parameters]
        found = self._find_product(annotations, functools.partial(create, cls, names), depth)
        if found is None or not parameters:
            return found and dataclasses.replace(found, complete=False)
        return dataclasses.replace(found, complete=found.complete and dataclasses.is_dataclass(cls))

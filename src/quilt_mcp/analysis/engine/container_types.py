"""The types of containers: how their values are made, and which kinds of values abstract types have."""

import collections
import functools
from collections import abc
from collections.abc import Callable, Mapping

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

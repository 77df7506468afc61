"""Whether code answers alike from one call to the next; if not, nothing can be said about all calls."""

import ast
import random
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

# What depends on the moment or the process, not on the arguments: methods of the classes of datetime, and builtins
_CHANGING_METHODS = frozenset({"now", "today", "utcnow"})
_CHANGING_BUILTINS = frozenset({"id", "hash"})
_PLAIN = (int, str, bytes, bool, float, complex, type(None), range, slice)
_WATCHED_OBJECTS = 50_000


def changing_name(tree: ast.Module) -> str | None:
    """The first name in the code that stands for something which differs between calls or processes, or None.

    `hash` inside a `__hash__` method is let pass: there it serves sets and dicts, which do not show it.
    """
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    builtins = _CHANGING_BUILTINS - bound
    for node in _outside_hash_methods(tree):
        if isinstance(node, ast.Attribute) and node.attr in _CHANGING_METHODS:
            return node.attr
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in _CHANGING_BUILTINS:
            return called.id
        if isinstance(node, ast.Name) and node.id in builtins:
            return node.id
    return None


def _outside_hash_methods(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.FunctionDef) and child.name == "__hash__"):
            yield from _outside_hash_methods(child)


class Fingerprint:
    """Takes fingerprints of everything in a module that outlives a call, and of the shared random generator.

    Two fingerprints are equal if and only if nothing was changed between them, as far as can be seen. Iterators cannot
    be looked into, and a module may hold too much: both make every fingerprint differ from every other.
    """

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __call__(self) -> Hashable:
        """A fingerprint of now."""
        walk = _Walk(self._module.__name__)
        return random.getstate(), walk.items(vars(self._module))


class _Walk:
    def __init__(self, module_name: str) -> None:
        self._module_name = module_name
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no identity is used twice during the walk

    def items(self, names: Mapping[str, Any]) -> Hashable:
        """Names of two underscores are left out: the gate keeps them from the code, and libraries keep caches there."""
        return tuple((name, self._value(value)) for name, value in names.items() if not name.startswith("__"))

    def _value(self, value: Any) -> Hashable:
        if type(value) in _PLAIN:
            return type(value).__name__, repr(value) if isinstance(value, float | complex) else _hashable(value)
        if id(value) in self._seen:
            return "seen", self._seen[id(value)]
        if len(self._seen) >= _WATCHED_OBJECTS or hasattr(type(value), "__next__"):
            return object()
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        return id(type(value)), self._content(value)

    def _content(self, value: Any) -> Hashable:
        if isinstance(value, dict):
            return self._values([*value.keys(), *value.values()]), self._attributes(value)
        if isinstance(value, list | tuple | set | frozenset | deque):
            return self._values(value), self._attributes(value)
        if isinstance(value, bytearray):
            return bytes(value)
        if isinstance(value, random.Random):
            return value.getstate()
        if isinstance(value, ModuleType):
            return tuple(map(id, vars(value).values()))
        return id(value), self._attributes(value)

    def _values(self, values: Iterable[Any]) -> Hashable:
        return tuple(self._value(one) for one in values)

    def _attributes(self, value: Any) -> Hashable:
        if isinstance(value, FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            return self._values([value.__defaults__, value.__kwdefaults__, cells, vars(value)])
        if isinstance(value, MethodType | BuiltinMethodType):
            return self._value(value.__self__)
        if isinstance(value, type) and value.__module__ != self._module_name:
            return None
        slots = [getattr(value, name) for name in _slots(type(value)) if hasattr(value, name)]
        return self.items(dict(getattr(value, "__dict__", {}))), self._values(slots)


def _hashable(value: Any) -> Hashable:
    return repr(value) if isinstance(value, slice) else value


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises when it is looked at
    except ValueError:
        return False
    return True


def _slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__"):
                yield name

"""Find out whether code can return different results for the same call. Then nothing holds for all calls."""

import ast
import decimal
import enum
import functools
import gc
import random
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import BuiltinMethodType, CellType, FunctionType, MethodType, ModuleType
from typing import NamedTuple

from quilt_mcp.analysis.gate.randomness import list_unseeded

# Methods of datetime classes, and builtins, with results that depend on the time or the process
_CHANGING_METHODS = frozenset({"now", "today", "utcnow"})
_CHANGING_BUILTINS = frozenset({"id", "hash"})
_PLAIN = (int, str, bytes, bool, float, complex, type(None), range, slice)
_WATCHED_OBJECTS = 50_000
_CACHED = type(functools.cache(id))


def find_changing_name(tree: ast.Module) -> tuple[str, int] | None:
    """Return the first name in the code with a result that differs between calls or processes, and its line, or None.

    `hash` in a `__hash__` method does not count: sets and dicts use the result, but do not show it.
    """
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    builtins = _CHANGING_BUILTINS - bound
    for node in _walk_outside_hash(tree):
        if isinstance(node, ast.Attribute) and node.attr in _CHANGING_METHODS:
            return node.attr, node.lineno
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in _CHANGING_BUILTINS:
            return called.id, called.lineno
        if isinstance(node, ast.Name) and node.id in builtins:
            return node.id, node.lineno
    return None


def _walk_outside_hash(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.FunctionDef) and child.name == "__hash__"):
            yield from _walk_outside_hash(child)


class Fingerprint:
    """Makes fingerprints of what outlives a call: modules, the shared random generator, and the decimal context.

    Two fingerprints are equal if no visible state has changed between them. The state of an iterator is not visible,
    and a module can have too many objects. In both cases, every fingerprint is different.
    """

    def __init__(self, *modules: ModuleType) -> None:
        self._modules = modules

    def __call__(self) -> "State":
        """Return a fingerprint of the current state."""
        state = _State(self._modules[0].__name__)
        modules = tuple(state.read_items(vars(one)) for one in self._modules)
        return State((random.getstate(), len(list_unseeded())), _read_decimal_context(), modules)


class State(NamedTuple):
    """A fingerprint."""

    random: Hashable
    context: Hashable
    modules: tuple[tuple[tuple[str, Hashable], ...], ...]


def find_change(before: State, after: State) -> tuple[str, str] | None:
    """Return what is different between two fingerprints: a name or nothing, and a description. None if they are equal.

    The description is the reason why nothing can be claimed.
    """
    if before.random != after.random:
        return "random", "A call uses the shared random generator, or one without a seed."
    if before.context != after.context:
        return "", "A call changes the decimal context."
    for one, other in zip(before.modules, after.modules, strict=True):
        changed = [name for name, content in {*one} ^ {*other} if content is not None]
        if changed:
            return min(changed), "A call changes this name of the module, or a default value of this function."
    return None


def _read_decimal_context() -> Hashable:
    """Return the context of decimal numbers without its flags, which each inexact result sets."""
    context = decimal.getcontext()
    limits = context.Emin, context.Emax, context.capitals, context.clamp
    return context.prec, context.rounding, *limits, tuple(name for name, on in context.traps.items() if on)


class _State:
    def __init__(self, module_name: str) -> None:
        self._module_name = module_name
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []  # so that no two objects have the same id

    def read_items(self, names: Mapping[str, object]) -> tuple[tuple[str, Hashable], ...]:
        """Skip names with two underscores: the code cannot use them, and libraries have caches there."""
        return tuple((name, self._read_value(value)) for name, value in names.items() if not name.startswith("__"))

    def _read_value(self, value: object) -> Hashable:
        if type(value) in _PLAIN:
            # repr distinguishes 0.0 from -0.0 and makes slices hashable
            return type(value).__name__, repr(value) if isinstance(value, float | complex | slice) else value
        if id(value) in self._seen:
            return "seen", self._seen[id(value)]
        if len(self._seen) >= _WATCHED_OBJECTS or hasattr(type(value), "__next__"):
            return object()
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        return id(type(value)), self._read_content(value)

    def _read_content(self, value: object) -> Hashable:
        if isinstance(value, dict):
            return self._read_values([*value.keys(), *value.values()]), self._read_attributes(value)
        if isinstance(value, list | tuple | set | frozenset | deque):
            return self._read_values(value), self._read_attributes(value)
        if isinstance(value, bytearray):
            return bytes(value)
        if isinstance(value, random.Random):
            return value.getstate()
        if isinstance(value, ModuleType):
            return tuple(map(id, vars(value).values()))
        return id(value), self._read_attributes(value)

    def _read_values(self, values: Iterable[object]) -> Hashable:
        return tuple(self._read_value(one) for one in values)

    def _read_attributes(self, value: object) -> Hashable:
        if isinstance(value, FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            return self._read_values([value.__defaults__, value.__kwdefaults__, cells, vars(value)])
        if isinstance(value, MethodType | BuiltinMethodType):
            return self._read_value(value.__self__)
        if isinstance(value, type) and value.__module__ != self._module_name:
            return None
        hidden = self._read_values(_list_hidden(value))
        slots = [getattr(value, name) for name in _find_slots(type(value)) if hasattr(value, name)]
        names = dict(getattr(value, "__dict__", {}))
        if isinstance(value, enum.EnumMeta):
            names.pop("_value2member_map_", None)  # a cache: a new combination of flags adds to it
        return self.read_items(names), self._read_values(slots), hidden


def _list_hidden(value: object) -> list[object]:
    """Return the objects that an object of the standard library refers to, and no attribute shows."""
    match value:
        case functools.partial():
            return [value.func, value.args, value.keywords]
        case staticmethod() | classmethod():
            return [value.__func__]
        case property():
            return [value.fget, value.fset, value.fdel]
    if not isinstance(value, _CACHED):
        return []
    parts = gc.get_referents(value)  # keys and results, the cache, the function, and others
    at = next(place for place, one in enumerate(parts) if one is value.__wrapped__)
    # More plain results are no other state.
    found = {id(one): one for one in (*parts[: at - 1], *parts[at - 1].values()) if _is_changeable(one)}
    return [*found.values()]


def _is_changeable(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return any(map(_is_changeable, value))
    return type(value) not in _PLAIN and not isinstance(value, type) and type(value).__name__ != "_lru_list_elem"


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises if the cell is empty
    except ValueError:
        return False
    return True


def _find_slots(cls: type) -> Iterator[str]:
    for base in cls.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if not name.startswith("__"):
                yield name

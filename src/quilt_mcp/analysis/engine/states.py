"""States that outlive a call: fingerprints of them, and which states no call of an analysis begins with.

The arguments of an analysis are new objects, and the module is as after its import. So a claim about all arguments
needs that no call changes what outlives it, and that other code of the file cannot leave objects or the module in a
state that no call of an analysis begins with.
"""

import ast
import builtins
import dataclasses
import decimal
import enum
import functools
import gc
import inspect
import io
import itertools
import random
import typing
from collections import defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from inspect import Signature
from types import BuiltinMethodType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from quilt_mcp.analysis.engine.domains import Annotation, find_subclasses
from quilt_mcp.analysis.engine.exploration import Exploration, read_attributes
from quilt_mcp.analysis.engine.scalars import include_clauses
from quilt_mcp.analysis.engine.subjects import Clause, list_invariants
from quilt_mcp.analysis.gate.changes import CONSTRUCTORS, Meanings, changes_others
from quilt_mcp.analysis.gate.dispatch import Dispatcher, MethodDispatcher
from quilt_mcp.analysis.gate.facades import list_unseeded
from quilt_mcp.analysis.gate.loading import Loaded
from quilt_mcp.analysis.gate.reduction import find_imports
from quilt_mcp.analysis.gate.tree import read_last_name
from quilt_mcp.analysis.messages import MODULE_NAME

_PLAIN = (int, str, bytes, bool, float, complex, type(None), range, slice)
_WATCHED_OBJECTS = 50_000
_CACHED = type(functools.cache(id))


def take_state(*modules: ModuleType) -> "State":
    """Return a fingerprint of what outlives a call: modules, the shared random generator, and the decimal context."""
    reader = _StateReader(modules[0].__name__)
    contents = tuple(reader.read_items(vars(one)) for one in modules)
    return State((random.getstate(), len(list_unseeded())), _read_decimal_context(), contents)


class State(NamedTuple):
    """A fingerprint. Two are equal if no visible state has changed between them.

    The state of an iterator is not visible, and a module can have too many objects. Then all fingerprints differ.
    """

    random: Hashable
    context: Hashable
    modules: tuple[tuple[tuple[str, Hashable], ...], ...]


def note_change(found: Exploration, before: Hashable, after: Hashable) -> bool:
    """Return whether two fingerprints differ. Then results can differ between calls; note why."""
    if before == after:
        return False
    known = find_change(before, after) if isinstance(before, State) and isinstance(after, State) else None
    name, reason = known or ("", "A call changes something that outlives it.")
    found.causes.add(reason, operation=name)
    found.varies = True
    return True


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


class _StateReader:
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
            cells = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
            return self._read_values([value.__defaults__, value.__kwdefaults__, cells, vars(value)])
        if isinstance(value, MethodType | BuiltinMethodType):
            return self._read_value(value.__self__)
        if isinstance(value, type) and value.__module__ != self._module_name:
            return None
        hidden = self._read_values(_list_hidden(value) + _list_special(value))
        names = read_attributes(value)
        if isinstance(value, enum.EnumMeta):
            names.pop("_value2member_map_", None)  # a cache: a new combination of flags adds to it
        return self.read_items(names), hidden


def _list_hidden(value: object) -> list[object]:
    """Return the objects that an object of the standard library refers to, and no attribute shows."""
    match value:
        case functools.partial():
            return [value.func, value.args, value.keywords]
        case staticmethod() | classmethod():
            return [value.__func__]
        case property():
            return [value.fget, value.fset, value.fdel]
        case BaseException():
            return [value.args]
    if not isinstance(value, _CACHED):
        return [*value.__registered__.values()] if isinstance(value, Dispatcher | MethodDispatcher) else []
    parts = gc.get_referents(value)  # keys and results, the cache, the function, and others
    *entries, cache = itertools.takewhile(lambda one: one is not value.__wrapped__, parts)
    found = {id(one): one for one in (*entries, *cache.values()) if _is_changeable(one)}
    return [*found.values()]  # not the plain ones: more of them are no other state


def _list_special(value: object) -> list[object]:
    """Return the functions of a class that no name shows, such as `__init__`: their defaults and closures are state.

    The `__repr__` of a dataclass notes the objects that it is writing.
    """
    members = vars(value).items() if isinstance(value, type) else ()
    special = [getattr(one, "__func__", one) for name, one in members if name.startswith("__")]  # `__new__` is static
    return [one for one in special if isinstance(one, FunctionType) and not hasattr(one, "__wrapped__")]


def _is_changeable(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return any(map(_is_changeable, value))
    return type(value) not in _PLAIN and not isinstance(value, type) and type(value).__name__ != "_lru_list_elem"


def is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises if the cell is empty
    except ValueError:
        return False
    return True


DECIDING_METHODS = CONSTRUCTORS | {"__setattr__"}
"""The methods that decide about the attributes of new objects."""


def find_state(signature: Signature, loaded: Loaded) -> str | None:
    """Return the state that the analysis does not cover, as the reason why nothing is claimed, or None."""
    with_clauses = dataclasses.replace(loaded, tree=include_clauses(loaded.whole_tree), other_trees=())
    return _find_module_state(with_clauses) or _find_arguments(signature, with_clauses)


def _find_module_state(loaded: Loaded) -> str | None:
    used = {node.id for node in ast.walk(loaded.whole_tree) if isinstance(node, ast.Name)}
    if loaded.files:  # `m.N` uses a name of another file
        used |= {node.attr for node in ast.walk(loaded.whole_tree) if isinstance(node, ast.Attribute)}
    bound = {name for one in loaded.modules for name in vars(one)}
    if changed := loaded.changes.names & used & bound or {*_find_shared(used & bound, loaded)}:
        return f"the code can change `{min(changed)}` of the module, so a call can begin with other values in it"
    if loaded.changes.context and "decimal" in find_imports(loaded.whole_tree):
        return "a function reads or changes the decimal context, so the result can depend on earlier calls"
    return None


def _find_arguments(signature: Signature, loaded: Loaded) -> str | None:
    """Return why the analysis does not have all arguments, or None."""
    classes: dict[type, None] = {}
    for one in signature.parameters.values():
        collect_classes(one.annotation, classes)
    annotations = [one.annotation for one in signature.parameters.values()]
    if found := _find_distinguished([*annotations, *(hint for one in classes for hint in _list_hints(one))], loaded):
        return "the code tells `{}` from `{}`, which includes it, and an analysis tries none".format(*found)
    if classes and (loaded.changes.others or loaded.changes.attributes) and _keeps_results(loaded):
        return "a `cache` or `cached_property` can have results for earlier states of an object"
    for cls in classes:
        if any(_can_change(one, loaded) for one in list_invariants(cls)):  # CrossHair applies it to the arguments
            return f"an invariant of `{cls.__name__}` can change the object"
        if not _covers_states(cls, loaded):
            return (
                f"objects of `{cls.__name__}` can have a state that its constructor does not make from its parameters"
            )
    return None


def _find_distinguished(annotations: Iterable[Annotation], loaded: Loaded) -> tuple[str, str] | None:
    """Return the names of a class and its base that the code tells apart, where annotations name only the base."""
    types = {kind for one in annotations for kind in _list_types(one) if isinstance(kind, type)}
    defined = {node.name for node in ast.walk(loaded.whole_tree) if isinstance(node, ast.ClassDef)}
    tested: set[str] = set()
    for node in ast.walk(loaded.whole_tree):
        if isinstance(node, ast.Call) and read_last_name(node.func) in {"isinstance", "issubclass"}:
            tested |= {read_last_name(part) for one in node.args[1:] for part in ast.walk(one)}
        elif isinstance(node, ast.MatchClass):
            tested.add(read_last_name(node.cls))
        elif isinstance(node, ast.Compare):
            parts = list(ast.walk(node))
            of_type = any(isinstance(one, ast.Call) and read_last_name(one.func) == "type" for one in parts)
            of_value = any(isinstance(one, ast.Constant) and isinstance(one.value, bool) for one in parts)
            by_identity = any(isinstance(one, ast.Is | ast.IsNot) for one in node.ops)
            tested |= {"bool"} if of_type or (of_value and by_identity) else set()
            tested |= defined if of_type else set()
    spaces = [builtins, *loaded.modules]
    spaces += [value for one in loaded.modules for value in vars(one).values() if isinstance(value, ModuleType)]
    classes = [getattr(space, name, None) for name in sorted(tested) for space in spaces if name]
    classes += [kind for one in _find_dispatchers(loaded) for kind in one.__registered__]
    for one in (one for one in classes if isinstance(one, type) and one not in types):
        # the analysis tries objects of all subclasses of the code's classes
        for base in one.__mro__[1:-1]:
            if base in types and base.__module__ != MODULE_NAME:
                return one.__name__, base.__name__
    return None


def _find_dispatchers(loaded: Loaded) -> Iterator[Dispatcher | MethodDispatcher]:
    own = {one.__name__ for one in loaded.modules}
    parts = (part for one in loaded.modules for part in walk(one, own))
    return (one for one in parts if isinstance(one, Dispatcher | MethodDispatcher))


def _list_types(annotation: Annotation) -> Iterator[Annotation]:
    if isinstance(annotation, typing.NewType):
        annotation = annotation.__supertype__
    yield typing.get_origin(annotation) or annotation
    for one in annotation if isinstance(annotation, list) else typing.get_args(annotation):  # a list of a Callable
        yield from _list_types(one)


def _keeps_results(loaded: Loaded) -> bool:
    values = [value for one in loaded.modules for value in vars(one).values()]
    members = [member for one in values if isinstance(one, type) for member in vars(one).values()]
    return any(isinstance(one, _CACHED | functools.cached_property) for one in (*values, *members))


def _can_change(invariant: Clause, loaded: Loaded) -> bool:
    """Return whether an invariant changes an object, or uses code (also a property) that can do that."""
    text = ast.parse(invariant.source.strip(), mode="eval")
    used = {read_last_name(node) for node in ast.walk(text)}
    functions = {name for one in loaded.modules for name, value in vars(one).items() if callable(value)}
    uses_code = _find_operators(loaded) or used & (functions | _find_methods(loaded))
    return changes_others(text, Meanings.read(loaded.whole_tree)) or (bool(uses_code) and loaded.changes.others)


def _find_methods(loaded: Loaded) -> set[str]:
    return {node.name for node in ast.walk(loaded.whole_tree) if isinstance(node, ast.FunctionDef)}


def _find_operators(loaded: Loaded) -> set[str]:
    """Return the methods of the form __name__ that the code defines. No name shows where they are called."""
    return {name for name in _find_methods(loaded) if name.startswith("__")} - DECIDING_METHODS


def _find_shared(used: Collection[str], loaded: Loaded) -> Iterator[str]:
    """Yield the used names of the module with a value that the file can change in another way than by this name."""
    changes = loaded.changes
    own = {one.__name__ for one in loaded.modules}
    attributes = {name for owner, name in changes.attributes if owner is None}
    has_operators = bool(_find_operators(loaded))
    functions = [node for node in ast.walk(loaded.whole_tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    read_later = {read_last_name(node) for function in functions for node in ast.walk(function)}
    for name, value in ((name, value) for one in loaded.modules for name, value in vars(one).items() if name in used):
        if name in read_later and _changes_when_read(value, own):
            yield name
        if not changes.others:
            continue
        depths = {depth for shared, depth in changes.shared if shared == name}
        if isinstance(value, type | FunctionType):
            is_member = isinstance(value, enum.EnumMeta) and any(owner == name for owner, _ in changes.attributes)
            is_shared = is_member or (0 in depths and not attributes.isdisjoint(vars(value)))
        else:
            # an operator is given an object of its class
            own_objects = [one for one in walk(value, own) if type(one).__module__ in own] if has_operators else []
            is_shared = any(_is_changeable_in(value, depth, own) for depth in depths)
            is_shared = is_shared or _is_changeable_in(own_objects, 1, own)
        if is_shared or _has_hidden_state(value, changes.names, own):
            yield name


def _changes_when_read(value: object, own: Collection[str]) -> bool:
    """Return whether a value has a random generator, or a defaultdict, in which a missing key is then present."""
    return any(
        isinstance(one, random.Random) or (isinstance(one, defaultdict) and one.default_factory is not None)
        for one in walk(value, own)
    )


def walk(value: object, own: Collection[str]) -> Iterator[object]:
    """Yield a value and its parts, at most as many as are watched: nothing is claimed about a module with more."""
    waiting, seen = [value], {id(value)}
    while waiting:
        yield (one := waiting.pop())
        parts = [*_list_parts(one, own), *_list_hidden_parts(one, own)]
        new = {id(part): part for part in parts if type(part) not in _PLAIN and id(part) not in seen}
        seen |= new.keys()
        waiting += new.values() if len(seen) <= _WATCHED_OBJECTS else []


def _is_changeable_in(value: object, depth: int, own: Collection[str]) -> bool:
    """Return whether code can change a part of a value at this depth or below."""
    level, seen = [value], dict[int, object]()
    while level:
        if depth <= 0:  # an object above the depth can occur again below it
            seen.update((id(one), one) for one in level)
            if len(seen) > _WATCHED_OBJECTS or any(_has_own_state(one, own) for one in level):
                return True
        parts = {id(part): part for one in level for part in _list_parts(one, own) if type(part) not in _PLAIN}
        level = [part for number, part in parts.items() if number not in seen]
        depth -= 1
    return False


_CHANGEABLE = (random.Random, io.IOBase, decimal.Context, Dispatcher, MethodDispatcher)


def _has_own_state(value: object, own: Collection[str]) -> bool:
    kind = type(value)
    if kind in _PLAIN or isinstance(value, type | FunctionType | ModuleType | enum.Enum):
        return False
    if kind.__module__ in own:
        return not _is_immutable(kind)
    is_hashable = getattr(kind, "__hash__", None) is not None
    return not is_hashable or hasattr(kind, "__next__") or isinstance(value, _CHANGEABLE)


def _is_immutable(cls: type) -> bool:
    """Return whether no attribute of an object can be set. A class that inherits this can have other attributes."""
    parameters = vars(cls).get("__dataclass_params__")
    return (parameters is not None and parameters.frozen) or (issubclass(cls, tuple) and not cls.__dictoffset__)


def _list_parts(value: object, own: Collection[str]) -> list[object]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [*value]
    if isinstance(value, type | FunctionType) or (isinstance(value, ModuleType) and value.__name__ not in own):
        return []
    named = [part for name, part in read_attributes(value).items() if not name.startswith("__")]
    return [*named, value.args] if isinstance(value, BaseException) else named


def _has_hidden_state(value: object, changed: Collection[str], own: Collection[str]) -> bool:
    """Return whether a call can change what a later one finds and no name shows: in defaults, closures, attributes."""
    waiting, seen = [value], set[int]()
    while waiting:
        one = waiting.pop()
        parts = _list_hidden_parts(one, own)
        shares_variable = isinstance(one, FunctionType) and not {*one.__code__.co_freevars}.isdisjoint(changed)
        if shares_variable or any(_is_changeable_in(part, depth=0, own=own) for part in parts):
            return True
        waiting += [part for part in parts if id(part) not in seen]
        seen |= {*map(id, parts)}
    return False


_WITH_HIDDEN = (functools.partial, staticmethod, classmethod, property, Dispatcher, MethodDispatcher)
_OF_CLASSES = frozenset({"_abc_impl", "_field_defaults"})  # Python makes them, for abstract classes and named tuples


def _list_hidden_parts(value: object, own: Collection[str]) -> list[object]:
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if is_filled(cell)]
        defaults = value.__defaults__ or (), (value.__kwdefaults__ or {}).values()
        return [*itertools.chain(*defaults), *cells, *vars(value).values()]
    if isinstance(value, MethodType | BuiltinMethodType):
        return [value.__self__]
    if isinstance(value, enum.EnumMeta):
        members: list[object] = list(value)
        return [part for member in members for part in _list_parts(member, own)]
    if isinstance(value, type) and value.__module__ in own:
        named = (part for name, part in vars(value).items() if not name.startswith("__") and name not in _OF_CLASSES)
        return [*named, *_list_special(value)]
    return [*_list_hidden(value)] if isinstance(value, _WITH_HIDDEN) else []


def collect_classes(annotation: Annotation, found: dict[type, None]) -> None:
    """Add the classes of the code that values of this type, and their parts, can have."""
    for one in typing.get_args(annotation):
        collect_classes(one, found)
    if isinstance(annotation, typing.NewType):
        collect_classes(annotation.__supertype__, found)
    kind = typing.get_origin(annotation) or annotation
    if not isinstance(kind, type) or kind.__module__ != MODULE_NAME or kind in found or issubclass(kind, enum.Enum):
        return
    found[kind] = None
    for part in (*_list_hints(kind), *_list_hints(kind.__init__), *find_subclasses(kind)):
        collect_classes(part, found)


def _list_hints(owner: Any) -> list[Any]:
    try:
        return list(typing.get_type_hints(owner).values())
    except (TypeError, NameError, AttributeError):
        return []


def _covers_states(cls: type, loaded: Loaded) -> bool:
    """Return whether the parameters of a constructor can give its object every state."""
    bases = [one for one in cls.__mro__ if one.__module__ == MODULE_NAME]
    related = {one.__name__ for one in (*bases, *find_subclasses(cls))}
    # a change through another variable than `self` counts if an object could have the attribute
    known = {"", *dir(cls), *_list_attributes(loaded.whole_tree)}
    changed = {
        name for owner, name in loaded.changes.attributes if owner in related or (owner is None and name in known)
    }
    is_immutable = _is_immutable(cls)
    if "" in changed or (is_immutable and issubclass(cls, tuple)) or inspect.isabstract(cls):
        return "" not in changed
    methods = {node.name: node for base in reversed(bases) for node in _find_constructors(base, loaded)}
    if dataclasses.is_dataclass(cls) and "__init__" not in methods and is_immutable:
        given = {one.name for one in dataclasses.fields(cls) if one.init}
        return changed <= given or len(given) == len(dataclasses.fields(cls))
    stored = _find_stored(cls, methods)
    return stored is not None and changed <= stored


def _list_attributes(tree: ast.Module) -> Iterator[str]:
    """Yield the names of attributes that code can ask for, also in texts, as `hasattr` does."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name):
                yield name
            case ast.MatchClass(kwd_attrs=names):
                yield from names
            case ast.Constant(str(text)):
                yield from text.split(".")


def _find_stored(cls: type, methods: Mapping[str, ast.FunctionDef]) -> set[str] | None:
    """Return the attributes in which constructors store their parameters; None if they can do something else."""
    if dataclasses.is_dataclass(cls) and "__init__" not in methods:
        fields = dataclasses.fields(cls)
        return None if methods or not all(one.init for one in fields) else {one.name for one in fields}
    if not methods:
        return set()
    return _read_stored(methods["__init__"]) if methods.keys() == {"__init__"} else None


def _find_constructors(cls: type, loaded: Loaded) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(loaded.whole_tree):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            yield from (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name in DECIDING_METHODS)


def _read_stored(method: ast.FunctionDef) -> set[str] | None:
    """Return the attributes of a constructor that stores each parameter unchanged and does nothing else, or None."""
    first, *others = [one.arg for one in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)]
    if method.args.vararg or method.args.kwarg:
        return None
    stored: dict[str, str] = {}
    for node in method.body:
        match node:
            case ast.Pass():
                continue
            case ast.Assign([ast.Attribute(ast.Name(owner), name)], ast.Name(value)) | ast.AnnAssign(
                ast.Attribute(ast.Name(owner), name), value=ast.Name(value)
            ) if owner == first:
                stored[name] = value
            case _:
                return None
    return {*stored} if sorted(stored.values()) == sorted(others) else None

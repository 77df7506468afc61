"""Find out whether code can return different results for the same call. Then nothing holds for all calls.

The result can depend on what outlives a call, on the order of a set, and on the time zone. The order of a set of texts
differs between processes. The check of it knows only the syntax: it follows sets by the names of variables, attributes
and functions, and finds too many rather than too few.
"""

import ast
from collections.abc import Callable, Iterator
from inspect import BoundArguments

from quilt_mcp.analysis.engine.scalars import find_docstrings
from quilt_mcp.analysis.gate.tree import read_last_name

_SET_NAMES = frozenset({"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"})
_UNORDERED_TYPES = frozenset({"Iterable", "Collection", "Container", "Any", "object"})
# The result of these does not depend on the order of the elements
_NEUTRAL = frozenset({"len", "sorted", "any", "all", "isinstance", "bool", "min", "max", "set", "frozenset", "sum"})
_NEUTRAL_METHODS = frozenset(
    {"add", "discard", "remove", "update", "issubset", "issuperset", "isdisjoint", "union", "intersection", "copy"}
    | {"difference", "symmetric_difference", "clear", "intersection_update", "difference_update"}
)
_VIEWS = frozenset({"keys", "items"})
_SET_OPERATORS = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)
_TIME_ZONE = frozenset({"fromtimestamp", "timestamp", "astimezone", "timetuple", "mktime"})
_LOOPING = frozenset(
    {"range", "pow", "factorial", "comb", "perm", "zfill", "ljust", "rjust", "center", "repeat", "islice", "to_bytes"}
    | {"bytes", "bytearray", "round", "quantize", "getrandbits"}
)


def find_reason(tree: ast.Module) -> str | None:
    """Return why nothing can be claimed about this code, or None."""
    if _uses_time_zone(tree):
        return "the result can depend on the time zone of the process"
    return "the result can depend on the order of a set" if observes_order(tree) else None


def observes_order(tree: ast.Module) -> bool:
    """Return whether the result can depend on the order of a set that differs between processes."""
    return _has_text(tree) and _Sets(tree).are_observed()


def _uses_time_zone(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in _TIME_ZONE for node in ast.walk(tree))


def find_unsure(tree: ast.Module) -> Callable[[BoundArguments], bool]:
    """Return a function that tells whether the result of a call with these arguments can depend on the process.

    It does not depend on the order of sets if the code makes none, and those in the arguments have at most one element.
    """
    if _uses_time_zone(tree):
        return lambda _: True
    if not observes_order(tree):
        return lambda _: False
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    makes = any(isinstance(one, ast.Name) and one.id in {"set", "frozenset"} for one in called)
    if makes or any(isinstance(node, ast.Set | ast.SetComp) for node in ast.walk(tree)):
        return lambda _: True
    return lambda arguments: any(_has_order(one, 3) for one in arguments.arguments.values())


def _has_order(value: object, depth: int) -> bool:
    """Return whether a set of several elements can be in a value: not in plain values, and lists and tuples of them."""
    if isinstance(value, set | frozenset):
        return len(value) > 1 or any(_has_order(one, depth - 1) for one in value)
    if isinstance(value, list | tuple) and depth:
        return any(_has_order(one, depth - 1) for one in value)
    return not isinstance(value, int | float | str | bytes | None)


def has_loops(tree: ast.Module) -> bool:
    """Return whether a large argument can make the code run for long."""
    return any(
        isinstance(node, ast.While | ast.Mult | ast.Pow | ast.LShift) or read_last_name(node) in _LOOPING
        for node in ast.walk(tree)
    )


def _has_text(tree: ast.Module) -> bool:
    """Return whether hashes of the code's values can differ between processes: text, and instances of classes."""
    docstrings = {id(one) for one in find_docstrings(tree)}
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.ClassDef | ast.JoinedStr):
            return True
        if isinstance(node, ast.Name) and node.id in {"str", "bytes", *_UNORDERED_TYPES, "Enum", "date", "datetime"}:
            return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes | None):
            return True
        if isinstance(node, ast.arg) and node.annotation is None and node.arg != "self":
            return True
    return False


class _Sets:
    """The names in a syntax tree that can have a set or a part of one as value."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self._names: set[str] = set()
        self._has_views = any(isinstance(node, ast.Attribute) and node.attr in _VIEWS for node in ast.walk(tree))
        size = -1
        while len(self._names) != size:  # until nothing is added
            size = len(self._names)
            for node in ast.walk(tree):
                self._follow(node)

    def are_observed(self) -> bool:
        """Return whether the code observes the order of a set."""
        return any(self._observes(node) for node in ast.walk(self._tree))

    def _follow(self, node: ast.AST) -> None:
        """Add the names to which this node can give a set."""
        if isinstance(node, ast.arg) and node.annotation is not None and _names_set(node.annotation):
            self._names.add(node.arg)
        elif isinstance(node, ast.AnnAssign) and _names_set(node.annotation):
            self._names |= _find_targets(node.target)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and self._is_set(node.value):
                self._names.update(*map(_find_targets, targets))
        elif isinstance(node, ast.For | ast.comprehension) and self._is_set(node.iter):
            if not isinstance(node.iter, ast.Set | ast.SetComp):  # the elements of a set are no sets themselves
                self._names |= _find_targets(node.target)
        elif isinstance(node, ast.FunctionDef):
            returned = [one.value for one in ast.walk(node) if isinstance(one, ast.Return | ast.Yield) and one.value]
            if any(map(self._is_set, returned)):
                self._names |= {node.name, "_", "__return__"}
        elif isinstance(node, ast.Call) and any(map(self._is_set, _arguments(node))):
            self._follow_call(node)

    def _follow_call(self, node: ast.Call) -> None:
        called = read_last_name(node.func)
        if called in self._functions:
            own = self._functions[called].args
            self._names.update(one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs) if one.arg != "self")
        elif isinstance(node.func, ast.Attribute):
            self._names |= _find_targets(node.func.value)

    def _is_set(self, node: ast.AST) -> bool:
        """Return whether the value of an expression can be a set or contain one."""
        if isinstance(node, ast.Set):
            return not all(isinstance(one, ast.Constant) and isinstance(one.value, int | float) for one in node.elts)
        of_views = self._has_views and isinstance(node, ast.BinOp) and isinstance(node.op, _SET_OPERATORS)
        if of_views or isinstance(node, ast.SetComp):  # `d.keys() - e.keys()` is a set
            return True
        if isinstance(node, ast.Call):
            return self._makes_set(node)
        if isinstance(node, ast.Name):
            return node.id in self._names
        if isinstance(node, ast.Attribute):
            return node.attr in self._names or self._is_set(node.value)
        parts = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        return not isinstance(node, ast.Compare) and any(map(self._is_set, parts))

    def _makes_set(self, node: ast.Call) -> bool:
        called = read_last_name(node.func)
        if called in {"set", "frozenset"}:
            return True
        if isinstance(node.func, ast.Name) and called in _NEUTRAL:
            return False
        of_set = isinstance(node.func, ast.Attribute) and self._is_set(node.func.value)
        return called in self._names or of_set or any(map(self._is_set, _arguments(node)))

    def _observes(self, node: ast.AST) -> bool:
        """Return whether the result of this node can depend on the order of a set."""
        if isinstance(node, ast.For):
            return self._is_set(node.iter)
        if isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            return any(self._is_set(one.iter) for one in node.generators)
        if isinstance(node, ast.Starred | ast.FormattedValue):
            return self._is_set(node.value)
        if isinstance(node, ast.Assign):
            return isinstance(node.targets[0], ast.Tuple | ast.List) and self._is_set(node.value)
        return isinstance(node, ast.Call) and self._observes_call(node)

    def _observes_call(self, node: ast.Call) -> bool:
        if isinstance(node.func, ast.Attribute):
            called = node.func.attr
            if called == "pop" and self._is_set(node.func.value):
                return True
            return called not in _NEUTRAL_METHODS | self._functions.keys() and any(map(self._is_set, _arguments(node)))
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        with_key = any(one.arg == "key" for one in node.keywords)
        if called in self._functions or (called in _NEUTRAL and not with_key):
            return False
        return any(map(self._is_set, _arguments(node)))


def _arguments(node: ast.Call) -> Iterator[ast.expr]:
    yield from (one.value if isinstance(one, ast.Starred) else one for one in node.args)
    yield from (one.value for one in node.keywords)


def _names_set(annotation: ast.expr) -> bool:
    names = {read_last_name(node) for node in ast.walk(annotation)} - {""}
    numbers = {"int", "float", "bool"}
    return bool(names & _SET_NAMES) and not names <= {*_SET_NAMES, *numbers, "list", "tuple", "dict"}


def _find_targets(target: ast.expr) -> set[str]:
    """Return the names that an assignment to this target changes."""
    if isinstance(target, ast.Name):
        return {target.id}
    if isinstance(target, ast.Attribute):
        return {target.attr}
    if isinstance(target, ast.Subscript | ast.Starred):
        return _find_targets(target.value)
    if isinstance(target, ast.Tuple | ast.List):
        return set().union(*map(_find_targets, target.elts))
    return set()


# Methods of datetime classes, and builtins, with results that depend on the time or the process
_CHANGING_METHODS = frozenset({"now", "today", "utcnow"})
_CHANGING_BUILTINS = frozenset({"id", "hash"})


def find_changing_name(tree: ast.Module) -> tuple[str, int] | None:
    """Return the first name in the code with a result that differs between calls or processes, and its line, or None.

    `hash` in a `__hash__` method does not count: sets and dicts use the result, but do not show it.
    """
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    unbound = _CHANGING_BUILTINS - bound
    for node in _walk_outside_hash(tree):
        if isinstance(node, ast.Attribute) and node.attr in _CHANGING_METHODS:
            return node.attr, node.lineno
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in _CHANGING_BUILTINS:  # also where other code binds the name
            return called.id, called.lineno
        if isinstance(node, ast.Name) and node.id in unbound:
            return node.id, node.lineno
    return None


def _walk_outside_hash(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.FunctionDef) and child.name == "__hash__"):
            yield from _walk_outside_hash(child)

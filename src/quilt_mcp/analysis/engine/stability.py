"""Find out whether code can return different results for the same call. Then nothing holds for all calls.

The result can depend on what outlives a call, on the order of a set, and on the time zone. The order of a set differs
between processes, and from that of the analyser's model. The check of it knows only the syntax: it follows sets by the
names of variables, attributes and functions, and finds too many rather than too few.
"""

import ast
from collections.abc import Iterator

from quilt_mcp.analysis.gate.tree import read_last_name

_SETS = frozenset({"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"})
# The result of these functions and methods does not depend on the order of a set
_NEUTRAL = frozenset({"len", "sorted", "any", "all", "isinstance", "bool", "min", "max", "set", "frozenset"})
_NEUTRAL_METHODS = frozenset(
    {"add", "discard", "remove", "update", "issubset", "issuperset", "isdisjoint", "union", "intersection", "copy"}
    | {"difference", "symmetric_difference", "clear", "intersection_update", "difference_update"}
)
_VIEWS = frozenset({"keys", "items"})
_SET_OPERATORS = ast.Sub | ast.BitAnd | ast.BitOr | ast.BitXor
_TIME_ZONE = frozenset({"fromtimestamp", "timestamp", "astimezone", "timetuple", "mktime"})
_LOOPING = frozenset(
    {"range", "pow", "factorial", "comb", "perm", "zfill", "ljust", "rjust", "center", "repeat", "islice", "to_bytes"}
    | {"bytes", "bytearray", "round", "quantize", "getrandbits"}
)


# A use in one of these does not show the order of a set; one of these can be the set itself, or contain it
_NEUTRAL_NODES = ast.Compare | ast.Expr | ast.If | ast.While | ast.Assert | ast.UnaryOp
_PARTS = ast.BoolOp | ast.IfExp | ast.Subscript | ast.Tuple | ast.List | ast.Dict | ast.keyword


def find_reason(tree: ast.Module) -> str | None:
    """Return why nothing can be claimed about this code, or None."""
    if _uses_time_zone(tree):
        return "the result can depend on the time zone of the process"
    return "the result can depend on the order of a set" if observes_order(tree) else None


def has_loops(tree: ast.Module) -> bool:
    """Return whether a large argument can make the code run for long."""
    return any(
        isinstance(node, ast.While | ast.Mult | ast.Pow | ast.LShift) or read_last_name(node) in _LOOPING
        for node in ast.walk(tree)
    )


def differs_between_processes(tree: ast.Module) -> bool:
    """Return whether a value in the code can be a set, or can depend on the time zone."""
    return any(map(_is_set, ast.walk(tree))) or _uses_time_zone(tree)


def _uses_time_zone(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in _TIME_ZONE for node in ast.walk(tree))


def observes_order(tree: ast.Module) -> bool:
    """Return whether the code can observe the order of a set: it uses one in a way that is not known to be neutral."""
    uses = _Uses(tree)
    waiting = [node for node in uses.parents if _is_set(node)]
    seen: set[ast.AST] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        followed = uses.follow(node, uses.parents[node])
        if followed is None:
            return True
        waiting += followed
    return False


def _is_set(node: ast.AST) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, _SET_OPERATORS):  # `d.keys() - e.keys()` is a set
        return any(isinstance(one, ast.Call) and read_last_name(one.func) in _VIEWS for one in (node.left, node.right))
    return read_last_name(node) in _SETS


def _read_target(target: ast.expr) -> str:
    return read_last_name(target.value if isinstance(target, ast.Subscript) else target)


class _Uses:
    """How a syntax tree uses its values."""

    def __init__(self, tree: ast.Module) -> None:
        self.parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

    def follow(self, node: ast.AST, parent: ast.AST) -> list[ast.AST] | None:
        """Return the other nodes that have the value of a node; None if its use can show the order of a set."""
        if isinstance(parent, _NEUTRAL_NODES):
            return []
        has_operator = isinstance(parent, ast.BinOp) and isinstance(parent.op, _SET_OPERATORS)
        is_method = isinstance(parent, ast.Attribute) and parent.attr in _NEUTRAL_METHODS | _SETS
        if isinstance(parent, _PARTS) or has_operator or is_method:
            return [parent]
        if isinstance(parent, ast.comprehension):
            whole = self.parents[parent]
            is_neutral = isinstance(whole, ast.SetComp) or self._is_neutral(self.parents[whole])
            return [] if is_neutral and not isinstance(whole, ast.DictComp) else None
        return self._follow_call(node, parent) if isinstance(parent, ast.Call) else self._follow_names(parent)

    def _follow_names(self, parent: ast.AST) -> list[ast.AST] | None:
        match parent:
            case ast.Assign(targets=targets):
                names = {*map(_read_target, targets)}
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
                names = {_read_target(target)}
            case ast.arg(arg=name):
                names = {name}
            case ast.FunctionDef(name=name):
                names = {name, "_", "__return__"}
            case ast.Return() | ast.Yield():
                while not isinstance(parent, ast.FunctionDef):
                    parent = self.parents[parent]
                names = {parent.name, "_", "__return__"}
            case _:
                return None
        return None if "" in names else self._find_loads(names)

    def _follow_call(self, node: ast.AST, call: ast.Call) -> list[ast.AST] | None:
        called = read_last_name(call.func)
        if node is call.func or called in {"field", "defaultdict"}:
            return [call]
        if self._is_neutral(call):
            return []
        if called in _NEUTRAL_METHODS and isinstance(call.func, ast.Attribute):
            return [call, call.func.value]
        if called in self._functions:
            own = self._functions[called].args
            names = {one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs) if one.arg != "self"}
            return None if own.vararg or own.kwarg else self._find_loads(names)
        return None

    @staticmethod
    def _is_neutral(node: ast.AST) -> bool:
        """Return whether the result of a call does not depend on the order of its arguments' elements."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _NEUTRAL
            and not any(one.arg == "key" for one in node.keywords)
        )

    def _find_loads(self, names: set[str]) -> list[ast.AST]:
        named = (
            one for one in self.parents if isinstance(one, ast.Name | ast.Attribute) and read_last_name(one) in names
        )
        return [one for one in named if isinstance(one.ctx, ast.Load)]


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

"""Find out from the syntax what the code of a file changes outside of a call, and which values get a second name.

A function that an analysis leaves out can be called before the analysed one. It can change values of module names, by
their name or by another one. The checks find too many changes rather than too few.
"""

import ast
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from quilt_mcp.analysis.gate.tree import read_last_name

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__"})
# The methods of containers that change them, and the functions of permitted modules that change their first argument
_METHODS = frozenset(
    """
    add append appendleft clear difference_update discard extend extendleft insert intersection_update move_to_end pop
    popitem popleft remove reverse rotate setdefault sort subtract symmetric_difference_update update
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)
_CHANGING_FUNCTIONS = frozenset(
    """
    delitem heapify heappop heappush heappushpop heapreplace iadd iand iconcat ifloordiv ilshift imatmul imod imul
    insort insort_left insort_right ior ipow irshift isub itruediv next setitem shuffle
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)
# Functions with a new object as result, those that keep nothing of their arguments, and those that keep items of them
_NEW = frozenset(
    """
    Counter OrderedDict abs bool bytearray bytes defaultdict deque dict float frozenset int len list range round set
    sorted str sum tuple
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)
_READERS = frozenset({"all", "any", "bool", "float", "hash", "int", "isinstance", "issubclass", "len", "repr", "str"})
_COPIES = frozenset(
    {"dict", "enumerate", "frozenset", "iter", "list", "max", "min", "reversed", "set", "sorted", "sum", "tuple", "zip"}
)
_NEW_NODES = (
    ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp | ast.Constant | ast.JoinedStr | ast.BinOp
)
# Nothing refers afterwards to a value that is directly in one of these
_READING = (
    ast.Compare | ast.UnaryOp | ast.FormattedValue | ast.Expr | ast.If | ast.While | ast.Assert | ast.Raise
    | ast.ExceptHandler | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.arg
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Changes:
    """What functions change outside of themselves."""

    names: frozenset[str] = frozenset()  # module names that a function rebinds, and those with values that it changes
    # the attributes that a function outside of constructors sets or changes. Each has the class of the method that
    # changes it through its first parameter, or None.
    attributes: frozenset[tuple[str | None, str]] = frozenset()
    context: bool = False  # whether a function reads or changes the context of decimal numbers
    others: bool = False  # whether a function changes a value that it did not make, so also one with another name
    # names with a value that gets another name, and how deep in the value: 0 for `a`, 1 for `a[0]`
    shared: frozenset[tuple[str, int]] = frozenset()

    def __or__(self, other: "Changes") -> "Changes":
        together = self.names | other.names, self.attributes | other.attributes, self.context or other.context
        return Changes(*together, self.others or other.others, self.shared | other.shared)


def find_changes(tree: ast.Module) -> Changes:
    """Return what the functions and methods of a file change."""
    names: set[str] = set()
    attributes: set[tuple[str | None, str]] = set()
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    imported = find_imported(tree)
    others = _hands_on_changing(tree)
    for owner, function, local in _find_functions(tree, None, frozenset()):
        others = others or changes_others(function)
        first = function.args.args[0].arg if owner and function.args.args else None
        for target in _find_targets(_walk_scope(function)):
            path = _read_path(target)
            if path and path[0] not in local:
                names.add(path[0])
            if path and path[0] in imported:  # in another file the value can have the name alone
                names |= {imported[path[0]], *path}
            if len(path) > 1 and path[0] == "type":  # `type(self).n = 1`
                names |= {owner} if owner else classes
            if owner and first == "cls" and path[:1] == ["cls"]:
                names.add(owner)
            of_first = path[:1] == [first]
            if len(path) > 1 and not (_is_constructor(function) and of_first and len(path) == 2):  # noqa: PLR2004 - an attribute of the object
                attributes.add((owner, path[1]) if of_first else (None, path[-1]))
    names |= {name for node in ast.walk(tree) if isinstance(node, ast.Nonlocal) for name in node.names}
    context = any(uses_decimal_context(node) for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
    return Changes(frozenset(names), frozenset(attributes), context, others, frozenset(_find_shared(tree)))


def find_changed_names(tree: ast.Module) -> set[str]:
    """Return the module names with values that the file can change after it binds them, when it starts or later."""
    changes = find_changes(tree)
    by_other_names = {name for name, _ in changes.shared} if changes.others or changes_others(tree) else set()
    return {*changes.names, *by_other_names, *_find_changed_at_start(tree)}


def changes_imported(tree: ast.Module) -> bool:
    """Return whether a file changes what it imports when it starts, such as a list of another file."""
    return not _find_changed_at_start(tree).isdisjoint(find_imported(tree))


def _find_changed_at_start(tree: ast.Module) -> set[str]:
    targets = [one for one in _find_targets(_walk_scope(tree)) if not isinstance(one, ast.Name) or _is_read(one)]
    return {path[0] for one in targets if (path := _read_path(one))}


def changes_others(code: ast.AST) -> bool:
    """Return whether a function or an expression changes values that it did not make, such as its parameters.

    A constructor can set attributes of its object. Functions within the code are not part of it.
    """
    nodes = list(_walk_scope(code))
    new = _find_new(nodes)
    made = code.args.args[0].arg if _is_constructor(code) and code.args.args else None
    for target in _find_targets(nodes):
        match target:
            case ast.Name(name) if name in new or not isinstance(target.ctx, ast.Load):
                continue
            case ast.Attribute(ast.Name(name), ctx=ast.Store()) if name == made:
                continue
        return True
    added = [node.target for node in nodes if isinstance(node, ast.AugAssign)]  # `x += y` changes a list in its place
    return any(isinstance(one, ast.Name) and one.id not in new for one in added)


def uses_decimal_context(tree: ast.AST) -> bool:
    """Return whether code gets or sets the context of decimal numbers of its thread."""
    return any(read_last_name(node) in {"getcontext", "setcontext"} for node in ast.walk(tree))


def _is_constructor(code: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(code, ast.FunctionDef) and code.name in _CONSTRUCTORS


def find_imported(tree: ast.Module) -> dict[str, str]:
    """Return the names that imports bind, each with the name that it has where it comes from."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {one.asname or one.name.partition(".")[0]: one.name for node in imports for one in node.names}


def _find_functions(
    node: ast.AST, owner: str | None, local: frozenset[str]
) -> Iterator[tuple[str | None, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, frozenset[str]]]:
    """Yield the functions, each with the class that it is a method of, and with the names that are no module names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            names = local | _find_local_names(child)
            yield owner, child, names
            yield from _find_functions(child, None, names)
        else:
            yield from _find_functions(child, child.name if isinstance(child, ast.ClassDef) else owner, local)


def _find_local_names(function: ast.AST) -> set[str]:
    nodes = list(_walk_scope(function))
    # the variables of a comprehension are not those of the function
    inner = {id(one) for node in nodes if isinstance(node, ast.comprehension) for one in ast.walk(node.target)}
    bound = {one.id for one in _list_bound(nodes) if id(one) not in inner}
    outer = {name for one in nodes if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
    return (bound - outer) | {one.arg for one in nodes if isinstance(one, ast.arg)}


def _list_bound(nodes: Iterable[ast.AST]) -> list[ast.Name]:
    return [one for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]


def _find_targets(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Yield what these nodes bind, delete or change."""
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield node.value
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                yield node.func.value
            if read_last_name(node.func) in _CHANGING_FUNCTIONS:
                yield from node.args[:1]


def _read_path(node: ast.expr) -> list[str]:
    """Return the names of `a.b[0].c` from left to right. The first is "type" for `type(a).c`, and "" for `f().c`.

    `f()[0]` has none.
    """
    path: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Call) and path:
        return ["type" if read_last_name(node.func) == "type" else "", *path]
    if isinstance(node, ast.Name):
        return [node.id, *path]
    return ["", *path] if path else []


def _walk_scope(code: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions within it."""
    waiting = deque(ast.iter_child_nodes(code))
    while waiting:
        node = waiting.popleft()
        yield node
        if not isinstance(node, _FUNCTIONS):
            waiting += ast.iter_child_nodes(node)


def _find_new(nodes: Collection[ast.AST]) -> set[str]:
    """Return the local names that only new objects are bound to."""
    new: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and (
            isinstance(node.value, _NEW_NODES) or _calls(node.value, _NEW)
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            new.update(one.id for one in targets if isinstance(one, ast.Name))
    added = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    bound = Counter(one.id for one in _list_bound(nodes) if id(one) not in added)
    return {name for name, count in new.items() if count == bound[name]} - {
        name
        for one in nodes
        for name in (one.names if isinstance(one, ast.Global | ast.Nonlocal) else [getattr(one, "arg", "")])
    }


def _calls(node: ast.AST | None, functions: Collection[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions


def _hands_on_changing(tree: ast.Module) -> bool:
    """Return whether what changes its argument is a value, as in `map(a.append, b)`, or has another name."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return any(
        (isinstance(node, ast.Attribute) and node.attr in _METHODS and id(node) not in called)
        or (isinstance(node, ast.Name) and node.id in _CHANGING_FUNCTIONS and id(node) not in called)
        or (isinstance(node, ast.alias) and node.asname is not None and node.name in _CHANGING_FUNCTIONS)
        for node in ast.walk(tree)
    )


def _find_shared(tree: ast.Module) -> Iterator[tuple[str, int]]:
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    imported = find_imported(tree)
    for name in ast.walk(tree):
        if not (isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)):
            continue
        depth = _find_depth(name, parents, own)
        if depth is None:
            continue
        yield name.id, depth
        if name.id in imported:
            yield imported[name.id], depth
            part = parents[name]
            while isinstance(part, ast.Attribute):
                yield part.attr, 0
                part = parents[part]


def _find_depth(name: ast.Name, parents: Mapping[ast.AST, ast.AST], own: Collection[str]) -> int | None:
    """Return how deep in a value the part is that gets another name here, or None."""
    node: ast.expr = name
    depth = 0
    while True:
        parent = parents[node]
        if isinstance(parent, ast.Attribute):
            user = parents[parent]
            is_called = isinstance(user, ast.Call) and user.func is parent
            if parent.attr in own or (parent.attr in _METHODS and not is_called):  # `self` is the other name
                return depth
            depth += not is_called or parent.attr in {"get", "copy"}
        elif isinstance(parent, ast.Subscript) and node is parent.value:
            depth += 1
        elif not (isinstance(parent, ast.Call) and isinstance(node, ast.Attribute) and node is parent.func):
            break
        node = parent
    kept = _find_kept(node, parent, own)
    return depth + kept if _is_read(node) and kept is not None else None


def _is_read(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def _find_kept(node: ast.expr, user: ast.AST, own: Collection[str]) -> int | None:
    """Return what can be referred to after its use: 0 for the value of the expression, 1 for its items, else None."""
    kept: int | None = None if isinstance(user, ast.Subscript | ast.comprehension | _READING) else 0
    match user:
        case ast.Call(ast.Name(function)) if node is not user.func and function not in own:
            kept = None if function in _READERS else 1 if function in _COPIES else 0
        case ast.Call():
            kept = None if node is user.func or read_last_name(user.func) == "join" else 0
        case ast.For() | ast.comprehension() if node is user.iter:
            kept = 1
        case ast.Starred() | ast.BinOp():
            kept = 1
        case ast.AnnAssign(annotation=only_read) | ast.IfExp(test=only_read) if node is only_read:
            kept = None
    return kept

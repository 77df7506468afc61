"""What the functions of a file change outside of themselves: module names, and attributes of objects.

It is read before the reduction: a function that the analysis leaves out can be called before the analysed one.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CONSTRUCTORS = frozenset({"__init__", "__post_init__", "__new__"})
# Methods of containers that change them
_CHANGING = frozenset(
    """
    add append appendleft clear difference_update discard extend extendleft insert intersection_update move_to_end pop
    popitem popleft remove reverse rotate setdefault sort subtract symmetric_difference_update update
    """.split()  # noqa: SIM905 - words are easier to read than a list of literals
)


@dataclass(frozen=True, slots=True)
class Changes:
    """What functions change outside of themselves.

    Attributes:
        names: module names that a function rebinds, and those with values that it changes.
        attributes: the attributes that a function outside of constructors sets or changes. Each has the class of the
            method that changes it through its first parameter, or None.
        context: whether a function reads or changes the context of decimal numbers.
    """

    names: frozenset[str] = frozenset()
    attributes: frozenset[tuple[str | None, str]] = frozenset()
    context: bool = False

    def __or__(self, other: "Changes") -> "Changes":
        together = self.names | other.names, self.attributes | other.attributes
        return Changes(*together, self.context or other.context)


def find_changes(tree: ast.Module) -> Changes:
    """Return what the functions and methods of a file change."""
    names: set[str] = set()
    attributes: set[tuple[str | None, str]] = set()
    context = False
    for owner, function in _find_functions(tree, None):
        context = context or uses_decimal_context(function)
        own = _find_own_names(function)
        first = function.args.args[0].arg if owner and function.args.args else None
        for target in _find_targets(function):
            path = _read_path(target)
            if path and path[0] not in own:
                names.add(path[0])
            if owner and first == "cls" and path[:1] == ["cls"]:
                names.add(owner)
            if len(path) > 1 and not (function.name in _CONSTRUCTORS and path[0] == first and len(path) == 2):  # noqa: PLR2004 - an attribute of the object
                attributes.add((owner if path[0] == first else None, path[1] if path[0] == first else path[-1]))
    return Changes(frozenset(names), frozenset(attributes), context)


def uses_decimal_context(tree: ast.AST) -> bool:
    """Return whether code gets or sets the context of decimal numbers of its thread."""
    names = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
    }
    return not names.isdisjoint({"getcontext", "setcontext"})


def _find_functions(
    node: ast.AST, owner: str | None
) -> Iterator[tuple[str | None, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            yield owner, child
        else:
            yield from _find_functions(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _find_own_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the parameters and local names of a function and of those within it."""
    nodes = list(ast.walk(function))
    bound = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    shared = {name for one in nodes if isinstance(one, ast.Global) for name in one.names}
    return (bound - shared) | {one.arg for one in nodes if isinstance(one, ast.arg)}


def _find_targets(function: ast.AST) -> Iterator[ast.expr]:
    """Yield what a function binds, deletes or changes."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            yield node.func.value


def _read_path(node: ast.expr) -> list[str]:
    """Return the names of `a.b[0].c` from left to right, or nothing if it does not begin with a name."""
    path: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
        node = node.value
    return [node.id, *path] if isinstance(node, ast.Name) else ["", *path] if path else []

"""Class patterns of `match`. They read attributes by names that are not in the code.

`case C(a)` reads the attributes that the class C declares. So C must be a class that the code defines, or a builtin
with a pattern that takes the value itself.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from quilt_mcp.analysis.gate.syntax import refuse

# Builtins: a pattern with one positional field matches the value itself
_WHOLE = frozenset({"bool", "bytearray", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"})
_NAMED_TUPLES = ("namedtuple", "NamedTuple")


class PatternCheck:
    """Checks the class patterns of a tree.

    Args:
        tree: the whole tree. It tells which names are classes of the code.
    """

    def __init__(self, tree: ast.AST) -> None:
        self._bound: Counter[str] = Counter()
        self._classes: set[str] = set()
        for node in ast.walk(tree):
            self._bound.update(_find_bound_names(node))
            if isinstance(node, ast.ClassDef):
                self._classes.add(node.name)
            elif isinstance(node, ast.Assign) and _makes_named_tuple(node.value):
                self._classes |= {target.id for target in node.targets if isinstance(target, ast.Name)}

    def check(self, node: ast.MatchClass) -> None:
        """Raise `Refused` if the pattern can read an attribute that the code must not read."""
        if "format" in node.kwd_attrs:
            raise refuse("format", node)
        if node.patterns and not self._is_own(node.cls):
            whole = isinstance(node.cls, ast.Name) and node.cls.id in _WHOLE and not self._bound[node.cls.id]
            if not whole or len(node.patterns) != 1 or node.kwd_attrs:
                raise refuse("pattern", node)

    def _is_own(self, cls: ast.expr) -> bool:
        """Return whether the name is a class of the code, and never anything else."""
        return isinstance(cls, ast.Name) and cls.id in self._classes and self._bound[cls.id] == 1


def _find_bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that this node binds itself."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


def _makes_named_tuple(value: ast.expr) -> bool:
    called = value.func if isinstance(value, ast.Call) else None
    name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
    return name in _NAMED_TUPLES

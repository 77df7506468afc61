"""Attributes that the code sets, deletes or reads: checks that need the object, which only the run knows.

The checks are calls around the object in the compiled code: `x.a = 1` becomes `__owned__(x, line).a = 1`. The canonical
source, which analyses show and parse, does not contain them.
"""

import ast
from collections import UserString
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from decimal import Context
from types import FunctionType
from typing import TypeVar

from crosshair.core import python_type
from crosshair.tracers import NoTracing
from crosshair.util import CrosshairUnsupported, CrossHairValue

from quilt_mcp.analysis.gate.inert_logging import Logger
from quilt_mcp.analysis.gate.rules import CLOSED_ATTRIBUTES, Refused
from quilt_mcp.analysis.messages import MODULE_NAME

# The checks must not become part of a path
_no_tracing: Callable[[], AbstractContextManager[object]] = NoTracing

_Value = TypeVar("_Value")
_Tree = TypeVar("_Tree", bound=ast.AST)


def guard_attributes(tree: _Tree, submitted: ast.AST | None = None) -> _Tree:
    """Put the checks into a tree that is about to be compiled. The tree is changed.

    Args:
        tree: code that the gate has admitted.
        submitted: the same tree with the line numbers of the submitted text, for refusals. Without it, refusals have
            the line numbers of `tree`.
    """
    lines = {
        id(node): getattr(other, "lineno", 0)
        for node, other in zip(ast.walk(tree), ast.walk(submitted or tree), strict=True)
    }
    guarded: _Tree = ast.fix_missing_locations(_Guarding(lines).visit(tree))
    return guarded


def check_owned(value: _Value, line: int) -> _Value:
    """Return the value if the code can set and delete its attributes: if the code defines it or its class.

    Raises:
        Refused: it is something else.
    """
    with _no_tracing():
        if not _is_owned(value):
            raise Refused("store", line)
    return value


def check_formats(value: _Value, line: int) -> _Value:
    """Return the value if its `format` is not the one of texts: fields of texts can name attributes.

    Raises:
        Refused: it is a text or a class of texts.
    """
    with _no_tracing():
        kind = python_type(value)
        cls = value if issubclass(kind, type) else kind
        if issubclass(cls, str | UserString):  # type: ignore[arg-type] # a class here
            raise Refused("format", line)
    return value


def has_attribute(value: object, name: str) -> bool:
    """Return `hasattr(value, name)`, for a proxy of CrossHair that of the value that it stands for.

    Raises:
        TypeError: the name is not a string.
        Refused: the name belongs to the interpreter.
    """
    with _no_tracing():
        if type(name) is not str:
            raise TypeError("hasattr() needs a name that does not depend on the arguments")
        if name in CLOSED_ATTRIBUTES or name.startswith("__"):
            raise Refused("attribute")
        if isinstance(value, CrossHairValue):
            if not hasattr(python_type(value), name):
                raise CrosshairUnsupported  # its attributes are not known
            return True
        return hasattr(value, name)


GUARDS: Mapping[str, Callable[..., object]] = {
    "__owned__": check_owned,
    "__formats__": check_formats,
}
"""The names of the checks in the compiled code. The gate lets no code use such names."""


def _is_owned(value: object) -> bool:
    kind = type(value)
    if kind is FunctionType:
        return bool(value.__globals__.get("__name__") == MODULE_NAME)  # type: ignore[attr-defined] # it is a function
    cls = value if issubclass(kind, type) else kind
    if cls.__module__ == MODULE_NAME:
        return True
    return kind in {Context, Logger} or (issubclass(kind, Exception) and kind.__module__ == "builtins")


class _Guarding(ast.NodeTransformer):
    def __init__(self, lines: Mapping[int, int]) -> None:
        self._lines = lines

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = _call("__owned__", node.value, self._lines[id(node)])
        elif node.attr == "format" and not isinstance(node.value, ast.Constant):
            node.value = _call("__formats__", node.value, self._lines[id(node)])
        return node


def _call(name: str, value: ast.expr, detail: str | int) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [value, ast.Constant(detail)], []), value)

"""Attributes that the code sets, deletes or reads: checks that need the object, which only the run knows.

The checks are calls around the object in the compiled code: `x.a = 1` becomes `__owned__(x, line).a = 1`. The canonical
source, which analyses show and parse, does not contain them.
"""

import ast
import dis
from collections import UserString
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from decimal import Context
from types import FunctionType
from typing import TypeVar

from crosshair.core import python_type
from crosshair.tracers import NoTracing, is_tracing
from crosshair.util import CrosshairUnsupported, CrossHairValue

from quilt_mcp.analysis.gate.inert_logging import Logger
from quilt_mcp.analysis.gate.proxies import PROXY_ATTRIBUTES
from quilt_mcp.analysis.gate.rules import CLOSED_ATTRIBUTES, Refused
from quilt_mcp.analysis.messages import MODULE_NAME

# The checks must not become part of a path
_no_tracing: Callable[[], AbstractContextManager[object]] = NoTracing
_is_symbolic_run: Callable[[], bool] = is_tracing

_WITHOUT_IDENTITY = (int, float, complex, str, bytes, tuple, frozenset)

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


def check_shown(value: _Value, name: str) -> _Value:
    """Return the value. If it is a proxy of CrossHair, the value that it represents must have the attribute.

    Raises:
        AttributeError: the represented value lacks the attribute, as in plain Python.
    """
    with _no_tracing():
        if isinstance(value, CrossHairValue) and not hasattr(python_type(value), name):
            raise AttributeError(name)
    return value


def is_identical(value: object, other: object) -> bool:
    """Return `value is other`, unless that would tell a proxy from the value that it stands for.

    Raises:
        CrosshairUnsupported: one is a proxy of a number or text, and both can be equal. The path stays undecided.
    """
    with _no_tracing():
        if isinstance(value, CrossHairValue) or isinstance(other, CrossHairValue):
            kinds = python_type(value), python_type(other)
            if all(issubclass(kind, _WITHOUT_IDENTITY) for kind in kinds):
                raise CrosshairUnsupported  # the identity of a symbolic value
        return value is other


def check_caught(*arguments: object) -> None:
    """Check exceptions if the code uses their text or attributes. CrossHair's models raise exceptions with other texts.

    Args:
        arguments: an exception that the code has caught, or the arguments of `__exit__`.

    Raises:
        CrosshairUnsupported: this is a symbolic run, and no `raise` of the code raised it. The path stays undecided.
    """
    if _is_symbolic_run():
        with _no_tracing():
            if not all(_is_raised_by_code(one) for one in arguments if isinstance(one, BaseException)):
                raise CrosshairUnsupported


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
    "__shown__": check_shown,
    "__formats__": check_formats,
    "__identical__": is_identical,
    "__caught__": check_caught,
}
"""The names of the checks in the compiled code. The gate lets no code use such names."""


def _is_raised_by_code(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_globals.get("__name__") != MODULE_NAME:
        return False
    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


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
        elif node.attr in PROXY_ATTRIBUTES:
            node.value = _call("__shown__", node.value, node.attr)
        elif node.attr == "format" and not isinstance(node.value, ast.Constant):
            node.value = _call("__formats__", node.value, self._lines[id(node)])
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        self.generic_visit(node)
        if node.name and _uses_value(node.body, node.name):
            _check_first(node.body, ast.Name(node.name, ast.Load()))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        if node.name == "__exit__":
            given = [ast.Name(one.arg, ast.Load()) for one in [*node.args.posonlyargs, *node.args.args][1:]]
            rest = [ast.Name(one.arg, ast.Load()) for one in [node.args.vararg] if one]
            if any(_uses_value(node.body, one.id) for one in [*given, *rest]):
                _check_first(node.body, *given, *(ast.Starred(one, ast.Load()) for one in rest))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        operator, other = node.ops[0], node.comparators[0]
        # `x is None` asks for the one object None, which no proxy is
        if not isinstance(operator, ast.Is | ast.IsNot) or isinstance(other, ast.Constant):
            return node
        same = ast.copy_location(ast.Call(ast.Name("__identical__", ast.Load()), [node.left, other], []), node)
        return same if isinstance(operator, ast.Is) else ast.copy_location(ast.UnaryOp(ast.Not(), same), node)


def _check_first(body: list[ast.stmt], *arguments: ast.expr) -> None:
    """Put a check of these exceptions before the first statement, but after the contract in the docstring."""
    first = body[0]
    has_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    call = ast.Expr(ast.Call(ast.Name("__caught__", ast.Load()), list(arguments), []))
    body.insert(int(has_text), ast.copy_location(call, first))


def _uses_value(body: list[ast.stmt], name: str) -> bool:
    """Return whether the statements use the variable other than to raise it or to name it as a cause."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            return True
        raised = (node.exc, node.cause) if isinstance(node, ast.Raise) else ()
        plain = [one for one in raised if isinstance(one, ast.Name)]
        waiting += [one for one in ast.iter_child_nodes(node) if one not in plain]
    return False


def _call(name: str, value: ast.expr, detail: str | int) -> ast.expr:
    return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [value, ast.Constant(detail)], []), value)

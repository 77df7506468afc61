"""Small questions about syntax that the gate's walk asks."""

import ast
import re
import string
from collections.abc import Iterator

from quilt_mcp.analysis.gate_rules import DEFINABLE_METHODS, Refused

# Text below these names is data, and typing turns it into no annotation. If the name means something else here, the
# guard on typing.ForwardRef meets the text when the code is loaded.
_NOT_ANNOTATIONS = ("Literal", "Annotated")


def refused_at(rule: str, node: ast.AST) -> Refused:
    """A refusal with the line of the node."""
    return Refused(rule, getattr(node, "lineno", None))


def check_ascii(name: str, node: ast.AST) -> None:
    """Raise Refused if the identifier has other letters."""
    # Python normalises other letters to ASCII ones, so that they name what they do not show
    if not name.isascii():
        raise refused_at("identifier", node)


def is_dunder(name: str) -> bool:
    """Whether the name is of the form __name__."""
    return name.startswith("__") and name.endswith("__")


def is_open_dunder(node: ast.Attribute) -> bool:
    """`x.__name__` read, and the definable methods of super()."""
    on_super = (
        isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
    )
    reads = isinstance(node.ctx, ast.Load)
    return reads and (node.attr == "__name__" or (on_super and node.attr in DEFINABLE_METHODS))


def check_template(node: ast.Attribute) -> None:
    """The template is a literal, and its fields name arguments only: no attribute, no index, no field in a field."""
    if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
        raise refused_at("format", node)
    try:
        fields = list(string.Formatter().parse(node.value.value))
    except ValueError:
        raise refused_at("format", node) from None
    for _, field, specification, _ in fields:
        if re.search(r"[.\[]", field or "") or "{" in (specification or ""):
            raise refused_at("format", node)


def annotation_texts(annotation: ast.expr | None) -> Iterator[tuple[str, ast.Constant]]:
    """The texts in an annotation that are themselves annotations."""
    waiting: list[ast.AST] = [annotation] if annotation else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node
        elif not (isinstance(node, ast.Subscript) and _last_name(node.value) in _NOT_ANNOTATIONS):
            waiting += ast.iter_child_nodes(node)


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def returns_value(node: ast.AST) -> bool:
    """Whether this is a return of anything but None or False."""
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and node.value.value in (None, False))


def leaving_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements by which a finally block can be left, other than at its end; a nested function is not part of it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)

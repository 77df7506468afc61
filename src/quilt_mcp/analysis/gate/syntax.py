"""Questions about syntax that the checks of the tree ask."""

import ast
import re
import string
from collections.abc import Iterator

from quilt_mcp.analysis.gate.rules import DEFINABLE_METHODS, Refused

# Strings in the brackets of these names are data, which typing does not evaluate. If the code gives the name another
# meaning, the guard on typing.ForwardRef checks the string when the code is loaded.
_NOT_ANNOTATIONS = ("Literal", "Annotated")


def refuse(rule: str, node: ast.AST) -> Refused:
    """Return a refusal with the line of the node."""
    return Refused(rule, getattr(node, "lineno", None))


def check_ascii(name: str, node: ast.AST) -> None:
    """Raise `Refused` if the identifier has other characters.

    Python normalises some of them to ASCII letters, so the identifier would have another meaning than it shows.
    """
    if not name.isascii():
        raise refuse("identifier", node)


def is_dunder(name: str) -> bool:
    """Return whether the name is of the form __name__."""
    return name.startswith("__") and name.endswith("__")


def is_sunder(name: str) -> bool:
    """Return whether the name is of the form _name_, which the enum module and others reserve."""
    return len(name) > 2 and name[0] == name[-1] == "_" and "_" not in (name[1], name[-2])  # noqa: PLR2004 - `__`


def is_allowed_dunder(node: ast.Attribute) -> bool:
    """Return whether the attribute is `__name__`, or a definable method of `super()`, and is only read."""
    on_super = (
        isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
    )
    reads = isinstance(node.ctx, ast.Load)
    return reads and (node.attr == "__name__" or (on_super and node.attr in DEFINABLE_METHODS))


def check_template(node: ast.Attribute) -> None:
    """Raise `Refused` unless the template is a literal with fields without attributes, indexes or nested fields."""
    if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):
        raise refuse("format", node)
    try:
        fields = list(string.Formatter().parse(node.value.value))
    except ValueError:
        raise refuse("format", node) from None
    for _, field, specification, _ in fields:
        if re.search(r"[.\[]", field or "") or "{" in (specification or ""):
            raise refuse("format", node)


def find_annotation_strings(annotation: ast.expr | None) -> Iterator[tuple[str, ast.Constant]]:
    """Yield the strings in an annotation that are themselves annotations."""
    waiting: list[ast.AST] = [annotation] if annotation else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node
        elif not (isinstance(node, ast.Subscript) and _last_name(node.value) in _NOT_ANNOTATIONS):
            waiting += ast.iter_child_nodes(node)


def find_computed_parts(annotation: ast.expr | None) -> Iterator[ast.AST]:
    """Yield the parts of an annotation that are not names, attributes, subscripts, `|`, lists, tuples or constants."""
    waiting: list[ast.AST] = [annotation] if annotation else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Subscript) and _last_name(node.value) in _NOT_ANNOTATIONS:
            waiting.append(node.value)
        elif isinstance(node, ast.Attribute | ast.Subscript | ast.Tuple | ast.List | ast.Starred):
            waiting += [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            waiting += [node.left, node.right]
        elif not isinstance(node, ast.Name | ast.Constant) and not _is_negative_number(node):
            yield node


def _is_negative_number(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def returns_value(node: ast.AST) -> bool:
    """Return whether this is a return statement with a value other than None and False."""
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and node.value.value in (None, False))


def find_leaving_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that leave a finally block before its end. Nested functions are not part of it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def find_slots(node: ast.ClassDef) -> Iterator[tuple[ast.Name, list[str]]]:
    """Yield the name `__slots__` of each statement in a class that sets it, and the names of the slots.

    Only literals have names. Other statements are not yielded, so that their name is refused.
    """
    for statement in node.body:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        items = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        names = [one.value for one in items if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        is_literal = len(names) == len(items) and all(name.isidentifier() for name in names)
        if isinstance(target, ast.Name) and target.id == "__slots__" and is_literal:
            yield target, names

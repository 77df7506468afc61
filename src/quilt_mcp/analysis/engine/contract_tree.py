"""The expressions of contracts as a part of the syntax tree of the code."""

import ast
import re
from collections.abc import Iterator

# As the gate writes them
_CLAUSE = re.compile(r"^\s*(?:pre|post(?:\[[\w, ]*\])?|inv): (.+)$", re.MULTILINE)


def include_clauses(tree: ast.Module) -> ast.Module:
    """Return a module with the statements of the code and the expressions of its contracts."""
    clauses = [ast.parse(text.strip(), mode="eval").body for text in _find_texts(tree)]
    return ast.Module([*tree.body, *(ast.Expr(one) for one in clauses)], [])


def find_docstrings(tree: ast.AST) -> list[ast.Constant]:
    """Return the docstrings of functions and classes."""
    owners = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    first = [node.body[0].value for node in owners if isinstance(node.body[0], ast.Expr)]
    return [one for one in first if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _find_texts(tree: ast.Module) -> Iterator[str]:
    for docstring in find_docstrings(tree):
        yield from _CLAUSE.findall(str(docstring.value))

"""Rewrite a clause of a contract as plain Python, for a test."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlainClause:
    """A clause as an expression without the names that only contracts have.

    Attributes:
        text: the expression. `result` is the result, and `old_x` the argument `x` before the call.
        used: the parameters that it uses.
        old: the parameters that it uses with their values before the call.
        others: the other names that it uses.
    """

    text: str
    used: set[str]
    old: set[str]
    others: set[str]


def rewrite_clause(source: str, variables: Mapping[str, str]) -> PlainClause:
    """Return the clause as plain Python.

    Args:
        source: the expression of the clause.
        variables: for each parameter, the variable that has its value.

    Raises:
        SyntaxError: it is not an expression.
    """
    tree = ast.parse(source.strip(), mode="eval").body
    rewriter = _Rewriter(variables, _find_bound_names(tree))
    text = ast.unparse(rewriter.visit(tree))
    return PlainClause(text, rewriter.used, rewriter.old, rewriter.others)


def _find_bound_names(tree: ast.AST) -> set[str]:
    nodes = list(ast.walk(tree))
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


class _Rewriter(ast.NodeTransformer):
    def __init__(self, variables: Mapping[str, str], bound: set[str]) -> None:
        self.used: set[str] = set()
        self.old: set[str] = set()
        self.others: set[str] = set()
        self._variables = variables
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._bound:
            return node
        if node.id in {"_", "__return__"}:
            return ast.Name("result", node.ctx)
        if node.id in self._variables:
            self.used.add(node.id)
            return ast.Name(self._variables[node.id], node.ctx)
        self.others.add(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "__old__":
            self.old.add(node.attr)
            return ast.Name(f"old_{node.attr}", node.ctx)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "implies" and len(node.args) == 2:  # noqa: PLR2004 - if and then
            return ast.BoolOp(ast.Or(), [ast.UnaryOp(ast.Not(), node.args[0]), node.args[1]])
        return node

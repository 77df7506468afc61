"""What the syntax of a function alone shows: how many ways lead through it, and which statements none leads to."""

import ast
from collections.abc import Iterator

_DECISIONS = (ast.If, ast.IfExp, ast.While, ast.For, ast.ExceptHandler, ast.Assert)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def cyclomatic_complexity(function: ast.FunctionDef) -> int:
    """McCabe's number: one more than the decisions in the body, functions defined in it included.

    A decision is an if or elif, a conditional expression, a loop, an except clause, an assert, each `for` and each
    `if` of a comprehension, each further operand of `and` and `or`, and each case that does not match everything.
    """
    return 1 + sum(_decisions(node) for statement in function.body for node in ast.walk(statement))


def _decisions(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.match_case):
        catches_all = isinstance(node.pattern, ast.MatchAs) and node.pattern.pattern is None and node.guard is None
        return 0 if catches_all else 1
    return 1 if isinstance(node, _DECISIONS) else 0


def statements_never_reached(function: ast.FunctionDef) -> list[int]:
    """The lines of the statements that stand after a return, raise, break or continue in the same block, sorted."""
    lines: set[int] = set()
    for node in ast.walk(function):
        for block in _blocks(node):
            leaving = next((at for at, one in enumerate(block) if isinstance(one, _LEAVES)), len(block))
            for statement in block[leaving + 1 :]:
                lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return sorted(lines)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block

"""The facts that the syntax of a function shows: its cyclomatic complexity and unreachable statements."""

import ast
from collections.abc import Iterator

_DECISIONS = (ast.If, ast.IfExp, ast.While, ast.For, ast.ExceptHandler, ast.Assert)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def compute_complexity(function: ast.FunctionDef) -> int:
    """Return McCabe's number: the number of decisions in the body, including nested functions, plus one.

    A decision is an if or elif, a conditional expression, a loop, an except clause, an assert, each `for` and `if` of a
    comprehension, each operand of `and` and `or` after the first, and each case that does not match everything.
    """
    return 1 + sum(_count_decisions(node) for statement in function.body for node in ast.walk(statement))


def _count_decisions(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.match_case):
        catches_all = isinstance(node.pattern, ast.MatchAs) and node.pattern.pattern is None and node.guard is None
        return 0 if catches_all else 1
    return 1 if isinstance(node, _DECISIONS) else 0


def find_unreachable_lines(function: ast.FunctionDef) -> list[int]:
    """Return the lines of the statements after a return, raise, break or continue in the same block, sorted."""
    lines: set[int] = set()
    for node in ast.walk(function):
        for block in _find_blocks(node):
            leaving = next((at for at, one in enumerate(block) if isinstance(one, _LEAVES)), len(block))
            for statement in block[leaving + 1 :]:
                lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return sorted(lines)


def _find_blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block

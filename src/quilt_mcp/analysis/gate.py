"""The first barrier: code is checked against allow-lists and written anew; only what was looked at goes on.

Comments vanish, and with them directives to the analyser. Docstrings vanish but for their contract lines, which pass
the same checks. What goes on is source made from the checked tree, never the client's text.
"""

import ast
import re
from dataclasses import dataclass

from quilt_mcp.analysis.gate_contracts import CLASS_SECTIONS, FUNCTION_SECTIONS, contract_lines
from quilt_mcp.analysis.gate_rules import Refused
from quilt_mcp.analysis.gate_walk import check
from quilt_mcp.analysis.policy import Policy

# PEP 263's declaration of an encoding, which may stand in the first two lines
_ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True, slots=True)
class Admitted:
    """Code that passed the gate.

    Attributes:
        source: the canonical source.
        tree: what it was written from; line numbers are those of the client's text.
    """

    source: str
    tree: ast.Module


def admit(code: str, policy: Policy) -> Admitted:
    """Let code in.

    Raises:
        Refused: it breaks a rule.
    """
    _check_text(code, policy)
    tree = _parse(code)
    check(tree, policy)
    tree = ast.fix_missing_locations(_Canonical(policy).visit(tree))
    source = ast.unparse(tree) + "\n"
    if ast.dump(_parse(source)) != ast.dump(tree):
        raise Refused("canonical")
    return Admitted(source, tree)


def _check_text(code: str, policy: Policy) -> None:
    try:
        size = len(code.encode())
    except UnicodeEncodeError:
        raise Refused("encoding") from None
    if size > policy.code_size_bytes:
        raise Refused("size")
    for line in code.split("\n", 2)[:2]:
        declared = _ENCODING.match(line)
        if declared and declared[1].lower() not in ("utf-8", "utf8", "utf_8"):
            raise Refused("encoding")


def _parse(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        # "too many nested parentheses" and "too complex" come as syntax errors too
        raise Refused("syntax", error.lineno) from None
    except ValueError:
        raise Refused("syntax") from None
    except (RecursionError, MemoryError):
        raise Refused("nesting") from None


class _Canonical(ast.NodeTransformer):
    """Takes all text out that stands alone as a statement, and puts the contracts of docstrings back."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._keep_contracts(node, FUNCTION_SECTIONS)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self._keep_contracts(node, CLASS_SECTIONS)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | ast.Pass:
        # a second string would become the docstring when the first is gone
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.copy_location(ast.Pass(), node) if is_text else node

    def _keep_contracts(self, node: ast.FunctionDef | ast.ClassDef, sections: frozenset[str]) -> None:
        docstring = ast.get_docstring(node, clean=False) or ""
        lines = contract_lines(docstring, sections, self._policy, node.body[0].lineno)
        self.generic_visit(node)
        if lines:
            text = "".join(f"\n    {line}" for line in lines) + "\n    "
            node.body[0] = ast.copy_location(ast.Expr(ast.Constant(text)), node.body[0])

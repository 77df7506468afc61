"""The gate, the first barrier: check code against allow-lists and rewrite it in canonical form.

The analysis runs on source that is written from the checked syntax tree, never on the submitted text. Comments are
dropped, and with them directives to CrossHair. Docstrings are dropped except for their contract lines, which must pass
the same checks as the code.
"""

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from quilt_mcp.analysis.gate.changes import Changes, find_changes
from quilt_mcp.analysis.gate.contracts import CLASS_SECTIONS, FUNCTION_SECTIONS, rewrite_contracts
from quilt_mcp.analysis.gate.everyday import rewrite_everyday_code
from quilt_mcp.analysis.gate.project import make_imports_absolute
from quilt_mcp.analysis.gate.reduction import reduce_tree
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.gate.tree import check_size, check_tree
from quilt_mcp.analysis.policy import Policy

# The declaration of an encoding (PEP 263), which can be in the first two lines
_ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True, slots=True)
class Admitted:
    """Code that passed the gate.

    Attributes:
        source: the canonical source.
        tree: the syntax tree of `source`, with the line numbers of the submitted text.
        dropped: what the reduction removed.
        changes: what the functions change, also those that the reduction removed.
    """

    source: str
    tree: ast.Module
    dropped: tuple[str, ...] = ()
    changes: Changes = Changes()  # noqa: RUF009 - it is frozen


def admit(
    code: str,
    policy: Policy,
    *,
    package: Sequence[str] = (),
    functions: Collection[str] | None = None,
    also: Collection[str] = (),
) -> Admitted:
    """Check code and return it in canonical form.

    Args:
        code: the text.
        policy: what is allowed.
        package: the parts of the name of its package, for relative imports.
        functions: what is analysed. The code is reduced to what they use. None keeps everything.
        also: other names to keep, if the code has them.

    Raises:
        Refused: it breaks a rule.
    """
    _check_text(code, policy)
    tree = _parse(code)
    check_size(tree, policy)  # before anything that is recursive
    tree = rewrite_everyday_code(make_imports_absolute(tree, package))
    changes = find_changes(tree)
    dropped = [] if functions is None else reduce_tree(tree, functions, also)
    check_tree(tree, policy)
    tree = ast.fix_missing_locations(_Canonical(policy).visit(tree))
    source = ast.unparse(tree) + "\n"
    if ast.dump(_parse(source)) != ast.dump(tree):
        raise Refused("canonical")
    return Admitted(source, tree, tuple(dropped), changes)


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
        # Python also reports "too many nested parentheses" and "too complex" as syntax errors
        raise Refused("syntax", error.lineno) from None
    except ValueError:
        raise Refused("syntax") from None
    except (RecursionError, MemoryError):
        raise Refused("nesting") from None


class _Canonical(ast.NodeTransformer):
    """Removes strings that are statements, and puts the contract lines of docstrings back."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._keep_contracts(node, FUNCTION_SECTIONS)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self._keep_contracts(node, CLASS_SECTIONS)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | ast.Pass:
        # a second string would become the docstring after the first is removed
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.copy_location(ast.Pass(), node) if is_text else node

    def _keep_contracts(self, node: ast.FunctionDef | ast.ClassDef, sections: frozenset[str]) -> None:
        docstring = ast.get_docstring(node, clean=False) or ""
        lines = rewrite_contracts(docstring, sections, self._policy, node.body[0].lineno)
        self.generic_visit(node)
        if lines:
            text = "".join(f"\n    {line}" for line in lines) + "\n    "
            node.body[0] = ast.copy_location(ast.Expr(ast.Constant(text)), node.body[0])

"""Contract lines, which are all that stays of docstrings.

Contract lines (`pre:`, `post:`, `inv:`, `raises:`) are found as CrossHair, which evaluates them, finds them: the syntax
of PEP 316 as its documentation describes it.
"""

import ast
import re
from collections.abc import Iterator

from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.gate.tree import check_text
from quilt_mcp.analysis.policy import Policy

FUNCTION_SECTIONS = frozenset({"pre", "post", "raises"})
CLASS_SECTIONS = frozenset({"inv"})

_HEADER = re.compile(r"(?P<indent>\s*):?(?P<section>pre|post|inv|raises)(?:\[(?P<mutable>[\w\s,.]*)\])?::?(?P<rest>.*)")
_SPHINX_RAISES = re.compile(r"\s*:raises\s+(?P<name>[^:]*):")
_NAMES = re.compile(r"[A-Za-z]\w*(\s*,\s*[A-Za-z]\w*)*", re.ASCII)


class ContractKeeper(ast.NodeTransformer):
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


def rewrite_contracts(docstring: str, sections: frozenset[str], policy: Policy, line: int | None) -> list[str]:
    """Return the contracts of a docstring in canonical form, one line each. Refusals have the line of the docstring.

    `sections` is `FUNCTION_SECTIONS` or `CLASS_SECTIONS`. Other sections have no meaning there and are dropped.
    """
    written = []
    for section, mutable, text in _find_entries(docstring):  # `post[mutable]` names what the call can change
        if section not in sections:
            continue
        try:
            content = _rewrite_names(text, policy) if section == "raises" else _rewrite_expression(text, policy)
            head = section if mutable is None else f"{section}[{_check_mutable(section, mutable)}]"
        except Refused as refusal:
            raise Refused(refusal.rule, line) from None
        written.append(f"{head}: {content}")
    return written


def _find_entries(docstring: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield the section, bracketed names and expression of each contract.

    The expression is on the line of the header, or indented on the lines below it.
    """
    section, mutable, indent = None, None, 0
    for raw in docstring.splitlines():
        if not raw.strip():
            continue
        if section and len(raw) - len(raw.lstrip()) > indent:
            if _has_expression(raw):
                yield section, mutable, raw.strip()
                mutable = None  # they belong to the section, so they are written once
            continue
        section = None
        if sphinx := _SPHINX_RAISES.match(raw):
            yield "raises", None, sphinx["name"].strip()
        elif header := _HEADER.match(raw):
            if _has_expression(header["rest"]):
                yield header["section"], header["mutable"], header["rest"].strip()
            else:
                section, mutable, indent = header["section"], header["mutable"], len(header["indent"])


def _has_expression(text: str) -> bool:
    return bool(text.strip()) and not text.strip().startswith("#")


def _rewrite_expression(text: str, policy: Policy) -> str:
    tree = check_text(text, policy, contract=True)
    if tree is None:
        raise Refused("contract")
    written = ast.unparse(tree)
    # CrossHair takes the line from the source text, where a backslash has another meaning than in the docstring
    if "\\" in written or not written.isprintable():
        raise Refused("contract")
    return written


def _rewrite_names(text: str, policy: Policy) -> str:
    names = text.partition("#")[0].strip()
    if not _NAMES.fullmatch(names) or check_text(names, policy) is None:
        raise Refused("contract")
    return names


def _check_mutable(section: str, names: str) -> str:
    stripped = names.strip()
    if section != "post" or (stripped and not _NAMES.fullmatch(stripped)):
        raise Refused("contract")
    return stripped

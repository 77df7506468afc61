"""The gate, the first barrier: check code against allow-lists and rewrite it in canonical form.

The analysis runs on source that is written from the checked syntax tree, never on the submitted text. Comments are
dropped, and with them directives to CrossHair. Docstrings are dropped except for their contract lines, which must pass
the same checks as the code.

Contract lines (`pre:`, `post:`, `inv:`, `raises:`) are found as CrossHair, which evaluates them, finds them: the syntax
of PEP 316 as its documentation describes it.
"""

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from quilt_mcp.analysis.gate.changes import Changes, find_changes
from quilt_mcp.analysis.gate.reduction import reduce_tree, rewrite_everyday_code
from quilt_mcp.analysis.gate.rules import Refused
from quilt_mcp.analysis.gate.tree import check_size, check_text, check_tree
from quilt_mcp.analysis.policy import Policy

FUNCTION_SECTIONS = frozenset({"pre", "post", "raises"})
CLASS_SECTIONS = frozenset({"inv"})

_HEADER = re.compile(r"(?P<indent>\s*):?(?P<section>pre|post|inv|raises)(?:\[(?P<mutable>[\w\s,.]*)\])?::?(?P<rest>.*)")
_SPHINX_RAISES = re.compile(r"\s*:raises\s+(?P<name>[^:]*):")
_NAMES = re.compile(r"[A-Za-z]\w*(\s*,\s*[A-Za-z]\w*)*", re.ASCII)


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


# The declaration of an encoding (PEP 263), which can be in the first two lines
_ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True, slots=True)
class Admitted:
    """Code that passed the gate."""

    source: str  # the canonical source
    tree: ast.Module  # the syntax tree of `source`, with the line numbers of the submitted text
    dropped: tuple[str, ...] = ()  # what the reduction removed
    # what the functions change, also those that the reduction removed
    changes: Changes = Changes()  # noqa: RUF009 - it is frozen


def admit(
    code: str,
    policy: Policy,
    *,
    package: Sequence[str] = (),  # the parts of the name of its package, for relative imports
    functions: Collection[str] | None = None,  # the code is reduced to what they use; None keeps everything
    also: Collection[str] = (),  # other names to keep, if the code has them
) -> Admitted:
    """Check code and return it in canonical form."""
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


def make_imports_absolute(tree: ast.Module, package: Sequence[str]) -> ast.Module:
    """Replace the relative imports that stay in the package, such as `from .models import X`. The tree is changed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(package):
            parts = [*package[: len(package) - node.level + 1], *([node.module] if node.module else [])]
            node.module, node.level = ".".join(parts), 0
    return tree


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

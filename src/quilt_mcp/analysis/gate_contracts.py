"""Contract lines in docstrings (`pre:`, `post:`, `inv:`, `raises:`), which the analyser evaluates and the gate reads.

The sections are found as CrossHair finds them (PEP 316's syntax as its documentation describes it), and each expression
passes the same walk as the code.
"""

import ast
import re
from collections.abc import Iterator

from quilt_mcp.analysis.gate_rules import Refused
from quilt_mcp.analysis.gate_walk import check_text
from quilt_mcp.analysis.policy import Policy

FUNCTION_SECTIONS = frozenset({"pre", "post", "raises"})
CLASS_SECTIONS = frozenset({"inv"})

_HEADER = re.compile(r"(?P<indent>\s*):?(?P<section>pre|post|inv|raises)(?:\[(?P<mutable>[\w\s,.]*)\])?::?(?P<rest>.*)")
_SPHINX_RAISES = re.compile(r"\s*:raises\s+(?P<name>[^:]*):")
_NAMES = re.compile(r"[A-Za-z]\w*(\s*,\s*[A-Za-z]\w*)*", re.ASCII)


def contract_lines(docstring: str, sections: frozenset[str], policy: Policy, line: int | None) -> list[str]:
    """The contracts of a docstring, written anew: one line each, in canonical form.

    Args:
        docstring: the text as it stands in the code.
        sections: `FUNCTION_SECTIONS` or `CLASS_SECTIONS`; others mean nothing there, and are left out.
        policy: what is allowed.
        line: where the docstring begins, for refusals.

    Raises:
        Refused: a line is not an expression, or breaks a rule.
    """
    written = []
    for section, mutable, text in _entries(docstring):
        if section not in sections:
            continue
        try:
            content = _names(text, policy) if section == "raises" else _expression(text, policy)
            head = section if mutable is None else f"{section}[{_mutable(section, mutable)}]"
        except Refused as refusal:
            raise Refused(refusal.rule, line) from None
        written.append(f"{head}: {content}")
    return written


def _entries(docstring: str) -> Iterator[tuple[str, str | None, str]]:
    """Section, bracketed names and expression of each contract: on the header's line, or indented on those below it."""
    section, mutable, indent = None, None, 0
    for raw in docstring.splitlines():
        if not raw.strip():
            continue
        if section and len(raw) - len(raw.lstrip()) > indent:
            if _has_expression(raw):
                yield section, mutable, raw.strip()
                mutable = None  # they belong to the section, and are written once
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


def _expression(text: str, policy: Policy) -> str:
    tree = check_text(text, policy, contract=True)
    if tree is None:
        raise Refused("contract")
    written = ast.unparse(tree)
    # The analyser takes the line from the source as it stands there, where a backslash means another text than here
    if "\\" in written or not written.isprintable():
        raise Refused("contract")
    return written


def _names(text: str, policy: Policy) -> str:
    names = text.partition("#")[0].strip()
    if not _NAMES.fullmatch(names) or check_text(names, policy) is None:
        raise Refused("contract")
    return names


def _mutable(section: str, names: str) -> str:
    stripped = names.strip()
    if section != "post" or (stripped and not _NAMES.fullmatch(stripped)):
        raise Refused("contract")
    return stripped

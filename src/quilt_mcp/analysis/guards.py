"""Text that becomes code at run time passes the gate here, wherever analysed code can bring it about.

The gate sees the code's own text. Text that the code computes can still become code in three places: where typing takes
it for an annotation, where dataclasses writes methods from field names, and where the analyser takes it for a contract.
"""

import dataclasses
import re
import typing
from collections.abc import Callable
from typing import Any

from crosshair import condition_parser

from quilt_mcp.analysis.gate_rules import Refused
from quilt_mcp.analysis.gate_walk import check_text
from quilt_mcp.analysis.policy import Policy

_CANONICAL_RAISES = re.compile(r"\s*raises: [A-Za-z]\w*(\s*,\s*[A-Za-z]\w*)*", re.ASCII)


def install(policy: Policy) -> None:
    """Guard the three places in this process, for good.

    Raises:
        AttributeError: a place is not where it is expected. Then nothing may be analysed.
    """
    _before(typing.ForwardRef, "__init__", lambda _, text, *__, **___: _check_annotation(text, policy))
    _before(dataclasses, "_get_field", lambda _, name, *__, **___: _check_field(name))
    _before(condition_parser, "compile_expr", lambda text: _check_contract(text, policy))
    _instead(condition_parser, "parse_sphinx_raises", _declared_exceptions)


def _before(owner: Any, name: str, look: Callable[..., None]) -> None:
    """Have a function of `owner` call `look` with its arguments before it does its work."""

    def guarded(plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            look(*args, **kwargs)
        except Refused as refused:
            raise Refused(refused.rule) from None  # its line is one of the text, not of the code
        return plain(*args, **kwargs)

    _instead(owner, name, guarded)


def _instead(owner: Any, name: str, guarded: Callable[..., Any]) -> None:
    """Put `guarded` in the place of a function of `owner`; it gets that function as its first argument."""
    plain = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: guarded(plain, *args, **kwargs))


def _check_annotation(text: object, policy: Policy) -> None:
    # typing writes text that begins with a star anew; a subclass of str may answer otherwise each time it is asked
    if type(text) is not str or text.startswith("*"):
        raise Refused("construct")
    check_text(text, policy)


def _check_field(name: object) -> None:
    if type(name) is not str or not (name.isidentifier() and name.isascii()) or name.startswith("__"):
        raise Refused("dunder")


def _check_contract(text: object, policy: Policy) -> None:
    if type(text) is not str or check_text(text, policy, contract=True) is None:
        raise Refused("contract")


def _declared_exceptions(plain: Callable[[object], set[type]], function: object) -> set[type]:
    """What the function's docstring declares to raise, if each line that speaks of it is one that the gate wrote."""
    lines = (getattr(function, "__doc__", None) or "").splitlines()
    canonical = all(_CANONICAL_RAISES.fullmatch(line) for line in lines if "raises" in line)
    return plain(function) if canonical else set()

"""Apply the gate's rules to what the standard library and CrossHair do for the code at run time.

The gate checks the text of the code. Text that the code computes can still become code in three places: typing
evaluates it as an annotation, dataclasses writes methods from field names, and CrossHair evaluates it as a contract.
Nothing needs inspect to evaluate annotations, so it never does. It can become the name of an attribute in two more:
enum makes classes from a dict, and UserString formats itself.
"""

import dataclasses
import enum
import inspect
import re
import typing
from collections import UserString
from collections.abc import Callable

from crosshair import condition_parser

from quilt_mcp.analysis.gate.rules import INTERNAL_NAMES, Refused
from quilt_mcp.analysis.gate.tree import check_text, is_sunder
from quilt_mcp.analysis.policy import Policy

_CANONICAL_RAISES = re.compile(r"\s*raises: [A-Za-z]\w*(\s*,\s*[A-Za-z]\w*)*", re.ASCII)

_Plain = Callable[..., object]


def install_guards(policy: Policy) -> None:
    """Guard these places in this process. This cannot be undone.

    `AttributeError`: a function to guard does not exist. The process must not analyse anything then.
    """
    _check_before(typing.ForwardRef, "__init__", lambda _, text, *__, **___: _check_annotation(text, policy))
    _check_before(inspect, "get_annotations", lambda *_, eval_str=False, **__: eval_str and _refuse("annotation"))
    _check_before(dataclasses, "_get_field", lambda cls, name, *_, **__: _check_field(cls, name))
    _check_before(dataclasses, "_process_class", lambda cls, *_, **__: _check_fields(cls))
    _check_before(condition_parser, "compile_expr", lambda text: _check_contract(text, policy))
    _replace(condition_parser, "parse_sphinx_raises", _find_declared_exceptions)
    for name in ("_create_", "_convert_"):  # make a class from a dict; read the names of any module
        _check_before(enum.EnumType, name, lambda *_, **__: _refuse("enum"))
    for name in ("format", "format_map"):
        _check_before(UserString, name, lambda *_, **__: _refuse("format"))


def _check_before(owner: object, name: str, check: Callable[..., object]) -> None:
    """Make a function of `owner` call `check` with its arguments first."""

    def run_checked(plain: _Plain, *args: object, **kwargs: object) -> object:
        try:
            check(*args, **kwargs)
        except Refused as refused:
            raise Refused(refused.rule) from None  # its line is a line of the text, not of the code
        return plain(*args, **kwargs)

    _replace(owner, name, run_checked)


def _replace(owner: object, name: str, replacement: _Plain) -> None:
    """Replace a function of `owner` by `replacement`, which gets that function as its first argument."""
    plain = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: replacement(plain, *args, **kwargs))


def _check_annotation(text: object, policy: Policy) -> None:
    # typing rewrites text that starts with a star; a subclass of str can return a different text each time
    if type(text) is not str or text.startswith("*"):
        raise Refused("construct")
    check_text(text, policy)


def _check_field(cls: type, name: object) -> None:  # methods are written with the name, and class patterns read it
    if type(name) is not str or not (name.isidentifier() and name.isascii()) or name.startswith("__"):
        raise Refused("dunder")
    if name in INTERNAL_NAMES or is_sunder(name):
        raise Refused("attribute")
    default = vars(cls).get(name)
    if isinstance(default, dataclasses.Field) and type(default) is not dataclasses.Field:
        raise Refused("store")  # the code could change the name of such a field later
    if name == "format" and issubclass(cls, str | UserString):
        raise Refused("format")  # a class pattern would read the method of str


def _check_fields(cls: type) -> None:
    """Check the fields that a dataclass inherits, from which its methods are written."""
    for base in cls.__mro__[1:]:
        for key, field in vars(base).get("__dataclass_fields__", {}).items():
            if type(field) is not dataclasses.Field or field.name is not key:  # an own field, or one that was renamed
                raise Refused("dunder")
            _check_field(cls, key)


def _refuse(rule: str) -> object:
    raise Refused(rule)


def _check_contract(text: object, policy: Policy) -> None:
    if type(text) is not str or check_text(text, policy, contract=True) is None:
        raise Refused("contract")


def _find_declared_exceptions(plain: Callable[[object], set[type]], function: object) -> set[type]:
    """Return the exceptions that a docstring declares; none if the gate did not write each line with `raises`."""
    lines = (getattr(function, "__doc__", None) or "").splitlines()
    canonical = all(_CANONICAL_RAISES.fullmatch(line) for line in lines if "raises" in line)
    return plain(function) if canonical else set()

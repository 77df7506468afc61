"""Values of analysed code in the form that an answer can hold: JSON, bounded, and without raising."""

import re
from enum import Enum
from inspect import BoundArguments, Parameter
from typing import Any

from typing_extensions import TypedDict

TEXT_LENGTH = 2_000
_INTEGER_BITS = 4_096
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

Value = int | float | bool | str | None


class Counterexample(TypedDict):
    """Arguments for which something was seen to happen in plain Python.

    Attributes:
        args: positional arguments by name. Numbers, booleans, null and text as they are; others as Python source text.
        kwargs: the same for keyword-only arguments.
        call: the call in Python source text.
        violation: what happened.
        actual_result: what the call returned or raised.
        path_condition: what holds of the arguments beyond their types: the contract's preconditions, or True.
    """

    args: dict[str, Value]
    kwargs: dict[str, Value]
    call: str
    violation: str
    actual_result: str
    path_condition: str


def counterexample(
    name: str, arguments: BoundArguments, *, violation: str, actual_result: str, path_condition: str = "True"
) -> Counterexample:
    """The counterexample for a call of the function of this name."""
    parameters = arguments.signature.parameters
    by_keyword = {Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD}
    values = {key: (parameters[key].kind in by_keyword, value) for key, value in arguments.arguments.items()}
    return {
        "args": {key: plain(value) for key, (keyword, value) in values.items() if not keyword},
        "kwargs": {key: plain(value) for key, (keyword, value) in values.items() if keyword},
        "call": call_text(name, arguments),
        "violation": shortened(violation),
        "actual_result": shortened(actual_result),
        "path_condition": shortened(path_condition),
    }


def plain(value: Any) -> Value:
    """The value itself if JSON can hold it, else its source text."""
    if value is None or type(value) is bool:
        return value
    if type(value) is int and value.bit_length() <= _INTEGER_BITS:
        return value
    if type(value) is float and value - value == 0:  # finite
        return value
    if type(value) is str and len(value) <= TEXT_LENGTH and _is_unicode(value):
        return value
    return source_text(value)


def call_text(name: str, arguments: BoundArguments) -> str:
    """The call as Python source text, such as `f(3, k='a')`."""
    positional = [source_text(value) for value in arguments.args]
    keyword = [f"{key}={source_text(value)}" for key, value in arguments.kwargs.items()]
    return shortened(f"{name}({', '.join(positional + keyword)})")


def source_text(value: Any) -> str:
    """The value as Python source in ASCII, bounded, without addresses; where its repr fails, its type."""
    try:
        text = _source(value)
    except Exception:  # noqa: BLE001 - the repr is analysed code, or an integer is too long for one
        text = f"<{type(value).__name__} without a repr>"
    return shortened(_ADDRESS.sub("", text))


def _source(value: Any) -> str:
    """The repr, but for what a repr cannot say: numbers that are none or too long for one, and members by name."""
    if type(value) is float and value - value != 0:
        return f"float('{value}')"
    if type(value) is int and value.bit_length() > _INTEGER_BITS:
        return hex(value)  # Python refuses to write longer ones in decimal
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if type(value) in {list, tuple} and value:
        inner = ", ".join(map(_source, value)) + ("," if len(value) == 1 and type(value) is tuple else "")
        return f"[{inner}]" if type(value) is list else f"({inner})"
    if type(value) is dict:
        return f"{{{', '.join(f'{_source(key)}: {_source(one)}' for key, one in value.items())}}}"
    return ascii(value)


def shortened(text: str) -> str:
    """The text in at most TEXT_LENGTH characters."""
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…"


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)

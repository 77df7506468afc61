"""Convert values of analysed code for an answer: to JSON types, of limited length, and without exceptions."""

import re
from collections.abc import Mapping
from inspect import BoundArguments, Parameter
from types import MappingProxyType
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from quilt_mcp.analysis.engine.source_text import Writer, write_name

if TYPE_CHECKING:  # the server imports this module, but not CrossHair
    from quilt_mcp.analysis.engine.subjects import Subject

TEXT_LENGTH = 2_000
_DEPTH = 5
_EXACT = 2**53  # clients that read all numbers as floats change larger integers, or refuse the answer
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

NO_TEST = (
    "`test` is null: an argument or class has no source text, the test would be too long, or no assertion can show the"
    " result. Reproduce it with `call`."
)

Names = Mapping[str, object]
Value = int | float | bool | str | None | list[object] | dict[str, object]


class Counterexample(TypedDict):
    """Arguments that reproduce the result in plain Python.

    Attributes:
        args: positional arguments by name. Numbers, booleans, null and strings are JSON, and lists of them, and dicts
            with texts as keys; others, and integers from 2**53 on, are Python source text.
        kwargs: the same for keyword-only arguments.
        call: the call as Python source text.
        violation: what happened.
        actual_result: what the call returned or raised.
        path_condition: the preconditions of the contract, or True.
        test: a pytest that fails until the code is corrected; null if there is none. The answer's `message` says why
            then.
    """

    args: dict[str, Value]
    kwargs: dict[str, Value]
    call: str
    violation: str
    actual_result: str
    path_condition: str
    test: str | None


def make_counterexample(
    subject: "Subject",
    arguments: BoundArguments,
    names: Names,
    *,
    violation: str,
    actual_result: str,
    path_condition: str = "True",
    test: str | None = None,
) -> Counterexample:
    """Return the counterexample for a call of a function; `names` are those of the code."""
    parameters = arguments.signature.parameters
    by_keyword = {Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD}
    values = {key: (parameters[key].kind in by_keyword, value) for key, value in arguments.arguments.items()}
    return {
        "args": {key: to_json_value(value, names) for key, (keyword, value) in values.items() if not keyword},
        "kwargs": {key: to_json_value(value, names) for key, (keyword, value) in values.items() if keyword},
        "call": write_call(subject, arguments, names),
        "violation": shorten(violation),
        "actual_result": shorten(actual_result),
        "path_condition": shorten(path_condition),
        "test": test,
    }


def to_json_value(value: object, names: Names = MappingProxyType({})) -> Value:
    """Return the value itself if it fits into JSON, else its source text."""
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int and abs(value) < _EXACT:
        return value
    if type(value) is float and value - value == 0:  # finite
        return value
    if type(value) is str and len(value) <= TEXT_LENGTH and _is_unicode(value):
        return value
    text = write_source(value, names)
    if isinstance(value, list | dict) and len(text) < TEXT_LENGTH and _is_json(value):
        return value
    return text


def _is_json(value: object, depth: int = _DEPTH) -> bool:
    """Return whether JSON has exactly this value."""
    if type(value) is list:
        return depth > 0 and all(_is_json(one, depth - 1) for one in value)
    if type(value) is dict:
        return depth > 0 and all(
            type(key) is str and _is_json(key) and _is_json(one, depth - 1) for key, one in value.items()
        )
    return isinstance(value, str | int | float | None) and to_json_value(value) is value


def write_call(subject: "Subject", arguments: BoundArguments, names: Names) -> str:
    """Return the call as Python source text, such as `f(3, k='a')` or `Class(1).method(2)`."""
    positional = [write_source(value, names) for value in arguments.args]
    keyword = [f"{key}={write_source(value, names)}" for key, value in arguments.kwargs.items()]
    called = subject.name
    if subject.kind in {"method", "property"}:
        called = f"{positional.pop(0)}.{subject.name.rpartition('.')[2]}"
    return shorten(called if subject.kind == "property" else f"{called}({', '.join(positional + keyword)})")


def write_source(value: object, names: Names = MappingProxyType({})) -> str:
    """Return the value as shortened Python source text in ASCII, for code with these names.

    If there is no source text, return its repr without addresses, or its type.
    """
    try:
        text = Writer(lambda one, name: write_name(names, one, name)).write(value)
    except Exception:  # noqa: BLE001 - the class of the value is analysed code
        text = _ADDRESS.sub("", _write_repr(value))
    return shorten(text)


def _write_repr(value: object) -> str:
    try:
        return ascii(value)
    except Exception:  # noqa: BLE001 - the repr is analysed code, or refuses a long integer
        return f"<{type(value).__name__} without a repr>"


def shorten(text: str) -> str:
    """Return the text, cut to TEXT_LENGTH characters."""
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 1] + "…"


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)

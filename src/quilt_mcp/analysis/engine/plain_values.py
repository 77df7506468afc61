"""Compare the outcomes of two versions with classes in two modules: by the names of classes, and by content."""

from typing import Any

from quilt_mcp.analysis.engine.exploration import Raised, Returned
from quilt_mcp.analysis.messages import MODULE_NAME

_CONTAINERS = (list, tuple, set, frozenset)
_TEXT = """
def plain(value):
    cls = type(value)
    if cls.__module__ in MODULES:
        text = repr(value)
        state = {} if hasattr(cls, "__members__") else getattr(value, "__dict__", {})
        return [cls.__qualname__, "" if " at 0x" in text else text, plain(state)]
    if cls in (list, tuple):
        return [cls.__name__, *map(plain, value)]
    if cls is dict:
        return sorted(([plain(key), plain(one)] for key, one in value.items()), key=repr)
    if cls in (set, frozenset):
        return sorted(map(plain, value), key=repr)
    return value


def outcome(call):
    try:
        return plain(call())
    except Exception as error:
        return "raises " + type(error).__qualname__
"""


def write_plain(modules: tuple[str, str]) -> str:
    """Return the source text of `plain` and `outcome` for code in these modules."""
    return _TEXT.replace("MODULES", repr(modules))


_names: dict[str, Any] = {}
exec(write_plain((MODULE_NAME, MODULE_NAME)), _names)  # noqa: S102 - the text above, so that tests have the same function


def has_own_classes(outcome: Returned | Raised) -> bool:
    """Return whether the outcome contains objects of the code's own classes."""
    try:
        return _is_own(outcome.error if isinstance(outcome, Raised) else outcome.value)
    except RecursionError:  # the value contains itself
        return True


def _is_own(value: object) -> bool:
    if isinstance(value, dict):
        return any(_is_own(one) for pair in value.items() for one in pair)
    if type(value) in _CONTAINERS:
        return any(map(_is_own, value))  # type: ignore[call-overload] # it is one of them
    return type(value).__module__ == MODULE_NAME


def differ(first: Returned | Raised, second: Returned | Raised) -> bool:
    """Return whether the test shows the difference. It cannot show a difference of class definitions alone."""
    try:
        return bool(_describe(first) != _describe(second))
    except Exception:  # noqa: BLE001 - the repr is analysed code
        return False


def _describe(outcome: Returned | Raised) -> Any:
    def call() -> object:
        if isinstance(outcome, Raised):
            raise outcome.error
        return outcome.value

    return _names["outcome"](call)

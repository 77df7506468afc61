"""Find out whether two values are the same: they have the same type and equal content.

The content of a value is what Python code can observe of it. Where it is not accessible, the comparison is undecided.
"""

import decimal
import random
import re
from collections import defaultdict, deque
from collections.abc import Iterable
from types import BuiltinMethodType, FunctionType, MethodType

from quilt_mcp.analysis.engine.exploration import Undecided
from quilt_mcp.analysis.messages import MODULE_NAME

_EXACT = (int, bool, str, bytes, bytearray, range, slice, type(None))
_CALLABLE = FunctionType | MethodType | BuiltinMethodType


def is_equal(left: object, right: object) -> bool:
    """Approximate `is_same_value` with few comparisons, so that the solver gets few queries.

    Raises:
        Undecided: the content of a type is not accessible.
    """
    if type(left) is not type(right) or left is right:
        return left is right
    if isinstance(left, float):
        return bool(left == right or (left != left and right != right))  # noqa: PLR0124 - NaN differs from itself
    if isinstance(left, BaseException) and isinstance(right, BaseException):
        return bool(left.args == right.args) and is_equal(vars(left), vars(right))
    if _is_compared_by_identity(left):
        _require_own_type(left)
        return is_equal(_read_attributes(left), _read_attributes(right))
    same = bool(left == right)
    return same and is_equal(_read_attributes(left), _read_attributes(right)) if _has_attributes(left) else same


def is_same_value(left: object, right: object) -> bool:
    """Return whether two values have the same type and equal content. NaN is the same as NaN.

    Raises:
        Undecided: the content of a type, such as a function or an iterator, is not accessible.
    """
    if type(left) is not type(right) or left is right:
        return left is right
    content = _compare_content(left, right)
    if content is None:
        return _compare_object(left, right)
    return content and (type(left).__module__ != MODULE_NAME or _has_same_attributes(left, right))


def _compare_object(left: object, right: object) -> bool:
    if isinstance(left, _CALLABLE | type | random.Random | re.Match):
        raise Undecided
    if isinstance(left, BaseException) and isinstance(right, BaseException):
        return is_same_value(left.args, right.args) and _has_same_attributes(left, right)
    if _is_compared_by_identity(left):
        _require_own_type(left)
        return _has_same_attributes(left, right)
    equal = bool(left == right)
    if _has_attributes(left) and _has_same_attributes(left, right) != equal:
        raise Undecided  # the class defines an equality that ignores some of its content
    return equal


def _compare_content(left: object, right: object) -> bool | None:
    """Return whether two containers have the same elements or two numbers the same value, or None for other values."""
    if type(left) in _EXACT:
        return bool(left == right)
    if type(left) is random.Random and isinstance(right, random.Random):
        return left.getstate() == right.getstate()
    if isinstance(left, float | complex):
        return bool(left == right) or repr(left) == repr(right)  # NaN differs from itself
    if isinstance(left, decimal.Decimal) and isinstance(right, decimal.Decimal):
        return left.compare_total(right) == 0 or (not left.is_nan() and not right.is_nan() and left == right)
    return _compare_containers(left, right)


def _compare_containers(left: object, right: object) -> bool | None:
    if isinstance(left, dict) and isinstance(right, dict):
        if isinstance(left, defaultdict) and isinstance(right, defaultdict):
            _require_identical(left.default_factory, right.default_factory)
        if left.keys() != right.keys() or not _has_same_members(left, right):
            return False
        return all(is_same_value(one, right[key]) for key, one in left.items())
    if isinstance(left, list | tuple | deque) and isinstance(right, list | tuple | deque):
        same_limit = getattr(left, "maxlen", None) == getattr(right, "maxlen", None)
        return same_limit and len(left) == len(right) and all(map(is_same_value, left, right))
    if isinstance(left, set | frozenset) and isinstance(right, set | frozenset):
        return left == right and _has_same_members(left, right)
    return None


def _has_same_members(left: Iterable[object], right: Iterable[object]) -> bool:
    """Return whether equal members have the same types. 1, 1.0 and True are equal."""
    others = {one: one for one in right}
    return all(type(one) is type(others[one]) for one in left)


def _require_identical(left: object, right: object) -> None:
    if left is not right:
        raise Undecided


def _require_own_type(value: object) -> None:
    """Raise `Undecided` if the analysed code does not define the type, because attributes may not show all content."""
    if type(value).__module__ != MODULE_NAME or isinstance(value, type):
        raise Undecided


def _is_compared_by_identity(value: object) -> bool:
    comparison: object = type(value).__eq__
    return comparison is object.__eq__


def _has_attributes(value: object) -> bool:
    return type(value).__module__ == MODULE_NAME


def _has_same_attributes(left: object, right: object) -> bool:
    mine, others = _read_attributes(left), _read_attributes(right)
    return mine.keys() == others.keys() and all(is_same_value(one, others[name]) for name, one in mine.items())


def _read_attributes(value: object) -> dict[str, object]:
    """Return the attributes in `__dict__` and in slots."""
    found = dict(getattr(value, "__dict__", {}))
    for base in type(value).__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if hasattr(value, name) and not name.startswith("__"):
                found[name] = getattr(value, name)
    return found

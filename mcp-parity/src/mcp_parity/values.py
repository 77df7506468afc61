"""Compares, masks and shortens JSON values."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

MASK = "<differs>"
LARGE = 100_000
"""The most characters of a content that a golden holds in full."""
_MOST_PATHS = 300
_LONGEST_VALUE = 80
_MOST_LINES = 12
TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}


class Difference(NamedTuple):
    """Two values that differ at a path. A value that does not exist is `MISSING`."""

    path: str
    one: Any
    other: Any


MISSING: Any = ...


def to_text(value: Any) -> str:
    """Return the JSON text by which values are compared. Its keys are sorted, because their order has no meaning."""
    return json.dumps(value, sort_keys=True)


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal. Unlike in Python, 1, 1.0 and true differ, and 0.0 and -0.0."""
    return to_text(one) == to_text(other)


def find_differences(one: Any, other: Any, path: str = "") -> Iterator[Difference]:
    """Yield where two JSON values differ. There is at least one difference exactly if they are not equal."""
    if type(one) is type(other) and are_equal(one, other):
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            inner = f"{path}.{name}" if path else name
            yield from find_differences(one.get(name, MISSING), other.get(name, MISSING), inner)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for left, right in zip(one, other, strict=True):
            yield from find_differences(left, right, f"{path}[]")
    else:
        yield Difference(path, one, other)


def describe(differences: list[Difference], one: str, other: str) -> str:
    """Return a line for each difference. `one` and `other` say where the values are from."""
    lines = [f"  {path}: {one}: {_show(left)}; {other}: {_show(right)}" for path, left, right in differences]
    more = [f"  … and {len(lines) - _MOST_LINES} more differences"] if len(lines) > _MOST_LINES else []
    return "\n".join(lines[:_MOST_LINES] + more)


def _show(value: Any) -> str:
    text = "nothing" if value is MISSING else json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def mask(value: Any, paths: list[str], placeholder: str | None = MASK) -> Any:
    """Return a copy in which the values at the paths are replaced with a placeholder."""
    for path in paths:
        value = _mask(value, path.replace("[]", ".[]").split("."), placeholder)
    return value


def _mask(value: Any, path: list[str], placeholder: str | None) -> Any:
    if not path:
        return placeholder
    head, *rest = path
    if head == "[]" and isinstance(value, list):
        return [_mask(one, rest, placeholder) for one in value]
    if isinstance(value, dict) and head in value:
        return value | {head: _mask(value[head], rest, placeholder)}
    return value


def has_mask(value: Any, path: str) -> bool:
    """Return whether a golden has the placeholder at the path."""
    return any(found.one == MASK for found in find_differences(value, mask(value, [path], None)))


def shorten(content: dict[str, Any]) -> dict[str, Any]:
    """Return a content as a golden holds it: a large one by its shape and hash."""
    key = next((name for name in ("data", "lines") if name in content), None)
    if key is None:
        return content
    text = json.dumps(content[key], ensure_ascii=False, sort_keys=True)
    if len(text) <= LARGE:
        return content
    rest = {name: value for name, value in content.items() if name != key}
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    large = {"characters": len(text), "sha256": digest}
    if key == "lines":
        return rest | {"large": large | {"lines": len(content[key])}}
    shape: dict[str, set[str]] = {}
    _add_shape(content[key], "", shape)
    return rest | {"large": large | {"shape": {path: " or ".join(sorted(shape[path])) for path in sorted(shape)}}}


def _add_shape(value: Any, path: str, shape: dict[str, set[str]]) -> None:
    if path in shape or len(shape) < _MOST_PATHS:
        shape.setdefault(path, set()).add(TYPES.get(type(value), "null"))
    if isinstance(value, dict):
        for name, inner in value.items():
            _add_shape(inner, f"{path}.{name}" if path else name, shape)
    elif isinstance(value, list):
        for item in value:
            _add_shape(item, f"{path}[]", shape)

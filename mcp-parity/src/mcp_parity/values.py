"""Reads, compares, masks and shortens JSON values."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Any, NamedTuple

MASK = "<differs>"
LARGE = 100_000
"""The most characters of a content that a golden holds in full."""
_MOST_PATHS = 300
_MOST_ALIGNED = 2_000  # aligning takes quadratic time
_LONGEST_VALUE = 80
_LONGEST_ITEM = 300
_BEFORE = 20  # characters that are shown before the first difference
_MOST_LINES = 12
_DEEPEST = 200  # levels, of which comparing takes several calls each
TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}


_QUOTED = r'\["(?:[^"\\]|\\.)*"\]'
_STEP = re.compile(rf"({_QUOTED})|(\[\])|(?:^|\.)([^.\[]*)")


def add_key(path: str, name: str) -> str:
    """Return the path of a key. One that is no plain word is written as `["Last Seen"]`."""
    if not name or re.search(r'[\s.\[\]"]', name):
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def split_path(path: str) -> list[str | None]:
    """Return the keys of a path, and None for the items of a list."""
    found = _STEP.finditer(path)
    return [json.loads(one[1][1:-1]) if one[1] else None if one[2] else one[3] for one in found]


class Difference(NamedTuple):
    """Two values that differ at a path, such as `contents[0].data.orders`. A value that does not exist is `MISSING`."""

    path: str
    one: Any
    other: Any

    @property
    def volatile(self) -> str:
        """The path for `mcp_volatile`: without indexes, and the whole list if its length differs."""
        path = re.sub(r"\[\d+\]$", "", self.path) if MISSING in (self.one, self.other) else self.path
        return re.sub(rf"({_QUOTED})|\[\d+\]", lambda found: found[1] or "[]", path)


MISSING: Any = ...


class Place(NamedTuple):
    """Where a volatile value is: a path such as `contents[].data.now`, and the part of its texts; None if all of it."""

    path: str
    part: re.Pattern[str] | None = None


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
            inner = f"{path}.{name}" if path.endswith(".large.shape") else add_key(path, name)  # its keys are paths
            yield from find_differences(one.get(name, MISSING), other.get(name, MISSING), inner)
    elif isinstance(one, list) and isinstance(other, list):
        yield from _list_differences(one, other, path)
    else:
        yield Difference(path, one, other)


def _list_differences(one: list[Any], other: list[Any], path: str) -> Iterator[Difference]:
    """Yield the items that were changed, added or removed, at the index in the list that has them, or another order."""
    if have_same_items(one, other):
        yield Difference(path, one, other)
        return
    for start, end, first, last in _find_moved(one, other):
        for at in range(max(end - start, last - first)):
            left = one[start + at] if start + at < end else MISSING
            right = other[first + at] if first + at < last else MISSING
            yield from find_differences(left, right, f"{path}[{start + at if right is MISSING else first + at}]")


def have_same_items(one: list[Any], other: list[Any]) -> bool:
    return Counter(map(to_text, one)) == Counter(map(to_text, other))


def _find_moved(one: list[Any], other: list[Any]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges of both lists that differ. What is alike at both ends of long lists is not compared again."""
    lines, others = list(map(to_text, one)), list(map(to_text, other))
    least = min(len(one), len(other))
    head = next((at for at in range(least) if lines[at] != others[at]), least)
    tail = next((at for at in range(least - head) if lines[-1 - at] != others[-1 - at]), least - head)
    ends = len(one) - tail, len(other) - tail
    if max(ends[0] - head, ends[1] - head) > _MOST_ALIGNED or len(one) == len(other) == head + tail + 1:
        yield head, ends[0], head, ends[1]
        return
    matcher = SequenceMatcher(None, lines[head : ends[0]], others[head : ends[1]], autojunk=False)
    for what, start, end, first, last in matcher.get_opcodes():
        if what != "equal":
            yield head + start, head + end, head + first, head + last


def describe(differences: list[Difference], one: str, other: str) -> str:
    """Return a line for each difference. `one` and `other` say where the values are from."""
    lines = []
    for path, left, right in differences[:_MOST_LINES]:
        if isinstance(left, list) and isinstance(right, list):
            at = next(at for at, pair in enumerate(zip(left, right, strict=True)) if not are_equal(*pair))
            was, now = show_both(left[at], right[at], _LONGEST_VALUE)
            lines.append(f"  {path}: the same, but in another order: from [{at}], {one}: {was}; {other}: {now}")
            continue
        was, now = show_both(left, right, _LONGEST_VALUE if MISSING not in (left, right) else _LONGEST_ITEM)
        lines.append(f"  {path or 'the whole value'}: {one}: {was}; {other}: {now}")
    more = [f"  … and {len(differences) - _MOST_LINES} more differences"] if len(differences) > _MOST_LINES else []
    return "\n".join(lines + more)


def show_both(one: Any, other: Any, longest: int) -> tuple[str, str]:
    """Return both values as short texts. What long texts have in common at their start is left out."""
    texts = ["nothing" if value is MISSING else json.dumps(value, ensure_ascii=True) for value in (one, other)]
    same = next((at for at, (left, right) in enumerate(zip(*texts, strict=False)) if left != right), 0)
    start = same - _BEFORE if same > min(longest, _LONGEST_VALUE) - _BEFORE else 0
    was, now = (cut(f"…{text[start:]}" if start else text, longest) for text in texts)
    return was, now


def make_visible(text: str) -> str:
    """Return a text in which what cannot be seen is written as an escape."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def mask(value: Any, paths: Iterable[Place], placeholder: str | None = MASK) -> Any:
    """Return a copy in which the values at the paths, or parts of their texts, are replaced with a placeholder."""
    for path, part in paths:
        value = _mask(value, split_path(path), part, placeholder)
    return value


def _mask(value: Any, path: list[str | None], part: re.Pattern[str] | None, placeholder: str | None) -> Any:
    if not path:
        return _mask_part(value, part, placeholder) if part else placeholder
    head, *rest = path
    if head is None and isinstance(value, list):
        return [_mask(one, rest, part, placeholder) for one in value]
    if isinstance(value, dict) and head is not None and head in value:
        return value | {head: _mask(value[head], rest, part, placeholder)}
    return value


def _mask_part(value: Any, part: re.Pattern[str], placeholder: str | None) -> Any:
    if isinstance(value, str):
        return part.sub(lambda _: placeholder or "", value)
    if isinstance(value, list):
        return [_mask_part(one, part, placeholder) for one in value]
    if isinstance(value, dict):
        return {name: _mask_part(one, part, placeholder) for name, one in value.items()}
    return value


def has_mask(value: Any, place: Place) -> bool:
    """Return whether a golden has the placeholder at the path, or in a text there if only a part is volatile."""
    if place.part is not None:
        place = Place(place.path, re.compile(re.escape(MASK)))
    return any(MASK in str(found.one) for found in find_differences(value, mask(value, [place], None)))


def shorten(content: dict[str, Any]) -> dict[str, Any]:
    """Return a content as a golden holds it: a large one by its shape and hash."""
    values = [content[name] for name in ("data", "lines") if name in content]
    is_large = values and len(json.dumps(values[0], ensure_ascii=False, sort_keys=True)) > LARGE
    return summarize(content) if is_large else content


def summarize(content: dict[str, Any]) -> dict[str, Any]:
    """Return a content with the shape and the hash of its data, or the number and the hash of its lines."""
    key = next((name for name in ("data", "lines") if name in content), None)
    if key is None:
        return content
    text = json.dumps(content[key], ensure_ascii=False, sort_keys=True)
    rest = {name: value for name, value in content.items() if name not in ("data", "lines")}
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


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not JSON, or clients read it differently: NaN, infinity, 1e400, or a key that occurs twice.
    """
    with suppress(RecursionError):
        found = json.loads(text, object_pairs_hook=_read_object, parse_constant=_refuse, parse_float=_read_float)
        values: list[Any] = [[found]]
        for _ in range(_DEEPEST):
            values = [inner for one in values for inner in (one.values() if isinstance(one, dict) else one)]
            values = [one for one in values if isinstance(one, dict | list)]
            if not values:
                return found
    raise ValueError("it is nested too deeply")


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {json.dumps(twice)} occurs twice in an object")
    return found


def _refuse(number: str) -> None:
    raise ValueError(f"{number} is not a number of JSON")


def _read_float(number: str) -> float:
    found = float(number)
    if math.isinf(found):
        raise ValueError(f"{number[:20]} is too large for clients")
    return found


def parse_json(text: str) -> Any:
    """Return the object or array that a text of any type contains, or None: FastMCP announces a dict as text/plain."""
    with suppress(ValueError):
        return read_json(text) if text.lstrip()[:1] in ("{", "[") else None
    return None

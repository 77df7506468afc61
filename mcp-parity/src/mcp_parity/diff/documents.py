"""Compares two JSON documents: their shape first, which clients rely on, then their values.

Shape:
- A field that is gone, or has another type, is breaking; a new field is compatible.
- `null` has no type: from null to a value, or back, is a change of value.
- Items of a list share one shape. An added or removed row is a change of value: a field counts as gone from the items
  only if more of them lack it than rows were added. An empty list has no shape, so it is a change of value too.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mcp_parity.diff.change import Change, Kind, code, format_value
from mcp_parity.values import TYPES, are_equal, to_text

# Clients rely on these values at the document's root: an error's name and code, and the type of the data.
PROMISED = frozenset({"error", "code", "mime_type", "mimeType", "contents[].mime_type"})


def document_changes(before: Any, after: Any) -> Iterator[Change]:
    """Yield the differences. Two documents that differ have at least one."""
    changes = list(_shape_changes([before], [after], ""))
    yield from changes
    things = {change.thing for change in changes}
    yield from (change for change in _value_changes(before, after, "") if change.thing not in things)


def _shape_changes(before: list[Any], after: list[Any], path: str) -> Iterator[Change]:
    """Compare all values at one path with all values at the same path now."""
    was, now = _find_types(before), _find_types(after)
    if was and now - was:
        what = f"is {' or '.join(sorted(now))}, was {' or '.join(sorted(was))}"
        yield Change(Kind.BREAKING, code(path), what)
    objects, objects_now = _select(before, dict), _select(after, dict)
    if objects and objects_now:
        for name in sorted({name for value in objects + objects_now for name in value}):
            yield from _field_changes(objects, objects_now, name, f"{path}.{name}" if path else name)
    items, items_now = ([item for value in _select(values, list) for item in value] for values in (before, after))
    if items and items_now:
        yield from _shape_changes(items, items_now, f"{path}[]")


def _field_changes(before: list[dict[str, Any]], after: list[dict[str, Any]], name: str, path: str) -> Iterator[Change]:
    had = [value[name] for value in before if name in value]
    has = [value[name] for value in after if name in value]
    if not had:
        yield Change(Kind.COMPATIBLE, code(path), "is new")
        return
    lost = (len(after) - len(has)) - (len(before) - len(had))
    if lost > max(0, len(after) - len(before)):
        yield Change(Kind.BREAKING, code(path), "is gone from some items" if has else "is gone")
    yield from _shape_changes(had, has, path)


def _find_types(values: list[Any]) -> set[str]:
    return {TYPES[type(value)] for value in values if value is not None}


def _select(values: list[Any], kind: type) -> list[Any]:
    return [value for value in values if isinstance(value, kind)]


def _value_changes(before: Any, after: Any, path: str) -> Iterator[Change]:
    if are_equal(before, after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            inner = f"{path}.{name}" if path else name
            if name in before and name in after:
                yield from _value_changes(before[name], after[name], inner)
            else:
                yield Change(Kind.VALUE, code(inner), "is in other items than before")
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_changes(before, after, path)
    else:
        kind = Kind.BREAKING if path in PROMISED else Kind.VALUE
        yield Change(kind, code(path), "changed", f"{format_value(before)} → {format_value(after)}")


def _list_changes(before: list[Any], after: list[Any], path: str) -> Iterator[Change]:
    if len(before) != len(after):
        yield Change(Kind.VALUE, code(path), "has another length", f"{len(before)} → {len(after)}")
    was, now = _remove_common(before, after), _remove_common(after, before)
    if not was and not now:
        yield Change(Kind.VALUE, code(path), "is in another order")
    for left in was[: len(now)]:
        nearest = max(range(len(now)), key=lambda at: _count_shared_text(left, now[at]))
        yield from _value_changes(left, now.pop(nearest), f"{path}[]")


def _count_shared_text(one: Any, other: Any) -> int:
    """Return how much text two items share. Names and ids identify a row better than flags do."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return 0
    return sum(len(to_text(one[name])) for name in one.keys() & other.keys() if are_equal(one[name], other[name]))


def _remove_common(items: list[Any], others: list[Any]) -> list[Any]:
    """Return the items that are not among the others, in their order."""
    left = Counter(map(to_text, items)) - Counter(map(to_text, others))
    return [json.loads(text) for text in left.elements()]

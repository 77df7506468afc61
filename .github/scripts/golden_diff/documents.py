"""Compares two JSON documents: their shape first, which clients rely on, then their values.

Shape:
- A field that is gone, or has another type, is breaking; a new field is compatible.
- `null` has no type: from null to a value, or back, is a change of value.
- Items of a list share one shape. A row more or less is a change of value: a field counts as gone from the items only
  if more of them lack it than rows were added. So is a list that was, or is now, empty: it has no shape.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from golden_diff.change import Change, Kind, code, shown, written

# At the document's root these values are promises by themselves: an error's name and code, and the type of the data.
PROMISED = frozenset({"error", "code", "mime_type", "mimeType"})
TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}


def document_changes(before: Any, after: Any) -> Iterator[Change]:
    """What differs. Two documents that differ make at least one change."""
    told = list(_shape_changes([before], [after], ""))
    yield from told
    things = {change.thing for change in told}
    yield from (change for change in _value_changes(before, after, "") if change.thing not in things)


def _shape_changes(before: list[Any], after: list[Any], path: str) -> Iterator[Change]:
    """Compare all values that stand at one path with all that stand there now."""
    was, now = _types(before), _types(after)
    if was and now - was:
        what = f"is {' or '.join(sorted(now))}, was {' or '.join(sorted(was))}"
        yield Change(Kind.BREAKING, code(path), what)
    objects, objects_now = _only(before, dict), _only(after, dict)
    if objects and objects_now:
        for name in sorted({name for value in objects + objects_now for name in value}):
            yield from _field_changes(objects, objects_now, name, f"{path}.{name}" if path else name)
    items, items_now = ([item for value in _only(values, list) for item in value] for values in (before, after))
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


def _types(values: list[Any]) -> set[str]:
    return {TYPES[type(value)] for value in values if value is not None}


def _only(values: list[Any], kind: type) -> list[Any]:
    return [value for value in values if isinstance(value, kind)]


def _value_changes(before: Any, after: Any, path: str) -> Iterator[Change]:
    if written(before) == written(after):
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
        yield Change(kind, code(path), "changed", f"{shown(before)} → {shown(after)}")


def _list_changes(before: list[Any], after: list[Any], path: str) -> Iterator[Change]:
    if len(before) != len(after):
        yield Change(Kind.VALUE, code(path), "has another length", f"{len(before)} → {len(after)}")
    was, now = _without(before, after), _without(after, before)
    if not was and not now:
        yield Change(Kind.VALUE, code(path), "is in another order")
    for left in was[: len(now)]:
        right = max(now, key=lambda item: _likeness(left, item))
        now.remove(right)
        yield from _value_changes(left, right, f"{path}[]")


def _likeness(one: Any, other: Any) -> int:
    """How much text two items share: it is names and ids that make them the same row, more than flags do."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return 0
    shared = [one[name] for name in one.keys() & other.keys() if written(one[name]) == written(other[name])]
    return sum(len(written(value)) for value in shared)


def _without(items: list[Any], others: list[Any]) -> list[Any]:
    """The items that are not among the others, in their order."""
    spare = Counter(map(written, others))
    left = []
    for item in items:
        if spare[written(item)]:
            spare[written(item)] -= 1
        else:
            left.append(item)
    return left

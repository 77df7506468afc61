"""Compares the JSON Schemas of a tool: what it takes, and what it gives.

To take less, or to give more, than a client knows is breaking; so is what cannot be judged here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from golden_diff.change import Change, Kind, code, shown, written

NOTES = ("title", "description", "default", "examples", "deprecated")
STRUCTURE = frozenset({"type", "properties", "required", "items", "enum", "const", *NOTES})
LOWER_BOUNDS = frozenset({"minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum"})
UPPER_BOUNDS = frozenset({"maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum"})
RULES = frozenset({"pattern", "format", "multipleOf", "uniqueItems"})
UNBOUNDED: dict[str, Any] = {"additionalProperties": True, "uniqueItems": False}

Schema = dict[str, Any]


@dataclass(frozen=True)
class Direction:
    """What it means to a client that a schema admits less, or more, than before."""

    noun: str
    narrower: Kind
    wider: Kind


TAKES = Direction("argument", narrower=Kind.BREAKING, wider=Kind.COMPATIBLE)
GIVES = Direction("output", narrower=Kind.COMPATIBLE, wider=Kind.BREAKING)


def schema_changes(before: Schema, after: Schema, direction: Direction, path: str = "") -> Iterator[Change]:
    """What differs between two schemas of one value."""
    thing = f"{direction.noun} {code(path)}" if path else f"{direction.noun}s"
    for note in NOTES:
        if written(before.get(note)) != written(after.get(note)):
            values = f"{shown(before.get(note))} → {shown(after.get(note))}"
            yield Change(Kind.VALUE, thing, f"has another {note}", values)
    was, now = _by_type(before), _by_type(after)
    for kind in [kind for kind in was if not _admits(now, kind)]:
        yield Change(direction.narrower, thing, f"is never {code(kind)} now")
    for kind in [kind for kind in now if not _admits(was, kind)]:
        yield Change(direction.wider, thing, f"may be {code(kind)} now")
    for kind in [kind for kind in was if kind in now]:
        yield from _keyword_changes(was[kind], now[kind], direction, thing)
        yield from _choice_changes(was[kind], now[kind], direction, thing)
        yield from _property_changes(was[kind], now[kind], direction, path)
        if "items" in was[kind] or "items" in now[kind]:
            yield from schema_changes(was[kind].get("items", {}), now[kind].get("items", {}), direction, f"{path}[]")


def _by_type(schema: Schema) -> dict[str, Schema]:
    """The schema of each type that it admits, if it admits each in one form only."""
    for alternatives in ("anyOf", "oneOf"):
        rest = {name: value for name, value in schema.items() if name != alternatives and name not in NOTES}
        forms = [{**rest, **form} for form in schema.get(alternatives, [])]
        types = [kind for form in forms for kind in _types(form)]
        if types and len(types) == len(set(types)):
            return {kind: form for form in forms for kind in _types(form)}
    return dict.fromkeys(_types(schema), schema)


def _types(schema: Schema) -> list[str]:
    """The types that it names; for none, `anything` if nothing else limits it, and `untyped` if something does."""
    named = schema.get("type", "untyped" if schema.keys() - set(NOTES) else "anything")
    return [named] if isinstance(named, str) else list(named)


def _admits(by_type: dict[str, Schema], kind: str) -> bool:
    return kind in by_type or "anything" in by_type or (kind == "integer" and "number" in by_type)


def _keyword_changes(before: Schema, after: Schema, direction: Direction, thing: str) -> Iterator[Change]:
    for keyword in sorted((before.keys() | after.keys()) - STRUCTURE):
        was, now = (schema.get(keyword, UNBOUNDED.get(keyword)) for schema in (before, after))
        if written(was) != written(now):
            kind = _kind(keyword, was, now, direction)
            yield Change(kind, thing, f"has another {code(keyword)}", f"{shown(was)} → {shown(now)}")


def _kind(keyword: str, was: Any, now: Any, direction: Direction) -> Kind:
    """Whether another value of the keyword admits less or more; breaking if that cannot be told."""
    unbounded = UNBOUNDED.get(keyword)
    if keyword not in LOWER_BOUNDS | UPPER_BOUNDS | RULES | {"additionalProperties"}:
        return Kind.BREAKING
    if unbounded in (was, now):
        return direction.narrower if was == unbounded else direction.wider
    if keyword in LOWER_BOUNDS | UPPER_BOUNDS:
        return direction.narrower if (now > was) == (keyword in LOWER_BOUNDS) else direction.wider
    return Kind.BREAKING


def _choice_changes(before: Schema, after: Schema, direction: Direction, thing: str) -> Iterator[Change]:
    was, now = _choices(before), _choices(after)
    if was is None and now is not None:
        yield Change(direction.narrower, thing, "is now one of these", ", ".join(now))
    elif was is not None and now is None:
        yield Change(direction.wider, thing, "was one of these", ", ".join(was))
    elif was is not None and now is not None:
        yield from (Change(direction.narrower, thing, f"is never {one} now") for one in was if one not in now)
        yield from (Change(direction.wider, thing, f"may be {one} now") for one in now if one not in was)


def _choices(schema: Schema) -> list[str] | None:
    """The only values that it admits, as Markdown, or None if it does not list them."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return None if values is None else [shown(value) for value in values]


def _property_changes(before: Schema, after: Schema, direction: Direction, path: str) -> Iterator[Change]:
    was, now = before.get("properties", {}), after.get("properties", {})
    for name in sorted(was.keys() | now.keys()):
        inner = f"{path}.{name}" if path else name
        thing = f"{direction.noun} {code(inner)}"
        required = [name in schema.get("required", []) for schema in (before, after)]
        if name not in now:
            yield Change(Kind.BREAKING, thing, "is gone")
        elif name not in was:
            kind = direction.narrower if required[1] else Kind.COMPATIBLE
            yield Change(kind, thing, "is new and required" if required[1] else "is new")
        else:
            if required == [False, True]:
                yield Change(direction.narrower, thing, "is required now")
            if required == [True, False]:
                yield Change(direction.wider, thing, "is optional now")
            yield from schema_changes(was[name], now[name], direction, inner)

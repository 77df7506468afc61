"""Compares the JSON Schemas of a tool: its input and its output.

A narrower input or a wider output is breaking. So is a change that cannot be classified here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcp_parity.diff.change import Change, Kind, code, format_value
from mcp_parity.values import are_equal, to_text

NOTES = ("title", "description", "default", "examples", "deprecated")
STRUCTURE = frozenset({"type", "properties", "required", "items", "enum", "const", *NOTES})
LOWER_BOUNDS = frozenset({"minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum"})
UPPER_BOUNDS = frozenset({"maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum"})
RULES = frozenset({"pattern", "format", "multipleOf", "uniqueItems"})
UNBOUNDED: dict[str, Any] = {"additionalProperties": True, "uniqueItems": False}

Schema = dict[str, Any]


@dataclass(frozen=True)
class Direction:
    """The effect on clients when a schema allows fewer or more values than before."""

    noun: str
    narrower: Kind
    wider: Kind


INPUT = Direction("argument", narrower=Kind.BREAKING, wider=Kind.COMPATIBLE)
OUTPUT = Direction("output", narrower=Kind.COMPATIBLE, wider=Kind.BREAKING)


def schema_changes(before: Schema, after: Schema, direction: Direction, path: str = "") -> Iterator[Change]:
    """Yield the differences between two schemas of one value."""
    thing = f"{direction.noun} {code(path)}" if path else f"{direction.noun}s"
    for note in NOTES:
        if not are_equal(before.get(note), after.get(note)):
            values = f"{format_value(before.get(note))} → {format_value(after.get(note))}"
            yield Change(Kind.VALUE, thing, f"has another {note}", values)
    was, now = _by_type(before), _by_type(after)
    for kind in [kind for kind in was if not _allows(now, kind)]:
        yield Change(direction.narrower, thing, f"can no longer be {code(kind)}")
    for kind in [kind for kind in now if not _allows(was, kind)]:
        yield Change(direction.wider, thing, f"can now be {code(kind)}")
    for kind in [kind for kind in was if kind in now]:
        yield from _keyword_changes(was[kind], now[kind], direction, thing)
        yield from _choice_changes(was[kind], now[kind], direction, thing)
        yield from _property_changes(was[kind], now[kind], direction, path)
        if "items" in was[kind] or "items" in now[kind]:
            yield from schema_changes(was[kind].get("items", {}), now[kind].get("items", {}), direction, f"{path}[]")


def _by_type(schema: Schema) -> dict[str, Schema]:
    """Return the schema of each type that it allows, if it allows each in one form only."""
    for alternatives in ("anyOf", "oneOf"):
        rest = {name: value for name, value in schema.items() if name != alternatives and name not in NOTES}
        forms = [{**rest, **form} for form in schema.get(alternatives, [])]
        types = [kind for form in forms for kind in _find_types(form)]
        if types and len(types) == len(set(types)):
            return {kind: form for form in forms for kind in _find_types(form)}
    return dict.fromkeys(_find_types(schema), schema)


def _find_types(schema: Schema) -> list[str]:
    """Return the types that it names. Without a type it is `anything` if nothing else limits it, else `untyped`."""
    named = schema.get("type", "untyped" if schema.keys() - set(NOTES) else "anything")
    return [named] if isinstance(named, str) else list(named)


def _allows(by_type: dict[str, Schema], kind: str) -> bool:
    return kind in by_type or "anything" in by_type or (kind == "integer" and "number" in by_type)


def _keyword_changes(before: Schema, after: Schema, direction: Direction, thing: str) -> Iterator[Change]:
    for keyword in sorted((before.keys() | after.keys()) - STRUCTURE):
        was, now = (schema.get(keyword, UNBOUNDED.get(keyword)) for schema in (before, after))
        if not are_equal(was, now):
            kind = _kind(keyword, was, now, direction)
            yield Change(kind, thing, f"has another {code(keyword)}", f"{format_value(was)} → {format_value(now)}")


def _kind(keyword: str, was: Any, now: Any, direction: Direction) -> Kind:
    """Return the kind of a change of a keyword. It is breaking if the effect is unknown."""
    unbounded = UNBOUNDED.get(keyword)
    if keyword not in LOWER_BOUNDS | UPPER_BOUNDS | RULES | {"additionalProperties"}:
        return Kind.BREAKING
    was_free, is_free = (are_equal(value, unbounded) for value in (was, now))
    if was_free or is_free:
        return direction.narrower if was_free else direction.wider
    if keyword in LOWER_BOUNDS | UPPER_BOUNDS:
        return direction.narrower if (now > was) == (keyword in LOWER_BOUNDS) else direction.wider
    return Kind.BREAKING


def _choice_changes(before: Schema, after: Schema, direction: Direction, thing: str) -> Iterator[Change]:
    was, now = _choices(before), _choices(after)
    if was is None and now is not None:
        yield Change(direction.narrower, thing, "must now be one of these", ", ".join(now.values()))
    elif was is not None and now is None:
        yield Change(direction.wider, thing, "no longer has to be one of these", ", ".join(was.values()))
    elif was is not None and now is not None:
        yield from (Change(direction.narrower, thing, f"can no longer be {was[one]}") for one in was if one not in now)
        yield from (Change(direction.wider, thing, f"can now be {now[one]}") for one in now if one not in was)


def _choices(schema: Schema) -> dict[str, str] | None:
    """Return the only values that it allows, as Markdown, by their texts; None if it does not list them."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return None if values is None else {to_text(value): format_value(value) for value in values}


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
                yield Change(direction.narrower, thing, "is now required")
            if required == [True, False]:
                yield Change(direction.wider, thing, "is now optional")
            yield from schema_changes(was[name], now[name], direction, inner)

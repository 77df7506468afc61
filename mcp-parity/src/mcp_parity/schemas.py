"""Compares the JSON Schemas of two revisions of a tool: what its arguments and its output may be."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from mcp_parity.changes import TEXTS, Change, Kind, code, format_pair, format_texts, format_value
from mcp_parity.values import TYPES, are_equal, to_text

NOTES = ("title", "description", "default", "examples", "deprecated")
FORMS: dict[str, Any] = dict.fromkeys(("required", "enum", "anyOf", "oneOf"), list)
FORMS |= {"type": (str, list), "properties": dict, "items": (dict, bool)}
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


OF_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
OF_VALUES = frozenset({"const", "enum", "default", "examples", "required"})
SILENT = frozenset({"$schema", "$comment", "$id", "$defs", "definitions"})
"""Keywords without an effect of their own, once the references to definitions are replaced. So are all `x-…`."""
MOST_PARTS = 20_000


class _Resolver:
    """Replaces the references of a schema to its own definitions by what they refer to, up to a number of parts."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.parts = 0

    def resolve(self, schema: Any, above: tuple[str, ...] = ()) -> Any:
        """Return a schema without references and silent keywords. `above` are the references around it."""
        self.parts += 1
        if isinstance(schema, list):
            return [self.resolve(one, above) for one in schema]
        if not isinstance(schema, dict):
            return schema
        reference = str(schema.get("$ref", ""))
        target = self.find(reference)
        if isinstance(target, dict) and self.parts <= MOST_PARTS:
            if reference in above:  # it contains itself; the names of definitions may differ
                return {"$ref": len(above) - above.index(reference)}
            rest = {name: value for name, value in schema.items() if name != "$ref"}
            return self.resolve({**target, **rest}, (*above, reference))
        kept = {name: value for name, value in schema.items() if name not in SILENT and not name.startswith("x-")}
        found = {name: self._resolve_keyword(name, value, above) for name, value in kept.items()}
        only = found.get("allOf")
        if (
            isinstance(only, list)
            and len(only) == 1
            and isinstance(only[0], dict)
            and not only[0].keys() & found.keys()
        ):
            del found["allOf"]
            return only[0] | found
        return found

    def _resolve_keyword(self, name: str, value: Any, above: tuple[str, ...]) -> Any:
        if name in OF_VALUES:
            return value
        if name in OF_NAMES and isinstance(value, dict):
            return {one: self.resolve(inner, above) for one, inner in value.items()}
        return self.resolve(value, above)

    def find(self, reference: str) -> Any:
        found = self.root
        if reference != "#" and not reference.startswith("#/"):  # none, or one to another document
            return None
        for part in reference.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                return None
            found = found[name]
        return found


def find_broken_references(root: Any) -> list[str]:
    """Return the references of a schema to definitions that it does not have."""
    resolver, left, found = _Resolver(root), [root], []
    while left:
        one = left.pop()
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        reference = one.get("$ref") if isinstance(one, dict) else None
        if isinstance(reference, str) and reference.startswith("#/") and resolver.find(reference) is None:
            found.append(reference)
    return found


def compare_schemas(before: Schema, after: Schema, direction: Direction) -> Iterator[Change]:
    """Yield the differences between two whole schemas. Definitions count where they are used."""
    resolvers = _Resolver(before), _Resolver(after)
    was, now = (one.resolve(one.root) for one in resolvers)
    if any(one.parts > MOST_PARTS for one in resolvers):
        was, now = before, after
    yield from schema_changes(was, now, direction)


def schema_changes(before: Schema, after: Schema, direction: Direction, path: str = "") -> Iterator[Change]:
    """Yield the differences between two schemas of one value."""
    before, after = _read_schema(before), _read_schema(after)
    thing = f"{direction.noun} {code(path)}" if path else f"{direction.noun}s"
    for note in NOTES:
        one, other = before.get(note), after.get(note)
        if not are_equal(one, other):
            if note in TEXTS:
                yield Change(Kind.DESCRIPTION, thing, f"has another {note}", format_texts(one, other))
            else:
                yield Change(Kind.VALUE, thing, f"has another {note}", format_pair(one, other))
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


def _read_schema(schema: Any) -> Schema:
    """Return a schema as an object: `true` is {}. A list of `items`, and what is not valid, is a keyword of its own."""
    if not isinstance(schema, dict):
        return {} if schema in (None, True) else {"not": {}}
    return {
        (name if isinstance(value, FORMS.get(name, object)) else f"{name} as {TYPES[type(value)]}"): value
        for name, value in schema.items()
        if value is not None or name in {"const", *NOTES}
    }


def _by_type(schema: Schema) -> dict[str, Schema]:
    """Return the schema of each type that it allows, if it allows each in one form only."""
    for alternatives in ("anyOf", "oneOf"):
        rest = {name: value for name, value in schema.items() if name != alternatives and name not in NOTES}
        forms = [{**rest, **_read_schema(form)} for form in schema.get(alternatives, [])]
        types = [kind for form in forms for kind in _find_schema_types(form)]
        shared = {"integer", "number"} <= set(types) or (len(forms) > 1 and {"anything", "untyped"} & set(types))
        excludes = alternatives == "oneOf" and shared  # the values that two forms allow are not allowed
        if types and len(types) == len(set(types)) and not excludes:
            return {kind: form for form in forms for kind in _find_schema_types(form)}
    return dict.fromkeys(_find_schema_types(schema), schema)


def _find_schema_types(schema: Schema) -> list[str]:
    """Return the types that it names. Without a type it is `anything` if nothing else limits it, else `untyped`."""
    named = schema.get("type", "untyped" if schema.keys() - set(NOTES) else "anything")
    return [named] if isinstance(named, str) else [str(one) for one in named]


def _allows(by_type: dict[str, Schema], kind: str) -> bool:
    return kind in by_type or "anything" in by_type or (kind == "integer" and "number" in by_type)


def _keyword_changes(before: Schema, after: Schema, direction: Direction, thing: str) -> Iterator[Change]:
    for keyword in sorted((before.keys() | after.keys()) - STRUCTURE):
        was, now = (schema.get(keyword, UNBOUNDED.get(keyword)) for schema in (before, after))
        if not are_equal(was, now):
            kind = _kind(keyword, was, now, direction)
            yield Change(kind, thing, f"has another {code(keyword)}", format_pair(was, now))


def _kind(keyword: str, was: Any, now: Any, direction: Direction) -> Kind:
    """Return the kind of a change of a keyword. It is breaking if the effect is unknown."""
    unbounded = UNBOUNDED.get(keyword)
    if keyword not in LOWER_BOUNDS | UPPER_BOUNDS | RULES | {"additionalProperties"}:
        return Kind.BREAKING
    was_free, is_free = (are_equal(value, unbounded) for value in (was, now))
    if was_free or is_free:
        return direction.narrower if was_free else direction.wider
    if keyword in LOWER_BOUNDS | UPPER_BOUNDS and {TYPES[type(was)], TYPES[type(now)]} == {"number"}:
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
    needed = [{one for one in schema.get("required", []) if isinstance(one, str)} for schema in (before, after)]
    for name in sorted(was.keys() | now.keys() | needed[0] | needed[1]):
        inner = f"{path}.{name}" if path else name
        thing = f"{direction.noun} {code(inner)}"
        required = [name in names for names in needed]
        if name in was and name not in now:
            yield Change(Kind.BREAKING, thing, "is gone")
        elif name in now and name not in was:
            kind = direction.narrower if required[1] else Kind.COMPATIBLE
            yield Change(kind, thing, "is new and required" if required[1] else "is new")
        else:
            if required == [False, True]:
                yield Change(direction.narrower, thing, "is now required")
            if required == [True, False]:
                yield Change(direction.wider, thing, "is now optional")
            yield from schema_changes(was.get(name), now.get(name), direction, inner)

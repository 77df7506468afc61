"""Compares the contracts of two revisions: their lists, and the answers in each world, shape first."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

from mcp_parity.revisions import HOME, Contract
from mcp_parity.values import MASK, TYPES, are_equal, cut, show_both, summarize, to_text

LONGEST_VALUE = 60
LONGEST_NAME = 200
LONGEST_TEXT = 600


class Kind(StrEnum):
    """The effect of a change on existing clients, the worst first.

    Models follow descriptions as instructions: a changed one fails nothing, but a person must read it.
    """

    BREAKING = "breaking"
    DESCRIPTION = "description"
    COMPATIBLE = "compatible"
    VALUE = "value"


TO_READ = frozenset({Kind.BREAKING, Kind.DESCRIPTION})


@dataclass(frozen=True)
class Change:
    """A sentence of two parts, `thing` and `what`, in Markdown, and both values where they are useful."""

    kind: Kind
    thing: str
    what: str
    values: str = ""

    def generalize(self) -> "Change":
        """Return what identifies a line. Values that differ make several lines only if a person must read them."""
        return self if self.kind in TO_READ else replace(self, values="")


@dataclass(frozen=True)
class Finding:
    """A change of one resource or tool.

    CHANGELOG.md names the subject: the URI, the tool's name, or the directory of other goldens. `where` is the world,
    the listing or the golden that has the change; empty if there is only one.
    """

    subject: str
    change: Change
    where: str = ""


def code(text: str) -> str:
    """Return a text as Markdown code, with letters that look like others and control characters escaped."""
    escaped = json.dumps(text)[1:-1].replace('\\"', '"')
    return _code(escaped, LONGEST_NAME)


def format_value(value: Any) -> str:
    return _code(json.dumps(value), LONGEST_VALUE)


def format_texts(before: Any, after: Any) -> str:
    """Return two descriptions. What long ones have in common at their start is left out."""
    return " → ".join(_code(text, LONGEST_TEXT) for text in show_both(before, after, LONGEST_TEXT))


def _code(text: str, longest: int) -> str:
    return "`" + cut(text, longest).replace("`", r"\u0060") + "`"


# Clients rely on these values at the document's root: an error's name and code, and the type of the data.
PROMISED = frozenset({"error", "code", "mime_type", "mimeType", "contents[].mime_type"})
TEXTS = frozenset({"title", "description", "instructions", "annotations.title"})
# What clients assume of a tool without the hint, as the MCP specification says: always the more dangerous value.
HINTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
CONTENTS = "contents"
WHOLE = frozenset({"data", "contents[].data"})


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
    nested, nested_now = (len(_select(values, dict)) + len(_select(values, list)) for values in (before, after))
    nulls = sum(value is None for value in after) - sum(value is None for value in before)
    if nested_now < nested and nulls > max(0, len(after) - len(before)):  # who reads a part of it, fails
        what = "is null in some items" if nested_now else f"is null, was {' or '.join(sorted(was))}"
        yield Change(Kind.BREAKING, code(path), what)
    objects, objects_now = _select(before, dict), _select(after, dict)
    if objects and objects_now:
        for name in sorted({name for value in objects + objects_now for name in value}):
            yield from _field_changes(objects, objects_now, name, f"{path}.{name}" if path else name)
    items, items_now = ([item for value in _select(values, list) for item in value] for values in (before, after))
    if path == CONTENTS:
        for one, other in zip(items, items_now, strict=False):
            yield from _shape_changes([one], [other], f"{path}[]")
    elif items and items_now:
        yield from _shape_changes(items, items_now, f"{path}[]")


def _field_changes(before: list[dict[str, Any]], after: list[dict[str, Any]], name: str, path: str) -> Iterator[Change]:
    had = [value[name] for value in before if name in value]
    has = [value[name] for value in after if name in value]
    values = format_texts(*(one[0] if one else None for one in (had, has))) if _is_text(path) else ""
    if not had:
        yield Change(Kind.COMPATIBLE, code(path), "is new", values)
        return
    lost = (len(after) - len(has)) - (len(before) - len(had))
    if lost > max(0, len(after) - len(before)):
        yield Change(Kind.BREAKING, code(path), "is gone from some items" if has else "is gone", values)
    yield from _shape_changes(had, has, path)


def _find_types(values: list[Any]) -> set[str]:
    return {TYPES[type(value)] for value in values if value is not None and value != MASK}


def _select(values: list[Any], kind: type) -> list[Any]:
    return [value for value in values if isinstance(value, kind)]


def _value_changes(before: Any, after: Any, path: str) -> Iterator[Change]:
    if are_equal(before, after):
        return
    if after == MASK and (isinstance(before, dict | list) or path in WHOLE | PROMISED):
        yield Change(Kind.BREAKING, code(path), "is now volatile, so nothing in it is checked")
    elif MASK in (before, after):
        yield Change(Kind.VALUE, code(path), "is now volatile" if after == MASK else "is no longer volatile")
    elif isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            inner = f"{path}.{name}" if path else name
            if name in before and name in after:
                yield from _value_changes(before[name], after[name], inner)
            else:
                yield Change(Kind.VALUE, code(inner), "is in other items than before")
    elif isinstance(before, list) and isinstance(after, list):
        yield from (_content_changes if path == CONTENTS else _list_changes)(before, after, path)
    else:
        yield _describe_value(before, after, path)


def _is_text(path: str) -> bool:
    """Return whether the whole text is shown. In a list of components, it is a description."""
    return path.removeprefix("[].") in TEXTS


def component_changes(before: Any, after: Any) -> Iterator[Change]:
    """Yield the differences of what a list says of its components, or a server of itself."""
    texts = {code(prefix + name) for name in TEXTS for prefix in ("", "[].")}
    for change in document_changes(before, after):
        yield replace(change, kind=Kind.DESCRIPTION) if change.thing in texts else change


def _describe_value(before: Any, after: Any, path: str) -> Change:
    """Return the change of a value without parts."""
    values = format_texts(before, after) if _is_text(path) else f"{format_value(before)} → {format_value(after)}"
    parent, _, name = path.removeprefix("[].").rpartition(".")
    if parent == "annotations" and name in HINTS:
        was, now = (value if isinstance(value, bool) else HINTS[name] for value in (before, after))
        if was != now == HINTS[name]:  # a client that called it without asking did not expect that
            return Change(Kind.BREAKING, code(path), "became more dangerous", values)
    if path.startswith("contents[].large.shape.") and _breaks_shape(before, after):
        return Change(Kind.BREAKING, code(path), "has other types", values)
    return Change(Kind.BREAKING if path in PROMISED else Kind.VALUE, code(path), "changed", values)


def _breaks_shape(before: str, after: str) -> bool:
    """Return whether values of a large content have a new type, or are now null instead of nested."""
    was, now = (set(types.split(" or ")) for types in (before, after))
    return bool(now - was - {"null"}) or ("null" in now - was and bool((was - now) & {"object", "array"}))


def _content_changes(before: list[Any], after: list[Any], path: str) -> Iterator[Change]:
    """Compare each content with the one at the same position, because that is how clients take them."""
    if len(before) != len(after):
        more = len(after) > len(before)
        kind, what = (Kind.COMPATIBLE, "has more items") if more else (Kind.BREAKING, "has fewer items")
        yield Change(kind, code(path), what, f"{len(before)} → {len(after)}")
    was, now = list(map(to_text, before)), list(map(to_text, after))
    if any(text in now and now[at : at + 1] != [text] for at, text in enumerate(was)):
        yield Change(Kind.BREAKING, code(path), "has its items at other positions")
    for old, new in zip(before, after, strict=False):
        yield from _value_changes(old, new, f"{path}[]")


def _list_changes(before: list[Any], after: list[Any], path: str) -> Iterator[Change]:
    if len(before) != len(after):
        yield Change(Kind.VALUE, code(path), "has another length", f"{len(before)} → {len(after)}")
    gone, new = _remove_common(before, after), _remove_common(after, before)
    if not gone and not new:
        yield Change(Kind.VALUE, code(path), "is in another order")
    for old in gone[: len(new)]:  # one new item each, while there are some; the other length tells of the rest
        nearest = max(range(len(new)), key=lambda at: _count_shared_text(old, new[at]))
        yield from _value_changes(old, new.pop(nearest), f"{path}[]")


def _count_shared_text(one: Any, other: Any) -> int:
    """Return how much text two items share. Names and ids identify a row better than flags do."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return 0
    return sum(len(to_text(one[name])) for name in one.keys() & other.keys() if are_equal(one[name], other[name]))


def _remove_common(items: list[Any], others: list[Any]) -> list[Any]:
    """Return the items that are not among the others, in their order."""
    left = Counter(map(to_text, items)) - Counter(map(to_text, others))
    return [json.loads(text) for text in left.elements()]


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
                values = f"{format_value(one)} → {format_value(other)}"
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
            yield Change(kind, thing, f"has another {code(keyword)}", f"{format_value(was)} → {format_value(now)}")


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


SCHEMAS = {"inputSchema": INPUT, "outputSchema": OUTPUT}
FindChanges = Callable[[Any, Any], Iterator[Change]]


class Words(NamedTuple):
    """What is said of a thing that only one revision has. `kind` is that of a thing that is gone."""

    thing: str
    new: str = "is new"
    gone: str = "is gone"
    kind: Kind = Kind.BREAKING


ANSWER = Words("the answer", "now has a golden", "no longer has a golden")
OTHER = Words("the golden", gone="was removed and is no longer checked", kind=Kind.VALUE)


def compare_contracts(base: Contract, head: Contract) -> Iterator[tuple[str, str, Iterator[Change]]]:
    """Yield the subject of each comparison, where it is, and its changes."""
    # a base that does not pin prompts says nothing about them
    prompts = [(contract.prompts or {}) if base.prompts is not None else {} for contract in (base, head)]
    pairs = {"resource": (base.resources, head.resources), "tool": (base.tools, head.tools), "prompt": prompts}
    for noun, (before, after) in pairs.items():
        for subject in sorted(before.keys() ^ after.keys()):
            yield subject, "", _compare(before.get(subject), after.get(subject), Words(f"the {noun}"))
    for uri in sorted(base.resources.keys() & head.resources.keys()):
        yield from _compare_resource(uri, base, head)
    for name in sorted(base.tools.keys() & head.tools.keys()):
        yield name, "", _tool_changes(*(_without_uris(contract.tools[name], contract) for contract in (base, head)))
    for name in sorted(prompts[0].keys() & prompts[1].keys()):
        yield name, "prompts/list", _prompt_changes(prompts[0][name], prompts[1][name])
    for name in sorted(base.others.keys() | head.others.keys()):
        directory, _, golden = name.rpartition("/")
        changes = component_changes if directory == "discovery" else _answer_changes
        yield directory, golden, _compare(base.others.get(name), head.others.get(name), OTHER, changes)
    for world in sorted((base.worlds ^ head.worlds) - {HOME}):  # clients see no difference
        words = Words(f"the world {code(world)}", "is now checked", "is no longer checked", Kind.VALUE)
        was, now = (world if world in contract.worlds else None for contract in (base, head))
        yield "worlds", "", _compare(was, now, words)


def _compare_resource(uri: str, base: Contract, head: Contract) -> Iterator[tuple[str, str, Iterator[Change]]]:
    before, after = base.resources[uri], head.resources[uri]
    columns = before.keys() & after.keys()  # clients do not see columns that were added or removed
    yield uri, "inventory", component_changes(*({name: row[name] for name in columns} for row in (before, after)))
    for label in base.listings:
        was, now = (contract.listings[label].get(uri) for contract in (base, head))
        yield uri, label, _compare(was, now, Words("the entry"))
    for world in sorted(base.worlds & head.worlds | {HOME}):
        yield uri, world, _compare(base.answer(uri, world), head.answer(uri, world), ANSWER, _answer_changes)


def _compare(before: Any, after: Any, words: Words, changes: FindChanges = component_changes) -> Iterator[Change]:
    """Yield the changes of a thing that one of the revisions can lack."""
    if before is not None and after is not None:
        yield from changes(before, after)
    elif before is not None:
        yield Change(words.kind, words.thing, words.gone)
    elif after is not None:
        yield Change(Kind.COMPATIBLE, words.thing, words.new)


def _answer_changes(before: Any, after: Any) -> Iterator[Change]:
    was, now = (_documents(golden) for golden in _in_one_form(before, after))
    if "error" not in was[0] and "error" in now[0]:
        yield Change(Kind.BREAKING, "the answer", f"changed from data to the error {code(str(now[0]['error']))}")
    elif "error" in was[0] and "error" not in now[0]:
        yield Change(Kind.COMPATIBLE, "the answer", f"changed from the error {code(str(was[0]['error']))} to data")
    else:
        for one, other in zip(was, now, strict=False):
            yield from document_changes(one, other)


def _in_one_form(before: Any, after: Any) -> tuple[Any, Any]:
    """Return two answers with each content by its shape and hash if one of them is too large to be pinned in full."""
    found = [golden.get(CONTENTS) if isinstance(golden, dict) else None for golden in (before, after)]
    pairs = [contents if isinstance(contents, list) else [] for contents in found]
    large = [any("large" in content for content in contents) for contents in zip(*pairs, strict=False)]
    if not any(large):
        return before, after
    forms = [
        [summarize(one) if at < len(large) and large[at] else one for at, one in enumerate(contents)]
        for contents in pairs
    ]
    return before | {CONTENTS: forms[0]}, after | {CONTENTS: forms[1]}


def _documents(golden: Any) -> list[Any]:
    """Return the tool's body, and for a refusal also the error of the resource surface, with the same paths."""
    if not (isinstance(golden, dict) and golden.get("resource")):
        return [golden]
    resource = dict(golden["resource"])
    data = resource.pop("data", None)
    refusal = {**(data if isinstance(data, dict) else {}), **resource}
    return [golden["tool"], refusal] if golden.get("tool") else [{"error": resource.get("code"), **refusal}]


def _without_uris(tool: dict[str, Any], contract: Contract) -> dict[str, Any]:
    """Remove the lines of a description that only name a resource: the resource's own finding reports them."""
    lines = (tool.get("description") or "").splitlines()
    kept = [line for line in lines if line not in contract.resources and not re.fullmatch(r"… and \d+ more\.", line)]
    return {**tool, "description": "\n".join(kept)}


def _prompt_changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    yield from _tool_changes(before, after)
    was, now = (list(prompt["inputSchema"]["properties"]) for prompt in (before, after))
    kept = [name for name in was if name in now]
    if now[: len(kept)] != kept:  # clients with slash commands take the arguments by position
        values = " → ".join(", ".join(map(code, names)) for names in (was, now))
        yield Change(Kind.BREAKING, "the arguments", "are at other positions", values)


def _tool_changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    was, now = ({name: value for name, value in tool.items() if name not in SCHEMAS} for tool in (before, after))
    yield from component_changes(was, now)
    for name, direction in SCHEMAS.items():
        changes = partial(schema_changes, direction=direction)
        yield from _compare(before.get(name), after.get(name), Words(code(name)), changes)

"""Compares the contracts of two revisions: their lists, and the answers in each world, shape first."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from mcp_parity.changes import TEXTS, Change, Kind, code, format_pair, format_texts
from mcp_parity.revisions import HOME, Contract
from mcp_parity.schemas import INPUT, OUTPUT, compare_schemas
from mcp_parity.values import MASK, TYPES, are_equal, summarize, to_text

# Clients rely on these values at the document's root: an error's name and code, and the type of the data.
PROMISED = frozenset({"error", "code", "mime_type", "mimeType", "contents[].mime_type"})
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
    values = format_texts(before, after) if _is_text(path) else format_pair(before, after)
    parent, _, name = path.removeprefix("[].").rpartition(".")
    if parent == "annotations" and name in HINTS:
        was, now = (value if isinstance(value, bool) else HINTS[name] for value in (before, after))
        if was != now == HINTS[name]:  # a client that called it without asking did not expect that
            return Change(Kind.BREAKING, code(path), "became more dangerous", values)
    old, new = (set(str(types).split(" or ")) for types in (before, after))  # of values of a large content
    broken = bool(new - old - {"null"}) or ("null" in new - old and bool((old - new) & {"object", "array"}))
    if path.startswith("contents[].large.shape.") and broken:
        return Change(Kind.BREAKING, code(path), "has other types", values)
    return Change(Kind.BREAKING if path in PROMISED else Kind.VALUE, code(path), "changed", values)


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
        if directory.startswith("calls"):
            directory, _, golden = name.removeprefix("calls/").partition("/")  # the changelog names the tool
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
    scopes = [((one.get("cache") or {}) if isinstance(one, dict) else {}).get("cacheScope") for one in (before, after)]
    if scopes[1] == "public" != scopes[0]:
        what = "is now public: a proxy may give the answer to other users"
        yield Change(Kind.BREAKING, code("cache.cacheScope"), what)
    was, now = (_documents(golden) for golden in use_one_form(before, after))
    if "error" not in was[0] and "error" in now[0]:
        yield Change(Kind.BREAKING, "the answer", f"changed from data to the error {code(str(now[0]['error']))}")
    elif "error" in was[0] and "error" not in now[0]:
        yield Change(Kind.COMPATIBLE, "the answer", f"changed from the error {code(str(was[0]['error']))} to data")
    else:
        for one, other in zip(was, now, strict=False):
            yield from document_changes(one, other)


def use_one_form(before: Any, after: Any) -> tuple[Any, Any]:
    """Return two answers with each content in one form: by shape and hash if one is large, and with lines or not."""
    if not all(isinstance(one, dict) and isinstance(one.get(CONTENTS), list) for one in (before, after)):
        return before, after
    forms = [list(one[CONTENTS]) for one in (before, after)]
    for at, both in enumerate(zip(*forms, strict=False)):
        if any("large" in one for one in both):
            forms[0][at], forms[1][at] = map(summarize, both)
        elif any("lines" in one for one in both) and all("data" in one for one in both):
            forms[0][at], forms[1][at] = ({"lines": [to_text(one["data"])]} | one for one in both)
    return before | {CONTENTS: forms[0]}, after | {CONTENTS: forms[1]}


def _documents(golden: Any) -> list[Any]:
    """Return the tool's body, and for a refusal also the error of the resource surface, with the same paths."""
    if not (isinstance(golden, dict) and golden.get("resource")):
        return [golden]
    resource = dict(golden["resource"])
    data = resource.pop("data", None)
    refusal = {**(data if isinstance(data, dict) else {}), **resource}
    tool = golden.get("tool")
    said = {"error": resource.get("code"), **refusal}
    return [said] if not tool else [tool, refusal] if "error" in tool else [said, tool]


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
        changes = partial(compare_schemas, direction=direction)
        yield from _compare(before.get(name), after.get(name), Words(code(name)), changes)

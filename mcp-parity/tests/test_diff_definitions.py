"""Definitions of a schema count where they are used, under any name, and keywords without an effect do not count."""

import copy
from collections.abc import Callable
from typing import Any

from tests.repository import TOOLS, contract, summarize

Schema = dict[str, Any]
WHO: Schema = {"type": "object", "properties": {"x": {"type": "integer", "description": "X."}}, "required": ["x"]}
SCHEMA: Schema = {
    "type": "object",
    "properties": {"who": {"$ref": "#/$defs/Who"}, "all": {"type": "array", "items": {"$ref": "#/$defs/Who"}}},
    "$defs": {"Who": WHO},
}


def who(schema: Schema) -> Schema:
    return schema["$defs"]["Who"]  # type: ignore[no-any-return]  # JSON


def rename(schema: Schema) -> None:
    schema["definitions"] = {"a/b": schema.pop("$defs")["Who"]}
    schema["properties"]["who"]["$ref"] = schema["properties"]["all"]["items"]["$ref"] = "#/definitions/a~1b"


def inline(schema: Schema) -> None:
    schema["properties"]["who"] = schema["properties"]["all"]["items"] = schema.pop("$defs")["Who"]


def wrap(schema: Schema) -> None:
    schema["properties"]["who"] = {"allOf": [{"$ref": "#/$defs/Who"}]}


SAME: dict[str, Callable[[Schema], Any]] = {
    "an unused definition": lambda schema: schema["$defs"].update(More={"type": "string"}),
    "another name": rename,
    "no reference": inline,
    "a reference in allOf": wrap,
    "$schema": lambda schema: schema.update({"$schema": "https://json-schema.org/draft/2020-12/schema"}),
    "$comment in a definition": lambda schema: who(schema).update({"$comment": "For forms."}),
    "x-order": lambda schema: who(schema)["properties"]["x"].update({"x-order": 1}),
}
CHANGED: dict[str, tuple[Callable[[Schema], Any], list[str]]] = {
    "a description": (
        lambda schema: who(schema)["properties"]["x"].update(description="How many."),
        [
            '- *description*: argument `all[].x` has another description: `"X."` → `"How many."`',
            '- *description*: argument `who.x` has another description: `"X."` → `"How many."`',
        ],
    ),
    "an optional field": (
        lambda schema: who(schema)["properties"].update(y={"type": "string"}),
        ["- *compatible*: argument `all[].y` is new", "- *compatible*: argument `who.y` is new"],
    ),
    "a field that looks like a keyword": (
        lambda schema: who(schema)["properties"].update({"x-order": {}, "$schema": {}}),
        [
            "- *compatible*: argument `all[].$schema` is new",
            "- *compatible*: argument `all[].x-order` is new",
            "- *compatible*: argument `who.$schema` is new",
            "- *compatible*: argument `who.x-order` is new",
        ],
    ),
    "another type": (
        lambda schema: who(schema)["properties"]["x"].update(type="string"),
        [
            "- *breaking*: argument `all[].x` can no longer be `integer`",
            "- *breaking*: argument `who.x` can no longer be `integer`",
            "- *compatible*: argument `all[].x` can now be `string`",
            "- *compatible*: argument `who.x` can now be `string`",
        ],
    ),
    "a reference to nothing": (
        lambda schema: schema["properties"]["who"].update({"$ref": "#/$defs/None"}),
        [
            "- *breaking*: argument `who` can no longer be `object`",
            "- *compatible*: argument `who` can now be `untyped`",
        ],
    ),
    "a description beside the reference": (
        lambda schema: schema["properties"]["who"].update(description="Who."),
        ['- *description*: argument `who` has another description: `null` → `"Who."`'],
    ),
}


def compare(before: Schema, after: Schema) -> tuple[list[str], int]:
    files = [contract() for _ in range(2)]
    for one, schema in zip(files, (before, after), strict=True):
        one[TOOLS].append({"name": "buy", "inputSchema": schema})
    summary = summarize(*files)
    return summary.lines, summary.status


def test_a_schema_with_the_same_meaning_has_not_changed() -> None:
    found = {}
    for name, edit in SAME.items():
        after = copy.deepcopy(SCHEMA)
        edit(after)
        found[name] = compare(SCHEMA, after) + compare(after, SCHEMA)
    assert found == dict.fromkeys(SAME, ([], 0, [], 0))


def test_a_change_in_a_definition_is_named_where_it_is_used() -> None:
    found = {}
    for name, (edit, lines) in CHANGED.items():
        after = copy.deepcopy(SCHEMA)
        edit(after)
        found[name] = compare(SCHEMA, after)
        assert found[name] == (lines, int(any("*breaking*" in line for line in lines))), name


def test_a_definition_that_contains_itself_or_many_others_is_compared() -> None:
    tree: Schema = {"properties": {"top": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": {"type": "object"}}}
    tree["$defs"]["Node"]["properties"] = {"next": {"$ref": "#/$defs/Node"}}
    renamed: Schema = {"properties": {"top": {"$ref": "#/$defs/Item"}}, "$defs": {"Item": {"type": "object"}}}
    renamed["$defs"]["Item"]["properties"] = {"next": {"$ref": "#/$defs/Item"}}
    assert compare(tree, renamed) == ([], 0)
    many = {f"N{at}": {"properties": {side: {"$ref": f"#/$defs/N{at + 1}"} for side in "ab"}} for at in range(40)}
    wide: Schema = {"properties": {"top": {"$ref": "#/$defs/N0"}}, "$defs": many | {"N40": {"type": "string"}}}
    other = copy.deepcopy(wide)
    assert compare(wide, other) == ([], 0)
    other["$defs"]["N40"]["type"] = "integer"
    assert compare(wide, other)[1] == 1


def test_long_values_are_shown_from_where_they_differ() -> None:
    forms = [{"not": {"enum": ["x" * 100, last]}} for last in ("one", "two")]
    [line], status = compare(*({"properties": {"a": one}} for one in forms))
    assert status == 1
    assert '"one"' in line
    assert '"two"' in line

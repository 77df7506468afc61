"""Each change of a tool is one line of the pull request's summary; to take less or to give more is breaking."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.golden_repository import TOOLS, Repository

Tool = dict[str, Any]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def reads(tools: list[Tool]) -> Tool:
    """The properties of get_resource's input."""
    return tools[0]["inputSchema"]["properties"]  # type: ignore[no-any-return]  # JSON


def updates(tools: list[Tool]) -> Tool:
    """The properties of workflow_update_step's input."""
    return tools[1]["inputSchema"]["properties"]  # type: ignore[no-any-return]  # JSON


def gives(tools: list[Tool]) -> Tool:
    """The schema of get_resource's output."""
    return tools[0]["outputSchema"]  # type: ignore[no-any-return]  # JSON


CHANGES: dict[str, tuple[Callable[[list[Tool]], Any], list[str]]] = {
    "a removed tool": (lambda tools: tools.pop(), ["- *breaking*: the tool is gone"]),
    "a new tool": (lambda tools: tools.append({"name": "ask"}), ["- *compatible*: the tool is new"]),
    "another description": (
        lambda tools: tools[0].update(description="Read."),
        ['- *value*: `description` changed: `"Read any resource."` → `"Read."`'],
    ),
    "a new required argument": (
        lambda tools: [updates(tools).update(x={}), tools[1]["inputSchema"]["required"].append("x")],
        ["- *breaking*: argument `x` is new and required"],
    ),
    "a new optional argument": (
        lambda tools: updates(tools).update(x={}),
        ["- *compatible*: argument `x` is new"],
    ),
    "a removed argument": (lambda tools: updates(tools).pop("count"), ["- *breaking*: argument `count` is gone"]),
    "an argument is required now": (
        lambda tools: tools[0]["inputSchema"].update(required=["uri"]),
        ["- *breaking*: argument `uri` is required now"],
    ),
    "an argument is optional now": (
        lambda tools: tools[1]["inputSchema"]["required"].remove("status"),
        ["- *compatible*: argument `status` is optional now"],
    ),
    "a narrower type": (
        lambda tools: updates(tools).update(count={"type": "integer", "default": None}),
        ["- *breaking*: argument `count` is never `null` now"],
    ),
    "a wider type": (
        lambda tools: updates(tools)["count"]["anyOf"][0].update(type="number"),
        ["- *compatible*: argument `count` may be `number` now"],
    ),
    "a choice less, another more": (
        lambda tools: updates(tools)["status"].update(enum=["pending", "failed"]),
        [
            '- *breaking*: argument `status` is never `"completed"` now',
            '- *compatible*: argument `status` may be `"failed"` now',
        ],
    ),
    "choices instead of any value": (
        lambda tools: updates(tools)["workflow_id"].update(enum=["a"]),
        ['- *breaking*: argument `workflow_id` is now one of these: `"a"`'],
    ),
    "a shorter limit": (
        lambda tools: reads(tools)["uri"].update(maxLength=100),
        ["- *breaking*: argument `uri` has another `maxLength`: `200` → `100`"],
    ),
    "a longer limit": (
        lambda tools: reads(tools)["uri"].update(maxLength=300),
        ["- *compatible*: argument `uri` has another `maxLength`: `200` → `300`"],
    ),
    "a new lower limit": (
        lambda tools: reads(tools)["uri"].update(minLength=1),
        ["- *breaking*: argument `uri` has another `minLength`: `null` → `1`"],
    ),
    "no limit": (
        lambda tools: reads(tools)["uri"].pop("maxLength"),
        ["- *compatible*: argument `uri` has another `maxLength`: `200` → `null`"],
    ),
    "no other arguments": (
        lambda tools: tools[0]["inputSchema"].update(additionalProperties=False),
        ["- *breaking*: arguments has another `additionalProperties`: `true` → `false`"],
    ),
    "other arguments are admitted without saying so": (
        lambda tools: tools[0]["inputSchema"].pop("additionalProperties"),
        [],
    ),
    "items of a narrower type": (
        lambda tools: updates(tools)["labels"]["items"].update(type="string"),
        ["- *breaking*: argument `labels[]` is never `integer` now"],
    ),
    "a type instead of anything": (
        lambda tools: updates(tools).update(note={"type": "string"}),
        ["- *breaking*: argument `note` is never `anything` now"],
    ),
    "anything instead of a type": (
        lambda tools: updates(tools).update(labels={}),
        ["- *compatible*: argument `labels` may be `anything` now"],
    ),
    "a choice instead of a constant": (
        lambda tools: updates(tools).update(kind={"enum": ["a", "b"]}),
        ['- *compatible*: argument `kind` may be `"b"` now'],
    ),
    "another pattern": (
        lambda tools: updates(tools)["workflow_id"].update(pattern="^[a-z]+$"),
        ['- *breaking*: argument `workflow_id` has another `pattern`: `"^[a-z]$"` → `"^[a-z]+$"`'],
    ),
    "the first of two untyped forms": (
        lambda tools: updates(tools)["size"]["oneOf"][0].update({"not": 3}),
        ['- *breaking*: argument `size` has another `oneOf`: `[{"not": 1}, {"not": 2}]` → `[{"not": 3}, {"not": 2}]`'],
    ),
    "one form of a type becomes two": (
        lambda tools: updates(tools).update(labels={"anyOf": [{"type": "array"}, {"type": "array", "maxItems": 1}]}),
        [
            "- *breaking*: argument `labels` is never `array` now",
            "- *compatible*: argument `labels` may be `untyped` now",
        ],
    ),
    "a rule that cannot be judged": (
        lambda tools: updates(tools)["status"].update({"not": {"const": "x"}}),
        ['- *breaking*: argument `status` has another `not`: `null` → `{"const": "x"}`'],
    ),
    "another default": (
        lambda tools: updates(tools)["count"].update(default=1),
        ["- *value*: argument `count` has another default: `null` → `1`"],
    ),
    "an output may be null": (
        lambda tools: gives(tools)["properties"]["data"].update(type=["object", "null"]),
        ["- *breaking*: output `data` may be `null` now"],
    ),
    "an output that is not promised any more": (
        lambda tools: gives(tools).update(required=[]),
        ["- *breaking*: output `success` is optional now"],
    ),
    "an output more": (
        lambda tools: [gives(tools)["properties"].update(x={}), gives(tools)["required"].append("x")],
        ["- *compatible*: output `x` is new and required"],
    ),
    "an output less": (
        lambda tools: gives(tools)["properties"].pop("data"),
        ["- *breaking*: output `data` is gone"],
    ),
    "no output schema": (lambda tools: tools[0].pop("outputSchema"), ["- *breaking*: `outputSchema` is gone"]),
}


@pytest.mark.parametrize(("edit", "lines"), CHANGES.values(), ids=CHANGES)
def test_each_change_of_a_tool_is_one_line_and_breaking_ones_refuse(
    edit: Callable[[list[Tool]], Any], lines: list[str], repository: Repository
) -> None:
    edit(repository.files[TOOLS])
    assert repository.changed() == (lines, int(any("*breaking*" in line for line in lines)))

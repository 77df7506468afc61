"""The types of the answers: the goldens have exactly their fields, and each field is described."""

import json
from pathlib import Path
from typing import Literal, NotRequired

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no type information
from typing_extensions import TypedDict, is_typeddict

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.registry import define
from quilt_mcp.resources import RESOURCE_REGISTRY
from tests.contract.cases import GOLDENS, HOME, RESOURCES
from tests.contract.scrub import EARLIER, MACHINE
from tests.support.answer_pages import FOLDER, PAGE_LINES, AnswerPages
from tests.support.answer_types import (
    describe_class,
    describe_fields,
    find_answer_type,
    find_classes,
    list_answers,
    make_schema,
)
from tests.support.docs import find_incomplete

ANSWERS = {uri: find_answer_type(row) for uri, row in RESOURCE_REGISTRY.items()}
CLASSES = list(dict.fromkeys(cls for answer in ANSWERS.values() for cls in find_classes(answer)))


def find_errors(data: object, schema: JSONObject) -> list[str]:
    return [f"{one.json_path}: {one.message}" for one in Draft202012Validator(schema).iter_errors(data)]


def list_goldens() -> list[tuple[str, Path]]:
    """Return the URI of the row and the path of each golden with data."""
    homes = [(row.uri, GOLDENS / f"{row.data_golden(HOME)}.json") for row in RESOURCES]
    return [(uri, path) for uri, home in homes for path in [home, *home.parent.glob(f"{home.stem}--*.json")]]


def read_data(path: Path) -> object:
    """Return the data of a golden. The values that goldens hide can all be null."""
    text = path.read_text(encoding="utf-8")
    for hidden in (MACHINE, EARLIER):
        text = text.replace(json.dumps(hidden), "null")
    return json.loads(text)["data"]


def test_every_golden_has_exactly_the_fields_of_the_answers_type() -> None:
    goldens = list_goldens()
    assert {path for _, path in goldens} == set((GOLDENS / "data").rglob("*.json"))
    schemas = {uri: make_schema(answer) for uri, answer in ANSWERS.items()}
    found = {path.name: errors for uri, path in goldens if (errors := find_errors(read_data(path), schemas[uri]))}
    assert found == {}


class Part(TypedDict):
    """A part."""

    length_m: float
    """The length, in metres."""


class Base(TypedDict):
    """A base.

    Attributes:
        name: its name,
            for a person.
    """

    name: str


class Whole(Base):
    """A whole."""

    parts: list[Part]
    """The parts."""
    kind: Literal["a", "b"] | None
    """Null if unknown."""
    sizes: NotRequired[dict[str, int | None]]


def whole() -> Whole:
    """A whole."""
    return {"name": "x", "parts": [], "kind": None}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"sizes": {"x": 1, "y": None}}, None),
        ({"more": 1}, "$: Additional properties are not allowed ('more' was unexpected)"),
        ({"parts": [{"length_m": 1, "more": 1}]}, "$.parts[0]: Additional properties are not allowed"),
        ({"parts": [{}]}, "$.parts[0]: 'length_m' is a required property"),
        ({"name": None}, "$.name: None is not of type 'string'"),
        ({"kind": "c"}, "$.kind: 'c' is not valid under any of the given schemas"),
    ],
)
def test_an_answer_with_other_fields_or_values_than_those_of_its_type_is_found(
    change: dict[str, object], problem: str | None
) -> None:
    errors = find_errors({"name": "x", "parts": [], "kind": None} | change, make_schema(Whole))
    assert [error.startswith(problem or "-") for error in errors] == ([True] if problem else [])


def test_a_page_has_each_field_with_its_type_its_meaning_and_whether_it_can_be_null_or_absent() -> None:
    row = define("demo://whole", whole, name="Whole")
    [(path, text)] = AnswerPages("demo", [row]).write().items()
    assert path == FOLDER / "demo.md"
    assert [line for line in text.splitlines() if line.startswith(("##", "| `", "A "))] == [
        "| `demo://whole` | [Whole](#whole) |",
        "## Whole",
        "A whole. It has all fields of [Base](#base), and:",
        "| `parts` | list of [Part](#part) | The parts. |",
        "| `kind` | `a`, `b` or null | Null if unknown. |",
        "| `sizes` | object of (integer or null), or absent |  |",
        "## Base",
        "A base.",
        "| `name` | string | Its name, for a person. |",
        "## Part",
        "A part.",
        "| `length_m` | number | The length, in metres. |",
    ]


def test_long_pages_are_divided_between_resources() -> None:
    rows = [row for row in RESOURCE_REGISTRY.values() if row["category"] == "requirements"]
    classes = {cls for row in rows for cls in find_classes(find_answer_type(row))}
    texts = AnswerPages("requirements", rows).write()
    assert len(texts) > 1
    assert max(text.count("\n") for text in texts.values()) <= PAGE_LINES
    headings = [line for text in texts.values() for line in text.splitlines() if line.startswith("## ")]
    assert sorted(headings) == sorted(f"## {cls.__name__}" for cls in classes)


def test_every_service_function_returns_a_type_with_fields() -> None:
    answers = {uri: list_answers(row) for uri, row in RESOURCE_REGISTRY.items()}
    assert [uri for uri, forms in answers.items() if not forms or not all(map(is_typeddict, forms))] == []


def test_every_type_and_field_is_described() -> None:
    assert [cls.__name__ for cls in CLASSES if not describe_class(cls).endswith(".")] == []
    missing = [f"{cls.__name__}.{name}" for cls in CLASSES for name, text in describe_fields(cls).items() if not text]
    assert missing == []


def test_every_field_or_type_says_when_a_value_is_null() -> None:
    silent = [
        f"{cls.__name__}.{name}"
        for cls, schema in ((cls, make_schema(cls)) for cls in CLASSES)
        for name, text in describe_fields(cls).items()
        if '"null"' in json.dumps(schema["properties"][name]) and "null" not in f"{text} {describe_class(cls)}".lower()
    ]
    assert silent == []


def test_rows_that_lack_an_example_or_a_type_are_named_in_one_line_each() -> None:
    def untyped(name: str) -> dict[str, str]:
        """Untyped."""
        return {}

    def named(name: str) -> Base:
        """Named."""
        return {"name": name}

    rows = [
        define("demo://a/{name}", named, name="A", values={"name": lambda prefix: ["x"]}),
        define("demo://b/{name}", named, name="B", values={"name": lambda prefix: []}),
        define("demo://c/{name}", named, name="C"),
        define("demo://d/{name}", untyped, name="D", values={"name": lambda prefix: ["x"]}),
    ]
    examples = {"demo://a/{name}": "demo://a/x", "demo://b/{name}": "", "demo://d/{name}": "demo://d/x"}
    assert list(find_incomplete(rows, examples)) == [
        "demo://b/{name} has no example: its `values` list nothing in the world admin.",
        "demo://c/{name} has no example: `values` of its row must list values of name.",
        "demo://d/{name} has no fields to document: its function must return a TypedDict or a model.",
    ]

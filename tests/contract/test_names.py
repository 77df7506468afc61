"""One name for one thing in all answers, as docs/style.md has them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

GOLDENS = Path(__file__).parents[2] / "golden" / "data"
STYLE = Path(__file__).parents[2] / "docs" / "style.md"
SCHEMES = ("admin", "athena", "auth", "metadata", "permissions", "quilt", "tabulator")
DATA_OF_OTHERS = {"user_meta", "parameters", "rows", "schema", "metadata", "notebook", "packages_by_day"}
TEXTS = {"templates", "examples", "troubleshooting"}
"""Static texts, which show metadata."""
TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}.*")


def read_table() -> Iterator[tuple[str, str]]:
    """Yield the names of the last two columns of the table of names."""
    for line in STYLE.read_text("utf-8").partition("## Names of fields")[2].splitlines():
        cells = line.strip("|").split("|")
        if len(cells) == 3:
            yield cells[1], cells[2]


def read_fields() -> Iterator[tuple[str, str, object]]:
    """Yield the file, the name and the value of each field of each answer."""
    for path in sorted(GOLDENS.rglob("*.json")):
        name = path.relative_to(GOLDENS)
        if name.parts[0] in SCHEMES and not (name.parts[0] == "metadata" and name.parts[1].split(".")[0] in TEXTS):
            yield from ((str(name), *field) for field in walk(json.loads(path.read_text("utf-8"))))


def walk(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, inner
            if name not in DATA_OF_OTHERS:
                yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


@pytest.fixture(scope="module")
def fields() -> list[tuple[str, str, object]]:
    return list(read_fields())


def test_no_answer_has_a_name_that_another_one_replaces(fields: list[tuple[str, str, object]]) -> None:
    replaced = {name for _, others in read_table() for name in re.findall(r"`(\w+)`", others)} - {"false", "modified"}
    assert len(replaced) >= 15
    assert {(file, name) for file, name, _ in fields if name in replaced} == set()


def test_a_time_has_a_name_that_ends_in_at(fields: list[tuple[str, str, object]]) -> None:
    times = {(file, name) for file, name, value in fields if isinstance(value, str) and TIME.fullmatch(value)}
    assert len(times) > 50
    assert {name for _, name in times if not name.endswith("_at")} == set()


def test_a_mark_of_a_cut_is_true_or_absent(fields: list[tuple[str, str, object]]) -> None:
    assert {(file, name) for file, name, value in fields if name.endswith("_truncated") and value is False} == set()

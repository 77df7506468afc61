"""Texts keep to docs/style.md."""

import re
from functools import cache
from pathlib import Path

from tests.support.docs import ROOT, documents

STYLE = ROOT / "docs" / "style.md"
REPLACED = (
    "learns 401",
    "learns not even",
    "holds the clock",
    "go round visibility",
    "nobody else writes to",
    "who issues callers' tokens",
    "for whom callers' tokens",
    "who callers' tokens are for",
    "you ask too often",
    "you read too much at once",
    "aws knows no such thing",
    "did not foresee",
    "is no limit.",
    "this is no status",
    "cannot be there",
    "in a form that this version does not know",
    "complete list of all",
    "those that you may see, 50 a page",
    "buries the children",
    "sign of life",
    "is told on",
    "all the same,",
    "all the same.",
)
"""Phrases, in small letters, that have a plain equivalent. docs/style.md shows some of them as examples."""
SUFFIXES = {".py", ".md", ".toml", ".yml", ".conf", ".json"}


@cache
def texts() -> list[tuple[Path, str]]:
    """Return every text that a person or a model reads, with line breaks as spaces."""
    sources = [one for top in ("src", "tests", "deploy", "mcp-parity", ".github") for one in (ROOT / top).rglob("*")]
    paths = {*documents(), *(one for one in sources if one.suffix in SUFFIXES and one.is_file())}
    return [
        (path, re.sub(r"\s+(# )?", " ", path.read_text(encoding="utf-8"))) for path in paths - {STYLE, Path(__file__)}
    ]


def test_no_text_contains_a_phrase_that_was_replaced() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {phrase}"
        for path, text in texts()
        for lowered in [text.lower()]
        for phrase in REPLACED
        if phrase in lowered
    ]
    assert sorted(found) == []


def test_names_of_functions_are_plain() -> None:
    names = re.compile(r"\bdef (\w*(?:_is_no_(?!longer)|nobody|whoever|whatever)\w*)\(")
    assert [name for path, text in texts() if path.suffix == ".py" for name in names.findall(text)] == []

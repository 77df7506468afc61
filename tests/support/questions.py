"""What people ask, with the calls that answer it: tests/contract/questions.toml."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "contract" / "questions.toml"
STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>-?\d+)\]|\[(?P<name>\w+)=(?P<value>[^\]]+)\]")
PEOPLE = {
    "data scientist": "You work with data",
    "administrator": "You run a stack",
    "project manager": "You follow requirements and workflows",
}


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        who: who asks it.
        ask: the question.
        calls: the URIs to read, one after the other; `$…` is a place in the answer before, which has the URI.
        facts: texts that the answers contain.
        bytes: the most that the answers have together.
    """

    who: str
    ask: str
    calls: list[str]
    facts: list[str]
    bytes: int


def read_questions() -> list[Question]:
    return [Question(**row) for row in tomllib.loads(FILE.read_text(encoding="utf-8"))["questions"]]


def follow(data: Any, place: str) -> Any:
    """Return the value at a place, such as `$.entries[name=a.csv].uri` or `$.revisions[-1].uri`.

    Raises:
        LookupError: there is none.
    """
    at = 1
    while at < len(place):
        step = STEP.match(place, at)
        if step is None:
            raise LookupError(f"{place} is no place in an answer")
        if step["key"]:
            data = data[step["key"]]
        elif step["index"]:
            data = data[int(step["index"])]
        else:
            data = next((row for row in data if str(row[step["name"]]) == step["value"]), None)
            if data is None:
                raise LookupError(f"{place}: no row has {step['value']}")
        at = step.end()
    return data


def write_tables() -> str:
    """Return the questions as tables, one for each who asks."""
    return "\n".join(_write_tables())


def _write_tables() -> Iterator[str]:
    for who, questions in groupby(read_questions(), key=lambda question: question.who):
        yield from (f"## {PEOPLE[who]}", "", "| question | calls |", "| --- | --- |")
        for question in questions:
            calls = "<br>".join(f"`{call}`" for call in question.calls)
            yield f"| {question.ask.replace('|', chr(92) + '|')} | {calls} |"
        yield ""

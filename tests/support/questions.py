"""What people ask, with the calls that answer it: tests/contract/questions.toml."""

import json
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
        calls: the URIs to read, one after the other; `$…` is a place in the answer before, which has the URI. A table
            `{tool = "name", arguments = {…}}` is a call of another tool than get_resource.
        facts: texts that the answers contain.
        bytes: the most that the answers have together.
    """

    who: str
    ask: str
    calls: list[str | dict[str, Any]]
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


def find_call(call: str | dict[str, Any], before: Any) -> tuple[str, dict[str, Any]]:
    """Return the tool of a call, and its arguments.

    Args:
        call: as in `Question.calls`.
        before: the data of the answer before.
    """
    if isinstance(call, dict):
        return call["tool"], call["arguments"]
    return "get_resource", {"uri": follow(before, call) if call.startswith("$") else call}


def _write_call(call: str | dict[str, Any]) -> str:
    if isinstance(call, str):
        return f"`{call}`"
    arguments = ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call["arguments"].items()
    )
    return f"`{call['tool']}({arguments})`".replace("|", chr(92) + "|")


def write_tables() -> str:
    """Return the questions as tables, one for each who asks."""
    return "\n".join(_write_tables())


def _write_tables() -> Iterator[str]:
    for who, questions in groupby(read_questions(), key=lambda question: question.who):
        yield from (f"## {PEOPLE[who]}", "", "| question | calls |", "| --- | --- |")
        for question in questions:
            calls = "<br>".join(map(_write_call, question.calls))
            yield f"| {question.ask.replace('|', chr(92) + '|')} | {calls} |"
        yield ""

"""Questions of people: the calls answer them, within limits of calls and bytes. All tools that they use only read."""

import json
from collections import Counter
from typing import Any

import pytest
from fastmcp import Client

from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from tests.support.questions import PEOPLE, Question, find_call, follow, read_questions

QUESTIONS = read_questions()
MOST_CALLS = 3
LARGEST = 40_000
"""The characters of one answer that every client shows."""


def test_there_are_questions_of_everybody() -> None:
    assert len(QUESTIONS) >= 40
    assert set(Counter(question.who for question in QUESTIONS)) == set(PEOPLE)
    assert len({question.ask for question in QUESTIONS}) == len(QUESTIONS)
    assert max(len(question.calls) for question in QUESTIONS) <= MOST_CALLS


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.ask[:60])
async def test_a_question_is_answered(question: Question, fresh_world: World) -> None:
    texts, sizes, body = list[str](), list[int](), dict[str, Any]()
    async with Client(create_server()) as client:
        for call in question.calls:
            answer = await client.call_tool_mcp(*find_call(call, body.get("data", body)))
            body = json.loads(answer.content[0].text)
            texts.append(json.dumps(body.get("data", body), ensure_ascii=False))
            sizes.append(len(answer.content[0].text))
    assert [fact for fact in question.facts if not any(fact in text for text in texts)] == [], texts
    assert sum(sizes) <= question.bytes, sizes
    assert max(sizes) <= LARGEST


@pytest.mark.parametrize(
    ("place", "expected"),
    [("$.a", 1), ("$.b[0].c", 2), ("$.b[-1].c", 3), ("$.b[c=3].d", "x"), ("$", None)],
)
def test_a_place_leads_to_a_value(place: str, expected: object) -> None:
    data = {"a": 1, "b": [{"c": 2}, {"c": 3, "d": "x"}]}
    assert follow(data, place) == (data if place == "$" else expected)


@pytest.mark.parametrize("place", ["$.x", "$.b[9]", "$.b[c=9]", "$ .a", "$.b[c]"])
def test_a_place_that_is_not_there_is_an_error(place: str) -> None:
    with pytest.raises(LookupError):
        follow({"b": [{"c": 2}]}, place)

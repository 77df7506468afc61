"""Any value of `uri`: both surfaces return the same answer, in a body that matches the tool's schema."""

import logging
from difflib import SequenceMatcher
from string import ascii_letters, digits
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from jsonschema import validate  # type: ignore[import-untyped]  # it ships no type information

from quilt_mcp.core import uris as uri_rules
from quilt_mcp.core.answers import to_json
from quilt_mcp.core.errors import InvalidURI, ResourceFailure
from quilt_mcp.core.registry import VARIABLE_SEGMENT, path_of
from quilt_mcp.demo.world import World
from quilt_mcp.resources import RESOURCE_REGISTRY
from tests.contract.cases import RESOURCES
from tests.contract.surfaces import AnyClient, ask
from tests.contract.test_bad_input import BAD_URIS, find_suggested_uri
from tests.support.examples import count_examples
from tests.support.worlds import in_world

ERRORS = {failure.error for failure in ResourceFailure.__subclasses__()}
STATIC = [uri for uri, definition in RESOURCE_REGISTRY.items() if not definition["is_template"]]
TEMPLATES = [uri for uri, definition in RESOURCE_REGISTRY.items() if definition["is_template"]]
# in bytes; JSON needs up to six for a character of the URI, and an unknown one lists those that exist
LARGEST_REFUSAL = 6 * uri_rules.MAX_LENGTH + 70 * len(RESOURCES)

# The same examples in every run. One client is used for all, because reads leave no state in it.
reproducible = settings(
    deadline=None,
    derandomize=True,
    max_examples=count_examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def mutate(draw: st.DrawFn, originals: list[str], inserted: st.SearchStrategy[str], edits: int = 3) -> str:
    """Return one of these texts after some edits: parts removed, repeated, inserted or in another case."""
    text = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(1, edits))):
        at = draw(st.integers(0, len(text)))
        piece = text[at : at + draw(st.integers(0, 2))]
        new = draw(st.sampled_from(["", piece * 2, piece.swapcase(), piece[::-1]]) | inserted)
        text = text[:at] + new + text[at + len(piece) :]
    return text


ORIGINALS = [row.example_uri for row in RESOURCES] + [uri for uri in BAD_URIS.values() if len(uri) < 200]
MARKS = st.sampled_from(
    ["/", "://", "..", "%", "%2F", "%00", "%C0%AE", "?", "#", "{", "}", "@", ":", "\\", "\n", "\u202e"]
)
NEAR_URIS = st.from_regex(
    r"(auth|admin|metadata|workflow|\w{0,9}):?/{0,3}(status|templates|workflows|users|\w{0,9})"
    r"(/{0,2}(\{?\w{0,9}\}?|%[0-9a-fA-F]{0,2}|\.{1,3}|status)){0,3}[?#/\s]?",
    fullmatch=True,
)
LONG = st.builds(str.__mul__, st.text(min_size=1, max_size=8), st.integers(100, 5000))
VALUES = st.text(max_size=20) | st.from_regex(r"(standard|[\w.~-]|%[0-9a-fA-F]{2}){1,4}", fullmatch=True)
FILLED = st.builds(
    lambda template, value: VARIABLE_SEGMENT.sub(lambda _: value, template), st.sampled_from(TEMPLATES), VALUES
)
TEXT = st.text() | NEAR_URIS | FILLED | mutate(ORIGINALS, MARKS | st.text(max_size=3)) | LONG
TYPO = st.text(ascii_letters + digits + "-_.~ ", max_size=1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


@pytest.fixture
async def schema(client: AnyClient) -> dict[str, Any]:
    """Return the tool's output schema."""
    [tool] = [tool for tool in await client.list_tools() if tool.name == "get_resource"]
    assert tool.output_schema
    return dict(tool.output_schema)


def check_refusal(body: dict[str, Any], schema: dict[str, Any]) -> None:
    validate(body, schema)
    assert body["error"] in ERRORS
    assert body["suggested_actions"]
    for text in (body["message"], body["details"] or "None.", *body["suggested_actions"]):
        assert text.isprintable(), "one line, and no control characters for a terminal"
    assert 0 < len(body["message"]) < 1000
    assert len(to_json(body).encode()) < LARGEST_REFUSAL


def check_log(caplog: pytest.LogCaptureFixture) -> None:
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []
    caplog.clear()


@in_world("admin")
@reproducible
@example("\x00" * uri_rules.MAX_LENGTH)  # needs the most bytes in JSON
@example("\U0001f512" * uri_rules.MAX_LENGTH)
@given(TEXT)
async def test_both_surfaces_give_the_same_answer_to_any_text(
    world: World, client: AnyClient, schema: dict[str, Any], caplog: pytest.LogCaptureFixture, uri: str
) -> None:
    answer = await ask(client, uri)
    if answer.resource_error is not None:
        check_refusal(answer.body, schema)
    check_log(caplog)


@in_world("admin")
@reproducible
@given(st.builds(dict, uri=JSON) | st.dictionaries(st.text(), JSON, min_size=1, max_size=5))
async def test_any_arguments_are_answered_with_a_body(
    world: World, client: AnyClient, schema: dict[str, Any], caplog: pytest.LogCaptureFixture, arguments: dict[str, Any]
) -> None:
    result = await client.call_tool_mcp("get_resource", arguments)
    body = result.structured_content or {}
    assert body["success"] is (arguments in ({"uri": None}, {"uri": ""}))
    assert result.is_error is not body["success"]
    if not body["success"]:
        assert body["error"] == InvalidURI.error
        check_refusal(body, schema)
    check_log(caplog)


@pytest.mark.soak
@in_world("admin")
@reproducible
@given(st.sampled_from(STATIC).flatmap(lambda uri: st.tuples(st.just(uri), mutate([uri], TYPO, edits=1))))
async def test_a_uri_with_one_edit_suggests_the_original_first(
    world: World, client: AnyClient, meant_and_asked: tuple[str, str]
) -> None:
    meant, asked = meant_and_asked
    assume(asked not in RESOURCE_REGISTRY)
    assert find_suggested_uri((await ask(client, asked)).body["suggested_actions"]) == meant


@pytest.mark.soak
@in_world("admin")
@reproducible
@given(TEXT)
async def test_suggested_uris_can_be_read(world: World, client: AnyClient, uri: str) -> None:
    """A suggestion is a resource, or a template with a possible value, or the template itself.

    Only the service can check the value. If it requires another form, its error describes the form.
    """
    named = find_suggested_uri((await ask(client, uri)).body.get("suggested_actions", [""]))
    if named and named not in {path_of(pattern) for pattern in RESOURCE_REGISTRY}:
        assert (await ask(client, named)).body.get("error") in (None, "NotFound", "InvalidTemplateVariable")


@pytest.mark.parametrize("piece", ["a", "/a", "auth://status", "%41", "\U0001f512", "\ufdfa", "\u0130"])
def test_only_short_texts_are_compared(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """difflib's work grows with the product of the lengths. U+FDFA becomes 18 letters, and U+0130 two."""
    compared: list[str] = []

    class Recorded(SequenceMatcher[str]):
        def __init__(self, junk: None, left: str, right: str) -> None:
            compared.extend([left, right])
            super().__init__(junk, left, right)

    monkeypatch.setattr(uri_rules, "SequenceMatcher", Recorded)
    uri_rules.make_unknown_uri((piece * uri_rules.MAX_LENGTH)[: uri_rules.MAX_LENGTH], RESOURCE_REGISTRY, None)
    assert max(map(len, compared)) == 128

    compared.clear()
    with pytest.raises(InvalidURI):
        uri_rules.encode_text(piece * 1_000_000, RESOURCE_REGISTRY)
    assert compared == [], "only the length of a URI that is too long is checked"

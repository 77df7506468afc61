"""A reading tool of any form: its text, its structured content and its embedded resources tell the same."""

import sys

import pytest

from tests.project import Project
from tests.test_attachments import SERVER
from tests.test_check import QUICK, check

DIFFER = "raw://rows: the text and the structured content of read_resource differ"
LIES = {
    "structures another value": (DIFFER, "orders: text: 3; structured content: 4"),
    "structures another type": (DIFFER, "orders: text: 3; structured content: 3.0"),
    "structures less": (DIFFER, "open: text: true; structured content: nothing"),
    "structures another result": (DIFFER, "orders: text: 3; structured content: 4"),
    "structures another text": (DIFFER, 'structured content: "none"'),
    "embeds another URI": ('contents[0].uri: resources/read: "raw://rows"; read_resource: "raw://other"',),
    "embeds another type": ('contents[0].mime_type: resources/read: "application/json"; read_resource: "text/plain"',),
}
RIGHT = (
    *("tells the text", "structures it", "structures it as a result", "structures its text"),
    *("embeds it", "embeds it without a type"),
)


@pytest.fixture
def foreign(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project that pins a server with a reading tool of another form, with goldens."""
    monkeypatch.setenv("FAULT", "foreign: tells the text")
    configuration = f'[tool.pytest.ini_options]\nmcp_server = "{sys.executable} {SERVER}"\nmcp_tool = "read_resource"\n'
    project.write("pyproject.toml", configuration + 'mcp_exclude = ["raw://[bt]*"]\n')
    status, output = project.update()
    assert status == 0, output
    return project


def test_a_tool_that_tells_two_things_is_named(foreign: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for form, messages in LIES.items():
        monkeypatch.setenv("FAULT", f"foreign: {form}")
        output = foreign.fail("-k", "rows")
        assert [one for one in messages if one not in output] == [], output


def test_a_tool_that_tells_the_same_in_any_form_passes(foreign: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for form in RIGHT:
        monkeypatch.setenv("FAULT", f"foreign: {form}")
        status, output = foreign.run("-k", "rows")
        assert status == 0, output


def test_structured_content_of_another_form_is_pinned(foreign: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "foreign: structures another form")
    assert 'structured: golden: nothing; server: {"count": 1}' in foreign.fail("-k", "rows")
    assert foreign.update("-k", "rows")[0] == 0
    assert foreign.golden("data/raw/rows")["structured"] == {"count": 1}
    monkeypatch.setenv("FAULT", "foreign: structures another form that changes")
    assert "structured.count: golden: 1; server: 2" in foreign.fail("-k", "rows")


def test_the_text_of_a_refusal_is_pinned(foreign: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert foreign.golden("errors/unknown")["tool"] == {"message": "cannot read <uri>: unknown"}
    monkeypatch.setenv("FAULT", "foreign: refuses with another text")
    output = foreign.fail("-k", "misspelt")
    assert 'tool.message: golden: "cannot read <uri>: unknown"; server: "cannot read <uri>: go away"' in output


@pytest.mark.parametrize("form", ["structures another value", "embeds another type", "structures another form"])
def test_a_check_names_what_differs_now(
    form: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", f"foreign: {form}")
    _, text = check(capsysbinary, *QUICK, f"{sys.executable} {SERVER}")
    assert ("error    raw://rows: " in text) is (form in LIES), text
    assert "changes between two reads" not in text

"""Calls of tools are cases: pinned like resources, in worlds, with volatile parts and refusals."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcp_parity.settings import Call, ContractError
from tests.project import FEW, PLUGINS, Project
from tests.repository import contract, summarize
from tests.test_raw_faults import WORLD

SERVER = Path(__file__).parent / "raw_call_server.py"
CALLS = ['search {"q": "a"}', 'search {"q": "none"}', "examples"]
DIFFER = "calls/count/of=rows: the text and the structured content differ"
FAULTS = {
    "finds more": ("calls/search/q=a", "contents[0].data.found: golden: 3; server: 4"),
    "finds another type": ("contents[0].data.found: golden: 3; server: 3.0",),
    "refuses to search": ("calls/search/q=b", 'resource: golden: nothing; server: {"message": "nothing found"}'),
    "refuses with another text": ('resource.message: golden: "nothing found"; server: "closed"',),
    "counts twice": (DIFFER, "count: text: 4; structured content: 3"),
    "counts against its schema": ("calls/count/of=rows: no answer: ", "'3' is not of type 'integer'"),
    "counts in its text only": ("calls/count/of=rows", "None is not of type 'object'"),
    "plots another image": ("calls/plot", "contents[0].blob.sha256: golden: "),
    "does not search": ("mcp_calls: search: the server has no such tool",),
}


@pytest.fixture
def called(project: Project) -> Project:
    """A project that pins calls of tools, with goldens."""
    lines = [f'mcp_server = "{sys.executable} {SERVER}"', f"mcp_calls = {CALLS}"]
    project.write("pyproject.toml", "\n".join(["[tool.pytest.ini_options]", *lines, ""]))
    status, output = project.update()
    assert status == 0, output
    return project


def test_calls_are_pinned_like_resources(called: Project) -> None:
    status, output = called.run()
    assert status == 0, output
    assert {name for name in called.files if "/calls/" in name} == {
        "golden/calls/count/of%3Drows.json",
        "golden/calls/plot.json",
        *(f"golden/calls/search/q%3D{query}.json" for query in ("a", "b", "none")),
    }
    assert called.golden("calls/search/q%3Da") == {"contents": [{"data": {"found": 3, "q": "a"}}]}
    assert called.golden("calls/search/q%3Dnone") == {"resource": {"message": "nothing found"}}
    assert called.golden("calls/count/of%3Drows")["structured"] == "as the text"
    assert called.golden("calls/plot")["contents"][0]["blob"]["bytes"] == 4


def find_unnamed(project: Project, world: str, faults: Sequence[str]) -> dict[str, str]:
    """Run the calls with each fault in a world. Return the reports that lack a message."""
    for number, fault in enumerate(faults):
        project.write(f"tests/test_{number}.py", WORLD.format(fault=fault, world=world))
    found = {f"tests/test_{number}.py": "" for number in range(len(faults))}
    ran = project.pytester.inline_run(*FEW, "-W", "default", "-k", f"{world} and calls", *found, plugins=PLUGINS)
    for one in ran.getreports("pytest_runtest_logreport"):
        found[one.nodeid.partition("::")[0]] += one.longreprtext if one.failed else ""
    pairs = zip(faults, found.values(), strict=True)
    return {fault: text for fault, text in pairs if not all(one in text for one in FAULTS[fault])}


def test_each_fault_of_a_tool_is_named(called: Project) -> None:
    assert find_unnamed(called, "home", [*FAULTS]) == {}


def test_each_fault_of_a_tool_in_another_world_is_named(called: Project) -> None:
    assert find_unnamed(called, "away", [*FAULTS][::3]) == {}


def test_a_call_has_a_golden_in_each_world_where_it_differs(called: Project) -> None:
    called.write("tests/test_contract.py", WORLD.format(fault="finds more", world="away"))
    for run in (called.update, called.run):
        status, output = run("-k", "calls or golden_has_a_case")
        assert status == 0, output
    assert called.golden("calls/search/q%3Da--away")["contents"][0]["data"]["found"] == 4
    assert "golden/calls/plot--away.json" not in called.files


@pytest.mark.soak
def test_what_changes_between_two_calls_is_declared(called: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "searches with a clock")
    for run in (called.run, called.update):
        status, output = run("-k", "calls and search")
        assert (status, '"calls/search/q=a contents[].data.now",' in output) == (1, True), output
    called.set('mcp_volatile = ["calls/search/* contents[].data.now"]')
    for run in (called.update, called.run):
        status, output = run("-k", "calls or configuration")
        assert status == 0, output
    assert called.golden("calls/search/q%3Da")["contents"][0]["data"]["now"] == "<differs>"


def test_the_golden_of_a_call_that_is_not_configured_any_more_is_named(called: Project) -> None:
    called.change(str(CALLS), "['examples']", "pyproject.toml")
    output = called.fail("-k", "golden_has_a_case")
    assert "golden/calls/search/q%3Da.json" in output
    assert "golden/calls/search/q%3Db.json" not in output


def test_lines_that_name_no_call_are_usage_errors(called: Project) -> None:
    for line, message in (("search {", "the arguments are not JSON"), ("search [1]", "is not of the form `tool {")):
        called.change(str(CALLS), f"['{line}']", "pyproject.toml")
        status, output = called.run()
        assert (status, message in output) == (4, True), output
        called.change(f"['{line}']", str(CALLS), "pyproject.toml")
    called.change(str(CALLS), "['plot', 'plot']", "pyproject.toml")
    assert "mcp_calls: a call occurs twice" in called.fail("-k", "answer")


def test_calls_have_different_names() -> None:
    calls = [Call("a", one) for one in ({}, {"n": 1}, {"n": "1"}, {"n": [1]}, {"n": "x/y"}, {"n": "x", "m": None})]
    assert len({one.subject for one in calls}) == len(calls)
    with pytest.raises(ContractError):
        Call.parse("")


def test_a_pull_request_that_changes_what_a_tool_answers_names_the_tool() -> None:
    name = "golden/calls/search/q%3Da.json"
    one, other = ({"contents": [{"data": {"found": 3, "q": "a"} | more}]} for more in ({}, {"found": "3"}))
    summary = summarize(contract() | {name: one}, contract() | {name: other})
    assert (summary.status, "### `search`" in summary.text) == (1, True)
    assert summary.lines == ["- *breaking*: `contents[].data.found` is string, was number (`q%3Da`)"]
    refused = {"resource": {"message": "nothing found"}}
    assert summarize(contract() | {name: one}, contract() | {name: refused}).status == 1

"""Faults that only a server without an SDK can have: each fails with a message that names the fault."""

import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from mcp_parity.settings import Names
from tests.project import FEW, PLUGINS, Project
from tests.raw_http import serve_raw
from tests.raw_server import ANY

RAW = Path(__file__).parent / "raw_server.py"
ROWS = "raw://rows"
TWICE = "is listed more than once"
FAULTS = {
    "loses a row": ('contents[0].data[5]: golden: {"id": 5, "price": 2.5}; server: nothing',),
    "repeats a row": ('contents[0].data[6]: golden: nothing; server: {"id": 5, "price": 2.5}',),
    "changes a row": ("contents[0].data[17].price: golden: 8.5; server: 99.0",),
    "repeats a content": ("contents[1]: golden: nothing; server: {",),
    "has a line more": ('contents[0].lines[1]: golden: nothing; server: "more"',),
    "ends with a line": ('contents[0].lines[2]: golden: nothing; server: ""',),
    "has a key twice": (f'{ROWS}: announced as application/json, but the text is not JSON: the key "id" occurs twice',),
    "has a number that is too large": (f"{ROWS}: announced as application/json, but the text is not JSON: 1e400",),
    "has a clock": ("raw://text: the answer changes between two reads", "raw://text contents[].lines[] /\\\\d"),
    "prints when it reads": ("the server writes to stdout what is no message of MCP: 'reading\\x1b[31m'",),
    "prints at its start": ("the server writes to stdout what is no message of MCP: 'Hello'",),
    "lists a URI twice": (f"resources: {ROWS} {TWICE}",),
    "repeats a page": ("resources: page 2 repeats page 1",),
    "repeats a cursor": ("resources: page 2 names the next page '1', which was read before",),
    "loses a page": ("resources[raw://blob]: golden: {", "server: nothing"),
    "lists in another order": (
        'resources: the same, but in another order: from [0], golden: {"name": "raw://rows"',
        '; server: {"name": "raw://blob"',
    ),
    "has an unknown field": ('resources[raw://rows].owner: golden: nothing; server: "Ada"',),
    "has no tool": ('tools[sum]: golden: {"inputSchema": {"type": "object"}, "name": "sum"}; server: nothing',),
    "has no prompt": ("prompts[greet]: golden: {", "server: nothing"),
    "requires an argument": ("prompts[greet].arguments[0].required: golden: false; server: true",),
    "can subscribe": ("server", "capabilities.resources.subscribe: golden: nothing; server: true"),
    "another name": ('name: golden: "raw"; server: "other"',),
    "speaks an old protocol": ('protocol: golden: "2025-11-25"; server: "2024-11-05"',),
    "greets differently": ('messages[0].content.text: golden: "Hello."; server: "Bye."',),
    "refuses to greet": ("prompts/greet", "resource: golden: nothing; server: {"),
    "other instructions": ('instructions: golden: "Read it."; server: "Other."',),
}
WORLD = """
import pytest
from mcp_parity.contract import *

@pytest.fixture(params=["home", "away"])
def mcp_world(request, monkeypatch):
    monkeypatch.setenv("FAULT", "{fault}" if request.param == "{world}" else "")
    return request.param
"""


@pytest.fixture
def raw(project: Project) -> Project:
    """A project that pins the raw server, with goldens."""
    project.write("pyproject.toml", f'[tool.pytest.ini_options]\nmcp_server = "{sys.executable} {RAW}"\n')
    status, output = project.update()
    assert status == 0, output
    return project


def test_a_server_without_faults_passes_and_its_lists_are_pinned(raw: Project) -> None:
    status, output = raw.run()
    assert status == 0, output
    assert raw.golden("discovery/server")["instructions"] == "Read it."
    assert "version" not in raw.golden("discovery/server")
    assert [prompt["name"] for prompt in raw.golden("discovery/prompts")] == ["greet"]


def find_unnamed(raw: Project, world: str, faults: Sequence[str]) -> list[str]:
    """Run the tests with each fault in the world. Return the faults of which a message is missing, and the messages."""
    for number, fault in enumerate(faults):
        raw.write(f"tests/test_{number}.py", WORLD.format(fault=fault, world=world))
    found = {f"tests/test_{number}.py": "" for number in range(len(faults))}
    ran = raw.pytester.inline_run(
        *FEW, "-W", "default", "-k", f"{world} and (answer or lists or inventory)", *found, plugins=PLUGINS
    )
    for one in ran.getreports("pytest_runtest_logreport"):
        found[one.nodeid.partition("::")[0]] += one.longreprtext if one.failed else ""
    pairs = zip(faults, found.values(), strict=True)
    return [f"{fault}: {text}" for fault, text in pairs if not all(one in text for one in FAULTS[fault])]


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_each_fault_is_named_with_its_place(step: int, raw: Project) -> None:
    assert find_unnamed(raw, "home", [*FAULTS][::step]) == []


AT_ITS_START = ("can subscribe", "another name", "other instructions")


@pytest.mark.parametrize(("era", "protocol"), [("new", "auto"), ("new", "2026-07-28"), ("anonymous", "auto")])
def test_the_start_of_a_server_of_the_newest_protocol_is_pinned(
    era: str, protocol: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that know the protocol from their configuration ask nothing. A server need not name itself."""
    monkeypatch.setenv("ERA", era)
    server = f'mcp_server = "{sys.executable} {RAW}"\nmcp_protocol = "{protocol}"'
    project.write("pyproject.toml", f"[tool.pytest.ini_options]\n{server}\n")
    status, output = project.update("-k", "inventory or lists")
    assert status == 0, output
    assert ("name" in project.golden("discovery/server")) is (era == "new")
    for fault in AT_ITS_START:
        monkeypatch.setenv("FAULT", fault)
        if (fault, era) != ("another name", "anonymous"):
            output = project.fail("-k", "lists")
            assert all(one in output for one in FAULTS[fault]), output
    monkeypatch.setenv("FAULT", "declares nothing")
    assert "server differs from golden/discovery/server.json" in project.fail("-k", "lists")


OF_THE_NEWEST = {
    "may be kept by proxies": ('cache: golden: nothing; server: {"cacheScope": "public"}',),
    "may be kept for a minute": ('cache: golden: nothing; server: {"ttlMs": 60000}',),
    "asks for input": ("raw://text: the answer is not complete: resultType is 'input_required'",),
}


def test_what_only_the_newest_protocol_says_of_an_answer_is_pinned(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERA", "new")
    project.write("pyproject.toml", f'[tool.pytest.ini_options]\nmcp_server = "{sys.executable} {RAW}"\n')
    assert project.update()[0] == 0
    for fault, messages in OF_THE_NEWEST.items():
        monkeypatch.setenv("FAULT", fault)
        output = project.fail("-k", "text")
        assert all(one in output for one in messages), output


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_faults_in_another_world_are_named_where_goldens_have_moved(step: int, raw: Project) -> None:
    (raw.root / "golden").rename(raw.root / "contract")
    raw.set('mcp_golden = "contract"')
    assert find_unnamed(raw, "away", [*FAULTS][::step]) == []


def test_a_part_of_a_text_can_be_volatile(raw: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "has a clock")
    status, output = raw.update("-k", "text")
    assert status == 1
    assert r'"raw://text contents[].lines[] /\\d\\d?:\\d\\d:\\d\\d( [AP]M)?/",' in output
    raw.set(r'mcp_volatile = ["raw://text contents[].lines[] /\\d\\d?:\\d\\d:\\d\\d( [AP]M)?/"]')
    status, output = raw.update("-k", "text")
    assert status == 0, output
    assert raw.golden("data/raw/text")["contents"][0]["lines"] == ["one", "created at <differs>", "two"]
    status, output = raw.run("-k", "text or configuration")
    assert status == 0, output
    raw.set('mcp_pause = "0"')
    monkeypatch.setenv("FAULT", "has a line more")
    assert 'contents[0].lines[1]: golden: "created at <differs>"; server: "more"' in raw.fail("-k", "text")


@pytest.mark.parametrize(
    "fault", ["fails", "is a page", "is no JSON", "redirects elsewhere", "wants a login", "ends the session"]
)
def test_what_a_proxy_answers_is_not_pinned(fault: str, project: Project) -> None:
    with serve_raw(fault, "resources/read") as url:
        project.write("pyproject.toml", f'[tool.pytest.ini_options]\nmcp_server = "{url}"\n')
        status, output = project.update("-k", "text")
    assert (status, "raw://text: no answer: " in output) == (1, True), output
    assert [name for name in project.files if "errors/" in name] == []


SIGNS_IN = """
import httpx2
from fastmcp.client.transports import StreamableHttpTransport

class Flow(httpx2.Auth):
    def auth_flow(self, request):
        answer = yield httpx2.Request("POST", "{url}", data={{"grant_type": "client_credentials"}})
        assert answer.status_code == 202
        yield request

def connect():
    return StreamableHttpTransport("{url}", auth=Flow())
"""


def test_a_transport_can_sign_in(project: Project) -> None:
    with serve_raw() as url:
        project.write("server.py", SIGNS_IN.format(url=url))
        project.write("pyproject.toml", '[tool.pytest.ini_options]\nmcp_server = "server:connect"\n')
        status, output = project.update("-k", "text")
    assert status == 0, output


TOOL = "@mcp.tool(description='Adds.\\r\\nMore.', meta={'by': 'Ada\\rB'})\n"


def test_a_server_without_resources_is_pinned(project: Project) -> None:
    project.write("server.py", f"from fastmcp import FastMCP\n\nmcp = FastMCP('none')\n\n{TOOL}def add(): ...\n")
    project.write("pyproject.toml", '[tool.pytest.ini_options]\nmcp_server = "server:mcp"\n')
    status, output = project.update()
    assert status == 0, output
    status, output = project.run()
    assert status == 0, output
    assert "4 passed, 2 skipped" in output
    project.change("def add()", "def sum()")
    output = project.fail()
    assert "add: in golden/mcp-list.csv, but the server does not list it" in output
    assert 'tools[sum].name: golden: "add"; server: "sum"' in output


def test_one_process_serves_all_tests_of_a_module(raw: Project) -> None:
    raw.write(
        "counted.py",
        "import pathlib, runpy\npathlib.Path('starts').open('a').write('x')\n"
        f"runpy.run_path({str(RAW)!r}, run_name='__main__')\n",
    )
    raw.change(str(RAW), "counted.py", "pyproject.toml")
    status, output = raw.run()
    assert status == 0, output
    assert (raw.root / "starts").read_text() == "x"


def test_an_update_that_is_cut_off_leaves_an_inventory(raw: Project) -> None:
    (raw.root / "golden/mcp-list.csv").unlink()
    status, output = raw.update("-x", "--maxfail=1", "--collect-only", "-q")
    assert status == 0, output
    first = next(line for line in output.splitlines() if "::" in line)
    assert first.endswith("::test_the_inventory_is_what_the_server_lists")


@pytest.mark.timeout(60)  # what is wanted; with a process for each test, 250 took more than 300 seconds
@pytest.mark.parametrize("count", [20, pytest.param(250, marks=pytest.mark.soak)])
def test_many_templates_take_less_than_a_minute(count: int, raw: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPLATES", str(count))
    for run in (raw.update, raw.run):
        status, output = run()
        assert status == 0, output
    assert len([name for name in raw.files if name.startswith("golden/data/raw/t")]) == count + 1


def test_both_surfaces_must_refuse_what_no_list_names(raw: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    assert raw.golden("errors/unknown") == {"resource": {"code": -32002, "message": "no resource <uri>"}}
    monkeypatch.setenv("FAULT", "answers unknown URIs")
    assert "raw://blox: an unknown URI is answered with data" in raw.fail("-k", "misspelt")
    monkeypatch.setenv("FAULT", "refuses unknown URIs with another code")
    output = raw.fail("-k", "misspelt")
    assert "unknown differs from golden/errors/unknown.json\n  resource.code: golden: -32002; server: -32603" in output
    monkeypatch.setenv("FAULT", ANY)
    (raw.root / "golden/errors/unknown.json").unlink()
    status, output = raw.run("-k", "misspelt or case")
    assert (status, "1 passed, 1 skipped" in output) == (0, True), output


def test_the_refusal_of_an_unknown_uri_is_pinned_by_the_next_update(raw: Project) -> None:
    """Goldens of an earlier version have none."""
    (raw.root / "golden/errors/unknown.json").unlink()
    for run in (raw.run, raw.update, raw.run):
        status, output = run("-k", "misspelt or golden_has_a_case")
        assert status == 0, output
    assert "golden/errors/unknown.json" in raw.files


def test_names_are_made_once_for_all_cases(raw: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Mock(wraps=Names.of)
    monkeypatch.setattr(Names, "of", make)
    status, output = raw.run()
    assert (status, make.call_count) == (0, 1), output


def test_a_prompt_that_changes_is_declared_or_refused(raw: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "greets with a clock")
    status, output = raw.update("-k", "lists")
    line = '"prompts/greet messages[].content.text",'
    assert (status, line in output) == (1, True), output
    raw.set(f"mcp_volatile = [{line}]")
    for run in (raw.update, raw.run):
        status, output = run("-k", "lists or configuration or golden_has")
        assert status == 0, output
    monkeypatch.setenv("FAULT", "has no prompt")
    assert raw.update("-k", "lists or golden_has")[0] == 0
    assert "golden/prompts/greet.json" not in raw.files


def test_goldens_of_an_earlier_version_pass(raw: Project) -> None:
    """They have no prompts, no refusal of an unknown URI and no protocol."""
    for name in ("prompts/greet", "errors/unknown"):
        (raw.root / f"golden/{name}.json").unlink()
    raw.change('  "name": "raw",\n  "protocol": "2025-11-25"\n', '  "name": "raw"\n', "golden/discovery/server.json")
    raw.write("tests/test_contract.py", WORLD.format(fault="", world="away"))
    status, output = raw.run()
    assert status == 0, output


def test_the_blanks_of_a_text_that_looks_like_json_are_pinned(raw: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "has JSON in its text")
    assert raw.update("-k", "text")[0] == 0
    assert raw.golden("data/raw/text")["contents"][0].keys() == {"data", "mime_type"}
    for fault, line in (
        ("has JSON with blanks in its text", '"{ \\"a\\": 1 }"'),
        ("has JSON and a line in its text", '""'),
    ):
        monkeypatch.setenv("FAULT", fault)
        output = raw.fail("-k", "text")
        assert ("contents[0].lines" in output, f"server: {line}" in output) == (True, True), output
    assert raw.update("-k", "text")[0] == 0
    assert raw.golden("data/raw/text")["contents"][0]["lines"] == ['{"a": 1}', ""]

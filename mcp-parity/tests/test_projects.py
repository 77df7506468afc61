"""Mistakes in a project, and everything that a project can configure."""

import importlib
import shutil
import subprocess
import sys
import threading
from functools import partial

import pytest
from anyio import create_task_group, to_thread

from mcp_parity import serving
from tests.project import CONFIGURATION, SERVER, Project
from tests.serving import serve


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("import itertools", "import no_such_module", "mcp_server = server:mcp: ModuleNotFoundError: No module named"),
        ('mcp = FastMCP("shop", mask_error_details=True)', "mcp = 1 / 0", "ZeroDivisionError: division by zero"),
        ("# more", "mcp = 7", "mcp_server = server:mcp: this is int, not a FastMCP server"),
        ("import itertools", "raise SystemExit('set API_KEY')", "mcp_server = server:mcp: SystemExit: set API_KEY"),
    ],
)
def test_a_server_that_does_not_import_is_reported_in_one_line(
    pinned: Project, old: str, new: str, message: str
) -> None:
    pinned.change(old, new)
    status, output = pinned.run("-k", "notes")
    assert status == 1
    assert message in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("raise SystemExit('set API_KEY')", "mcp_server = server:mcp: SystemExit: set API_KEY"),
        ("raise TimeoutError('no database')", "mcp_server = server:mcp: TimeoutError: no database"),
    ],
)
def test_an_update_with_a_server_that_does_not_import_changes_nothing(
    pinned: Project, statement: str, message: str
) -> None:
    before = pinned.files
    pinned.change("import itertools", statement)
    status, output = pinned.update()
    assert status == 1
    assert message in output
    assert pinned.files == before


@pytest.mark.soak
@pytest.mark.timeout(0)  # its signal is the one that interrupts the import
@pytest.mark.skipif(sys.platform == "win32", reason="an import cannot be interrupted on Windows")
@pytest.mark.parametrize(
    "wait",
    [
        "while True:\n    try:\n        time.sleep(600)\n    except Exception:\n        pass",
        "try:\n    time.sleep(600)\nexcept BaseException:\n    time.sleep(600)",
    ],
)
def test_a_server_that_hangs_while_it_is_imported_is_reported_in_one_line(pinned: Project, wait: str) -> None:
    """It repeats what fails, as a server does that waits for a database, or catches the first interruption."""
    before = pinned.files
    pinned.change("mcp = FastMCP", f"{wait}\nmcp = FastMCP")
    pinned.set('mcp_timeout = "1"')
    status, output = pinned.update("-k", "inventory or notes")
    assert status == 1
    assert "mcp_server = server:mcp: the server does not answer within 1 s (mcp_timeout)" in output
    assert pinned.files == before


@pytest.mark.soak
def test_a_run_with_a_server_that_hangs_ends(pinned: Project) -> None:
    """A function that waits in a thread does not keep the process alive."""
    pinned.change('    return json.dumps({"open"', '    time.sleep(3600)\n    return json.dumps({"open"')
    pinned.set('mcp_timeout = "2"')
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "status"]
    done = subprocess.run(command, cwd=pinned.root, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1
    assert "shop://status: the server does not answer within 2 s (mcp_timeout)" in done.stdout


def test_the_event_loop_of_a_server_that_hangs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it takes a core until the run ends."""
    monkeypatch.setattr("mcp_parity.serving._GRACE", 0.1)
    known, hangs = {*threading.enumerate()}, threading.Event()

    async def serve() -> None:
        async with create_task_group() as tasks:
            tasks.start_soon(partial(to_thread.run_sync, hangs.wait))

    hanging = serving._Loop()
    [thread] = {*threading.enumerate()} - known
    with pytest.raises(serving._TimeIsOver):
        hanging.run(serve(), 0.1)
    thread.join(timeout=60)
    assert (thread.is_alive(), hangs.is_set()) == (False, False)
    hangs.set()


@pytest.mark.soak
@pytest.mark.parametrize("wait", ["time.sleep(600)", "await asyncio.sleep(600)", "time.sleep(20)"])
def test_a_server_that_hangs_is_reported_in_one_line(pinned: Project, wait: str) -> None:
    """The last one blocks the server's event loop."""
    function = "def status" if wait == "time.sleep(600)" else "async def status"
    pinned.change("def status", function)
    pinned.change("import itertools", "import asyncio\nimport itertools")
    pinned.change('    return json.dumps({"open"', f'    {wait}\n    return json.dumps({{"open"')
    pinned.set('mcp_timeout = "2"')
    assert "shop://status: the server does not answer within 2 s (mcp_timeout)" in pinned.fail("-k", "status")


def test_lines_that_match_nothing_fail(pinned: Project) -> None:
    pinned.set('mcp_volatile = ["shop://status contents[].data.nothing", "shop://nothing contents[].data.x"]')
    pinned.set('mcp_other_goldens = ["errors/other/*"]\nmcp_tool = "read_all"')
    pinned.change('["shop', '["shop://x/{y} = shop://x/1", "shop', "pyproject.toml")
    output = pinned.fail("-k", "configuration or lists")
    for line in (
        "mcp_examples: shop://x/{y}: no such template",
        "mcp_other_goldens: errors/other/*: no such golden",
        "mcp_volatile: shop://nothing contents[].data.x: no such resource",
        "mcp_volatile: shop://status contents[].data.nothing: no golden has such a path",
        "mcp_tool = read_all: the server has no such tool",
    ):
        assert line in output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('mcp_exclude = ["ui://*", "shop://nothing"]', "mcp_exclude: shop://nothing: the server lists no such URI"),
        ('mcp_columns = "type uri example_uri owner"', "mcp_columns: owner: no resource, template or tool has it"),
    ],
)
def test_a_line_that_matches_nothing_that_the_server_lists_fails(pinned: Project, line: str, message: str) -> None:
    pinned.set(line)
    assert message in pinned.fail("-k", "inventory")


def test_a_line_that_cannot_be_parsed_is_a_usage_error(pinned: Project) -> None:
    for line, message in (
        ('mcp_timeout = "soon"', "could not convert string to float"),
        ('mcp_volatile = ["x"]', "mcp_volatile: 'x' is not of the form `URI path`"),
    ):
        pinned.set(line)
        status, output = pinned.run()
        assert (status, message in output) == (4, True), output


def test_a_template_without_an_example_names_the_line_to_add(project: Project) -> None:
    project.change('["shop://orders/{number} = shop://orders/7"]', "[]", "pyproject.toml")
    status, output = project.update("-k", "orders")
    assert status == 1
    assert "shop://orders/{number}: no example is known" in output
    assert 'mcp_examples = ["shop://orders/{number} = shop://orders/..."]' in output


def test_the_examples_of_a_field_are_used(project: Project) -> None:
    project.change('["shop://orders/{number} = shop://orders/7"]', "[]", "pyproject.toml")
    project.change("number: int", "number: Annotated[int, Field(examples=[7])]")
    project.change("import itertools", "import itertools\nfrom typing import Annotated\nfrom pydantic import Field")
    assert project.update("-k", "orders")[0] == 0
    assert project.golden("data/shop/orders/7")["contents"][0]["data"] == {"number": 7}


def test_a_golden_that_was_edited_by_hand_is_named(pinned: Project) -> None:
    pinned.change('"orders": 3', '"orders": 2', "golden/data/shop/status.json")
    assert "shop://status differs from golden/data/shop/status.json" in pinned.fail("-k", "status")
    pinned.change('"orders": 2', '"orders":    3', "golden/data/shop/status.json")
    assert "golden/data/shop/status.json has the right values in another format" in pinned.fail("-k", "status")
    pinned.change('"orders":    3', '"orders": ', "golden/data/shop/status.json")
    assert "golden/data/shop/status.json is not JSON" in pinned.fail("-k", "status")
    assert pinned.update("-k", "status")[0] == 0
    assert pinned.run("-k", "status")[0] == 0


def test_a_deleted_golden_and_a_golden_without_a_case_are_named(pinned: Project) -> None:
    (pinned.root / "golden/data/shop/notes.json").rename(pinned.root / "golden/data/shop/old.json")
    output = pinned.fail("-k", "notes or golden_has_a_case")
    assert "shop://notes: there is no golden/data/shop/notes.json: run pytest --snapshot-update" in output
    assert "goldens without a case:\n  golden/data/shop/old.json" in output
    assert pinned.update("-k", "notes or golden_has_a_case")[0] == 0
    assert "golden/data/shop/old.json" not in pinned.files


def test_the_update_after_a_rename_deletes_the_old_golden(pinned: Project) -> None:
    pinned.change('"shop://notes"', '"shop://hints"')
    renamed = ("-k", "not (status or licence or logo or orders or misspelt)")
    assert pinned.update(*renamed)[0] == 0
    assert {name for name in pinned.files if "notes" in name or "hints" in name} == {"golden/data/shop/hints.json"}
    assert pinned.run(*renamed)[0] == 0


def test_an_error_that_becomes_data_moves_its_golden(pinned: Project) -> None:
    pinned.change('raise ResourceError("no licence")', 'return "yes"')
    assert pinned.update("-k", "licence")[0] == 0
    assert [name for name in pinned.files if "licence" in name] == ["golden/data/shop/licence.json"]


def test_an_update_in_several_processes_is_refused(pinned: Project) -> None:
    before = pinned.files
    status, output = pinned.update("-pxdist", "-n", "2")
    assert status == 4
    assert "goldens of a contract cannot be updated in parallel: run pytest --snapshot-update -n 0" in output
    assert pinned.files == before


def test_an_update_in_several_processes_is_refused_if_a_fixture_makes_the_server(pinned: Project) -> None:
    before = pinned.files
    pinned.change('mcp_server = "server:mcp"', "", "pyproject.toml")
    status, output = pinned.update("-pxdist", "-n", "2")
    assert status == 4
    assert "goldens of a contract cannot be updated in parallel" in output
    assert pinned.files == before


def test_an_inventory_that_is_not_text_is_reported_in_one_line(pinned: Project) -> None:
    (pinned.root / "golden/mcp-list.csv").write_bytes(b"type,uri\n\xff\xfe")
    output = pinned.fail("-k", "answer or inventory")
    assert "golden/mcp-list.csv cannot be read: 'utf-8' codec can't decode byte 0xff" in output
    assert "Traceback" not in output
    assert "UnicodeDecodeError" not in output
    assert pinned.update("-k", "inventory or notes")[0] == 0


def test_a_golden_that_cannot_be_written_is_reported_in_one_line(pinned: Project) -> None:
    before = {name: text for name, text in pinned.files.items() if "notes" not in name}
    (pinned.root / "golden/data/shop/notes.json").unlink()
    (pinned.root / "golden/data/shop/notes.json").mkdir()
    status, output = pinned.update("-k", "notes")
    assert status == 1
    assert "data/shop/notes.json cannot be written: the disk is full, or a directory has this name" in output
    assert "Traceback" not in output
    assert pinned.files == before


def test_a_missing_inventory_differs_from_an_empty_contract(pinned: Project) -> None:
    (pinned.root / "golden/mcp-list.csv").unlink()
    assert "there is no golden/mcp-list.csv" in pinned.fail("-k", "inventory or answer")
    pinned.write("golden/mcp-list.csv", "type,uri\nresource,shop://status\n")
    assert "has a row without type, uri or example_uri" in pinned.fail("-k", "inventory or answer")


def test_without_the_tool_resources_read_alone_is_pinned_and_gives_the_same_answers(pinned: Project) -> None:
    before = {name: text for name, text in pinned.files.items() if "/data/" in name}
    shutil.rmtree(pinned.root / "golden")
    pinned.change("add_get_resource(mcp)", "")
    assert pinned.update()[0] == 0
    status, output = pinned.run()
    assert status == 0
    assert "10 passed" in output
    assert {name: text for name, text in pinned.files.items() if "/data/" in name} == before
    assert pinned.golden("data/shop/status")["contents"][0]["data"]["orders"] == 3


@pytest.mark.parametrize("parameter", ["number: int", "uri: str"])
def test_a_tool_of_this_name_need_not_list_or_even_read_resources(parameter: str, project: Project) -> None:
    project.write("server.py", SERVER.partition("def add_get_resource")[0] + OTHER_TOOL.format(parameter=parameter))
    project.write("pyproject.toml", CONFIGURATION)
    for run in (project.update, project.run):
        status, output = run("-k", "status or lists")
        assert status == 0, output


OTHER_TOOL = """
@mcp.tool
async def get_resource({parameter}) -> ToolResult:
    [content] = (await mcp.read_resource(uri)).contents
    body = {{"success": True, "uri": uri, "mime_type": content.mime_type, "text": None, "contents": None}}
    body["data"] = json.loads(content.content)
    return ToolResult(content=json.dumps(body), structured_content=body)
"""


def test_any_tool_can_be_the_second_surface(project: Project) -> None:
    importlib.import_module("griffe")  # reads the docstrings of such tools, and each run would import it again
    project.change(
        "add_get_resource(mcp)",
        "from fastmcp.server.transforms import ResourcesAsTools\nmcp.add_transform(ResourcesAsTools(mcp))",
    )
    project.set('mcp_tool = "read_resource"')
    assert project.update("-k", "inventory or answer")[0] == 0
    assert project.run("-k", "answer")[0] == 0
    project.add(
        "class Lie(Middleware):\n    async def on_call_tool(self, context, call_next):\n"
        "        result = await call_next(context)\n        result.content[0].text = 'lie'\n        return result\n"
        "mcp.add_middleware(Lie())"
    )
    assert "shop://status: read_resource lies: it differs from resources/read" in project.fail("-k", "status")


WORLDS = """
import pytest
import server


@pytest.fixture(params=["home", "closed"])
def mcp_world(request, monkeypatch):
    monkeypatch.setitem(server.WORLD, "open", request.param == "home")
    return request.param
"""


def test_a_world_has_a_golden_only_where_it_differs(project: Project) -> None:
    project.write("tests/conftest.py", WORLDS)
    project.set('pythonpath = ["."]')
    assert project.update()[0] == 0
    assert [name for name in project.files if "--" in name] == ["golden/data/shop/status--closed.json"]
    status, output = project.run()
    assert status == 0, output
    assert "16 passed, 4 deselected" in output
    project.change('json.dumps({"open": WORLD["open"]', 'json.dumps({"open": True')
    output = project.fail("-k", "status and closed")
    assert "golden/data/shop/status--closed.json equals the golden of the home world: delete it" in output
    assert project.update("-k", "status")[0] == 0
    assert [name for name in project.files if "--" in name] == []
    project.change('json.dumps({"open": True', 'json.dumps({"open": WORLD["open"]')
    output = project.fail("-k", "status")
    assert (
        "shop://status in closed: there is no golden/data/shop/status--closed.json, and the answer differs from"
        in output
    )
    assert "contents[0].data.open: golden: true; server: false" in output


def test_a_world_has_a_golden_where_only_a_type_differs(pinned: Project) -> None:
    pinned.write("tests/conftest.py", WORLDS)
    pinned.set('pythonpath = ["."]')
    pinned.change('"open": WORLD["open"], "orders": 3', '"open": True, "orders": 3 if WORLD["open"] else 3.0')
    pinned.write("golden/data/shop/orders/7--closed.json", pinned.files["golden/data/shop/orders/7.json"])
    assert pinned.update("-k", "status or orders")[0] == 0
    assert [name for name in pinned.files if "--" in name] == ["golden/data/shop/status--closed.json"]
    assert '"orders": 3.0,' in pinned.files["golden/data/shop/status--closed.json"]
    status, output = pinned.run("-k", "status or orders")
    assert status == 0, output
    pinned.change('3 if WORLD["open"] else 3.0', "3")
    assert pinned.update("-k", "status")[0] == 0
    assert [name for name in pinned.files if "--" in name] == []


def test_null_is_a_golden_too(pinned: Project) -> None:
    """A world in which a refusal is pinned as null, and the home world has no golden of a refusal."""
    pinned.write("tests/conftest.py", f"{WORLDS}\n@pytest.fixture\ndef mcp_to_golden():\n    return {TO_NULL}\n")
    pinned.set('pythonpath = ["."]')
    pinned.change(
        'return "# Notes', 'if not WORLD["open"]:\n        raise ResourceError("closed")\n    return "# Notes'
    )
    assert pinned.update("-k", "notes")[0] == 0
    assert pinned.golden("errors/shop/notes--closed") is None


TO_NULL = "lambda answer: None if answer.contents is None else answer.to_golden()"


def test_fixtures_and_hooks_replace_the_server_the_goldens_and_the_rows(project: Project) -> None:
    project.change('mcp_server = "server:mcp"', 'mcp_columns = "type uri name example_uri owner"', "pyproject.toml")
    project.set('mcp_inventory = "rows.csv"\npythonpath = ["."]')
    project.write(
        "tests/conftest.py",
        "import pytest, server\n"
        "@pytest.fixture\ndef mcp_parity_server():\n    return server.mcp\n"
        "@pytest.fixture\ndef mcp_to_golden():\n    return lambda answer: {'of': answer.uri}\n"
        "def pytest_mcp_components(components):\n    components[:] = components[:2]\n"
        "    components[0].row['owner'] = 'Ada'\n",
    )
    status, output = project.update()
    assert status == 1
    assert "there was no rows.csv: run pytest --snapshot-update again" in output
    assert project.update()[0] == 0
    assert project.golden("errors/shop/licence") == {"of": "shop://licence"}
    assert (project.root / "rows.csv").read_text(encoding="utf-8") == (
        "type,uri,name,example_uri,owner\n"
        "resource,shop://licence,licence,shop://licence,Ada\n"
        "resource,shop://logo,logo,shop://logo,\n"
    )
    status, output = project.run("-k", "answer")
    assert status == 0, output


def test_a_fixture_mcp_server_of_another_plugin_is_not_used(pinned: Project) -> None:
    """pytest-mcp-contract has one. Only the line of the configuration has this name here."""
    pinned.write("tests/conftest.py", "import pytest\n@pytest.fixture\ndef mcp_server():\n    raise RuntimeError\n")
    status, output = pinned.run("-k", "inventory or lists")
    assert status == 0, output


def test_each_module_has_its_own_worlds_and_other_tests_have_goldens(project: Project) -> None:
    """A module that imports one test, and has no worlds, does not change the worlds of another module."""
    project.set('mcp_other_goldens = ["errors/other/*"]\npythonpath = ["."]')
    (project.root / "tests/test_contract.py").unlink()
    project.write(
        "tests/test_answers.py",
        "from mcp_parity.contract import (test_both_surfaces_give_the_answer_of_the_golden,\n"
        "    test_every_golden_has_a_case, test_the_inventory_is_what_the_server_lists)\n" + WORLDS,
    )
    project.write(
        "tests/test_lists.py",
        "from mcp_parity.contract import test_the_lists_are_those_of_the_goldens\n"
        "def test_other(mcp_golden):\n    assert {'a': 1} == mcp_golden(name='errors/other/a')\n",
    )
    few = "not (orders or licence or logo)"
    status, output = project.update("-k", few)
    assert status == 0, output
    assert project.golden("errors/other/a") == {"a": 1}
    assert "golden/data/shop/status--closed.json" in project.files
    status, output = project.run("-k", few)
    assert status == 0, output
    assert [name for name in project.files if "discovery" in name and "--" in name] == []


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
def test_both_protocol_eras_give_the_same_goldens(pinned: Project, protocol: str) -> None:
    pinned.set(f'mcp_protocol = "{protocol}"')
    pinned.set('mcp_start = "name instructions"')  # the capabilities differ: each era has its own
    pinned.write("golden/discovery/server.json", '{\n  "name": "shop"\n}\n')
    status, output = pinned.run()
    assert status == 0, output


NO_LISTS = """
from mcp.shared.exceptions import MCPError

class NoLists(Middleware):
    async def on_list_tools(self, context, call_next):
        raise MCPError(code=CODE, message="Method not found")

    on_list_resource_templates = on_list_tools

mcp.add_middleware(NoLists())
"""


@pytest.mark.parametrize("code", [-32601, -32603])
def test_a_server_without_tools_and_templates_can_refuse_to_list_them(project: Project, code: int) -> None:
    project.change("add_get_resource(mcp)", NO_LISTS.replace("CODE", str(code)))
    project.change('mcp_examples = ["shop://orders/{number} = shop://orders/7"]', "", "pyproject.toml")
    status, output = project.update()
    assert (status == 0) == (code == -32601), output  # any other failure is one of the server
    if status == 0:
        assert project.golden("discovery/resource-templates") == project.golden("discovery/tools") == []
        status, output = project.run()
        assert status == 0, output


@pytest.mark.soak
def test_a_server_can_be_a_command(pinned: Project) -> None:
    pinned.add("if __name__ == '__main__':\n    mcp.run(show_banner=False)")
    pinned.change('"server:mcp"', f'"{sys.executable} server.py"', "pyproject.toml")
    status, output = pinned.run()
    assert status == 0, output


def test_a_server_can_be_a_url(pinned: Project) -> None:
    with serve(pinned.root / "server.py") as url:
        pinned.change('"server:mcp"', f'"{url}"', "pyproject.toml")
        status, output = pinned.run("-k", "answer")
    assert status == 0, output


def test_a_server_that_wants_a_token(pinned: Project) -> None:
    with serve(pinned.root / "server.py", token="abc") as url:
        pinned.change('"server:mcp"', f'"{url}"', "pyproject.toml")
        assert "(HTTP 401 Unauthorized; give it a token or headers)" in pinned.fail("-k", "status")
        pinned.write(
            "connecting.py",
            "from fastmcp.client.transports import StreamableHttpTransport\n\n"
            f"def connect(): return StreamableHttpTransport({url!r}, headers={{'Authorization': 'Bearer ' + TOKEN}})\n"
            "TOKEN = 'abc'\n",
        )
        pinned.change(f'"{url}"', '"connecting:connect"', "pyproject.toml")
        status, output = pinned.run("-k", "answer")
        assert status == 0, output
        pinned.change("TOKEN = 'abc'", "TOKEN = 'no'", "connecting.py")
        assert "(HTTP 401 Unauthorized; give it a token or headers)" in pinned.fail("-k", "status")


def test_a_command_that_ends_at_once_is_reported_in_one_line(pinned: Project) -> None:
    pinned.change('"server:mcp"', f'"{sys.executable} -c pass"', "pyproject.toml")
    assert "shop://status: no answer: " in pinned.fail("-k", "status")


def test_a_large_answer_is_pinned_by_shape_and_hash(project: Project) -> None:
    project.change('"orders": 3', '"orders": [{"id": n, "note": "x" * 50} for n in range(2000)]')
    project.change('return "# Notes', 'return "line\\n" * 30000 + "# Notes')
    assert project.update("-k", "inventory or status or notes")[0] == 0
    large = project.golden("data/shop/status")["contents"][0]["large"]
    assert large["shape"]["orders[].id"] == "number"
    assert large["characters"] > 100_000
    assert project.golden("data/shop/notes")["contents"][0]["large"]["lines"] == 30_003
    project.change('"id": n', '"number": n')
    output = project.fail("-k", "status")
    assert 'contents[0].large.shape.orders[].id: golden: "number"; server: nothing' in output


def test_a_proposed_line_works_for_any_key(project: Project) -> None:
    project.change('"orders": 3', '"Last Seen": {"a.b": [{"x[]": next(counter)}], \'"\': 1}')
    status, output = project.update("-k", "inventory or status")
    assert status == 1
    line = r'"shop://status contents[].data[\"Last Seen\"][\"a.b\"][][\"x[]\"]",'
    assert line in output
    project.set(f"mcp_volatile = [{line}]")
    for run in (project.update, project.run):
        status, output = run("-k", "status or configuration")
        assert status == 0, output
    assert project.golden("data/shop/status")["contents"][0]["data"]["Last Seen"] == {
        "a.b": [{"x[]": "<differs>"}],
        '"': 1,
    }

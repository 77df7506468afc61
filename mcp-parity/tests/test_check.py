"""`mcp-parity check`: true for any server, and it ends."""

import json
import logging
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from mcp_parity.cli import FIRST_LIMIT, NUMBERS, main
from tests.project import SERVER
from tests.raw_server import ANY, WAITS
from tests.serving import serve

RAW_FILE = str(Path(__file__).parent / "raw_server.py")
RAW = f"{shlex.quote(sys.executable)} {shlex.quote(RAW_FILE)}"
QUICK = ["--pause", "0"]
FAULTS = {
    "prints at its start": (1, "error    stdout: a line that is no message of MCP: 'Hello'; log to stderr instead"),
    "prints when it reads": (1, r"error    stdout: a line that is no message of MCP: 'reading\x1b[31m'"),
    "answers with invalid JSON": (1, """no message of MCP: '{"jsonrpc": "2.0", "id":'; send valid JSON-RPC 2.0"""),
    "lists a URI twice": (1, "error    resources: raw://rows is listed more than once"),
    "repeats a page": (1, "error    resources: page 2 repeats page 1"),
    "repeats a cursor": (1, "error    resources: page 2 names the next page '1', which was read before"),
    "has pages without end": (1, "error    resources: the list does not end after 1,000 pages"),
    "changes its list": (1, "warning  resources: the list differs between two requests"),
    "has a key twice": (1, 'raw://rows: announced as application/json, but the text is not JSON: the key "id"'),
    "is nested deeply": (1, "but the text is not JSON: it is nested too deeply"),
    "announces JSON": (1, "error    raw://rows: announced as application/json, but the text is not JSON: "),
    "has another base64": (1, "error    raw://blob: the blob is not base64: "),
    "has text and bytes": (1, "error    raw://blob: a content has both text and blob"),
    "writes null for what is empty": (0, "offers   3 resources, 0 resource templates, 1 tool"),
    "is huge": (1, "error    raw://rows: 60,000,002 characters are too many to compare"),
    "ends when it reads": (1, "(the process has ended with status 3)"),
    "ends at its start": (2, "the last line of stderr: no such file: rows.db"),
    "shows its usage": (2, "stderr: error: no database … - Use --db-path md: for a cloud"),
    "wants a key at its start": (
        3,
        "login    connection: it ends at its start and needs a login: set API_KEY; it names API_KEY",
    ),
    "floods": (1, "error    stdout: a line that is no message of MCP: 'xxx"),
    "floods without a line": (1, "error    stdout: a line that is no message of MCP: 'a line of more than"),
    "refuses with an exception": (1, "warning  raw://rows and 4 more: the error contains a stack trace, which"),
    "declares nothing": (0, "warning  resources: the server does not declare the capability resources"),
    "answers for another URI": (0, "warning  raw://text: the answer is about another URI: raw://other"),
    "answers unknown URIs": (1, "error    nothing://here and 1 more: an unknown URI is answered with data"),
    "speaks only the newest protocol": (0, "(protocol 2026-07-28"),
    "announces another type": (0, "warning  raw://text: the list announces text/html, but the answer is text/plain"),
    "has a tool with blanks": (1, "error    my tool!: a tool's name must have 1 to 128 letters, digits, "),
    "has a tool with a long name": (1, "; this one has 200: 'xxx"),
    "has a tool without a name": (1, "error    tools: a tool's name must have 1 to 128 "),
    "has a tool with a dot": (0, "warning  a.b: many hosts refuse a tool's name with a `.`"),
    "has a tool that refers to nothing": (
        1,
        "error    sum: inputSchema refers to #/$defs/None, which it does not have",
    ),
    "has a tool of an array": (1, "error    tools: the answer is malformed: tools[0].inputSchema.type: "),
    "has a tool without a schema": (
        1,
        "error    tools: the answer is malformed: tools[0].inputSchema: Input should be",
    ),
    "lists a URI without a scheme": (1, "error    a: 'a' is no URI: it has no scheme"),
    "lists no URI": (1, "error    resources: '' is no URI: it has no scheme"),
    "lists half a template": (1, "error    raw://t/{number: the template is malformed: see RFC 6570"),
    "answers twice": (
        1,
        "error    stdout: a line that is no message of MCP: 'an answer to a request that was answered before",
    ),
    "asks for a sample": (1, "'a request that the client does not offer to answer: "),
    "announces another size": (0, "warning  raw://text: the list announces 3 bytes, but the answer has 7"),
}


def check(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str) -> tuple[int, str]:
    """Return the exit status and what is printed."""
    status = main(["check", *arguments])
    return status, capsysbinary.readouterr().out.decode()


def test_a_server_without_faults(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    status, text = check(capsysbinary, *QUICK, RAW)
    assert (status, text.splitlines()[-1]) == (0, "Nothing is wrong.")
    assert text.startswith("raw 1 (protocol 2025-11-25, ")
    assert "  offers   3 resources, 0 resource templates, 1 tool, 1 prompt" in text
    assert "  pages    resources 2" in text
    assert "tokens for the lists (resources 33, tools 13, prompts 17)" in text


@pytest.mark.parametrize("era", ["new", "anonymous"])
def test_a_server_of_the_newest_protocol(
    era: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERA", era)
    status, text = check(capsysbinary, *QUICK, RAW)
    assert (status, text.splitlines()[-1], text.startswith("raw 1 ")) == (0, "Nothing is wrong.", era == "new"), text
    monkeypatch.setenv("FAULT", "declares nothing")
    status, text = check(capsysbinary, *QUICK, RAW)
    assert "warning  resources: the server does not declare the capability resources" in text


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_on_one_screen(
    fault: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", fault)
    expected, message = FAULTS[fault]
    status, text = check(capsysbinary, *QUICK, RAW)
    assert (status, message in text, " 0 resources" in text) == (expected, True, False), text
    assert len(text.splitlines()) <= 24


@pytest.mark.parametrize(("fault", "read"), [("has a path", 4), ("has a name", 4), ("has another form", 3)])
def test_a_template_of_any_form_is_read_or_left_out(
    fault: str, read: int, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPLATES", "1")
    monkeypatch.setenv("FAULT", fault)
    status, text = check(capsysbinary, *QUICK, RAW)
    assert (status, f"  read     {read} resources twice" in text) == (0, True), text
    assert ("raw://t0{/number}: not read" in text) is (read == 3)


def test_a_clock_of_one_second_is_seen(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "has a clock")
    status, text = check(capsysbinary, RAW)
    assert status == 0
    assert "warning  raw://text: the answer changes between two reads: contents[].lines[]" in text


def test_an_answer_with_another_id_is_named(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "answers with a text as id")
    status, text = check(capsysbinary, *QUICK, "--limit", "0.5", "--timeout", "1", RAW)
    assert (status, "'an answer with an id that no request has: " in text) == (1, True), text


@pytest.mark.parametrize("fault", [pytest.param("hangs at its start", marks=pytest.mark.soak), "hangs when it reads"])
def test_the_check_of_a_server_that_hangs_ends(
    fault: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", fault)
    # a server that hangs never answers, so a short limit makes no difference
    status, text = check(capsysbinary, *QUICK, "--limit", "0.5", "--timeout", "1", RAW)
    assert status == (2 if fault == "hangs at its start" else 1)
    assert "the server does not answer within 0.5 s" in text


@pytest.mark.soak
def test_a_server_that_reads_no_answers_is_not_read(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "asks and reads no answers")
    status, text = check(capsysbinary, *QUICK, "--most", "1", RAW)
    assert (status, "within 10 s; it does not read the answers to its requests" in text) == (1, True), text


def test_a_server_that_waits_has_not_ended_for_lack_of_a_login(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", WAITS)
    status, text = check(capsysbinary, *QUICK, "--limit", "0.3", RAW)  # it never answers
    assert (status, "ended" in text, "login" in text) == (2, False, False), text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file that is full")
def test_a_full_disk_is_named_in_a_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mcp_parity.cli", "check", "true"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (2, b"mcp-parity check: [Errno 28] No space left on device\n")


def test_hostile_texts_stay_texts(
    capsysbinary: pytest.CaptureFixture[bytes],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("FAULT", "has a hostile error")
    page = tmp_path / "check.html"
    logged = logging.getLogger("fastmcp")  # which writes to the terminal
    monkeypatch.setattr(logged, "handlers", [*logged.handlers, caplog.handler])
    status, text = check(capsysbinary, *QUICK, "--html", str(page), RAW)
    assert (status, caplog.text) == (1, "")
    assert r"</pre><script>alert(1)</script>\n# `x`\x1b[31mred\u202e" in text
    html = page.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\u202e" not in html


def test_everything_is_in_the_json(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "announces JSON")
    status, text = check(capsysbinary, *QUICK, "--json", RAW)
    report = json.loads(text)
    assert (status, report["status"], report["counts"]["resources"]) == (1, 1, 3)
    assert [(one["level"], one["about"]) for one in report["findings"]] == [("error", "raw://rows")]


def test_a_uri_that_a_template_matches_is_not_unknown(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resource `greeting://world` and a template `greeting://{name}` belong to the first steps of FastMCP."""
    monkeypatch.setenv("FAULT", ANY)
    status, text = check(capsysbinary, *QUICK, RAW)
    assert (status, "unknown" in text) == (0, False), text


@pytest.mark.parametrize(("fault", "shown"), [("", ("passing", "brightgreen")), ("announces JSON", ("1 error", "red"))])
def test_a_badge_says_what_was_found(
    fault: str,
    shown: tuple[str, str],
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("FAULT", fault)
    check(capsysbinary, *QUICK, "--badge", str(tmp_path / "badge.json"), RAW)
    badge = json.loads((tmp_path / "badge.json").read_text(encoding="utf-8"))
    assert badge == {"schemaVersion": 1, "label": "mcp-parity", "message": shown[0], "color": shown[1]}


LYING = """
class Lie(Middleware):
    async def on_call_tool(self, context, call_next):
        result = await call_next(context)
        result.content[0].text = result.content[0].text.replace("3", "4")
        return result


mcp.add_middleware(Lie())
"""
AS_TOOLS = "from fastmcp.server.transforms import ResourcesAsTools\nmcp.add_transform(ResourcesAsTools(mcp))"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a FastMCP server that reads resources with a tool, in the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "checked_shop.py"
    file.write_text(SERVER.replace("\nadd_get_resource(mcp)", f"\n{AS_TOOLS}"), encoding="utf-8")
    yield file
    sys.modules.pop("checked_shop", None)


def test_a_tool_that_reads_resources_is_compared(shop: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    arguments = (*QUICK, "--example", "shop://orders/{number} = shop://orders/7", "checked_shop:mcp")
    status, text = check(capsysbinary, *arguments)
    assert "  read     5 resources twice, and with the tool read_resource" in text
    assert "error    shop://licence: it is listed, but refused: no licence (code -32603)" in text or status == 1
    shop.write_text(shop.read_text(encoding="utf-8").replace("# more", LYING), encoding="utf-8")
    sys.modules.pop("checked_shop")
    status, text = check(capsysbinary, *arguments)
    assert status == 1
    assert "error    shop://status: read_resource lies: it differs from resources/read" in text


def test_a_server_that_wants_a_token(shop: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with serve(shop, token="abc") as url:
        status, text = check(capsysbinary, *QUICK, url)
        assert (status, "it needs a login (HTTP 401 Unauthorized): give --token" in text) == (3, True), text
        for options in (["--token", "abc"], ["--header", "Authorization: Bearer abc"]):
            status, text = check(capsysbinary, *QUICK, *options, url)
            assert "  read     4 resources twice, and with the tool read_resource" in text


NO_NUMBERS = [
    ("most", "-1"),
    ("largest", "0"),
    ("pause", "-1"),
    ("limit", "nan"),
    ("timeout", "inf"),
    ("limit", "1e300"),
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a command, a URL or module:attribute"),
        (["--header", "x", "http://127.0.0.1:9"], "--header: 'x' is not of the form `Name: value`"),
        (["no_such_module_here:mcp"], "ModuleNotFoundError"),
        (["python 'server.py"], "mcp_server = python 'server.py: ValueError: No closing quotation"),
        *(([f"--{name}", value, RAW], f"--{name} must be from ") for name, value in NO_NUMBERS),
        (["--html", "/nowhere/page.html", "no-such-server"], "No such file or directory: '/nowhere/page.html'"),
        (["--pause", "0", "--html", "/nowhere/page.html", RAW], "No such file or directory: '/nowhere/page.html'"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", *arguments])
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line


COPY = f"""import runpy, sys
assert sys.argv[1:] == ARGUMENTS, sys.argv
runpy.run_path({RAW_FILE!r}, run_name="__main__")
"""


@pytest.mark.parametrize("arguments", [["exec", "--", "rows", "--", "--flag"], ["--flag"], ["a b"]])
def test_the_arguments_of_the_server_stay_as_they_are(
    arguments: list[str], tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    server = tmp_path / "a server.py"
    server.write_text(COPY.replace("ARGUMENTS", repr(arguments)), encoding="utf-8")
    for start in ([], ["--"]):
        status, text = check(capsysbinary, *QUICK, *start, sys.executable, str(server), *arguments)
        assert status == 0, text


def test_a_path_with_blanks_is_one_command(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    server = tmp_path / "a server"
    server.write_text(f"#!{sys.executable}\n{COPY.replace('ARGUMENTS', '[]')}", encoding="utf-8")
    server.chmod(0o755)
    status, text = check(capsysbinary, *QUICK, str(server))
    assert status == 0, text


@pytest.mark.soak
def test_the_first_answer_may_take_longer_than_the_others(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package is perhaps downloaded before."""
    assert NUMBERS["limit"][0] < FIRST_LIMIT
    monkeypatch.setattr("mcp_parity.cli.FIRST_LIMIT", 0.5)
    monkeypatch.setenv("FAULT", "hangs at its start")  # it never answers
    for limit, seconds in (([], "0.5"), (["--limit", "0.3"], "0.3")):
        status, text = check(capsysbinary, *QUICK, *limit, RAW)
        line = f"the server does not answer within {seconds} s; --limit names another time"
        assert (status, line in text) == (2, True), text


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"mcp-parity {version('mcp-parity')}\n"


def test_a_command_that_does_not_exist_and_a_url_without_a_server(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    status, text = check(capsysbinary, "no-such-command-here", "--flag")
    assert (status, "No such file or directory" in text) == (2, True), text
    status, text = check(capsysbinary, "HTTP://127.0.0.1:9/mcp")
    assert (status, "no answer: " in text) == (2, True), text


CALLED = f"{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).parent / 'raw_call_server.py'))}"
OF_TOOLS = {
    "": (0, "  called   2 of 4 tools twice; the others need arguments, or do not say that they only read"),
    "writes when it plots": (
        1,
        "error    raw://text: it differs after calls of tools that say that they only read: count, plot",
    ),
    "refuses to plot": (0, "warning  plot: it needs no argument, but refuses: no rows"),
    "plots with a clock": (0, "warning  plot: the answer changes between two calls: contents[].lines[]"),
    "counts twice": (1, "error    count: calls/count: the text and the structured content differ"),
    "counts against its schema": (1, "error    count: no answer: RuntimeError: Invalid structured content"),
}


@pytest.mark.parametrize("fault", OF_TOOLS)
def test_tools_that_only_read_and_need_no_argument_are_called(
    fault: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", fault)
    expected, line = OF_TOOLS[fault]
    status, text = check(capsysbinary, *QUICK, CALLED)
    assert (status, line in text) == (expected, True), text
    assert "buy" not in text


@pytest.mark.soak
def test_a_tool_that_takes_long_is_a_warning(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "plots for ever")
    status, text = check(capsysbinary, *QUICK, "--limit", "5", CALLED)  # the other answers take less on any machine
    assert (status, "warning  plot: the server does not answer within 5 s; " in text) == (0, True), text


BOTH_ERAS = """
from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context

mcp = FastMCP("eras")


@mcp.tool(annotations={"readOnlyHint": True})
def tell() -> str:
    return "new" if get_context().session.protocol_version >= "2026" and DIFFERS else "old"
"""


@pytest.mark.parametrize("differs", [True, False])
def test_both_eras_must_give_the_same_answer_to_a_call(
    differs: bool,  # noqa: FBT001 - of the parameters
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("both_eras.py").write_text(BOTH_ERAS.replace("DIFFERS", str(differs)), encoding="utf-8")
    status, text = check(capsysbinary, *QUICK, "both_eras:mcp")
    sys.modules.pop("both_eras")
    line = "warning  tell: the answer differs in an earlier protocol: contents[].lines[]"
    assert (status, line in text) == (0, differs), text

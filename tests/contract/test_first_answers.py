"""The first answers over stdio are kept from one start of the server to the next, and sent before it is imported."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import quilt_mcp
from quilt_mcp.commands.first_answers import open_answers
from quilt_mcp.commands.handshake import Conversation
from quilt_mcp.commands.install import executable
from tests.support.waiting import SECONDS

Message = dict[str, Any]

INFO = {"name": "test", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}
SHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LISTS = ("tools/list", "resources/templates/list", "prompts/list")

# It stands for a server that never finishes its imports: it answers what reaches it, but with its own name.
SLOW_SERVER = """
import json, os, sys, threading
from quilt_mcp.commands.stdio_front import open_front, write_all
front = open_front(sys.argv[1:])
for thread in threading.enumerate():
    if thread.name == "front":
        thread.join()
while lines := front.read1():
    for line in lines.splitlines():
        answer = {"id": json.loads(line).get("id"), "result": "server"}
        write_all(front.output, json.dumps(answer).encode() + b"\\n")
"""


def request(number: int | str, method: str, **parameters: Any) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


def legacy() -> list[Message]:
    asked = [request(number, method) for number, method in enumerate(LISTS, start=2)]
    return [request(1, "initialize", **SHAKE), INITIALIZED, request("p", "ping"), *asked]


def sessionless() -> list[Message]:
    methods = ("server/discover", *LISTS)
    return [request(number, method, _meta=ENVELOPE) for number, method in enumerate(methods)]


class Machine:
    """Where servers start: a home directory, which keeps the first answers."""

    def __init__(self, home: Path) -> None:
        names = ("QUILT_", "FASTMCP_", "MCP_", "SYMBOLIC_")
        self.home = home
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(names)} | {
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_DATA_HOME": str(home / "data"),
        }

    def talk(
        self,
        command: list[str],
        messages: list[Message],
        variables: Mapping[str, str] = MappingProxyType({}),
        status: int = 0,
    ) -> tuple[list[Message], str]:
        """Send messages to a new process and close its stdin. Return what it wrote to stdout and stderr."""
        ended = subprocess.run(
            command,
            input=b"".join(json.dumps(message).encode() + b"\n" for message in messages),
            capture_output=True,
            env=self.environment | dict(variables),
            cwd=self.home,
            timeout=2 * SECONDS,
            check=False,
        )
        assert ended.returncode == status, ended.stderr.decode()
        return [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr.decode()

    def serve(self, messages: list[Message], *options: str, **variables: str) -> list[Message]:
        return self.talk([executable(), "serve", *options], messages, variables)[0]

    def ask_slow_server(self, messages: list[Message], *options: str, **variables: str) -> dict[str | int, list[Any]]:
        """Return the results that a client receives while the server is imported, by request."""
        found: dict[str | int, list[Any]] = {}
        for answer in self.talk([sys.executable, "-c", SLOW_SERVER, "serve", *options], messages, variables)[0]:
            if answer["id"] is not None:
                found.setdefault(answer["id"], []).append(answer["result"])
        return found

    @property
    def files(self) -> list[Path]:
        return [path for path in (self.home / "cache").rglob("*") if path.is_file()]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Return a machine on which a server has answered a client of each protocol."""
    machine = Machine(tmp_path_factory.mktemp("home"))
    machine.serve(legacy())
    machine.serve(sessionless())
    return machine


@pytest.mark.soak
@pytest.mark.parametrize("messages", [legacy(), sessionless()], ids=["handshake", "sessionless"])
def test_known_answers_are_sent_while_the_server_is_imported(machine: Machine, messages: list[Message]) -> None:
    by_server = {answer["id"]: answer["result"] for answer in Machine(machine.home).serve(messages)}
    received = machine.ask_slow_server(messages)
    # the server also gets every message, so that its session is in the same state
    assert received == {number: [result, "server"] for number, result in by_server.items()}
    assert len(by_server) == len([message for message in messages if "id" in message])


@pytest.mark.soak
@pytest.mark.parametrize("messages", [legacy(), sessionless()], ids=["handshake", "sessionless"])
def test_a_client_gets_each_answer_once_and_then_those_of_the_server(machine: Machine, messages: list[Message]) -> None:
    envelope = {"_meta": ENVELOPE} if messages == sessionless() else {}
    answers = machine.serve([*messages, request("r", "resources/read", uri="metadata://templates", **envelope)])
    assert [answer["id"] for answer in answers] == [message["id"] for message in messages if "id" in message] + ["r"]
    assert "available_templates" in answers[-1]["result"]["contents"][0]["text"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (("--demo",), {}),
        ((), {"QUILT_MCP_LIST_PAGE_SIZE": "100"}),
        ((), {"FASTMCP_MASK_ERROR_DETAILS": "true"}),
        ((), {"QUILT_MCP_JWT_PUBLIC_KEY": "no-file.pem"}),
    ],
)
def test_answers_of_another_server_are_not_sent(
    machine: Machine, options: tuple[str, ...], variables: dict[str, str]
) -> None:
    received = machine.ask_slow_server(legacy(), *options, **variables)
    assert set(map(str, received.values())) == {"['server']"}


@pytest.mark.soak
def test_answers_with_other_settings_of_fastmcp_are_not_sent(machine: Machine) -> None:
    (machine.home / ".env").write_text("FASTMCP_LOG_LEVEL=DEBUG", encoding="utf-8")
    try:
        received = machine.ask_slow_server(legacy())
    finally:
        (machine.home / ".env").unlink()
    assert set(map(str, received.values())) == {"['server']"}


@pytest.mark.soak
def test_answers_of_other_code_are_not_sent(tmp_path: Path) -> None:
    shutil.copytree(Path(quilt_mcp.__file__).parent, tmp_path / "quilt_mcp")
    machine = Machine(tmp_path)
    machine.environment["PYTHONPATH"] = str(tmp_path)
    server = "from quilt_mcp.commands.entry import main; main()"
    machine.talk([sys.executable, "-c", server, "serve"], legacy()[:1])
    assert len(machine.ask_slow_server(legacy()[:1])[1]) == len(["before the import", "server"])
    (tmp_path / "quilt_mcp" / "services" / "new.py").touch()
    assert machine.ask_slow_server(legacy()[:1])[1] == ["server"]


@pytest.mark.soak
def test_server_with_an_invalid_setting_answers_nothing(machine: Machine) -> None:
    command = [executable(), "serve"]
    answers, log = machine.talk(command, legacy(), {"QUILT_MCP_LIST_PAGE_SIZE": "0"}, status=2)
    assert answers == []
    assert log.startswith("quilt-mcp: Invalid environment variable QUILT_MCP_LIST_PAGE_SIZE: ")
    assert log.count("\n") == 1


@pytest.mark.soak
def test_nothing_is_kept_for_a_server_with_a_sign_in(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"a-token-of-32-characters-or-more-x": {"client_id": "ann", "scopes": []}}', encoding="utf-8")
    machine = Machine(tmp_path)
    assert len(machine.serve(legacy(), QUILT_MCP_STATIC_TOKENS=str(tokens))) == len(legacy()) - 1
    assert machine.files == []


@pytest.mark.soak
def test_answers_that_are_out_of_date_are_replaced(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    true = machine.serve(legacy()[:2])[0]["result"]
    (file,) = machine.files
    file.write_text(file.read_text(encoding="utf-8").replace("quilt-mcp", "quilt-old"), encoding="utf-8")
    answers, log = machine.talk([executable(), "serve"], legacy()[:2])
    assert [answer["result"]["serverInfo"]["name"] for answer in answers] == ["quilt-old"]
    assert "the answer to initialize that was kept from an earlier start is out of date" in log
    assert machine.ask_slow_server(legacy()[:2])[1][0] == true


@pytest.mark.soak
@pytest.mark.parametrize("result", ["{", "[]", "1", '{"a":\n1}', '{"a": "\\ud800"}\ud800', '{"a": "é"}', None, {}])
def test_results_that_are_not_json_objects_in_one_line_are_not_sent(machine: Machine, result: object) -> None:
    before = {file: file.read_text(encoding="utf-8") for file in machine.files}
    for file, text in before.items():
        file.write_text(json.dumps(dict.fromkeys(json.loads(text), result)), encoding="utf-8")
    try:
        assert machine.ask_slow_server(legacy())[1] == ["server"]
    finally:
        for file, text in before.items():
            file.write_text(text, encoding="utf-8")


def _make_pipe(file: Path) -> None:
    os.mkfifo(file)


def _make_foreign_file(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    (file.parent / "old").rename(file)
    os.chown(file, 54321, 54321)


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither named pipes in folders nor user ids")
@pytest.mark.parametrize("make", [Path.mkdir, _make_pipe, _make_foreign_file])
def test_only_a_file_of_this_user_is_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    machine = Machine(tmp_path)
    machine.serve(legacy()[:1])
    (file,) = machine.files
    file.rename(file.parent / "old")
    make(file)
    assert machine.ask_slow_server(legacy()[:1])[1] == ["server"]


@pytest.mark.parametrize("folder", [None, Path("~/.cache"), Path("cache")])
def test_nothing_is_kept_without_a_home_directory(folder: Path | None) -> None:
    assert not open_answers(folder, ["serve"]).is_kept


def test_nothing_is_kept_if_what_decides_the_answers_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError

    (tmp_path / ".env").touch()
    monkeypatch.chdir(tmp_path)
    assert open_answers(tmp_path, ["serve"]).is_kept
    monkeypatch.setattr(Path, "read_text", refuse)
    assert not open_answers(tmp_path, ["serve"]).is_kept


@pytest.mark.soak
@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', "[" * 100_000])
def test_damaged_file_is_written_again(machine: Machine, content: str) -> None:
    before = {file: file.read_text(encoding="utf-8") for file in machine.files}
    for file in machine.files:
        file.write_text(content, encoding="utf-8")
    try:
        assert machine.ask_slow_server(legacy())[1] == ["server"]
    finally:
        for file, text in before.items():
            file.write_text(text, encoding="utf-8")


@pytest.mark.soak
@pytest.mark.parametrize("is_installed", [False, True], ids=["new", "installed before"])
def test_installing_the_server_in_a_client_keeps_its_first_answers(tmp_path: Path, *, is_installed: bool) -> None:
    machine = Machine(tmp_path)
    variables = {"QUILT_CATALOG_URL": "https://quilt.example.com"}
    if is_installed:  # the entry keeps its variables
        (tmp_path / ".cursor").mkdir()
        old = {"mcpServers": {"quilt": {"command": "/old/quilt-mcp", "args": ["serve"], "env": variables}}}
        (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps(old), encoding="utf-8")
    options = [] if is_installed else [f"--env={name}={value}" for name, value in variables.items()]
    setting = {"QUILT_MCP_LIST_PAGE_SIZE": "50"}  # of this shell, which the client does not have
    subprocess.run(
        [executable(), "install", "cursor", "--write", *options],
        env=machine.environment | setting,
        capture_output=True,
        timeout=2 * SECONDS,
        check=True,
    )
    for messages in (legacy(), sessionless()):
        asked = [message for message in messages if message["method"] != "ping"]
        received = machine.ask_slow_server(asked, **variables)
        answers = ["before the import", "server"]
        assert {number: len(results) for number, results in received.items()} == dict.fromkeys(received, len(answers))


@pytest.mark.soak
def test_a_client_can_turn_to_the_handshake_after_discovery(tmp_path: Path) -> None:
    """A client that does not wait long enough for `server/discover` sends `initialize` on the same stream."""
    machine = Machine(tmp_path)
    messages = [request("d", "server/discover", _meta=ENVELOPE), *legacy()]
    for _ in ("first start", "kept answers"):
        answers = machine.serve([*messages, request("r", "resources/read", uri="metadata://templates")])
        assert [answer["id"] for answer in answers] == [m["id"] for m in messages if "id" in m] + ["r"]
        assert all("result" in answer for answer in answers)


@pytest.mark.soak
@pytest.mark.parametrize(
    "before",
    [
        [request("d", "server/discover", _meta=ENVELOPE), request("e", "server/discover", _meta=ENVELOPE)],
        [INITIALIZED, request("d", "server/discover", _meta=ENVELOPE)],
    ],
)
def test_a_client_can_ask_again_before_it_turns_to_the_handshake(machine: Machine, before: list[Message]) -> None:
    messages = [*before, *legacy(), request("r", "resources/read", uri="metadata://templates")]
    answers, log = machine.talk([executable(), "serve"], messages)
    assert [answer["id"] for answer in answers] == [message["id"] for message in messages if "id" in message]
    assert "available_templates" in answers[-1]["result"]["contents"][0]["text"]
    assert "out of date" not in log


WAITING = {"QUILT_MCP_DEADLINE_SECONDS": str(4 * SECONDS)}  # which is longer than a test may take


@pytest.mark.soak
@pytest.mark.parametrize(
    "messages",
    [
        [request("d", "server/discover", _meta=ENVELOPE), *legacy()],
        [request(-1, "initialize", **SHAKE), INITIALIZED, request(-2, "tools/list")],
        [{"id": 1, "method": "ping"}],
        [{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 1}],
        [{"jsonrpc": "2.0", "id": 1, "method": 1}],
    ],
    ids=["another session", "negative ids", "without version", "wrong params", "wrong method"],
)
def test_the_end_of_stdin_does_not_wait_for_answers_that_are_sent_or_never_come(
    tmp_path: Path, messages: list[Message]
) -> None:
    machine = Machine(tmp_path)
    for _ in ("first start", "kept answers"):
        answers = machine.serve(messages, **WAITING)
        valid = [m for m in messages if "id" in m and "jsonrpc" in m and isinstance(m.get("params"), dict)]
        assert [answer["id"] for answer in answers] == [message["id"] for message in valid]


@pytest.mark.soak
def test_each_of_many_requests_gets_one_answer_and_the_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    messages = [*legacy(), *(request(number, "ping") for number in range(100, 150))]
    answers = machine.serve(messages)
    assert [answer["id"] for answer in answers] == [message["id"] for message in messages if "id" in message]
    assert machine.files
    for file in machine.files:
        assert file.stat().st_mode & 0o077 == 0
        assert file.parent.stat().st_mode & 0o077 == 0


@pytest.mark.soak
def test_discovery_alone_does_not_start_a_session_with_handshake(tmp_path: Path) -> None:
    answers = Machine(tmp_path).serve([*sessionless(), request("i", "initialize", **SHAKE)])
    assert "error" in answers[-1]


AI_SDK = """
import { createMCPClient } from '@ai-sdk/mcp'
import { Experimental_StdioMCPTransport as Transport } from '@ai-sdk/mcp/mcp-stdio'
const [command, ...args] = process.argv.slice(2)
const client = await createMCPClient({ transport: new Transport({ command, args, env: process.env }) })
const tools = Object.keys(await client.tools())
const found = await client.readResource({ uri: 'metadata://templates' })
console.log(JSON.stringify({ tools, contents: found.contents.length }))
await client.close()
"""


@pytest.fixture(scope="module")
def ai_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the client of ai-sdk, which waits one second for the answer to its first message."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm):
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("ai-sdk")
    (folder / "package.json").write_text("{}", encoding="utf-8")
    packages = ["@ai-sdk/mcp@2.0.99", "zod@4"]
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
    installed = subprocess.run(command, cwd=folder, capture_output=True, timeout=4 * SECONDS, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install {packages[0]}")
    (folder / "connect.mjs").write_text(AI_SDK, encoding="utf-8")
    return folder


@pytest.mark.soak
@pytest.mark.parametrize("options", [(), ("--demo",)], ids=["serve", "demo"])
def test_ai_sdk_connects_to_a_first_start_and_to_the_next(
    ai_sdk: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    machine = Machine(tmp_path)
    command = ["node", str(ai_sdk / "connect.mjs"), executable(), "serve", *options]
    for _ in ("first start", "kept answers"):
        (found,), _ = machine.talk(command, [])
        assert "get_resource" in found["tools"]
        assert found["contents"] == 1


START = legacy()[0]
UNUSUAL: tuple[Message, ...] = (
    {"jsonrpc": "1.0"},
    {"id": None},
    {"id": True},
    {"id": 1.5},
    {"id": 2**60},
    {"id": "é"},
    {"id": "a\n"},
    {"id": "x" * 101},
    {"other": 1},
    {"params": []},
    {"params": SHAKE | {"_meta": {}}},
    {"params": SHAKE | {"clientInfo": {"name": "x"}}},
    {"params": SHAKE | {"protocolVersion": 1}},
    {"params": SHAKE | {"capabilities": []}},
    {"params": SHAKE | {"capabilities": {"roots": 5}}},
    {"params": SHAKE | {"clientInfo": INFO | {"title": 1}}},
    {"params": SHAKE | {"clientInfo": INFO | {"title": "\ud800"}}},
    {"method": "tools/list", "params": {"_meta": ENVELOPE | {list(ENVELOPE)[2]: {"roots": 5}}}},
    {"method": ["initialize"]},
    {"method": "ping", "params": {}},
    {"method": "tools/list", "params": {}},
    {"method": "resources/list", "params": {"_meta": ENVELOPE}},
    {"method": "tools/list", "params": {"_meta": ENVELOPE, "cursor": "x"}},
    {"method": "tools/list", "params": {"_meta": ENVELOPE | {"progressToken": 1}}},
    {"method": "tools/list", "params": {"_meta": []}},
    {"method": "tools/list", "params": {"_meta": ENVELOPE | {next(iter(ENVELOPE)): 1}}},
)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"{",
        b"[1]",
        b"[" * 100_000,
        b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
        b"\xef\xbb\xbf" + json.dumps(START).encode(),
        json.dumps(START).encode("utf-16-le"),
        *(json.dumps(START | change).encode() for change in UNUSUAL),
    ],
)
def test_unusual_first_messages_are_left_to_the_server(message: bytes) -> None:
    assert Conversation().read(message) is None


@pytest.mark.parametrize(
    "messages",
    [
        [*legacy()[:2], request(9, "initialize", **SHAKE)],
        [*legacy()[:2], request(1, "tools/list")],
        [*legacy()[:2], request(9, "tools/list", _meta=ENVELOPE)],
        [*legacy()[:2], request(9, "tools/list", cursor="x")],
        [*legacy()[:2], request(9, "resources/list")],
        [*sessionless()[:2], request(9, "initialize", **SHAKE)],
        [*sessionless()[:2], request(9, "tools/list")],
    ],
)
def test_unusual_next_messages_are_left_to_the_server(messages: list[Message]) -> None:
    conversation = Conversation()
    *usual, unusual = [json.dumps(message).encode() for message in messages]
    assert all(conversation.read(line) for line in usual if b'"id"' in line)
    assert conversation.read(unusual) is None


def test_the_version_of_the_protocol_decides_the_answers_and_the_capabilities_of_a_client_do_not() -> None:
    def ask(**parameters: Any) -> list[str]:
        conversation = Conversation()
        messages = request(1, "initialize", **SHAKE | parameters), request(2, "tools/list")
        questions = [conversation.read(json.dumps(message).encode()) for message in messages]
        return [question.key for question in questions if question]

    assert len(ask()) == len(LISTS) - 1
    assert ask() == ask(capabilities={"roots": {}})
    assert not set(ask()) & set(ask(protocolVersion="2025-06-18"))

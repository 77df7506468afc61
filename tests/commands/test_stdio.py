"""`quilt-mcp serve` over stdio: what clients receive, the audit log, and how it ends."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.install import executable
from tests.support.server_process import CLIENT, serve_stdio
from tests.support.waiting import SECONDS

Message = dict[str, Any]

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT["clientInfo"],
    "io.modelcontextprotocol/clientCapabilities": {},
}
PATIENT = {"QUILT_MCP_DEADLINE_SECONDS": str(4 * SECONDS)}  # which is longer than a test may take


def request(number: int | str, method: str, **parameters: Any) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}


DISCOVER = request("d", "server/discover", _meta=ENVELOPE)
INITIALIZE = request(1, "initialize", **CLIENT)
INITIALIZED: Message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
READ = request("r", "resources/read", uri="metadata://templates")


def ids(messages: list[Message]) -> list[object]:
    return [message["id"] for message in messages if "id" in message]


def talk(messages: list[Message], *command: str, tail: str = "", **variables: str) -> tuple[list[Message], str]:
    """Send messages to a new process and close its stdin. Return what it wrote to stdout and stderr."""
    ended = subprocess.run(
        command or [executable(), "serve"],
        input="".join(json.dumps(message) + "\n" for message in messages) + tail,
        capture_output=True,
        env=os.environ | variables,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr


def lines_of(path: Path) -> list[Message]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


async def test_stdio_has_messages_only_the_audit_log_a_line_for_each_and_the_end_of_stdin_ends_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "audit.jsonl"
    environment = os.environ | {"QUILT_MCP_AUDIT_LOG": str(path), "QUILT_MCP_DATA_DIR": str(tmp_path)}
    async with serve_stdio(environment=environment) as server:
        assert "result" in await server.ask("tools/list")
        # both need neither quilt3 nor boto3, whose imports take long
        assert "result" in await server.ask("resources/read", uri="metadata://examples")
        assert "result" in await server.ask("tools/call", name="get_resource", arguments={"uri": "metadata://examples"})
        await server.ask("tools/call", name="get_resource", arguments={"uri": "canary://x"})
        await server.ask("tools/call", name="canary", arguments={})
        await server.ask("tools/call", name="get_resource", arguments={"uri": "\ud800"})
        server.stdin.write(b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n')
        server.stdin.close()
        status, rest, log = await server.end()
    assert (status, json.loads(rest)["error"]["code"]) == (0, -32600)
    assert "Traceback" not in log
    local = {"transport": "stdio", "subject": "local", "address": None, "http_method": None, "bytes_sent": None}
    found = lines_of(path)
    assert all({name: line[name] for name in local} == local for line in found)
    assert [(line["method"], line["name"], line["uri"], line["outcome"], line["error"]) for line in found] == [
        ("initialize", None, None, "ok", None),
        ("notifications/initialized", None, None, "ok", None),
        ("tools/list", None, None, "ok", None),
        ("resources/read", None, "metadata://examples", "ok", None),
        ("tools/call", "get_resource", "metadata://examples", "ok", None),
        ("tools/call", "get_resource", "unknown", "error", "InvalidURI"),
        ("tools/call", "unknown", None, "error", "NotFound"),
    ]
    assert "canary" not in path.read_text(encoding="ascii")


NO_MESSAGES: list[tuple[bytes, int, int | None]] = [
    (b"Content-Length: 85\r", -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"method":', -32700, None),
    (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', -32700, None),
    (json.dumps(request(1, "ping")).encode("utf-16"), -32700, None),
    (b"\0", -32700, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
    (b" []", -32600, None),
    (b"42", -32600, None),
    (b'"text"', -32600, None),
    (b"null", -32600, None),
    (b"{}", -32600, None),
    (b'{"id":7,"method":"ping"}', -32600, 7),
    (b'{"jsonrpc":"1.0","id":8,"method":"ping"}', -32600, 8),
    (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":[1]}', -32600, 9),
    (b'{"jsonrpc":"2.0","id":10,"method":5}', -32600, 10),
    (b'{"id":11,"method":"ping","n":' + b"9" * 5000 + b"}", -32700, None),
]
"""Lines that are no message, with the code and the id of the error."""


def test_a_line_that_is_not_a_message_gets_an_error() -> None:
    lines = [line for line, _, _ in NO_MESSAGES]
    valid = json.dumps(request("a\u2028b\u2029", "ping"), ensure_ascii=False).encode()
    ended = subprocess.run(
        [executable(), "serve"],
        input=b"\n\r\n \n" + b"\n".join([*lines, json.dumps(INITIALIZE).encode(), valid]),
        capture_output=True,
        timeout=SECONDS,
        check=True,
    )
    *refused, initialized, last = ended.stdout.removesuffix(b"\n").split(b"\n")
    errors = [json.loads(one) for one in refused]
    found = [(line, one["error"]["code"], one["id"]) for line, one in zip(lines, errors, strict=True)]
    assert found == NO_MESSAGES
    assert json.loads(initialized)["id"] == 1
    assert last == b'{"jsonrpc":"2.0","id":"a\\u2028b\\u2029","result":{}}'
    assert ended.stderr.count(b"a message is refused: ") == len(lines)


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="no non-blocking pipes")
def test_streams_in_non_blocking_mode_are_read_and_written() -> None:
    """A program that has the same streams can set the mode, for example ssh."""
    (requests_read, requests_write), (answers_read, answers_write) = os.pipe(), os.pipe()
    os.set_blocking(requests_read, False)
    os.set_blocking(answers_write, False)
    server = subprocess.Popen(
        [executable(), "serve"], stdin=requests_read, stdout=answers_write, stderr=subprocess.DEVNULL
    )
    for one in (requests_read, answers_write):
        os.close(one)
    with server, os.fdopen(requests_write, "wb", buffering=0) as sent, os.fdopen(answers_read, "rb") as answers:
        sent.write(json.dumps(INITIALIZE).encode() + b"\n")
        assert json.loads(answers.readline())["id"] == 1
        lists = [request(number, "tools/list") for number in range(2, 42)]  # more than a pipe holds
        sent.write("".join(json.dumps(one) + "\n" for one in lists).encode())
        sent.close()
        assert sorted(json.loads(line)["id"] for line in answers) == list(range(2, 42))
    assert server.returncode == 0


SLOW_SERVER = """
import asyncio, subprocess, time
from fastmcp import FastMCP
from quilt_mcp.commands.stdio import run_stdio, take_client

client, mcp = take_client(), FastMCP("slow")

@mcp.tool
async def in_loop() -> str:
    await asyncio.sleep(0.5)
    return "done"

@mcp.tool
def in_thread() -> str:
    time.sleep(0.5)
    return "done"

@mcp.tool
async def never() -> str:
    await asyncio.Event().wait()

@mcp.tool
def noisy() -> str:
    print("printed", flush=True)
    return subprocess.run("echo echoed; test /dev/stdin -ef /dev/null && echo apart; cat", shell=True).args

run_stdio(mcp, client, seconds_to_finish=600)
"""


@pytest.mark.soak
def test_requests_in_progress_are_answered_after_stdin_ends_and_tools_cannot_print_to_the_client() -> None:
    """As with `printf ... | quilt-mcp serve`. The MCP library alone returns errors for them."""
    names = enumerate(("never", "noisy", "in_loop", "in_thread"), start=2)
    calls = [request(number, "tools/call", name=name) for number, name in names]
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    unterminated = json.dumps(request(6, "tools/call", name="in_loop"))
    answers, log = talk(
        [INITIALIZE, INITIALIZED, *calls, cancelled], sys.executable, "-c", SLOW_SERVER, tail=unterminated
    )
    assert sorted((one["id"], "result" in one) for one in answers) == [(number, True) for number in (1, 3, 4, 5, 6)]
    assert {"printed", "echoed", "apart"} <= {*log.splitlines()}


@pytest.mark.soak
@pytest.mark.parametrize("before", [[DISCOVER], [INITIALIZED, DISCOVER, DISCOVER | {"id": "e"}]])
def test_a_client_can_turn_to_the_handshake_after_discovery(before: list[Message]) -> None:
    """A client that does not wait long enough for `server/discover` sends `initialize` on the same stream."""
    messages = [*before, INITIALIZE, INITIALIZED, request(-2, "tools/list"), READ]
    answers, _ = talk(messages, **PATIENT)
    assert ids(answers) == ids(messages)
    assert all("result" in answer for answer in answers)
    assert "available_templates" in answers[-1]["result"]["contents"][0]["text"]


@pytest.mark.soak
def test_after_another_request_a_client_keeps_the_protocol_without_sessions_and_each_request_gets_one_answer() -> None:
    messages = [DISCOVER, request(2, "tools/list", _meta=ENVELOPE), INITIALIZE]
    more = [request(number, "tools/list", _meta=ENVELOPE) for number in range(100, 150)]
    answers, log = talk([*messages, *more], QUILT_MCP_LOG_LEVEL="ERROR")
    assert [(one["id"], "result" in one) for one in answers[:3]] == [("d", True), (2, True), (1, False)]
    assert (ids(answers[3:]), log) == (ids(more), "")


@pytest.mark.soak
def test_the_end_of_stdin_does_not_wait_for_messages_that_are_refused() -> None:
    ping = {"id": 1, "method": "ping"}
    refused = [ping, ping | {"jsonrpc": "2.0", "params": 1}, ping | {"jsonrpc": "2.0", "method": 1}]
    assert [answer["error"]["code"] for answer in talk(refused, **PATIENT)[0]] == [-32600] * 3


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
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "zod@4", "@ai-sdk/mcp@2.0.99"]
    installed = subprocess.run(command, cwd=folder, capture_output=True, timeout=4 * SECONDS, check=False)
    if installed.returncode:
        pytest.skip(f"npm cannot install {command[-1]}")
    (folder / "connect.mjs").write_text(AI_SDK, encoding="utf-8")
    return folder


@pytest.mark.soak
@pytest.mark.parametrize("options", [(), ("--demo",)], ids=["serve", "demo"])
def test_ai_sdk_connects(ai_sdk: Path, options: tuple[str, ...]) -> None:
    (found,), _ = talk([], "node", str(ai_sdk / "connect.mjs"), executable(), "serve", *options)
    assert ("get_resource" in found["tools"], found["contents"]) == (True, 1)


@pytest.mark.soak
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_a_signal_ends_the_server_while_stdin_is_open(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, the server would ignore it
    async with serve_stdio("--demo", environment=os.environ | {"TMPDIR": str(tmp_path)}) as server:
        signal.signal(signal.SIGHUP, before)
        answer = await server.ask("tools/call", name="get_resource", arguments={"uri": "auth://status"})
        assert answer["result"]["structuredContent"]["data"]["user_info"]["username"] == "amara_osei"
        server.send_signal(number)
        found, _, log = await server.end()
    assert (found, "Traceback" in log, await asyncio.to_thread(os.listdir, tmp_path)) == (status, False, [])


@pytest.mark.soak
async def test_the_server_ends_when_the_client_disconnects_before_its_answer() -> None:
    async with serve_stdio(environment=os.environ | PATIENT) as server:  # it does not wait for the answer
        server.close_stdout()
        await server.send("tools/list")
        server.stdin.close()
        status, _, log = await server.end()
    assert status == 0
    assert "Traceback" not in log


@pytest.mark.soak
@pytest.mark.parametrize(("closes", "reads"), [("stdin", 200), ("stdout", 0)])  # 200 are more than a pipe holds
def test_the_server_does_not_wait_for_a_client_that_reads_nothing(closes: str, reads: int) -> None:
    variables = {"QUILT_MCP_DEADLINE_SECONDS": "2", "QUILT_MCP_PROBE_SECONDS": "1"}
    sent = [INITIALIZE, INITIALIZED, *(READ | {"id": number} for number in range(reads))]
    pipe = subprocess.PIPE
    with subprocess.Popen([executable(), "serve"], stdin=pipe, stdout=pipe, env=os.environ | variables) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write("".join(json.dumps(one) + "\n" for one in sent).encode())
        server.stdin.flush()
        server.stdout.readline()
        (server.stdin if closes == "stdin" else server.stdout).close()
        try:
            assert server.wait(SECONDS) == 0
        finally:
            server.kill()


def test_serve_in_this_process_ends_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    output = TextIOWrapper(BytesIO())
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(json.dumps(INITIALIZE).encode())))
    monkeypatch.setattr(sys, "stdout", output)
    assert main(["serve"]) == 0
    output.seek(0)
    assert json.loads(output.read())["result"]["serverInfo"]["name"] == "quilt-mcp"

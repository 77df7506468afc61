"""What users, their machines and clients can get wrong: files of clients, terminals, networks, and lines over stdio."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from quilt_mcp.commands.cli import PIPE_CLOSED, main
from quilt_mcp.commands.clients import CLIENTS, Client, ClientName
from quilt_mcp.commands.install import executable
from tests.commands.test_cli_install_clients import read
from tests.commands.test_cli_install_refusals import list_files
from tests.commands.test_stdio import INITIALIZE, request
from tests.support.client_home import home, started
from tests.support.waiting import SECONDS
from tests.support.worlds import enter_stopped

__all__ = ["home", "started"]

CALL: dict[str, Any] = request(2, "tools/call", name="get_resource", arguments={"uri": "URI"})


def nest(depth: int, start: str = "[", end: str = "]") -> bytes:
    return (start * depth + end * depth).encode()


def call_with(uri: bytes) -> bytes:
    return json.dumps(CALL).encode().replace(b'"URI"', uri)


LINES: dict[str, tuple[bytes, int | None]] = {
    "NUL between tokens": (b'{"jsonrpc":"2.0",\0"id":2,"method":"ping"}', -32700),
    "NUL in a text": (call_with(b'"auth://status\0"'), -32700),
    "an escaped NUL in a text": (call_with(b'"auth://status\\u0000"'), None),
    "many NUL": (b"\0" * 4096, -32700),
    "10,000 lists": (nest(10_000), -32700),
    "10,000 lists that do not end": (b"[" * 10_000, -32700),
    "10,000 lists in an argument": (call_with(nest(10_000)), -32700),
    "10,000 objects in an argument": (call_with(nest(10_000, '{"a":', "}").replace(b":}", b":1}", 1)), -32700),
    "10,000 lists in parameters": (
        b'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"a":' + nest(10_000) + b"}}",
        -32700,
    ),
}
"""Lines, with the code of their error; None if the error is in the result of the tool."""
SIZE = 64 * 1024 * 1024
LARGE: dict[str, tuple[Callable[[], bytes], int | None]] = {
    "no JSON": (lambda: b"a" * SIZE, -32700),
    "an argument": (lambda: call_with(b'"' + b"a" * SIZE + b'"'), None),
    "a method": (lambda: json.dumps(request(2, "a" * SIZE)).encode(), -32601),
}


def check_line(line: bytes, code: int | None) -> None:
    """Check that a server answers a line with an error, and the next one."""
    ended = subprocess.run(
        [executable(), "serve"],
        input=b"\n".join([json.dumps(INITIALIZE).encode(), line, json.dumps(request(3, "ping")).encode(), b""]),
        capture_output=True,
        timeout=4 * SECONDS,
        check=True,
    )
    answers = {one["id"]: one for one in map(json.loads, ended.stdout.splitlines())}
    assert answers.keys() - {None, 2} == {1, 3}
    [answer] = [one for number, one in answers.items() if number in {None, 2}]
    found = answer["error"]["code"] if "error" in answer else None
    assert found == code or (code == -32700 and found == -32600)
    if code is None:
        body = answer["result"]["structuredContent"]
        assert (body["error"], answer["result"]["isError"]) == ("InvalidURI", True)
        assert len(json.dumps(body)) < 20_000
    assert b"Traceback" not in ended.stderr
    assert len(ended.stderr) < 2_000


@pytest.mark.soak
@pytest.mark.parametrize(("line", "code"), LINES.values(), ids=LINES)
def test_a_line_over_stdio_that_cannot_be_read_gets_an_error_and_the_next_one_its_answer(
    line: bytes, code: int | None
) -> None:
    check_line(line, code)


@pytest.mark.soak
@pytest.mark.parametrize(("make", "code"), LARGE.values(), ids=LARGE)
def test_a_line_of_64_megabytes_over_stdio_gets_an_error(make: Callable[[], bytes], code: int | None) -> None:
    check_line(make(), code)


JSON = '{"a": 1, "SERVERS": {"other": {"command": "x"}}}\n'
TEXTS = {
    ".json": JSON,
    ".jsonc": JSON,
    ".toml": 'a = 1\n\n[SERVERS.other]\ncommand = "x"\n',
    ".yaml": "a: 1\nSERVERS:\n  other:\n    cmd: x\n",
}
NULL = {".json": '{"SERVERS": null, "a": 1}\n', ".yaml": "SERVERS:\na: 1\n", ".toml": "a = 1\n"}
FORMS: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "CRLF and byte order mark": lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
    "no line end": lambda text: text.rstrip("\n").encode(),
    "link": str.encode,
}


def make_file(client: Client, texts: dict[str, str]) -> tuple[Path, str]:
    """Return the client's file, whose directory exists, and its text of this form."""
    path = client.find_files()[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    return path, texts[path.suffix].replace("SERVERS", client.servers)


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CLIENTS)
def test_a_file_of_each_client_in_each_form_keeps_the_rest_and_is_restored(
    name: ClientName, form: str, home: Path
) -> None:
    client = CLIENTS[name]
    path, text = make_file(client, TEXTS)
    before, target = FORMS[form](text), path
    if form == "link":
        target = home / f"elsewhere{path.suffix}"
        path.symlink_to(target)
    target.write_bytes(before)
    assert main(["install", name, "--write"]) == 0
    written = target.read_bytes()
    values = read(written.decode("utf-8-sig"), path.suffix)
    assert (values["a"], values[client.servers].keys()) == (1, {"other", "quilt"})
    assert written.startswith(b"\xef\xbb\xbf") == before.startswith(b"\xef\xbb\xbf")
    assert (b"\r\n" in written) == (b"\r\n" in before)
    assert path.is_symlink() == (form == "link")
    assert main(["install", name, "--write"]) == 0
    assert target.read_bytes() == written
    assert main(["install", name, "--remove"]) == 0
    assert target.read_bytes() == before


@pytest.mark.usefixtures("started", "home")
@pytest.mark.parametrize("name", CLIENTS)
def test_null_instead_of_servers_is_replaced(name: ClientName) -> None:
    client = CLIENTS[name]
    path, text = make_file(client, NULL)
    path.write_text(text)
    assert main(["install", name, "--write"]) == 0
    assert read(path.read_text(), path.suffix)[client.servers].keys() == {"quilt"}
    assert main(["install", name, "--remove"]) == 0
    assert path.read_text() == text


@pytest.mark.usefixtures("started")
@pytest.mark.skipif(sys.platform == "win32", reason="no modes of files")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_read_only_file_of_each_client_is_not_changed(
    name: ClientName, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, text = make_file(CLIENTS[name], TEXTS)
    path.write_text(text)
    path.chmod(0o444)
    before = list_files(home)
    assert main(["install", name, "--write"]) == 1
    assert f"{path} was not changed: it is read-only" in capsys.readouterr().err
    assert list_files(home) == before


@pytest.mark.soak
@pytest.mark.usefixtures("started", "home")
@pytest.mark.parametrize("name", ["cursor", "codex", "goose"])
def test_a_file_of_10_megabytes_in_each_language(name: ClientName) -> None:
    path, text = make_file(CLIENTS[name], TEXTS)
    lines = "".join(f"# {at:08d} {'x' * 100}\n" for at in range(100_000))
    if path.suffix == ".json":
        lines = "".join(f"// {at:08d} {'x' * 100}\n" for at in range(100_000))
    path.write_text(lines + text)
    assert path.stat().st_size > 10_000_000
    assert main(["install", name, "--write"]) == 0
    assert "quilt" in path.read_text()[len(lines) :]
    assert main(["install", name, "--remove"]) == 0
    assert path.read_text() == lines + text


@pytest.mark.soak
@pytest.mark.parametrize("name", ["cursor", "codex", "goose"])
def test_two_programs_at_once_leave_one_entry_and_the_rest(name: ClientName, home: Path) -> None:
    path, text = make_file(CLIENTS[name], TEXTS)
    path.write_text(text)
    environment = os.environ | {"HOME": str(home)}
    command = [executable(), "install", name, "--write", "--demo"]

    def install(_: int) -> int:
        return subprocess.run(
            command, env=environment, capture_output=True, timeout=8 * SECONDS, check=False
        ).returncode

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(install, range(4)))
    assert 0 in results
    assert set(results) <= {0, 1}
    values = read(path.read_text(), path.suffix)
    assert (values["a"], values[CLIENTS[name].servers].keys()) == (1, {"other", "quilt"})


WORDS = (
    "list",
    "get auth://status --demo",
    "get requirements://requirements --demo",
    "doctor --demo",
    "--help",
    "login",
)


@pytest.mark.soak
@pytest.mark.parametrize("terminal", ["dumb", "xterm"])
@pytest.mark.parametrize("words", WORDS)
def test_a_window_of_20_columns_shows_every_command(words: str, terminal: str, tmp_path: Path) -> None:
    environment = {name: one for name, one in os.environ.items() if name not in {"DISPLAY", "WAYLAND_DISPLAY"}}
    environment |= {"HOME": str(tmp_path), "TERM": terminal, "COLUMNS": "20", "LINES": "5", "TTY_COMPATIBLE": "1"}
    ended = subprocess.run(
        [executable(), *words.split()],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=4 * SECONDS,
        check=False,
    )
    assert ended.returncode == (2 if words == "login" else 0), ended.stderr
    assert b"Traceback" not in ended.stderr
    if terminal == "dumb":
        assert b"\x1b" not in ended.stdout + ended.stderr


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="no pipes of a POSIX shell")
@pytest.mark.parametrize("words", ["list", "demo", "get requirements://requirements --demo --all"])
def test_a_closed_pipe_ends_a_command_without_a_message(words: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb") as pipe:
        command = [executable(), *words.split()]
        ended = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, timeout=4 * SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (PIPE_CLOSED, b"")


NO_NETWORK = {
    "login https://quilt.example.com": "Cannot sign in to https://quilt.example.com: The Quilt stack cannot be",
    "get quilt://buckets": "The Quilt stack cannot be reached.",
    "doctor": "The Quilt stack cannot be reached.",
}


@pytest.mark.parametrize(("words", "expected"), NO_NETWORK.items())
def test_without_a_network_a_command_says_so(
    words: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise requests.ConnectionError("Temporary failure in name resolution")

    with enter_stopped("admin"):
        monkeypatch.setattr(requests.Session, "send", refuse)
        assert main(words.split()) == 1
    captured = capsys.readouterr()
    text = " ".join((captured.out + captured.err).split())
    assert expected in text
    assert "Traceback" not in text

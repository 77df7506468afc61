"""How the audit log is written: by several processes, through rotation and full disks."""

import asyncio
import json
import logging
import os
import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.install import executable
from quilt_mcp.http.audit import MAX_CHARACTERS, MAX_WAITING, AuditLog, AuditRecord
from tests.commands.test_logs import Stalled
from tests.support.waiting import SECONDS, until


def lines_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="ascii") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line]


def named(name: str) -> AuditRecord:
    return AuditRecord("test", name=name)


@pytest.mark.parametrize("way", ["renamed", "removed", "truncated"])
async def test_a_rotated_file_is_opened_again(way: str, tmp_path: Path) -> None:
    path, old = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    log = AuditLog(str(path))
    log.write(named("first"))
    await until(lambda: lines_of(path))
    assert path.stat().st_mode & 0o777 == 0o600  # only the owner can read it
    cut = partial(os.truncate, path, 0)
    ways: dict[str, Callable[[], object]] = {"renamed": partial(path.rename, old), "removed": path.unlink}
    ways.get(way, cut)()
    for name in ("second", "third"):
        log.write(named(name))
        await log.close()  # a closed log can be used again
    assert [line["name"] for line in lines_of(path)] == ["second", "third"]
    assert [line["name"] for line in lines_of(old)] == (["first"] if way == "renamed" else [])


@pytest.mark.soak
def test_what_is_waiting_is_written_at_exit_and_several_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    script = (
        "import sys; from quilt_mcp.http.audit import AuditLog, AuditRecord; log = AuditLog(sys.argv[1])\n"
        "for number in range(500): log.write(AuditRecord('test', name=f'{sys.argv[2]}-{number}', uri='x' * 200))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script, str(path), str(one)]) for one in range(4)]
    assert [process.wait(SECONDS) for process in processes] == [0] * 4
    assert {line["name"] for line in lines_of(path)} == {f"{one}-{n}" for one in range(4) for n in range(500)}
    assert len(lines_of(path)) == 2000


LIMITED = """
import asyncio, os, resource, signal, sys
from quilt_mcp.http.audit import AuditLog, AuditRecord
lost = []
async def main(path):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for limit in (1_000, resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        for name in "abcd":
            log = AuditLog(path) if name == "a" and limit == 1_000 else log
            log.failed = lambda: lost.append(1)
            log.write(AuditRecord("test", name=name))
        await log.close()
        if limit == 1_000 and sys.argv[2:]:
            os.rename(path, sys.argv[2])
asyncio.run(main(sys.argv[1]))
print(len(lost))
"""


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes")
def test_lines_after_a_full_disk_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    command = [sys.executable, "-c", LIMITED, str(path)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    lines = [line for line in path.read_text().splitlines() if line]
    whole = [json.loads(line)["name"] for line in lines if line.endswith("}")]
    assert len(lines) == len(whole) + 1, "one line is cut where the disk was full"
    assert (whole[-4:], len(whole) + int(ran.stdout)) == (["a", "b", "c", "d"], 8)
    assert ran.stderr.count("audit log cannot be written") == 1
    path.unlink()
    subprocess.run([*command, str(tmp_path / "old")], check=True, capture_output=True, timeout=SECONDS)
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == ["a", "b", "c", "d"]


async def test_a_stream_that_hangs_loses_lines_instead_of_memory(caplog: pytest.LogCaptureFixture) -> None:
    lost: list[int] = []
    with redirect_stderr(Stalled()) as stream:
        log = AuditLog("stderr")
        log.failed = lambda: lost.append(1)
        for _ in range(MAX_WAITING + 10):
            log.write(named("one"))
        stream.is_read.set()
        await log.close()
    assert 9 <= len(lost) <= 10
    assert len([json.loads(line) for line in stream.getvalue().splitlines()]) == MAX_WAITING + 10 - len(lost)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_line_is_ascii_and_texts_are_short() -> None:
    record = AuditRecord("test", name="a\nb\u2028\x1b[2J\ud800", outcome="partial")
    token = AccessToken(token="x", client_id="c" * 1000, scopes=[], claims={"sub": "s\n", "iss": ["not a text"]})
    record.describe_caller({"user": AuthenticatedUser(token)})
    assert (record.subject, record.issuer, len(record.client or "")) == ("s\n", None, MAX_CHARACTERS + 1)
    line = record.to_line()
    assert (line.isascii(), line.isprintable()) == (True, True)
    assert (json.loads(line)["name"], json.loads(line)["time"][-1]) == (record.name, "Z")


@pytest.mark.skipif(sys.platform == "win32", reason="no non-blocking pipes")
async def test_standard_error_in_non_blocking_mode_loses_no_line() -> None:
    """Another program that has the same pipe can set the mode."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb") as received, os.fdopen(writing, "w", encoding="utf-8") as stream:
        with redirect_stderr(stream):
            log = AuditLog("stderr")
        for _ in range(1000):
            log.write(named("x" * 200))
        await until(lambda: not select.select((), (writing,), (), 0)[1])  # the pipe is full
        lines = await asyncio.to_thread(lambda: [json.loads(received.readline()) for _ in range(1000)])
        await log.close()
    assert len(lines) == 1000


def test_the_home_of_an_unknown_user_does_not_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QUILT_MCP_AUDIT_LOG", "~no-such-user/audit.jsonl")
    assert main(["serve", "--transport", "http", "--port", "0"]) == 1
    assert capsys.readouterr().err.endswith("AUDIT_LOG ~no-such-user/audit.jsonl: No such file or directory.\n")


@pytest.mark.soak
@pytest.mark.parametrize("options", [[], ["--transport", "http", "--port", "0"]], ids=["stdio", "http"])
def test_a_file_that_cannot_be_written_stops_the_start(options: list[str], tmp_path: Path) -> None:
    environment = os.environ | {"QUILT_MCP_AUDIT_LOG": str(tmp_path / "missing" / "audit.jsonl")}
    command = [executable(), "serve", *options]
    ran = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=SECONDS, input=""
    )
    assert ran.returncode == 1
    assert f"QUILT_MCP_AUDIT_LOG {tmp_path}/missing/audit.jsonl: No such file or directory." in ran.stderr
    assert "Traceback" not in ran.stderr

"""The log: its two formats, what it leaves out, and a reader of stderr that stalls."""

import json
import logging
import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from threading import Event

import httpx2
import pytest

from quilt_mcp.commands.install import executable
from quilt_mcp.console.logs import MAX_WAITING, Format, StderrHandler, configure_logging
from tests.http.web import READ_QUICK, request, shop
from tests.support.server_process import STARTED
from tests.support.toys import toy, toy_manager
from tests.support.waiting import SECONDS, until

SECRET = "ann@example.com-7b1d"
ours = logging.getLogger("quilt_mcp.shop")
uvicorn = logging.getLogger("uvicorn.error")

Read = Callable[[], str]
Start = Callable[..., Read]


@pytest.fixture
def start(capsys: pytest.CaptureFixture[str]) -> Iterator[Start]:
    """Logs to stderr from a level, in a format. The result returns what was written since its last call."""

    def read() -> str:
        logging.root.handlers[0].flush()
        return capsys.readouterr().err

    def configure(level: str, form: Format = "console") -> Read:
        stack.enter_context(configure_logging(level, form))
        return read

    with ExitStack() as stack:
        yield configure


def test_json_is_one_object_per_line_with_the_fields_and_the_traceback_of_the_record(start: Start) -> None:
    read = start("INFO", "json")
    ours.info("read %s", "a\nb", extra={"fields": {"ms": 5}})
    ours.error("failed", exc_info=ValueError("x"))
    parsed, failed = map(json.loads, read().splitlines())
    expected = {"level": "INFO", "logger": "quilt_mcp.shop", "message": "read a\nb", "ms": 5}
    assert {key: parsed[key] for key in expected} == expected
    assert "ValueError: x" in failed["traceback"]


@pytest.mark.parametrize(("form", "start_of_line"), [("console", ""), ("json", '{"time": "')])
def test_each_line_has_the_time_of_its_record(form: Format, start_of_line: str, start: Start) -> None:
    read = start("INFO", form)
    record = logging.LogRecord("quilt_mcp", logging.INFO, "", 0, "x", None, None)
    record.created, record.msecs = 1_800_000_000.9996, 999.6
    ours.handle(record)
    shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1_800_000_000))
    assert read().startswith(f"{start_of_line}{shown}{',' if form == 'console' else '.'}999")


def test_messages_are_one_line_of_limited_length_without_control_characters(start: Start) -> None:
    read = start("WARNING")
    sent = "x\r\n2026-01-01 ERROR quilt_mcp: forged\x1b[2J\u2028\u202e\ud800 caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    uvicorn.warning("state=%s", sent)
    for size in (4_000, 4_001):
        ours.warning("x" * size)
    ours.info("not this")
    logging.getLogger("fastmcp.server").warning("but this")
    forged, whole, cut, last = read().splitlines()
    shown = r"state=x\r\n2026-01-01 ERROR quilt_mcp: forged\x1b[2J\u2028\u202e\ud800 café"
    assert forged.endswith(f" WARNING uvicorn.error: {shown}")
    assert whole.endswith(": " + "x" * 4_000)
    assert cut.endswith(": " + "x" * 4_000 + "... (4,001 characters)")
    assert last.endswith(" WARNING fastmcp.server: but this")


async def test_both_formats_show_where_a_bug_is(start: Start) -> None:
    def failing() -> dict[str, str]:
        held = "a token"
        raise KeyError(held)

    manager = toy_manager(toy("shop://thing", failing))
    for form in ("console", "json"):
        read = start("ERROR", form)
        await manager.respond("shop://thing", surface="test")
        first, *rest = (written := read()).splitlines()
        assert "unexpected KeyError, correlation_id=" in first
        lines = rest if form == "console" else json.loads(first)["traceback"].splitlines()
        assert any(line.endswith(", in failing") for line in lines)
        assert "a token" not in written


LIBRARIES = ("fastmcp.server", "mcp.server.sse", "httpx2", "botocore.auth", "asyncio", "py.warnings", "sqlalchemy.pool")
LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


def raise_secret() -> None:
    try:
        os.environ[SECRET]
    except KeyError as error:
        raise ExceptionGroup(SECRET, [ValueError(SECRET), OSError(5, SECRET)]) from error


@pytest.mark.soak
@pytest.mark.parametrize("form", ["console", "json"])
def test_no_logger_of_a_library_writes_data(form: Format, start: Start) -> None:
    read = start("DEBUG", form)
    others = [name for name in logging.root.manager.loggerDict if not re.match("(quilt_mcp|uvicorn)\\b", name)]
    for name in (*LIBRARIES, *others):
        logger = logging.getLogger(name)
        before, disabled = logger.level, logger.disabled
        logger.disabled = False
        logger.setLevel(logging.DEBUG)  # as a library could
        for level in LEVELS:
            logger.log(level, f"token {SECRET}")  # noqa: G004 - as libraries do
            logger.log(level, "token %s of %s", SECRET, {"x": SECRET}, extra={"fields": {"token": SECRET}})
            logger.log(level, "token %(a)s", {"a": SECRET}, stack_info=True)
            try:
                raise_secret()
            except ExceptionGroup as error:
                logger.log(level, error, exc_info=True)
        logger.level, logger.disabled = before, disabled
    assert len(others) > 20
    assert SECRET not in (err := read())
    assert "token …" in json.loads(err.splitlines()[1])["message"] if form == "json" else "token …" in err


def test_records_of_libraries_show_where_they_come_from(start: Start) -> None:
    read = start("DEBUG")
    logger = logging.getLogger("mcp.server")
    logger.info("nothing below a warning")
    logging.getLogger("botocore.auth").debug("nothing below a warning")
    logger.warning("a constant message")
    logger.warning(
        "a message of %s that is so long that its author has written it in two pieces, one below the other, as "
        "libraries do, with %d values",
        SECRET,
        2,
    )
    logger.warning("dropped %r after %d attempts: %s", SECRET, 3, ValueError(SECRET))
    logger.warning(f"dropped {SECRET}")  # noqa: G004 - as libraries do
    logger.warning("%s", SECRET)
    constant, joined, masked, hidden, empty = (line.partition(" WARNING ")[2] for line in read().splitlines())
    assert constant == "mcp.server: a constant message"
    assert joined.startswith("mcp.server: a message of … that is so long")
    assert joined.endswith("one below the other, as libraries do, with 2 values")
    assert masked == "mcp.server: dropped … after 3 attempts: ValueError"
    assert re.fullmatch(r"mcp\.server: \(text not logged\) test_logs\.py:\d+ test_records_of_\w+", hidden)
    assert "(text not logged)" in empty


def test_tracebacks_of_libraries_have_all_exceptions_once_and_no_texts(start: Start) -> None:
    read = start("WARNING")
    try:
        try:
            raise_secret()
        except ExceptionGroup as group:
            group.exceptions[0].__context__ = group  # a cycle
            raise BaseExceptionGroup(SECRET, [TypeError(SECRET), ExceptionGroup(SECRET, [EOFError()])]) from group
    except BaseExceptionGroup:
        uvicorn.exception("Exception in ASGI application\n")
    err = read()
    assert SECRET not in err
    assert " ERROR uvicorn.error: Exception in ASGI application\nTraceback " in err
    assert "in raise_secret" in err
    kinds = ["KeyError", "ExceptionGroup", "ValueError", "OSError"]
    kinds += ["ExceptionGroup", "TypeError", "ExceptionGroup", "EOFError"]
    assert re.findall(r"^(\w+): \(text not logged\)$", err, re.MULTILINE) == kinds


def test_warnings_show_their_category_and_place_unless_they_are_about_source_code(start: Start) -> None:
    read = start("DEBUG")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        for category in (SyntaxWarning, UserWarning):
            warnings.warn_explicit(SECRET, category, "/lib/jsonlines.py", 19)
    logging.captureWarnings(capture=False)
    assert read().partition(" WARNING ")[2] == "py.warnings: UserWarning: (text not logged) jsonlines.py:19\n"


def test_a_record_that_cannot_be_formatted_leaves_none_of_its_text(start: Start) -> None:
    read = start("INFO")
    try:
        int("canary")
    except ValueError:
        ours.exception("%d", "canary")
    [line] = read().splitlines()
    assert line.endswith(" ERROR quilt_mcp.console.logs: a record of the log could not be written")


class Stalled(StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.is_read = Event()

    def write(self, text: str) -> int:
        assert self.is_read.wait(SECONDS)
        assert (text.count("\n"), text[-1]) == (1, "\n")  # a pipe that several workers write to takes it as a whole
        return super().write(text)


@contextmanager
def stalled_log() -> Iterator[Stalled]:
    """Log to a stream that is read at the end. Not a fixture: pytest replaces stderr after setup."""
    with redirect_stderr(Stalled()) as stream, configure_logging("INFO"):
        yield stream
        stream.is_read.set()


async def test_a_server_answers_while_stderr_is_not_read() -> None:
    with stalled_log() as stream:
        async with shop() as (client, _):
            for asked in (READ_QUICK, request("tools/list"), READ_QUICK):
                assert (await client.post(**asked)).status_code == 200
            assert (await client.get("/health")).status_code == 200
        assert stream.getvalue() == ""
    assert stream.getvalue().count(" outcome=ok ") == 2


async def test_records_without_room_are_counted_in_their_place_and_the_others_are_in_order() -> None:
    changed = ["first"]
    with stalled_log() as stream:
        ours.info("%s", changed)
        changed[0] = "changed"
        for number in range(MAX_WAITING + 100):
            ours.info("record %d", number)
        stream.is_read.set()
        await until(lambda: stream.getvalue().count("\n") > MAX_WAITING * 3 // 4)  # more than half
        ours.info("again")
    first, *numbered, lost, again = (line.partition(": ")[2] for line in stream.getvalue().splitlines())
    assert first == "['first']"
    assert numbered == [f"record {number}" for number in range(len(numbered))]
    count = int(lost.removesuffix(" records of the log were lost: stderr was not read"))
    assert (len(numbered) + count, again) == (MAX_WAITING + 100, "again")


def test_the_end_does_not_wait_long_for_a_reader() -> None:
    with redirect_stderr(Stalled()) as stream:
        out = StderrHandler(patience=0.01)
        out.handle(logging.makeLogRecord({"name": "quilt_mcp", "msg": "one"}))
        out.close()
        assert stream.getvalue() == ""
        stream.is_read.set()


def test_the_log_of_a_program_is_restored(start: Start) -> None:
    read = start("INFO")
    before, show = logging.root.handlers, warnings.showwarning
    with configure_logging("DEBUG", "json"):
        ours.debug("within")
    assert (logging.root.handlers, warnings.showwarning) == (before, show)
    ours.debug("not this")
    ours.info("after")
    within, after = read().splitlines()
    assert json.loads(within)["message"] == "within"
    assert after.endswith(" INFO quilt_mcp.shop: after")


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("arguments", [(), ("--workers", "1")], ids=["alone", "worker"])
def test_a_process_answers_and_ends_while_its_stderr_is_not_read(arguments: tuple[str, ...], tmp_path: Path) -> None:
    command = [executable(), "serve", *arguments, "--transport", "http", "--port", "0"]
    environment = os.environ | {"QUILT_MCP_RATE_LIMIT": "none", "QUILT_MCP_DRAIN_SECONDS": "0"}
    environment |= {"HOME": str(tmp_path), "QUILT_MCP_DATA_DIR": str(tmp_path)}
    asked = request("resources/read", uri="metadata://examples")
    with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr
        while not (found := STARTED.search(process.stderr.readline().decode())):
            pass
        with httpx2.Client(trust_env=False, timeout=SECONDS) as client:
            for _ in range(2_000):
                assert client.post(**asked | {"url": found[1]}).status_code == 200
        process.terminate()
        assert process.wait(SECONDS) == 0
        assert b" outcome=ok " in process.stderr.read()

"""The two formats of the log."""

import json
import logging
import os
import re
import warnings
from collections.abc import Iterator

import pytest

from quilt_mcp.commands.logs import Format, log_to_stderr
from tests.support.toys import toy, toy_manager

SECRET = "ann@example.com-7b1d"


@pytest.fixture(autouse=True)
def restored_loggers() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "fastmcp", "quilt_mcp")]
    before = [(one.handlers[:], one.propagate, one.level) for one in loggers]
    yield
    logging.captureWarnings(capture=False)
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_json_is_one_object_per_line_with_the_fields_of_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("INFO", "json")
    logging.getLogger("quilt_mcp.shop").info("read %s", "a\nb", extra={"fields": {"ms": 5}})
    [line] = capsys.readouterr().err.splitlines()
    parsed = json.loads(line)
    expected = {"level": "INFO", "logger": "quilt_mcp.shop", "message": "read a\nb", "ms": 5}
    assert {key: parsed[key] for key in expected} == expected


@pytest.mark.parametrize(("form", "mark"), [("console", ","), ("json", ".")])
def test_the_time_of_each_line_is_that_of_its_record(
    form: Format, mark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr("INFO", form)
    moments = [1_800_000_000.0, 1_800_000_000.9996, 1_800_000_001.25, 1_800_000_000.5, 1_790_000_000.007]
    standard, expected = logging.Formatter(), []
    standard.default_msec_format = f"%s{mark}%03d"
    for moment in moments:
        record = logging.makeLogRecord({"name": "quilt_mcp", "levelno": logging.INFO, "levelname": "INFO", "msg": "x"})
        record.created, record.msecs = moment, (moment % 1) * 1000
        expected.append(standard.formatTime(record))
        logging.getLogger("quilt_mcp").handle(record)
    lines = capsys.readouterr().err.splitlines()
    shown = [json.loads(line)["time"] if form == "json" else line.partition(" INFO ")[0] for line in lines]
    assert shown == expected


def test_a_traceback_in_the_json_format_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("INFO", "json")
    logging.getLogger("quilt_mcp.shop").error("failed", exc_info=ValueError("x"))
    [line] = capsys.readouterr().err.splitlines()
    assert "ValueError: x" in json.loads(line)["traceback"]


def test_fastmcp_uses_the_console_format_and_the_level(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    logging.getLogger("quilt_mcp.shop").info("not this")
    logging.getLogger("fastmcp.server").warning("but this")
    captured = capsys.readouterr()
    assert captured.err.endswith("WARNING fastmcp.server: but this\n")
    assert "not this" not in captured.err
    assert captured.out == ""


def test_client_input_cannot_forge_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    sent = "x\r\n2026-01-01 ERROR quilt_mcp: forged\x1b[2J\u2028\u202e\ud800 caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    logging.getLogger("uvicorn.error").warning("state=%s", sent)
    shown = r"state=x\r\n2026-01-01 ERROR quilt_mcp: forged\x1b[2J\u2028\u202e\ud800 café"
    assert capsys.readouterr().err.endswith(f" WARNING uvicorn.error: {shown}\n")


def test_the_console_format_truncates_long_messages(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    for size in (4_000, 4_001):
        logging.getLogger("quilt_mcp").warning("x" * size)
    whole, cut = capsys.readouterr().err.splitlines()
    assert whole.endswith(": " + "x" * 4_000)
    assert cut.endswith(": " + "x" * 4_000 + "... (4,001 characters)")


def test_a_traceback_in_the_console_format_has_several_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    try:
        int("x" * 5_000)
    except ValueError as error:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n", exc_info=error)
    first, second, *_, last = capsys.readouterr().err.splitlines()
    assert first.endswith(" ERROR uvicorn.error: Exception in ASGI application")
    assert second == "Traceback (most recent call last):"
    assert last.startswith("ValueError: ")


async def test_both_formats_show_where_a_bug_is(capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> dict[str, str]:
        held = "a token"
        raise KeyError(held)

    manager = toy_manager(toy("shop://thing", failing))
    log_to_stderr("ERROR")
    await manager.respond("shop://thing", surface="test")
    first, *rest = (console := capsys.readouterr().err).splitlines()
    assert "unexpected KeyError, correlation_id=" in first
    assert any(line.endswith(", in failing") for line in rest)

    log_to_stderr("ERROR", "json")
    await manager.respond("shop://thing", surface="test")
    [line] = (as_json := capsys.readouterr().err).splitlines()
    assert ", in failing\n" in json.loads(line)["traceback"]
    assert "a token" not in console + as_json


LIBRARIES = ("fastmcp.server", "mcp.server.sse", "httpx2", "botocore.auth", "asyncio", "py.warnings", "sqlalchemy.pool")
LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


def raise_secret() -> None:
    try:
        os.environ[SECRET]
    except KeyError as error:
        raise ExceptionGroup(SECRET, [ValueError(SECRET), OSError(5, SECRET)]) from error


@pytest.mark.soak
@pytest.mark.parametrize("form", ["console", "json"])
def test_no_logger_of_a_library_writes_data(form: Format, capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("DEBUG", form)
    others = [
        name for name in logging.root.manager.loggerDict if name.partition(".")[0] not in {"quilt_mcp", "uvicorn"}
    ]
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
    assert SECRET not in (err := capsys.readouterr().err)
    assert "token …" in json.loads(err.splitlines()[1])["message"] if form == "json" else "token …" in err


def test_records_of_libraries_show_where_they_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("DEBUG")
    logger = logging.getLogger("mcp.server")
    logger.info("nothing below a warning")
    logger.warning("a constant message")
    logger.warning("dropped %r after %d attempts: %s", SECRET, 3, ValueError(SECRET))
    logger.warning(f"dropped {SECRET}")  # noqa: G004 - as libraries do
    logger.warning("%s", SECRET)
    constant, masked, hidden, empty = (line.partition(" WARNING ")[2] for line in capsys.readouterr().err.splitlines())
    assert constant == "mcp.server: a constant message"
    assert masked == "mcp.server: dropped … after 3 attempts: ValueError"
    assert re.fullmatch(r"mcp\.server: \(text not logged\) test_logs\.py:\d+ test_records_of_\w+", hidden)
    assert "(text not logged)" in empty


def test_tracebacks_of_libraries_have_no_texts(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    try:
        raise_secret()
    except ExceptionGroup:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    err = capsys.readouterr().err
    assert SECRET not in err
    assert " ERROR uvicorn.error: Exception in ASGI application\n" in err
    for kind in ("KeyError", "ExceptionGroup", "ValueError", "OSError"):
        assert f"{kind}: (text not logged)" in err
    assert "in raise_secret" in err


def test_warnings_have_no_texts(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("DEBUG")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn(SECRET, stacklevel=1)
    logging.captureWarnings(capture=False)
    err = capsys.readouterr().err
    assert SECRET not in err
    assert "WARNING py.warnings: (text not logged)" in err


def test_libraries_do_not_log_credentials_at_debug(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("DEBUG")
    logging.getLogger("botocore.auth").debug("a secret")
    logging.getLogger("urllib3.connectionpool").debug("a secret")
    logging.getLogger("quilt_mcp").debug("ours")
    assert "secret" not in (err := capsys.readouterr().err)
    assert "ours" in err


def test_a_record_that_cannot_be_written_leaves_none_of_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("INFO")
    try:
        int("canary")
    except ValueError:
        logging.getLogger("quilt_mcp").exception("%d", "canary")
    assert capsys.readouterr().err == "a record of the log could not be written\n"

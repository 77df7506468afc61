"""The log's two formats."""

import json
import logging
from collections.abc import Iterator

import pytest

from quilt_mcp.logs import log_to_stderr
from quilt_mcp.manager import ResourceManager
from quilt_mcp.registry import define, registry_of


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "fastmcp", "quilt_mcp")]
    before = [(one.handlers[:], one.propagate, one.level) for one in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_json_is_one_object_a_line_with_the_records_fields(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("INFO", "json")
    logging.getLogger("quilt_mcp.shop").info("read %s", "a\nb", extra={"fields": {"ms": 5}})
    [line] = capsys.readouterr().err.splitlines()
    parsed = json.loads(line)
    expected = {"level": "INFO", "logger": "quilt_mcp.shop", "message": "read a\nb", "ms": 5}
    assert {key: parsed[key] for key in expected} == expected


def test_a_traceback_stays_within_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("INFO", "json")
    logging.getLogger("quilt_mcp.shop").error("failed", exc_info=ValueError("x"))
    [line] = capsys.readouterr().err.splitlines()
    assert "ValueError: x" in json.loads(line)["traceback"]


def test_the_console_format_is_for_people_and_fastmcp_follows(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    logging.getLogger("quilt_mcp.shop").info("not this")
    logging.getLogger("fastmcp.server").warning("but this")
    captured = capsys.readouterr()
    assert captured.err.endswith("WARNING fastmcp.server: but this\n")
    assert "not this" not in captured.err
    assert captured.out == ""


def test_what_clients_sent_cannot_pass_for_other_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    sent = "x\r\n2026-01-01 ERROR quilt_mcp: forged\x1b[2J\u2028\u202e\ud800 caf\N{LATIN SMALL LETTER E WITH ACUTE}"
    logging.getLogger("fastmcp.server.auth").warning("state=%s", sent)
    shown = r"state=x\r\n2026-01-01 ERROR quilt_mcp: forged\x1b[2J\u2028\u202e\ud800 café"
    assert capsys.readouterr().err.endswith(f" WARNING fastmcp.server.auth: {shown}\n")


def test_a_long_message_is_cut_in_the_console_format(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    for size in (4_000, 4_001):
        logging.getLogger("fastmcp").warning("x" * size)
    whole, cut = capsys.readouterr().err.splitlines()
    assert whole.endswith(": " + "x" * 4_000)
    assert cut.endswith(": " + "x" * 4_000 + "... (4,001 characters)")


def test_a_traceback_in_the_console_format_has_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    try:
        int("x" * 5_000)
    except ValueError as error:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n", exc_info=error)
    first, second, *_, last = capsys.readouterr().err.splitlines()
    assert first.endswith(" ERROR uvicorn.error: Exception in ASGI application")
    assert second == "Traceback (most recent call last):"
    assert last.startswith("ValueError: ")


async def test_the_place_of_a_bug_of_ours_can_be_read_in_both_formats(capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> dict[str, str]:
        held = "a token"
        raise KeyError(held)

    manager = ResourceManager(registry_of([define("shop://thing", failing, name="Thing", description="x")]))
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


def test_libraries_that_would_log_credentials_are_kept_quiet_at_debug(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("DEBUG")
    logging.getLogger("botocore.auth").debug("a secret")
    logging.getLogger("urllib3.connectionpool").debug("a secret")
    logging.getLogger("quilt_mcp").debug("ours")
    assert "secret" not in (err := capsys.readouterr().err)
    assert "ours" in err

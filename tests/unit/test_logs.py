"""The log's two formats."""

import json
import logging
from collections.abc import Iterator

import pytest

from quilt_mcp.logs import log_to_stderr


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


def test_libraries_that_would_log_credentials_are_kept_quiet_at_debug(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("DEBUG")
    logging.getLogger("botocore.auth").debug("a secret")
    logging.getLogger("urllib3.connectionpool").debug("a secret")
    logging.getLogger("quilt_mcp").debug("ours")
    assert "secret" not in (err := capsys.readouterr().err)
    assert "ours" in err

"""A missing login is what a server says that it lacks, not a failure that names one."""

import pytest

from mcp_parity.answers import wants_login
from tests.test_check import QUICK, RAW, check

MISSING = (
    "set API_KEY",
    "GITHUB_TOKEN is not set",
    "The environment variable API_KEY is required",
    "Missing required environment variable: OPENAI_API_KEY",
    "Error: no API key",
    "Invalid API key",
    "invalid_token: the access token is expired",
    "Not authenticated. Run `tool login`.",
    "You are not logged in",
    "Please log in first",
    "You must sign in to read this",
    "Unauthorized",
    "HTTP 401",
    "403 Forbidden",
    "authentication required",
    "Authentication failed",
    "Credentials were not found",
    "NoCredentialsError: Unable to locate credentials",
    "AuthenticationError: bad key",
    "AuthError: credentials missing",
    "bearer token missing",
    "provide a token with --token",
)
NOT_MISSING = (
    "AttributeError: 'Config' object has no attribute 'api_key'",
    'relation "login" does not exist',
    "KeyError: 'login'",
    "no such table: credentials",
    "TypeError: token must be a string",
    "unexpected token < in JSON at position 0",
    "reading credentials",
    "the page /login was not loaded",
    "ZeroDivisionError: no token",
    "a list of API keys",
    "no such file: rows.db",
)


def test_a_sentence_says_that_a_login_is_missing() -> None:
    assert [text for text in MISSING if not wants_login(text)] == []
    assert [text for text in NOT_MISSING if wants_login(text)] == []


@pytest.mark.parametrize(
    ("fault", "status", "line"),
    [
        ("fails with the name of a key", 1, "it is listed, but refused: AttributeError: "),
        ("wants a key when it reads", 3, "it needs a login: API_KEY is not set; it names API_KEY"),
    ],
)
def test_a_listed_resource_that_cannot_be_read_fails_the_check(
    fault: str, status: int, line: str, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", fault)
    found, text = check(capsysbinary, *QUICK, RAW)
    assert (found, line in text) == (status, True), text

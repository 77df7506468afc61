"""The worlds of failure: the admin's world, in which one thing goes wrong."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any

import quilt3.util

from quilt_mcp.demo.failing_aws import FailingAWS
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.stack import FakeStack
from quilt_mcp.requirements.engines import FILE_NAME
from quilt_mcp.settings import Settings

STACK_PATHS = ("/graphql", "/config.json", "/api/token", "/api/auth/get_credentials")
HTML = b"<!doctype html><title>Bad gateway</title>"
NOBODY_LISTENS = "http://127.0.0.1:9"
IMPATIENT_SECONDS, SLOW_SECONDS = "0.2", 3.0

Mishap = Callable[[FakeStack, Any, ExitStack], None]
"""Makes it go wrong, given the stack and the account; what has to be undone goes on the exit stack.

Environment variables need not be undone: the world does that.
"""


def _expired(stack: FakeStack, *_: Any) -> None:
    """The access token is dead; the refresh token is not."""
    stack.grants.clear()


def _revoked(stack: FakeStack, *_: Any) -> None:
    stack.grants.clear()
    stack.refresh_tokens.clear()


def _aws_denied(stack: FakeStack, account: Any, _: ExitStack) -> None:
    for role in stack.company.roles:
        if not role.external_arn:
            account.refuse(role.name, "s3:*", "athena:*", "glue:*")


def _aws_answers(code: str, status: HTTPStatus) -> Mishap:
    def begin(_stack: FakeStack, _account: Any, undo: ExitStack) -> None:
        os.environ["AWS_ENDPOINT_URL"] = undo.enter_context(FailingAWS(code, status)).url

    return begin


def _aws_unreachable(*_: Any) -> None:
    os.environ["AWS_ENDPOINT_URL"] = NOBODY_LISTENS


def _no_region(*_: Any) -> None:
    del os.environ["AWS_DEFAULT_REGION"]
    quilt3.util.write_yaml({**quilt3.util.load_config(), "region": None}, quilt3.util.CONFIG_PATH)


def _stack_refused(stack: FakeStack, *_: Any) -> None:
    stack.close()


def _stack_answers(status: HTTPStatus, body: Any) -> Mishap:
    def begin(stack: FakeStack, *_: Any) -> None:
        stack.forced.update(dict.fromkeys(STACK_PATHS, Answer(status, body)))

    return begin


def _stack_slow(stack: FakeStack, *_: Any) -> None:
    """It answers, but after the time limit."""
    os.environ["QUILT_MCP_READ_TIMEOUT_SECONDS"] = IMPATIENT_SECONDS
    stack.delay_seconds = SLOW_SECONDS


def _database_unreachable(*_: Any) -> None:
    os.environ["QUILT_MCP_DATABASE_URL"] = "postgresql://acme:f4Kq-7Lw2@127.0.0.1:9/requirements"


def _database_damaged(*_: Any) -> None:
    (Settings().data_dir / FILE_NAME).write_bytes(b"no database" * 1000)


MISHAPS: dict[str, Mishap] = {
    "expired": _expired,
    "revoked": _revoked,
    "aws_denied": _aws_denied,
    "aws_expired": _aws_answers("ExpiredToken", HTTPStatus.FORBIDDEN),
    "aws_throttled": _aws_answers("Throttling", HTTPStatus.BAD_REQUEST),
    "aws_broken": _aws_answers("InternalError", HTTPStatus.INTERNAL_SERVER_ERROR),
    "aws_unreachable": _aws_unreachable,
    "no_region": _no_region,
    "stack_refused": _stack_refused,
    "stack_error_json": _stack_answers(HTTPStatus.INTERNAL_SERVER_ERROR, {"message": "Internal server error"}),
    "stack_error_html": _stack_answers(HTTPStatus.BAD_GATEWAY, HTML),
    "stack_error_not_json": _stack_answers(HTTPStatus.OK, HTML),
    "stack_error_graphql": _stack_answers(HTTPStatus.OK, {"errors": [{"message": "Internal error", "path": ["x"]}]}),
    "stack_slow": _stack_slow,
    "database_unreachable": _database_unreachable,
    "database_damaged": _database_damaged,
}

"""The failures of AWS, of the stack as a whole, and of the database, for the table of the worlds."""

import os
from contextlib import ExitStack
from http import HTTPStatus

import quilt3.util

from quilt_mcp.demo.aws import Account
from quilt_mcp.demo.http_server import Answer
from quilt_mcp.demo.stack import FakeStack
from quilt_mcp.demo.world import Mishap
from quilt_mcp.requirements.settings import FILE_NAME
from tests.support.settings import Settings
from tests.worlds.failing_aws import FailingAWS, Outage

STACK_PATHS = ("/graphql", "/config.json", "/api/token", "/api/auth/get_credentials")
HTML = b"<!doctype html><title>Bad gateway</title>"
CLOSED_PORT = "http://127.0.0.1:9"
TIMEOUT_SECONDS, SLOW_SECONDS = "0.2", 3.0


def expire(stack: FakeStack, *_: object) -> None:
    """Invalidate the access token, but not the refresh token."""
    stack.grants.clear()


def revoke(stack: FakeStack, *_: object) -> None:
    """Invalidate the access token and the refresh token."""
    stack.grants.clear()
    stack.refresh_tokens.clear()


def deny_aws(stack: FakeStack, account: Account, _: ExitStack) -> None:
    """Deny the data services of AWS to every role."""
    for role in stack.company.roles:
        if not role.external_arn:
            account.refuse(role.name, "s3:*", "athena:*", "glue:*")


def make_aws_fail(outage: Outage) -> Mishap:
    """Let every AWS service return the error that it has for an outage."""

    def begin(_stack: FakeStack, _account: Account, undo: ExitStack) -> None:
        os.environ["AWS_ENDPOINT_URL"] = undo.enter_context(FailingAWS(outage)).url

    return begin


def disconnect_aws(*_: object) -> None:
    """Let AWS refuse connections."""
    os.environ["AWS_ENDPOINT_URL"] = CLOSED_PORT


def remove_region(*_: object) -> None:
    """Name no AWS region, in the environment or in quilt3's configuration."""
    del os.environ["AWS_DEFAULT_REGION"]
    quilt3.util.write_yaml({**quilt3.util.load_config(), "region": None}, quilt3.util.CONFIG_PATH)


def stop_stack(stack: FakeStack, *_: object) -> None:
    """Let the stack refuse connections."""
    stack.close()


def make_stack_return(status: HTTPStatus, body: object) -> Mishap:
    """Let the stack give one response to everything: JSON, or a page if the body is bytes."""
    headers = (("Content-Type", "text/html; charset=utf-8"),) if isinstance(body, bytes) else ()

    def begin(stack: FakeStack, *_: object) -> None:
        stack.forced.update(dict.fromkeys(STACK_PATHS, Answer(status, body, headers)))

    return begin


def slow_stack(stack: FakeStack, *_: object) -> None:
    """Let the stack respond after the time limit."""
    os.environ["QUILT_MCP_READ_TIMEOUT_SECONDS"] = TIMEOUT_SECONDS
    stack.delay_seconds = SLOW_SECONDS


def disconnect_database(*_: object) -> None:
    """Configure a database that refuses connections."""
    os.environ["QUILT_MCP_DATABASE_URL"] = "postgresql://acme:f4Kq-7Lw2@127.0.0.1:9/requirements"


def damage_database(*_: object) -> None:
    """Replace the database file with a file that is not a database."""
    (Settings().data_dir / FILE_NAME).write_bytes(b"no database" * 1000)

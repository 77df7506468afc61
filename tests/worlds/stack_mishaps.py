"""Responses of a stack that clients must survive: refusals, redirects, bodies without an end, parts of an answer."""

import os
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus

from quilt_mcp.demo.http_server import FOREIGN, Answer
from quilt_mcp.demo.stack import FakeStack
from tests.worlds.mishaps import TIMEOUT_SECONDS

CALLERS_PATHS = ("/graphql", "/api/auth/get_credentials")
CHUNK = b" " * 65_536
CHUNK_SECONDS = 0.01


def forbid(stack: FakeStack, *_: object) -> None:
    """Refuse every request with a token."""
    refusal = Answer(HTTPStatus.FORBIDDEN, {"message": "Forbidden"})
    stack.forced |= dict.fromkeys(CALLERS_PATHS, refusal)


def forbid_queries(stack: FakeStack, *_: object) -> None:
    """Refuse every request with a token. The refusal of a query has the form of a GraphQL response."""
    forbid(stack)
    stack.forced["/graphql"] = Answer(HTTPStatus.FORBIDDEN, {"errors": [{"message": "Forbidden"}]})


def redirect(stack: FakeStack, *_: object) -> None:
    """Redirect every request to a host on another domain, which answers with a page."""
    for path in (*CALLERS_PATHS, "/config.json", "/api/token"):
        stack.forced[path] = Answer(HTTPStatus.FOUND, b"", (("Location", f"{FOREIGN}{path}"),))


def never_end(stack: FakeStack, *_: object) -> None:
    """Answer requests with a token by a body that has no end: a beginning, then spaces until the client leaves."""
    os.environ["QUILT_MCP_READ_TIMEOUT_SECONDS"] = TIMEOUT_SECONDS

    def stream() -> Iterator[bytes]:
        yield b'{"data": {'
        while not stack.closing.wait(CHUNK_SECONDS):
            yield CHUNK

    stack.streamed |= dict.fromkeys(CALLERS_PATHS, stream)


def fail_in_parts(stack: FakeStack, *_: object) -> None:
    """Let some nullable fields fail, so that GraphQL returns data together with errors."""
    failing = {"User.role", "BucketConfig.description", "Bucket.description", "AdminQueries.ssoConfig"}
    stack.endpoint = replace(stack.endpoint, failing_fields=failing)

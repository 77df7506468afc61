"""Middleware that refuses messages that are nested too deeply or contain invalid Unicode.

The MCP library answers invalid Unicode without the id of the request. It also parses one of its protocols with Python's
parser, see `app.json_depth`.
"""

import json
from http import HTTPStatus

from mcp_types import PARSE_ERROR
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quilt_mcp.app.json_depth import MAX_DEPTH, is_nested_too_deeply
from quilt_mcp.app.message_text import InvalidText, find_invalid_text


class CheckMessage:
    """Returns 400 and a JSON-RPC error if the message is nested too deeply, or its text is not valid Unicode.

    The error about text has the id of the request.
    The whole body must be one message, as `RequestBodyLimitMiddleware` passes it on.

    Args:
        app: the application.
        answers_on_stream: whether clients receive answers on the stream of their session, as with SSE. Then the
            request is replaced by one that the MCP library refuses with the same code.
    """

    def __init__(self, app: ASGIApp, *, answers_on_stream: bool = False) -> None:
        self._app = app
        self._answers_on_stream = answers_on_stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the body of a POST."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first: Message | None = await receive()
        body: bytes = first.get("body", b"") if first else b""
        if is_nested_too_deeply(body):
            await _respond(_make_depth_error())(scope, receive, send)
            return
        invalid = find_invalid_text(body)
        if invalid and not (self._answers_on_stream and invalid.is_request):
            await _respond(invalid.to_error())(scope, receive, send)
            return
        if invalid:
            first = {"type": "http.request", "body": _make_invalid_request(invalid), "more_body": False}

        async def receive_again() -> Message:
            nonlocal first
            message, first = first, None
            return message or await receive()

        await self._app(scope, receive_again, send)


def _make_depth_error() -> bytes:
    message = f"The message is nested too deeply. Send at most {MAX_DEPTH} levels."
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": message}}).encode()


def _respond(error: bytes) -> Response:
    return Response(
        error,
        HTTPStatus.BAD_REQUEST,
        headers={"Cache-Control": "no-store"},
        media_type="application/json",
    )


def _make_invalid_request(invalid: InvalidText) -> bytes:
    """Return a request with the same id and invalid parameters."""
    request = {"jsonrpc": "2.0", "id": invalid.request_id, "method": "resources/read", "params": {"uri": None}}
    return json.dumps(request).encode()

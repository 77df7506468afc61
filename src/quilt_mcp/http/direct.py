"""The direct path: reads of resources over streamable HTTP, on both surfaces, without FastMCP's pipeline.

It is the innermost layer of the application, so it comes after every check: host, origin, token, scopes, rate limit,
size, time and text of the body. `ResourceManager.respond` then admits, logs and counts the read as on every other path.
What it leaves out is the validation, dispatch and serialization of the MCP library and of FastMCP, which cost several
times as much as a small read.

It takes only valid requests, and passes everything else on untouched: the pipeline refuses what is invalid. It knows
nothing of components and middleware that are added to a server, so only servers without any use it.
tests/http/test_direct.py compares its answers with those of the pipeline.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import orjson
from fastmcp import Context, FastMCP
from mcp_types import INVALID_PARAMS, PROTOCOL_VERSION_META_KEY, SERVER_INFO_META_KEY
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from quilt_mcp.core.answers import Document, GetResourceError, GetResourceSuccess, JSONObject
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.surfaces import TOOL_NAME, leave_out_uri, make_attachment_blocks
from quilt_mcp.core.tracing import is_traced
from quilt_mcp.http.audit import describe_message
from quilt_mcp.http.layers import repeat

CALL, READ = "tools/call", "resources/read"
SURFACES = {CALL: "tool", READ: "resource"}
ENVELOPE = {"jsonrpc", "id", "method", "params"}
PARAMETERS = {CALL: {"name", "arguments", "_meta"}, READ: {"uri", "_meta"}}
"""With others, a request wants more than an answer: to run as a task, or to continue another request."""
FOR_FASTMCP = {"fastmcp", "traceparent"}
LONGEST_ID = 128
JSON = b"application/json"
ACCEPTED = {JSON, b"text/event-stream"}
VERSION, METHOD, NAME = b"mcp-protocol-version", b"mcp-method", b"mcp-name"
FORM = {VERSION, METHOD, NAME, b"content-type", b"accept"}
STATUSES = {INVALID_PARAMS: 400}
"""The HTTP status of an error of the sessionless protocol, if it is not 200."""


class _Request(NamedTuple):
    """A valid request to read a resource.

    Attributes:
        uri: what the client sent. Its type is not checked for the tool: the manager does that.
        others: the arguments that the tool does not have.
        version: of the protocol.
    """

    number: int | str
    method: str
    uri: object
    others: JSONObject
    version: str


class Direct:
    """Answers reads of resources, and passes everything else on. It must be the innermost layer.

    The whole body must be one message, as `RequestBodyLimitMiddleware` passes it on.

    Args:
        mcp: the server. It is in the context of service functions.
        count: called for each message, with what answers it: `direct` or `pipeline`.
    """

    def __init__(
        self, app: ASGIApp, *, mcp: FastMCP, manager: ResourceManager, path: str, count: Callable[[str], None]
    ) -> None:
        self._app, self._mcp, self._manager, self._path, self._count = app, mcp, manager, path, count
        self._meta = {SERVER_INFO_META_KEY: {"name": mcp.name, "version": mcp.version}}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        first = await receive()
        is_whole = first["type"] == "http.request" and not first.get("more_body", False)
        # FastMCP's pipeline has the spans of a traced request.
        request = read_request(scope["headers"], first["body"]) if is_whole and not is_traced() else None
        if request is None:
            self._count("pipeline")
            await self._app(scope, repeat(first, receive), send)
            return
        self._count("direct")
        await _send(send, *await self._answer(scope, request))

    async def _answer(self, scope: Scope, request: _Request) -> tuple[int, bytes]:
        name = TOOL_NAME if request.method == CALL else None
        is_sessionless = request.version in MODERN_PROTOCOL_VERSIONS
        with describe_message(scope, request.method, name):
            async with Context(fastmcp=self._mcp):
                response = await self._manager.respond(
                    request.uri, surface=SURFACES[request.method], others=request.others
                )
        if isinstance(response, GetResourceError) and request.method == READ:
            code = response.choose_code(request.version)
            error = {"code": code, "message": response.message, "data": response.body()}
            body = orjson.dumps({"jsonrpc": "2.0", "id": request.number, "error": error})
            return STATUSES.get(code, 200) if is_sessionless else 200, body
        result = _make_result(request, response)
        if is_sessionless:
            result |= {"resultType": "complete", "_meta": self._meta}
            if isinstance(response, GetResourceSuccess) and request.method == READ:
                result |= {"ttlMs": response.ttl_ms, "cacheScope": response.cache_scope}
        return 200, orjson.dumps({"jsonrpc": "2.0", "id": request.number, "result": result})


def read_request(headers: Iterable[tuple[bytes, bytes]], body: bytes) -> _Request | None:
    given, message = _find_form(headers), _parse(body)
    if given is None or message is None:
        return None
    number, method, params = message["id"], message["method"], message["params"]
    if type(params) is not dict or not _is_plain_id(number) or params.keys() - PARAMETERS[method]:
        return None
    version, name = given[VERSION].decode("latin-1"), params.get("name" if method == CALL else "uri")
    is_routed = type(name) is str and _is_routed(given, version, method, name)
    if not is_routed or (method == CALL and name != TOOL_NAME) or not _has_plain_params(method, version, params):
        return None
    arguments = {"uri": name} if method == READ else params.get("arguments") or {}
    return _Request(number, method, arguments.get("uri"), leave_out_uri(arguments), version)


def _parse(body: bytes) -> JSONObject | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    is_request = type(found) is dict and found.keys() == ENVELOPE and found["jsonrpc"] == "2.0"
    return found if is_request and type(found["method"]) is str and found["method"] in SURFACES else None


def _find_form(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes] | None:
    """Return the headers that MCP considers; None if one of them is repeated, missing or unusual."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in FORM:
            if name in found:
                return None
            found[name] = value
    accepted = {one.partition(b";")[0].strip().lower() for one in found.get(b"accept", b"").split(b",")}
    is_json = found.get(b"content-type", b"").partition(b";")[0].strip() == JSON
    return found if is_json and accepted >= ACCEPTED and VERSION in found else None


def _is_routed(given: dict[bytes, bytes], version: str, method: str, name: str) -> bool:
    """Return whether the headers of the sessionless protocol are those of the body. The older one has none."""
    if version in MODERN_PROTOCOL_VERSIONS:
        is_encoded = name.startswith("=?")  # then the header stands for another text
        is_same = NAME in given and given[NAME].decode("latin-1") == name  # as the MCP library reads headers
        return given.get(METHOD) == method.encode() and is_same and not is_encoded
    return version in HANDSHAKE_PROTOCOL_VERSIONS


def _has_plain_params(method: str, version: str, params: JSONObject) -> bool:
    """Return whether parameters are valid and need nothing of FastMCP: no version of a component, and no trace."""
    try:
        validate_client_request(method, version, params)
    except ValidationError:
        return False
    meta = params.get("_meta") or {}
    is_same = meta.get(PROTOCOL_VERSION_META_KEY, version) == version
    return is_same and not meta.keys() & FOR_FASTMCP and _is_plain_id(meta.get("progressToken", 0))


def _is_plain_id(value: object) -> bool:
    return type(value) is int or (type(value) is str and len(value) <= LONGEST_ID)


def _make_result(request: _Request, response: GetResourceSuccess | GetResourceError) -> JSONObject:
    """Return the result. JSON that is written already becomes part of the response as it is."""
    if request.method == READ and isinstance(response, GetResourceSuccess):
        meta = {"_meta": response.meta} if isinstance(response, Document) else {}
        contents = [{"uri": response.uri, "mimeType": response.mime_type, "text": response.data_json} | meta]
        if one := response.attachment:
            contents.append({"uri": response.uri, "mimeType": one.mime_type, "blob": one.encode()})
        return {"contents": contents}
    text = response.body_json()
    blocks = make_attachment_blocks(response)
    content = [
        {"type": "text", "text": text},
        *(block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks),
    ]
    return {"content": content, "structuredContent": orjson.Fragment(text), "isError": not response.success}


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

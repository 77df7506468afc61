"""The fast lane: answers plain requests to read a resource without the MCP library, with the library's answer.

It is the innermost layer of the HTTP application, so it comes after every check: host, origin, token, scopes, rate
limit, size, time and text of the body, routing headers. It runs the same FastMCP middleware as every other request, so
the limits of concurrent reads, the log line, the audit log and the metrics are the same. It leaves out what is between
those and the manager: the validation, dispatch and serialization of the MCP library and of FastMCP.

It takes only requests of one exact form (plain_request.py), and only while the whole server is in a known state
(`is_known`). It passes everything else on untouched: nothing has happened to such a request yet.
tests/http/test_lane.py compares the answers with those of the MCP library.
"""

import logging
from collections.abc import Callable, Collection
from importlib.metadata import version
from typing import cast

import fastmcp
from fastmcp import FastMCP
from fastmcp.server.context import Context
from fastmcp.server.middleware import MiddlewareContext
from fastmcp.server.providers import LocalProvider
from fastmcp.tools.base import ToolResult
from mcp_types import (
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    ErrorData,
    JSONRPCError,
    ReadResourceRequestParams,
    TextContent,
)
from opentelemetry.trace import ProxyTracerProvider, get_current_span, get_tracer_provider
from pydantic_core import to_json, to_jsonable_python
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quilt_mcp.app.checked_tool import ResolvedSchemas
from quilt_mcp.app.request_guard import SURFACES, RequestGuard
from quilt_mcp.core import surfaces
from quilt_mcp.core.answers import MIME_TYPE, GetResourceError, GetResourceSuccess, JSONObject, PlainJSON
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.http.audit_messages import AuditMessages
from quilt_mcp.http.plain_request import CALL, JSON, READ, PlainRequest, RequestReader

# The lane looks at the parts of FastMCP that decide what happens to a request. They have no public names.
# ruff: noqa: SLF001

Versions = tuple[str, str]
TESTED: frozenset[Versions] = frozenset({("4.1.2", "2.3.0")})
"""The versions of FastMCP and mcp with which the answers have been compared."""
INSTALLED: Versions = (fastmcp.__version__, version("mcp"))
try:
    from fastmcp.server.low_level import FastMCPServerMiddleware
    from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware
    from fastmcp.server.transforms.visibility import is_enabled
    from mcp.server.request_state import RequestStateBoundary
    from mcp.server.runner import modern_error_data
    from mcp.shared import jsonrpc_dispatcher
    from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
except ImportError:  # other versions can have other names; the lane stays closed with them
    if INSTALLED in TESTED:
        raise
ASKS_FASTMCP = {"config", "info"}
"""Schemes with service functions that ask FastMCP about the request."""

PROVIDERS = [LocalProvider, surfaces.ResourceSurface]
TOOL = f"tool:{surfaces.TOOL_NAME}@"
SHADOWS = (TOOL, "resource:", "template:")
"""Prefixes of the keys of components that could answer instead of ours."""
HANDLERS = {CALL: "_on_call_tool", READ: "_on_read_resource"}
ORIGINALS = {
    name: getattr(FastMCP, name, None)
    for name in (
        *HANDLERS.values(),
        *("call_tool", "read_resource", "get_tool", "get_resource", "_dispatch_component_middleware"),
    )
}
LOGGERS = [
    logging.getLogger(name) for name in ("fastmcp", "fastmcp.server.mixins.mcp_operations", "mcp", "mcp.server.runner")
]


def is_known(mcp: FastMCP, tested: Collection[Versions] = TESTED) -> bool:
    """Return whether the server would do nothing for a plain request but run its middleware and ask the manager."""
    if INSTALLED not in tested:
        return False
    sdk, local = mcp._mcp_server, mcp.local_provider
    schema = sdk.get_tool_input_schema(surfaces.TOOL_NAME) if sdk.get_tool_input_schema else None
    return (
        {type(one) for one in mcp.middleware}
        <= {AuditMessages, DereferenceRefsMiddleware, RequestGuard, ResolvedSchemas}
        and [type(one) for one in sdk.middleware] == [FastMCPServerMiddleware, RequestStateBoundary]
        and [type(one) for one in mcp.providers] == PROVIDERS
        and mcp.providers[0] is local
        and not (mcp.transforms or mcp._extensions or READ in sdk.cache_hints)
        and not any(one.transforms for one in mcp.providers)
        and [key for key in local._components if key.startswith(SHADOWS)] == [TOOL]
        and all(_is_original(mcp, name, function) for name, function in ORIGINALS.items())
        and all(_is_handler(mcp, method, name) for method, name in HANDLERS.items())
        and schema == surfaces.PARAMETERS
        and type(get_tracer_provider()) is ProxyTracerProvider
        and not get_current_span().get_span_context().is_valid
        and not any(one.isEnabledFor(logging.DEBUG) for one in LOGGERS)  # FastMCP logs each request then
    )


def _is_original(mcp: FastMCP, name: str, function: object) -> bool:
    return getattr(getattr(mcp, name), "__func__", None) is function is getattr(FastMCP, name)


def _is_handler(mcp: FastMCP, method: str, name: str) -> bool:
    entry = mcp._mcp_server.get_request_handler(method)
    return entry is not None and entry.handler == getattr(mcp, name)


class Lane:
    """Answers plain requests, and passes everything else on. It must be the innermost layer.

    The whole body must be one message, as `RequestBodyLimitMiddleware` passes it on.

    Args:
        app: the application.
        mcp: the server. All requests are passed on if it does not have the tool of `add_surfaces`.
        path: of the MCP endpoint.
        count: called for each message, with what answers it: `lane` or `pipeline`.
        is_on: whether anything is answered here.
        tested: the versions of FastMCP and mcp with which anything is answered here.
    """

    def __init__(  # noqa: PLR0913 - all but the application are keyword-only
        self,
        app: ASGIApp,
        *,
        mcp: FastMCP,
        path: str,
        count: Callable[[str], None],
        is_on: bool = True,
        tested: Collection[Versions] = TESTED,
    ) -> None:
        self._app, self._mcp, self._path, self._count, self._tested = app, mcp, path, count, tested
        tool = mcp.local_provider._components.get(TOOL) if is_on and INSTALLED in tested else None
        self._manager = tool.manager if isinstance(tool, surfaces.GetResourceTool) else None
        uris = self._manager.registry if self._manager else ()
        self._reader = RequestReader({uri.partition("://")[0] for uri in uris} - ASKS_FASTMCP)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it on."""
        is_message = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == self._path
        if not is_message or scope.get("root_path"):
            await self._app(scope, receive, send)
            return
        first: Message | None = await receive()
        request = self._find_request(scope, first) if first else None
        if request is not None and self._manager is not None:
            self._count("lane")
            await _send(send, request, *await self._answer(request, self._manager))
            return

        async def receive_again() -> Message:
            nonlocal first
            message, first = first, None
            return message or await receive()

        self._count("pipeline")
        await self._app(scope, receive_again, send)

    def _find_request(self, scope: Scope, first: Message) -> PlainRequest | None:
        """Return the request if it can be answered here."""
        if self._manager is None or first["type"] != "http.request" or first.get("more_body", False):
            return None
        if not is_known(self._mcp, self._tested):
            return None
        request = self._reader.read(scope["headers"], first.get("body", b""))
        return request if request and self._is_ours(request) else None

    def _is_ours(self, request: PlainRequest) -> bool:
        """Return whether the component that is requested is the one of `add_surfaces`, and open to every caller."""
        local, surface = cast("tuple[LocalProvider, surfaces.ResourceSurface]", self._mcp.providers)
        is_call = request.method == CALL
        found = local._components[TOOL] if is_call else surface._by_uri.get(request.uri, surface._any)
        kind = surfaces.GetResourceTool if is_call else surfaces.ManagedResource
        if type(found) is not kind or not isinstance(found, kind):
            return False
        return found.manager is self._manager and found.auth is None and is_enabled(found)

    async def _answer(self, request: PlainRequest, manager: ResourceManager) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        is_plain = True

        async def read(context: object) -> ToolResult | GetResourceSuccess:
            nonlocal is_plain
            del context
            response = await manager.respond(request.uri or None, surface=SURFACES[request.method])
            if request.method == CALL:
                if isinstance(response, GetResourceSuccess) and response.uri:
                    is_plain = isinstance(response.data_json, PlainJSON)
                return surfaces.make_tool_result(response)
            if isinstance(response, GetResourceError):
                raise surfaces.ResourceRefused(response)
            return response

        async with Context(fastmcp=self._mcp) as context:
            message = MiddlewareContext(message=_make_params(request), method=request.method, fastmcp_context=context)
            try:
                result = await self._mcp._run_middleware(message, read)
                return 200, _encode(request, result, self._mcp._mcp_server.server_info_stamp, is_plain=is_plain)
            except Exception as error:  # noqa: BLE001 - the MCP library answers each of them
                return _encode_error(request, error)


def _make_params(request: PlainRequest) -> CallToolRequestParams | ReadResourceRequestParams:
    if request.method == READ:
        return ReadResourceRequestParams(uri=request.uri)
    return CallToolRequestParams(name=surfaces.TOOL_NAME, arguments={"uri": request.uri} if request.uri else {})


def _encode(
    request: PlainRequest, result: ToolResult | GetResourceSuccess, server_info: JSONObject, *, is_plain: bool
) -> bytes:
    """Return the response. It contains texts that are JSON already as they are.

    The MCP library has a limit of depth and other texts for keys that are not texts, so it writes other data.
    """
    if isinstance(result, GetResourceSuccess):
        content = to_json(request.uri), to_json(MIME_TYPE), to_json(result.data_json)
        fields = b'"contents":[{"uri":%s,"mimeType":%s,"text":%s}]' % content
    else:
        text = cast(TextContent, result.content[0]).text
        structured = text.encode() if is_plain else to_json(to_jsonable_python(result.structured_content))
        body = to_json(text), structured, to_json(result.is_error)
        fields = b'"content":[{"type":"text","text":%s}],"structuredContent":%s,"isError":%s' % body
    if request.is_sessionless:
        fields += b',"resultType":"complete","_meta":' + to_json({SERVER_INFO_META_KEY: server_info})
        fields += b',"ttlMs":0,"cacheScope":"private"' if request.method == READ else b""
    return b'{"jsonrpc":"2.0","id":%s,"result":{%s}}' % (to_json(request.number), fields)


def _encode_error(request: PlainRequest, error: Exception) -> tuple[int, bytes]:
    """Return the status and the body for an exception. The protocols have different answers to a bug."""
    data = (
        modern_error_data(error)
        if request.is_sessionless
        else jsonrpc_dispatcher.handler_exception_to_error_data(error)
    )
    if data is None:
        jsonrpc_dispatcher.logger.error("handler for %r raised", request.method, exc_info=error)
        data = ErrorData(code=0, message=str(error))
    message = JSONRPCError(jsonrpc="2.0", id=request.number, error=data)
    status = ERROR_CODE_HTTP_STATUS.get(data.code, 200) if request.is_sessionless else 200
    return status, to_json(message.model_dump(mode="json", by_alias=True, exclude_none=True))


async def _send(send: Send, request: PlainRequest, status: int, body: bytes) -> None:
    """Send the answer. The protocols have different orders of the headers."""
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON)]
    ordered = headers if request.is_sessionless else headers[::-1]
    await send({"type": "http.response.start", "status": status, "headers": ordered})
    await send({"type": "http.response.body", "body": body})

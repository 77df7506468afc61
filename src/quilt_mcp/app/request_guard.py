"""The one path of all requests: limits, log line, metrics and span, for every method."""

from typing import Any

import pydantic
from fastmcp.exceptions import NotFoundError, ValidationError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams

from quilt_mcp.app.checked_tool import FailedCall
from quilt_mcp.core.answers import GetResourceError
from quilt_mcp.core.errors import InvalidArguments, NotFound, ResourceFailure
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.surfaces import TOOL_NAME, ResourceRefused, make_tool_result

FAILED = "error"
"""The outcome of a request that failed with an error of another library."""
HANDSHAKE = {"initialize", "server/discover", "ping"}
"""The requests that the MCP library answers by itself. Over HTTP they have passed the rate limit."""
SURFACES = {
    "resources/read": "resource",
    "tools/call": "tool",
    "prompts/get": "prompt",
    "completion/complete": "completion",
}
MOST_NAMED, LONGEST_NAME = 3, 200
"""How many invalid parameters an error names, and the characters of each and of its reason."""
Context = MiddlewareContext[Any]
Next = CallNext[Any, object]
_STARTED = "cancelled"


class RequestGuard(Middleware):
    """Opens the read of each request, admits its caller, and refuses the request in the form of its method.

    Args:
        manager: has the limits, and makes the errors.
    """

    def __init__(self, manager: ResourceManager) -> None:
        self._manager = manager
        self.names: set[str] = set()
        """The names of the tools and prompts. No other name is logged."""

    async def on_request(self, context: Context, call_next: Next) -> object:
        """Answer a request. One that the server sends to itself while it answers another is part of that one."""
        manager, method = self._manager, context.method or ""
        if method in HANDSHAKE or manager.reads.current is not None:
            return await _call(context, call_next)
        surface = "list" if method.endswith("/list") else SURFACES.get(method, "other")
        with manager.around(), manager.reads.reading(surface, is_used=False) as read:
            read.uri, read.outcome = self._find_pattern(surface, context), _STARTED
            try:
                async with manager.admit(read):
                    read.is_admitted = True
                    result = await _call(context, call_next)
            except Exception as error:
                if read.is_admitted and not isinstance(error, ResourceFailure):
                    read.outcome = _name_outcome(error) if read.outcome == _STARTED else read.outcome
                    raise
                refusal = manager.make_error(_find_uri(context.message), error, read)
                read.outcome = refusal.error
                return _refuse(context.message, refusal)
            if read.outcome == _STARTED:
                read.outcome = _name_result(result)
            return result

    def _find_pattern(self, surface: str, context: Context) -> str:
        """Return what a request asks for, without text of the client. The manager replaces it for resources."""
        if surface == "list":
            return str(context.method)
        name = getattr(context.message, "name", None)
        return name if name in self.names and name != TOOL_NAME else "unknown"


async def _call(context: Context, call_next: Next) -> object:
    """Answer a request. Of invalid parameters, the MCP library says only that they are.

    Raises:
        MCPError: parameters are invalid. Its message names them.
    """
    try:
        return await call_next(context)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_NAMED]
        reasons = [f"{'.'.join(map(str, one['loc']))[:LONGEST_NAME]}: {one['msg'][:LONGEST_NAME]}" for one in found]
        message = f"Invalid request parameters: {'; '.join(reasons)}"
        raise MCPError(code=INVALID_PARAMS, message=message) from error


def _refuse(message: object, refusal: GetResourceError) -> ToolResult:
    """Return the result of a refused call of a tool.

    Raises:
        ResourceRefused: it is another request.
    """
    if not isinstance(message, CallToolRequestParams):
        raise ResourceRefused(refusal)
    return make_tool_result(refusal, has_schema=message.name == TOOL_NAME)


def _find_uri(message: object) -> object:
    if isinstance(message, CallToolRequestParams):
        return (message.arguments or {}).get("uri") if message.name == TOOL_NAME else ""
    return getattr(message, "uri", "")


def _name_result(result: object) -> str:
    if isinstance(result, FailedCall):
        return result.error
    return FAILED if isinstance(result, ToolResult) and result.is_error else "ok"


def _name_outcome(error: Exception) -> str:
    """Return the name of the failure behind an exception of FastMCP. The text of an exception can be a client's."""
    cause = error.__cause__
    if isinstance(cause, ResourceFailure):
        return cause.error
    if isinstance(error, NotFoundError):
        return NotFound.error
    is_invalid = isinstance(error, ValidationError) or (isinstance(error, MCPError) and error.code == INVALID_PARAMS)
    return InvalidArguments.error if is_invalid else FAILED

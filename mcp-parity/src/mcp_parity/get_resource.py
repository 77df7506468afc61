"""`add_get_resource`: one tool that reads every resource of a server, and typed errors on both ways to read."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import NotFoundError
from fastmcp.resources.base import InputRequiredResourceResult
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.transforms import GetToolNext, Transform
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp.shared.exceptions import MCPError
from mcp_types import ToolAnnotations
from pydantic import ConfigDict, SkipValidation

from mcp_parity.bodies import answer, answer_read
from mcp_parity.failures import Failure, InvalidURI, TooLarge
from mcp_parity.translation import Listed, is_typed, list_visible, translate

_MOST_URIS = 40  # each client pays for the description in every conversation
_PURPOSE = """Read any resource of this server: the same data as resources/read, for clients that only use tools.

Without `uri` it lists all resources with descriptions. URIs:"""
_USE = """
Replace each {variable} with a value. If `success` is true, the answer has `data`, `text`, `blob`, an image or several
`contents`. If not, `error` is the kind of failure, and `suggested_actions` says what to do next."""
_TYPES = [{"type": "string"}, {"type": "null"}]
_URI = {"anyOf": _TYPES, "default": None, "description": "URI of the resource. Omit it to list all resources."}
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=False)
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"uri": _URI}, "additionalProperties": False}
# One flat object for success and error, because some clients validate errors too, and fail on $ref or anyOf.
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["success", "uri"],
    "properties": {
        **{name: {"type": "boolean"} for name in ("success", "transient")},
        **{name: {"type": "string"} for name in ("uri", "mime_type", "text", "error", "message")},
        "data": {},
        "contents": {"type": "array"},
        "suggested_actions": {"type": "array", "items": {"type": "string"}},
    },
}


def add_get_resource(
    mcp: FastMCP[Any], *, name: str = "get_resource", max_bytes: int | None = None, exclude: Sequence[str] = ("ui://*",)
) -> None:
    """Add a tool that reads every resource that the server has now or later, and typed errors on both ways to read.

    A read by the tool runs the server's middleware twice: for `tools/call` and for `resources/read`.

    Args:
        mcp: the server.
        name: the tool's name.
        max_bytes: the tool refuses larger answers. `resources/read` has no limit.
        exclude: patterns of URIs that the tool does not offer. By default the renderers of user interfaces.
    """
    tool = GetResource(name=name, server=mcp, max_bytes=max_bytes, exclude=tuple(exclude))
    mcp.add_transform(_AddTool(tool))
    mcp.middleware.insert(0, _TypedErrors(tool))  # the outermost: it also translates what other middleware raises


class GetResource(Tool):
    """The tool. It reads through the server, so that its authorization, visibility and middleware apply."""

    title: str | None = "Get resource"
    description: str | None = "Read any resource of this server."
    parameters: dict[str, Any] = PARAMETERS
    output_schema: dict[str, Any] | None = OUTPUT_SCHEMA
    annotations: ToolAnnotations | None = _READS
    server: SkipValidation[FastMCP[Any]]
    max_bytes: int | None
    exclude: tuple[str, ...]

    model_config = ConfigDict(arbitrary_types_allowed=True)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer a call with any arguments. A failure is a result with `isError`, never a protocol error."""
        uri = arguments.get("uri")
        if arguments.keys() - {"uri"} or not (uri is None or isinstance(uri, str)):
            wrong = InvalidURI(f"{self.name} has one argument: `uri`, a string.")
            return answer(wrong.body(uri if isinstance(uri, str) else ""), is_error=True)
        if not uri:
            return answer({"success": True, "uri": "", "data": await self._discover()})
        try:
            return await self._read(uri)
        except Exception as error:  # noqa: BLE001 - every failure of a read becomes a typed answer
            body = error.error.data if is_typed(error) else (await translate(self.server, uri, error)).body(uri)
            return answer(body, is_error=True)

    async def _read(self, uri: str) -> ToolResult:
        if self.hides(uri):
            raise NotFoundError(uri)
        result = await self.server.read_resource(uri)
        if isinstance(result, InputRequiredResourceResult):
            return InputRequiredToolResult(result.input_required)
        if self.max_bytes is not None:
            contents = [part.content for part in result.contents]
            size = sum(len(one.encode() if isinstance(one, str) else one) for one in contents)
            if size > self.max_bytes:
                raise TooLarge(f"The resource has {size:,} bytes. {self.name} returns at most {self.max_bytes:,}.")
        return answer_read(uri, result.contents)

    async def _discover(self) -> dict[str, list[dict[str, Any]]]:
        """Return all resources by scheme."""
        found: dict[str, list[dict[str, Any]]] = {}
        for one in await self.list_offered():
            scheme = one.uri.partition("://")[0] if "://" in one.uri else ""
            found.setdefault(scheme, []).append(one._asdict())
        return found

    async def list_offered(self) -> list[Listed]:
        """Return the resources that this caller can read with the tool."""
        return [one for one in await list_visible(self.server) if not self.hides(one.uri)]

    def hides(self, uri: str) -> bool:
        """Return whether the tool does not offer the URI."""
        return any(fnmatchcase(uri, pattern) for pattern in self.exclude)

    async def describe(self) -> str:
        """Return the description, with the URIs that the caller may see."""
        uris = [one.uri for one in await self.list_offered()]
        more = [f"… and {len(uris) - _MOST_URIS} more."] if len(uris) > _MOST_URIS else []
        return "\n".join([_PURPOSE, *uris[:_MOST_URIS], *more, _USE])


class _AddTool(Transform):
    def __init__(self, tool: GetResource) -> None:
        self._tool = tool

    async def list_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Add the tool. FastMCP also asks when it starts, where no caller is known: nothing may be listed here."""
        return [*tools, self._tool]

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Tool | None:
        """Return the tool by its name."""
        return self._tool if name == self._tool.name else await call_next(name, version=version)


class _TypedErrors(Middleware):
    def __init__(self, tool: GetResource) -> None:
        self._tool = tool

    async def on_list_tools(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Write the URIs that the caller may see into the tool's description."""
        tools = await call_next(context)
        if not any(self._is_own(one) for one in tools):
            return tools
        described = {"description": await self._tool.describe()}
        return [one.model_copy(update=described) if self._is_own(one) else one for one in tools]

    def _is_own(self, tool: Tool) -> bool:
        return isinstance(tool, GetResource) and tool.server is self._tool.server

    async def on_read_resource(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Refuse a read with the body of the failure as the JSON-RPC error's data."""
        uri = str(context.message.uri)
        try:
            return await call_next(context)
        except Exception as error:
            if is_typed(error):
                raise
            failure: Failure = await translate(self._tool.server, uri, error)
            raise MCPError(code=failure.code, message=failure.message, data=failure.body(uri)) from error

"""The two surfaces over one manager: resources for FastMCP's resources protocol, and the tool `get_resource`."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

import mcp_types
from fastmcp import FastMCP
from fastmcp.resources import Resource, ResourceContent, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.dependencies import get_context
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp.shared.exceptions import MCPError
from mcp_types import (
    BlobResourceContents,
    CompletionArgument,
    CompletionContext,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceTemplateReference,
    TextContent,
    ToolAnnotations,
)
from pydantic import AnyUrl, ConfigDict, SkipValidation

from quilt_mcp.core.answers import MIME_TYPE, Document, GetResourceError, GetResourceSuccess, JSONObject
from quilt_mcp.core.cuts import LARGEST_ANSWER
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import ResourceDefinition, parameters_of, path_of, path_variables

TOOL_NAME = "get_resource"
PARAMETERS = {
    "type": "object",
    "properties": {"uri": {"type": "string", "default": "", "description": "Omit it to list all resources."}},
    "additionalProperties": False,
}
_COMPLETIONS = 100  # what MCP allows

_TEXT = {"type": "string"}
# One flat object: some clients validate errors too, and fail on $ref or anyOf. It has only what a model must know
# before it calls, because every conversation contains it. answers.py describes all fields.
OUTPUT_SCHEMA: JSONObject = {
    "type": "object",
    "required": ["success", "uri"],
    "properties": {
        "success": {"type": "boolean"},
        "uri": _TEXT,
        "data": {"type": "object"},
        "error": _TEXT,
        "message": _TEXT,
        "suggested_actions": {"type": "array", "items": _TEXT},
        "transient": {"type": "boolean"},
    },
}


class ResourceRefused(MCPError):
    """A failed read as a JSON-RPC error. Its `data` is the body that the tool returns for the same failure.

    Args:
        error: the failure.
        version: of the protocol; by default that of the current request.
    """

    def __init__(self, error: GetResourceError, version: str | None = None) -> None:
        code = error.choose_code(version or _find_version())
        super().__init__(code=code, message=error.message, data=error.body())


def _find_version() -> str | None:
    """Return the protocol version of the current request; None outside of one."""
    try:
        request = get_context().request_context
    except RuntimeError:
        return None
    return request.protocol_version if request else None


class ManagedResource(Resource):
    """Every URI that a client can request. The manager answers it."""

    manager: SkipValidation[ResourceManager]
    requested: str

    model_config = ConfigDict(arbitrary_types_allowed=True)

    async def read(self) -> ResourceResult:
        """Return the data as one JSON text.

        Raises:
            ResourceRefused: with the error's code and body.
        """
        response = await self.manager.respond(self.requested, surface="resource")
        if isinstance(response, GetResourceError):
            raise ResourceRefused(response)
        meta = response.meta if isinstance(response, Document) else None
        contents = [ResourceContent(response.data_json, mime_type=response.mime_type, meta=meta)]
        if one := response.attachment:
            contents.append(ResourceContent(one.content, mime_type=one.mime_type))
        return CacheableResourceResult(contents, response)


class CacheableResourceResult(ResourceResult):
    """The result of a read that says how long a client may keep it, and whether others may use it.

    Its contents have the URI of the resource, also if the client asked for another address of it.
    """

    uri: str = ""
    ttl_ms: int = 0
    cache_scope: Literal["public", "private"] = "private"

    def __init__(self, contents: list[ResourceContent], answer: GetResourceSuccess) -> None:
        super().__init__(contents)
        self.uri, self.ttl_ms, self.cache_scope = answer.uri, answer.ttl_ms, answer.cache_scope

    def to_mcp_result(self, uri: AnyUrl | str) -> mcp_types.ReadResourceResult:
        result = super().to_mcp_result(self.uri or uri)
        return result.model_copy(update={"ttl_ms": self.ttl_ms, "cache_scope": self.cache_scope})


class ResourceSurface(Provider):
    """Lists the registry's resources, and answers every URI, known or not, so that every error has our body."""

    def __init__(self, manager: ResourceManager) -> None:
        super().__init__()
        self._manager = manager
        definitions = sorted(manager.registry.values(), key=lambda definition: definition["uri"])
        self._resources = [self._resource(one) for one in definitions if not path_variables(one["uri"])]
        self._templates = [_template(one) for one in definitions if one["is_template"]]  # also with only a query
        self._by_uri = {str(resource.requested): resource for resource in self._resources}
        # FastMCP's Resource requires a URL as `uri`; what a client sends can be anything.
        self._any = ManagedResource(uri="any://uri", name="any", requested="", manager=manager, mime_type=MIME_TYPE)

    async def _list_resources(self) -> Sequence[Resource]:
        return self._resources

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return self._templates

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        del version  # resources have none
        return self._by_uri.get(uri) or self._any.model_copy(update={"requested": uri})

    def _resource(self, definition: ResourceDefinition) -> ManagedResource:
        uri = path_of(definition["uri"])
        return ManagedResource(uri=uri, requested=uri, manager=self._manager, **_common(definition))


class GetResourceTool(Tool):
    """The tool that reads any resource. Its result always has the body both as JSON text and as structured content."""

    manager: SkipValidation[ResourceManager]

    model_config = ConfigDict(arbitrary_types_allowed=True)

    async def run(self, arguments: JSONObject) -> ToolResult:
        """Answer a call with any arguments. A failure is a result with `isError`, never a protocol error."""
        response = await self.manager.respond(arguments.get("uri"), surface="tool", others=leave_out_uri(arguments))
        return make_tool_result(response)


def leave_out_uri(arguments: JSONObject) -> JSONObject:
    """Return the arguments that the tool does not have."""
    return {name: value for name, value in arguments.items() if name != "uri"}


def make_tool_result(response: GetResourceSuccess | GetResourceError, *, has_schema: bool = True) -> ToolResult:
    """Return the result of a tool call. Only a tool with the schema of the body has structured content."""
    body = response.body() if has_schema else None
    content = [TextContent(type="text", text=response.body_json()), *make_attachment_blocks(response)]
    # The constructor would validate the whole body twice. The text was written from the same body.
    return ToolResult.model_construct(
        content=content, structured_content=body, meta=None, is_error=not response.success
    )


def make_attachment_blocks(response: GetResourceSuccess | GetResourceError) -> list[ContentBlock]:
    """Return the blocks that a tool's result has after its text: a picture as such, other bytes as a resource."""
    if isinstance(response, GetResourceError) or (one := response.attachment) is None:
        return []
    if one.mime_type.startswith("image/"):
        return [ImageContent(type="image", data=one.encode(), mime_type=one.mime_type)]
    contents = BlobResourceContents(uri=response.uri, blob=one.encode(), mime_type=one.mime_type)
    return [EmbeddedResource(type="resource", resource=contents)]


def add_surfaces(mcp: FastMCP, manager: ResourceManager) -> None:
    """Offer every resource of the manager on both surfaces of this server, with completion of template variables."""
    mcp.add_provider(ResourceSurface(manager))
    mcp.add_tool(
        GetResourceTool(
            name=TOOL_NAME,
            title="Get resource",
            description=describe_tool(manager),
            parameters=PARAMETERS,
            output_schema=OUTPUT_SCHEMA,
            annotations=ToolAnnotations(
                read_only_hint=True, idempotent_hint=True, destructive_hint=False, open_world_hint=True
            ),
            tags={"resources"},
            meta={"anthropic/maxResultSizeChars": LARGEST_ANSWER},  # Claude Code writes longer results into a file
            manager=manager,
        )
    )

    async def complete(
        reference: object, argument: CompletionArgument, context: CompletionContext | None
    ) -> mcp_types.Completion | None:
        if not isinstance(reference, ResourceTemplateReference):
            return None
        found = list[str]()
        with manager.guard(surface="completion", uri=reference.uri) as guarded:
            async with guarded.admission:
                guarded.read.uri = reference.uri if reference.uri in manager.registry else guarded.read.uri
                known = (context.arguments if context else None) or {}
                found = await manager.complete(reference.uri, argument.name, argument.value, known)
        return mcp_types.Completion(values=found[:_COMPLETIONS], has_more=len(found) > _COMPLETIONS or None)

    mcp.add_completion_handler(complete)
    logging.getLogger("fastmcp.server.server").addFilter(_should_log)


def describe_tool(manager: ResourceManager) -> str:
    """Build the tool's description. It is short, because each client pays for it in every conversation."""
    definitions = sorted(manager.registry.values(), key=lambda definition: definition["uri"])
    open_to_all = (one["uri"] for one in definitions if not one["requires_admin"] and not one["is_template"])
    example = next(open_to_all, "scheme://path")
    categories = groupby(definitions, key=lambda definition: definition["category"])
    return "\n".join(
        [
            "Read any resource of this server.\n",
            "Without `uri`, it lists all. URIs ([/x|/y] are optional):",
            *(f"{scheme}:// {_list_paths(rows)}" for scheme, rows in categories),
            f'Example: {{"uri": "{example}"}}.{_optional(definitions)}',
            "On failure, follow `suggested_actions`; if `transient`, repeat later.",
        ]
    )


def _list_paths(definitions: Iterable[ResourceDefinition]) -> str:
    """List paths with their marks: ? and (admin). Brackets contain what can be appended to the path before them."""
    paths = {
        path_of(one["uri"]).partition("://")[2]: ("?" if parameters_of(one) else "")
        + (" (admin)" if one["requires_admin"] else "")
        for one in definitions
    }
    return ", ".join(_nest(deque(sorted(paths.items(), key=lambda one: one[0].split("/"))), ""))


def _nest(paths: deque[tuple[str, str]], start: str) -> Iterator[str]:
    """Yield the paths that begin with `start`, without it, each with those that continue it in brackets."""
    while paths and paths[0][0].startswith(start):
        path, marks = paths.popleft()
        below = "|".join(_nest(paths, f"{path}/"))
        yield f"{path[len(start) - bool(start) :]}{marks}{f'[{below}]' if below else ''}"


def _optional(definitions: Iterable[ResourceDefinition]) -> str:
    """Explain `?`, if any URI takes parameters."""
    names = dict.fromkeys(name for one in definitions for name in parameters_of(one))
    return f" ? takes ?x=1&y=2: {', '.join(names)}." if names else ""


def _common(definition: ResourceDefinition) -> JSONObject:
    return {
        "name": definition["name"],
        "title": definition["name"],
        "description": definition["description"],
        "mime_type": MIME_TYPE,
        "tags": {definition["category"]},
        "meta": {
            "category": definition["category"],
            "requires_admin": definition["requires_admin"],
            "requires_sign_in": definition.get("requires_sign_in", False),
        },
    }


def _template(definition: ResourceDefinition) -> ResourceTemplate:
    parameters = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in definition["template_variables"]},
        "required": path_variables(definition["uri"]),
    }
    return ResourceTemplate(uri_template=definition["uri"], parameters=parameters, **_common(definition))


def _should_log(record: logging.LogRecord) -> bool:
    """Drop the traceback that FastMCP logs for a refused read, which has its own log line already."""
    return not (record.exc_info and isinstance(record.exc_info[1], ResourceRefused))

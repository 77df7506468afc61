"""The two surfaces over one manager: resources for FastMCP's resources protocol, and the tool `get_resource`."""

import logging
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from fastmcp import FastMCP
from fastmcp.resources import Resource, ResourceContent, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp.shared.exceptions import MCPError
from mcp_types import CompletionArgument, CompletionContext, ResourceTemplateReference, TextContent, ToolAnnotations
from pydantic import ConfigDict, SkipValidation

from quilt_mcp.manager import MIME_TYPE, ResourceManager
from quilt_mcp.models.responses import GetResourceError
from quilt_mcp.registry import ResourceDefinition, optional_parameters, path_of, path_variables
from quilt_mcp.trace import Read

TOOL_NAME = "get_resource"
PARAMETERS = {
    "type": "object",
    "properties": {
        "uri": {
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "default": None,
            "description": "The resource's URI; without it: all resources.",
        }
    },
    "additionalProperties": False,
}


_TEXT = {"type": "string"}
# One flat object for success and error: some clients check errors against it too, and break on $ref or on anyOf. It has
# what a model must know of before it calls; each further field costs every client bytes in each conversation, and time
# for each answer. The rest is described in models/responses.py.
OUTPUT_SCHEMA: dict[str, Any] = {
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
    """A failed read, on its way to the wire as a JSON-RPC error whose `data` is the body of the tool's error."""

    def __init__(self, error: GetResourceError) -> None:
        super().__init__(code=error.code, message=error.message, data=error.body())


class ManagedResource(Resource):
    """Any URI that a client may ask for; reading it asks the manager."""

    manager: SkipValidation[ResourceManager]
    requested: str

    model_config = ConfigDict(arbitrary_types_allowed=True)

    async def read(self) -> ResourceResult:
        """The data as one JSON text.

        Raises:
            ResourceRefused: with the error's code and body.
        """
        response = await self.manager.respond(self.requested, surface="resource")
        if isinstance(response, GetResourceError):
            raise ResourceRefused(response)
        return ResourceResult([ResourceContent(response.data_json, mime_type=response.mime_type)])


class ResourceSurface(Provider):
    """Lists the registry's resources and answers for every URI, known or not, so that refusals too carry our body."""

    def __init__(self, manager: ResourceManager) -> None:
        super().__init__()
        self._manager = manager
        definitions = sorted(manager.registry.values(), key=lambda definition: definition["uri"])
        self._resources = [self._resource(one) for one in definitions if not path_variables(one["uri"])]
        self._templates = [_template(one) for one in definitions if one["is_template"]]
        self._by_uri = {str(resource.requested): resource for resource in self._resources}
        # What FastMCP's Resource demands as `uri` is a URL; what a client sends need not be one.
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
    """The tool that reads any resource; the answer is the body as JSON text and as structured content, always both."""

    manager: SkipValidation[ResourceManager]

    model_config = ConfigDict(arbitrary_types_allowed=True)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Answer a call, whatever its arguments: a refusal is a result with `isError`, never a protocol error."""
        unknown = arguments.keys() - {"uri"}
        response = await self.manager.respond(arguments.get("uri"), surface="tool", unknown_arguments=unknown)
        text = TextContent(type="text", text=response.body_json())
        # Not by its constructor, which would look at all of the body twice: the body is what the text was written from.
        return ToolResult.model_construct(
            content=[text], structured_content=response.body(), meta=None, is_error=not response.success
        )


def add_surfaces(mcp: FastMCP, manager: ResourceManager) -> None:
    """Offer every resource of the manager on both surfaces of this server, with completion of template variables."""
    mcp.add_provider(ResourceSurface(manager))
    mcp.add_tool(
        GetResourceTool(
            name=TOOL_NAME,
            title="Get resource",
            description=tool_description(manager),
            parameters=PARAMETERS,
            output_schema=OUTPUT_SCHEMA,
            annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, destructive_hint=False),
            tags={"resources"},
            manager=manager,
        )
    )

    async def complete(reference: Any, argument: CompletionArgument, _: CompletionContext | None) -> list[str]:
        if not isinstance(reference, ResourceTemplateReference):
            return []

        async def values(read: Read) -> list[str]:
            read.uri = reference.uri if reference.uri in manager.registry else read.uri
            return await manager.complete(reference.uri, argument.name, argument.value)

        found = await manager.guarded(values, surface="completion", uri=reference.uri)
        return [] if isinstance(found, GetResourceError) else found

    mcp.add_completion_handler(complete)
    logging.getLogger("fastmcp.server.server").addFilter(_is_no_refusal)


def tool_description(manager: ResourceManager) -> str:
    """What the tool's description says on the wire: short, because each client pays for it in every conversation."""
    definitions = sorted(manager.registry.values(), key=lambda definition: definition["uri"])
    open_to_all = (one["uri"] for one in definitions if not one["requires_admin"] and not one["is_template"])
    example = next(open_to_all, "scheme://path")
    categories = groupby(definitions, key=lambda definition: definition["category"])
    return "\n".join(
        [
            "Read any resource of this server: the same data as resources/read, for clients that only use tools.",
            "",
            "Without `uri` it lists all resources with descriptions. URIs, by scheme:",
            *(f"{scheme}:// {', '.join(_short(one) for one in rows)}" for scheme, rows in categories),
            f'Example: {{"uri": "{example}"}}. Give each {{variable}} a value.{_optional(definitions)}',
            "",
            "`success` tells whether there is `data`; else `error` names the kind of failure, `suggested_actions` what",
            "to do next, and `transient` whether the same call may succeed later.",
        ]
    )


def _short(definition: ResourceDefinition) -> str:
    """The URI without its scheme and the names of its parameters, and whether it is for administrators."""
    uri = path_of(definition["uri"])
    parameters = "{?}" if uri != definition["uri"] else ""
    return uri.partition("://")[2] + parameters + (" (admin)" if definition["requires_admin"] else "")


def _optional(definitions: Iterable[ResourceDefinition]) -> str:
    """What may stand for `{?}`; nothing where no URI takes parameters."""
    names = dict.fromkeys(name for one in definitions for name in optional_parameters(one["uri"]))
    return f" {{?}} may be ?{'&'.join(f'{name}=…' for name in names)}." if names else ""


def _common(definition: ResourceDefinition) -> dict[str, Any]:
    return {
        "name": definition["name"],
        "description": definition["description"],
        "mime_type": MIME_TYPE,
        "tags": {definition["category"]},
        "meta": {"category": definition["category"], "requires_admin": definition["requires_admin"]},
    }


def _template(definition: ResourceDefinition) -> ResourceTemplate:
    parameters = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in definition["template_variables"]},
        "required": path_variables(definition["uri"]),
    }
    return ResourceTemplate(uri_template=definition["uri"], parameters=parameters, **_common(definition))


def _is_no_refusal(record: logging.LogRecord) -> bool:
    """FastMCP logs a traceback for whatever a resource raises; our refusals have had their one line already."""
    return not (record.exc_info and isinstance(record.exc_info[1], ResourceRefused))

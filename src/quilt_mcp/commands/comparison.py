"""Reads a URI on both surfaces and compares the answers."""

import json
import time
from typing import TypedDict

from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference, TextResourceContents

from quilt_mcp.commands.get import Body, ServerClient, call_tool
from quilt_mcp.core.answers import to_json
from quilt_mcp.core.registry import path_of, path_variables

NO_VALUE = "none"
"""The value of a variable that has no values in this world. Both surfaces then return an error."""


class Case(TypedDict):
    """One URI on both surfaces."""

    uri: str
    resource: bool
    """Whether resources/read returned data."""
    tool: bool
    """Whether get_resource returned data."""
    parity: bool
    """Whether both returned the same data, or the same error."""
    resource_ms: float
    tool_ms: float
    bytes: int
    """The length of the data, or of the error, as UTF-8 JSON."""


async def list_uris(client: ServerClient) -> list[str]:
    """Return every static URI, and for each template its URI with the first values that completion returns.

    Rows of a database have no `_meta`. Their templates stand for them.
    """
    static = {str(resource.uri) for resource in await client.list_resources() if resource.meta}
    templates = [template.uri_template for template in await client.list_resource_templates()]
    return sorted(static | {await _make_example(client, template) for template in templates})


async def compare(client: ServerClient, uri: str) -> Case:
    """Read a URI with resources/read, then with get_resource, and compare the answers."""
    await call_tool(client, uri)  # opens the connections, so that neither of the timed reads has to
    started = time.perf_counter()
    data, error = await _read(client, uri)
    between = time.perf_counter()
    body = await call_tool(client, uri)
    ended = time.perf_counter()
    if error is None:
        parity = body["success"] and data == to_json(body["data"]) and json.loads(data) == body["data"]
    else:
        parity = error == body
    return {
        "uri": uri,
        "resource": error is None,
        "tool": body["success"],
        "parity": parity,
        "resource_ms": _milliseconds(between - started),
        "tool_ms": _milliseconds(ended - between),
        "bytes": len((data if error is None else to_json(error)).encode()),
    }


async def _make_example(client: ServerClient, template: str) -> str:
    reference, uri = ResourceTemplateReference(uri=template), path_of(template)
    for variable in path_variables(template):
        found = await client.complete(reference, {"name": variable, "value": ""})
        uri = uri.replace(f"{{{variable}}}", next(iter(found.values), NO_VALUE))
    return uri


async def _read(client: ServerClient, uri: str) -> tuple[str, Body | None]:
    """Return the text of resources/read and None, or an empty text and the body of the error."""
    try:
        contents = await client.read_resource(uri)
    except MCPError as error:
        return "", error.data or {}
    return "".join(part.text for part in contents if isinstance(part, TextResourceContents)), None


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 1)

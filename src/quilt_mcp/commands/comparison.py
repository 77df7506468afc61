"""Reads a URI on both surfaces and compares the answers."""

import json
import time
from typing import Any, TypedDict

from fastmcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference, TextResourceContents

from quilt_mcp.commands.session import call_tool
from quilt_mcp.models.responses import to_json
from quilt_mcp.registry import path_of, path_variables

NO_VALUE = "none"  # stands for a variable of which the world has no value; both surfaces then refuse it


class Case(TypedDict):
    """One URI on both surfaces."""

    uri: str
    resource: bool
    """Whether resources/read gave data."""
    tool: bool
    """Whether get_resource did."""
    parity: bool
    """Whether both gave the same data, or both the same refusal."""
    resource_ms: float
    tool_ms: float
    bytes: int
    """The length of the data, or of the refusal, as UTF-8 JSON."""


async def case_uris(client: Client[Any]) -> list[str]:
    """Every static URI, and for each template the URI with the first values that completion gives.

    Rows of a database, which carry no `_meta`, are left to their templates.
    """
    static = {str(resource.uri) for resource in await client.list_resources() if resource.meta}
    templates = [template.uri_template for template in await client.list_resource_templates()]
    return sorted(static | {await _example(client, template) for template in templates})


async def compare(client: Client[Any], uri: str) -> Case:
    """Read a URI with resources/read, then with get_resource, and compare."""
    await call_tool(client, uri)  # so that neither of the two that are timed has to open the connections
    started = time.perf_counter()
    data, refusal = await _read(client, uri)
    between = time.perf_counter()
    body = await call_tool(client, uri)
    ended = time.perf_counter()
    if refusal is None:
        parity = body["success"] and data == to_json(body["data"]) and json.loads(data) == body["data"]
    else:
        parity = refusal == body
    return {
        "uri": uri,
        "resource": refusal is None,
        "tool": body["success"],
        "parity": parity,
        "resource_ms": _milliseconds(between - started),
        "tool_ms": _milliseconds(ended - between),
        "bytes": len((data if refusal is None else to_json(refusal)).encode()),
    }


async def _example(client: Client[Any], pattern: str) -> str:
    reference, uri = ResourceTemplateReference(uri=pattern), path_of(pattern)
    for variable in path_variables(pattern):
        found = await client.complete(reference, {"name": variable, "value": ""})
        uri = uri.replace(f"{{{variable}}}", next(iter(found.values), NO_VALUE))
    return uri


async def _read(client: Client[Any], uri: str) -> tuple[str, Any]:
    """The text that resources/read gives, and None; or nothing, and the body of its refusal."""
    try:
        contents = await client.read_resource(uri)
    except MCPError as error:
        return "", error.data or {}
    return "".join(part.text for part in contents if isinstance(part, TextResourceContents)), None


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1e3, 1)

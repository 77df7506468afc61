"""Reads a server on both surfaces, for the tests of the tool."""

import base64
import json
from typing import Any

from fastmcp import Client, FastMCP
from mcp.shared.exceptions import MCPError
from mcp_types import ImageContent, ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult, TextContent

Body = dict[str, Any]


async def read(server: FastMCP[Any], uri: str) -> tuple[list[Any], Body]:
    """Return the contents of resources/read, or none, and the body of its refusal, or an empty one."""
    async with Client(server) as client:
        request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri))
        try:
            return (await client.session.send_request(request, ReadResourceResult)).contents, {}
        except MCPError as refused:
            return [], {"code": refused.error.code, **refused.error.data}


async def call(server: FastMCP[Any], arguments: Body, name: str = "get_resource") -> tuple[Body, list[bytes]]:
    """Return the tool's body and its images."""
    async with Client(server) as client:
        result = await client.call_tool_mcp(name, arguments)
        texts = [block for block in result.content if isinstance(block, TextContent)]
        images = [base64.b64decode(block.data) for block in result.content if isinstance(block, ImageContent)]
        body: Body = json.loads(texts[0].text)
        assert result.structured_content == body
        assert result.is_error is not body["success"]
        return body, images


async def refuse(server: FastMCP[Any], uri: str) -> Body:
    """Return the refusal of a URI. Both surfaces must refuse with the same body."""
    contents, native = await read(server, uri)
    body, _ = await call(server, {"uri": uri})
    assert contents == []
    assert {key: value for key, value in native.items() if key != "code"} == body
    return native

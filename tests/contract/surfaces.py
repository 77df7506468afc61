"""Asking both surfaces, and demanding that they agree."""

import json
from dataclasses import dataclass
from typing import Any

from fastmcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)

AnyClient = Client[Any]


@dataclass(frozen=True)
class Answer:
    """What both surfaces answer: the data, or the two forms of one refusal."""

    uri: str
    body: dict[str, Any]
    """The tool's body, without its timestamp."""
    resource_error: dict[str, Any] | None = None

    def observed(self) -> dict[str, Any]:
        """What the golden holds."""
        if self.resource_error is None:
            return self.body
        return {"resource": self.resource_error, "tool": self.body}


async def ask(client: AnyClient, uri: str) -> Answer:
    """Read the URI on both surfaces.

    Raises:
        AssertionError: they differ in anything but what the protocol makes different.
    """
    body, tool_data = await _ask_tool(client, uri)
    try:
        # The plain request: FastMCP's own method normalises the URI, and refuses some before they are sent.
        request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri))
        contents = (await client.session.send_request(request, ReadResourceResult)).contents
    except MCPError as refused:
        error = refused.error.model_dump(mode="json", exclude_none=True)
        assert body["success"] is False, f"{uri}: refused as a resource, answered by the tool"
        assert error["data"] == body, f"{uri}: the two refusals differ"
        assert error["message"] == body["message"]
        return Answer(uri, body, error)
    assert body["success"] is True, f"{uri}: answered as a resource, refused by the tool"
    [content] = contents
    assert isinstance(content, TextResourceContents)
    assert (content.uri, content.mime_type) == (uri, body["mime_type"])
    assert content.text == tool_data, f"{uri}: the data differ"
    return Answer(uri, body)


async def _ask_tool(client: AnyClient, uri: str) -> tuple[dict[str, Any], str]:
    """The tool's body without the timestamp, and the JSON text of its data, byte for byte as it stands in the body."""
    result = await client.call_tool_mcp("get_resource", {"uri": uri})
    [content] = result.content
    assert isinstance(content, TextContent)
    body: dict[str, Any] = json.loads(content.text)
    assert result.structured_content == body, f"{uri}: text and structured content differ"
    assert result.is_error is (not body["success"])
    assert body.pop("timestamp", None) or not body["success"]
    data = json.dumps(body.get("data"), ensure_ascii=False, separators=(",", ":"))
    assert body.get("data") is None or data in content.text
    return body, data

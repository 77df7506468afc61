"""The tool's answers: the body of a read as JSON text and as structured content, and images as images."""

import base64
import json
from typing import Any

from fastmcp.resources import ResourceContent
from fastmcp.tools.base import ToolResult
from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent
from pydantic_core import from_json

JSONObject = dict[str, Any]


def parse_json(text: str) -> Any:
    """Return the object or array that the text contains, or None.

    The MIME type is not considered: FastMCP announces a dict as text/plain by default. NaN and infinity are
    not JSON.
    """
    if text[:1] not in "{[" and text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return None


def to_json(value: object) -> str:
    """Return compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def answer(body: JSONObject, *, is_error: bool = False) -> ToolResult:
    """Return a result of a body that is small or not yet JSON text."""
    return _result([TextContent(type="text", text=to_json(body))], body, is_error=is_error)


def answer_read(uri: str, contents: list[ResourceContent]) -> ToolResult:
    """Return the result of a successful read."""
    head = {"success": True, "uri": uri}
    described = [_describe(content) for content in contents]
    images = [image for _, _, image in described if image is not None]
    if len(described) == 1:
        body, text, _ = described[0]
        merged = f"{to_json(head)[:-1]},{text[1:]}"
        return _result([TextContent(type="text", text=merged), *images], head | body)
    joined = ",".join(text for _, text, _ in described)
    merged = f'{to_json(head)[:-1]},"contents":[{joined}]}}'
    bodies = [body for body, _, _ in described]
    return _result([TextContent(type="text", text=merged), *images], head | {"contents": bodies})


def _describe(content: ResourceContent) -> tuple[JSONObject, str, ImageContent | None]:
    """Return the content as a JSON object and as the text of this object, and the image if it is one."""
    if isinstance(content.content, bytes):
        mime_type = content.mime_type or "application/octet-stream"
        blob = base64.b64encode(content.content).decode()
        if mime_type.startswith("image/"):  # a model sees the image; base64 text would be of no use to it
            body: JSONObject = {"mime_type": mime_type, "bytes": len(content.content)}
            return body, to_json(body), ImageContent(type="image", data=blob, mime_type=mime_type)
        body = {"mime_type": mime_type, "blob": blob}
        return body, to_json(body), None
    head = {"mime_type": content.mime_type or "text/plain"}
    parsed = parse_json(content.content)
    if parsed is None:
        body = head | {"text": content.content}
        return body, to_json(body), None
    # The resource's own JSON text becomes a part of the answer's text. It is not written again.
    return head | {"data": parsed}, f'{to_json(head)[:-1]},"data":{content.content}}}', None


def _result(content: list[ContentBlock], body: JSONObject, *, is_error: bool = False) -> ToolResult:
    # The constructor would copy and validate the whole body. The text was written from the same body.
    return _Result.model_construct(content=content, structured_content=body, meta=None, is_error=is_error)


class _Result(ToolResult):
    def to_mcp_result(self) -> CallToolResult:
        """Return the result for the SDK."""
        return _Sent.model_construct(
            content=self.content, structured_content=self.structured_content, is_error=self.is_error, meta=self.meta
        )


class _Sent(CallToolResult):
    def model_dump(self, **options: Any) -> JSONObject:
        """Return the wire form. The body has JSON types already: it is not walked again."""
        return super().model_dump(exclude={"structured_content"}, **options) | {
            "structuredContent": self.structured_content
        }

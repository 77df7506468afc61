"""Asks the tool for a resource, and brings its answer into the form of resources/read."""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mcp_types import EmbeddedResource, ImageContent, TextContent, TextResourceContents

from mcp_parity.serving import AnyClient
from mcp_parity.settings import ContractError
from mcp_parity.shown import parse_json, show_blob, show_text
from mcp_parity.values import are_equal


@dataclass(frozen=True)
class ToolAnswer:
    """The tool's answer.

    Attributes:
        refused: whether it is an error.
        message: the error's text.
        contents: in the form of a golden.
        body: the structured content, if the tool answers with `success` and `uri`.
    """

    refused: bool
    message: str
    contents: list[dict[str, Any]]
    body: dict[str, Any] | None

    def trim(self, contents: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        """Return the contents of resources/read with only the fields that the tool tells."""
        kept = {"data", "lines", "blob"} | ({"mime_type"} if self.body is not None else set())
        return [{name: value for name, value in one.items() if name in kept} for one in contents or []]


async def ask_tool(client: AnyClient, tool: str, uri: str, contents: list[dict[str, Any]] | None) -> ToolAnswer:
    """Call the tool with the URI. `contents` is what resources/read answers.

    Raises:
        ContractError: the parts of the answer contradict each other.
    """
    result = await client.call_tool_mcp(tool, {"uri": uri})
    body = result.structured_content
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    message = " ".join(texts)[:200]
    if not (isinstance(body, dict) and {"success", "uri"} <= body.keys()):
        refused = bool(result.is_error)
        return ToolAnswer(refused, message, [] if refused else _show_blocks(result.content, texts, contents), None)
    if not are_equal([json.loads(text) if text[:1] == "{" else None for text in texts], [body]):
        raise ContractError(f"{uri}: the text and the structured content of {tool} differ")
    if result.is_error is not (not body["success"]):
        raise ContractError(f"{uri}: {tool} has success {body['success']}, but isError {result.is_error}")
    body.pop("timestamp", None)
    if result.is_error:
        return ToolAnswer(refused=True, message=str(body.get("message")), contents=[], body=body)
    images = [block.data for block in result.content if isinstance(block, ImageContent)]
    return ToolAnswer(refused=False, message="", contents=_show_body(body, images), body=body)


def _show_body(body: dict[str, Any], images: list[str]) -> list[dict[str, Any]]:
    return [{"mime_type": one.get("mime_type")} | _show_part(one, images) for one in body.get("contents", [body])]


def _show_part(part: dict[str, Any], images: list[str]) -> dict[str, Any]:
    if "data" in part:
        return {"data": part["data"]}
    if "text" in part:
        return show_text(part["text"])
    if "blob" in part or images:
        return show_blob(part["blob"] if "blob" in part else images.pop(0), part.get("mime_type"))
    return {}


def _show_blocks(blocks: list[Any], texts: list[str], contents: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the answer of a tool of any form: a text, a list of contents as JSON text, or a block per content."""
    expected = contents or []
    if len(blocks) == len(expected):
        return [_show_block(block, one) for block, one in zip(blocks, expected, strict=True)]
    listed = parse_json(texts[0]) if len(texts) == 1 else None
    if isinstance(listed, list) and len(listed) == len(expected):
        values = [one.get("content") if isinstance(one, dict) else None for one in listed]
        return [_show_value(str(value), one) for value, one in zip(values, expected, strict=True)]
    return [_show_block(block, {}) for block in blocks]


def _show_block(block: Any, expected: dict[str, Any]) -> dict[str, Any]:
    found = block.resource if isinstance(block, EmbeddedResource) else block
    if isinstance(found, TextContent | TextResourceContents):
        return _show_value(found.text, expected)
    return _show_value(str(getattr(found, "blob", getattr(found, "data", ""))), {"blob": {}} | expected)


def _show_value(text: str, expected: dict[str, Any]) -> dict[str, Any]:
    if "blob" in expected:
        with suppress(ValueError):
            return show_blob(text, expected.get("mime_type"))
    return show_text(text)

"""Bytes that belong to an answer: a blob of resources/read, and a block of the tool's result."""

import base64
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from mcp_types import EmbeddedResource, ImageContent, TextContent

from quilt_mcp.core.answers import Attachment, ServiceResult
from quilt_mcp.core.manager import ResourceManager
from quilt_mcp.core.registry import define
from tests.support.toys import toy_manager, toy_server

PICTURE = b"\x89PNG\r\n\x1a\n\xff\0"


def picture() -> ServiceResult[dict[str, Any]]:
    """A picture."""
    return ServiceResult({"size": len(PICTURE)}, Attachment(PICTURE, "image/png"), ttl_seconds=60)


async def archive() -> ServiceResult[dict[str, Any]]:
    """An archive, whose data have half of a surrogate pair."""
    return ServiceResult({"name": "\ud800"}, Attachment(b"PK\0", "application/zip"), ttl_seconds=5)


def plain() -> dict[str, Any]:
    """No attachment."""
    return {"a": 1}


def make_manager(**options: Any) -> ResourceManager:
    rows = [
        define("demo://picture", picture, name="Picture"),
        define("demo://archive", archive, name="Archive", ttl_seconds=9),
        define("demo://plain", plain, name="Plain", ttl_seconds=9),
    ]
    return toy_manager(*rows, **options)


@pytest.fixture
def mcp() -> FastMCP:
    return toy_server(make_manager())


async def test_a_picture_is_a_second_content_and_an_image_of_the_tool(mcp: FastMCP) -> None:
    async with Client(mcp) as client:
        data, blob = await client.read_resource("demo://picture")
        found = await client.call_tool_mcp("get_resource", {"uri": "demo://picture"})
    assert (data.mime_type, data.text) == ("application/json", '{"size":10}')
    assert (blob.mime_type, base64.b64decode(blob.blob), str(blob.uri)) == ("image/png", PICTURE, "demo://picture")
    text, image = found.content
    assert isinstance(text, TextContent)
    assert isinstance(image, ImageContent)
    assert (base64.b64decode(image.data), image.mime_type) == (PICTURE, "image/png")
    assert "blob" not in text.text


async def test_other_bytes_are_an_embedded_resource_of_the_tool(mcp: FastMCP) -> None:
    async with Client(mcp) as client:
        data, blob = await client.read_resource("demo://archive")
        found = await client.call_tool_mcp("get_resource", {"uri": "demo://archive"})
    block = found.content[1]
    assert isinstance(block, EmbeddedResource)
    assert block.resource == blob
    assert (data.text, blob.mime_type, base64.b64decode(blob.blob)) == ('{"name":"?"}', "application/zip", b"PK\0")


async def test_an_answer_can_say_how_long_it_may_be_kept() -> None:
    manager = make_manager()
    times = {}
    for name in ("picture", "archive", "plain"):
        found = await manager.respond(f"demo://{name}", surface="tool")
        assert found.success
        times[name] = found.ttl_ms
    assert times == {"picture": 60_000, "archive": 5_000, "plain": 9_000}


async def test_bytes_count_for_the_size_of_an_answer() -> None:
    assert (await make_manager(max_bytes=21).respond("demo://picture", surface="tool")).success
    refused = await make_manager(max_bytes=20).respond("demo://picture", surface="tool")
    assert not refused.success
    assert refused.details == "21 bytes; the maximum is 20."

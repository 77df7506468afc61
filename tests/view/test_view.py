"""The tool `show_resource` and its page, without a browser."""

import json
import logging
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError
from syrupy.assertion import SnapshotAssertion

from quilt_mcp.core.introduction import APPS, APPS_SESSION
from quilt_mcp.demo.world import World
from quilt_mcp.server import QuiltServer, create_server
from quilt_mcp.settings import HTTPSettings
from quilt_mcp.view import META, MIME_TYPE, PLACEHOLDER, make_page, read_page
from tests.http.web import ACCEPT, new_client, running
from tests.support.serving import PROTOCOLS, SESSIONLESS
from tests.support.settings import Settings
from tests.support.worlds import in_world

APP_CLIENT = [advertise(APPS, {"mimeTypes": [MIME_TYPE]})]
LARGEST = 46_000
NODE = shutil.which("node")


def client_of(server: QuiltServer, mode: str = "auto", *, shows_pages: bool = True) -> Client[Any]:
    return Client(server, mode=mode, extensions=APP_CLIENT if shows_pages else None)


def test_the_page_is_one_file_without_requests_and_without_markup_from_texts() -> None:
    text = read_page()
    assert len(text.encode()) <= LARGEST
    assert text.count(PLACEHOLDER) == 1
    assert not re.search(
        r"https?://|//cdn|@import|url\(|\bsrc=|innerHTML|outerHTML|insertAdjacent|document\.write", text
    )
    assert not re.search(r"\beval\(|new Function|localStorage|document\.cookie|fetch\(|XMLHttpRequest|WebSocket", text)


def test_the_page_knows_no_resource() -> None:
    schemes = {uri.partition("://")[0] for uri in create_server().manager.registry}
    assert [scheme for scheme in schemes if f"{scheme}://" in read_page()] == []


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_script_is_valid(tmp_path: Path) -> None:
    [script] = re.findall(r"<script>\n(.*)</script>", read_page(), re.DOTALL)
    (tmp_path / "page.js").write_text(script, encoding="utf-8")
    done = subprocess.run([str(NODE), "--check", "page.js"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_address_changes_with_the_page() -> None:
    definitions = list(create_server().manager.registry.values())
    page, shorter = make_page(definitions), make_page(definitions[:1])
    assert re.fullmatch(r"ui://quilt-mcp/view/[0-9a-f]{16}", page.uri)
    assert page.uri == make_page(reversed(definitions)).uri != shorter.uri
    assert "requirements://epics/{id}" in page.text


@pytest.mark.parametrize(
    ("view", "shows_pages", "is_listed"),
    [("auto", True, True), ("auto", False, False), ("on", False, True), ("off", True, False)],
)
@pytest.mark.parametrize("mode", PROTOCOLS)
async def test_the_tool_is_for_clients_that_show_pages(
    mode: str,
    view: str,
    shows_pages: bool,  # noqa: FBT001 - a case
    is_listed: bool,  # noqa: FBT001 - a case
) -> None:
    server = create_server(Settings(view=view))
    async with client_of(server, mode, shows_pages=shows_pages) as client:
        listed = {tool.name: tool for tool in await client.list_tools()}
        called = await client.call_tool("show_resource", {"uri": "metadata://templates"}, raise_on_error=False)
    assert ("show_resource" in listed) is is_listed
    assert called.is_error is not is_listed
    assert "ui" not in (listed["get_resource"].meta or {})
    if is_listed:
        [address] = server.manager.documents
        assert listed["show_resource"].meta["ui"] == {"resourceUri": address}


@pytest.mark.parametrize("mode", PROTOCOLS)
async def test_other_clients_get_the_same_lists_byte_by_byte(mode: str) -> None:
    found = []
    for view in ("auto", "off"):
        async with client_of(create_server(Settings(view=view)), mode, shows_pages=False) as client:
            lists = [await client.list_tools(), await client.list_resources(), await client.list_resource_templates()]
        found.append([one.model_dump_json() for rows in lists for one in rows])
    assert found[0] == found[1]


@in_world("admin")
async def test_the_model_gets_a_sentence_and_the_page_the_answer(
    world: World, server: QuiltServer, mcp_golden: SnapshotAssertion
) -> None:
    async with client_of(server) as client:
        [tool] = [one for one in await client.list_tools() if one.name == "show_resource"]
        assert tool.model_dump(mode="json", by_alias=True, exclude_none=True) == mcp_golden(
            name="discovery/show-resource"
        )
        for uri, said in {
            "requirements://epics": "The person sees All Epics (requirements://epics), with 9 epics in a view.",
            "auth://status": "The person sees Auth Status (auth://status) in a view.",
            None: "The person sees the list of resources in a view.",
        }.items():
            shown = await client.call_tool("show_resource", {"uri": uri})
            read = await client.call_tool("get_resource", {"uri": uri})
            assert shown.content[0].text.startswith(said)
            assert without_time(shown.structured_content) == without_time(read.structured_content)
        page = await client.call_tool("show_resource", {"uri": "requirements://requirements?limit=2"})
        assert "with 2 requirements and a next page in a view" in page.content[0].text


def without_time(body: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (body or {}).items() if name != "timestamp"}


async def test_the_text_claims_only_what_the_client_declares() -> None:
    async with client_of(create_server(Settings(view="on")), shows_pages=False) as client:
        shown = await client.call_tool("show_resource", {"uri": "metadata://examples"})
    body = json.loads(shown.content[0].text)
    assert body == shown.structured_content
    assert "sees" not in shown.content[0].text


async def test_the_model_gets_a_failure_as_well() -> None:
    async with client_of(create_server()) as client:
        shown = await client.call_tool("show_resource", {"uri": "metadata://templates/none"}, raise_on_error=False)
        read = await client.call_tool("get_resource", {"uri": "metadata://templates/none"}, raise_on_error=False)
        odd = await client.call_tool("show_resource", {"url": "x"}, raise_on_error=False)
    assert shown.is_error
    assert (shown.content, shown.structured_content) == (read.content, read.structured_content)
    assert odd.structured_content["error"] == "InvalidURI"


@pytest.mark.parametrize("mode", PROTOCOLS)
async def test_the_page_is_read_like_a_resource_but_not_listed(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "quilt_mcp")
    server = create_server()
    [address] = server.manager.documents
    async with client_of(server, mode) as client:
        found = await client.read_resource_mcp(address)
        listed = [str(one.uri) for one in await client.list_resources()]
        with pytest.raises(MCPError, match="not recognized"):
            await client.read_resource("ui://quilt-mcp/view/0123456789abcdef")
        by_tool = await client.call_tool("get_resource", {"uri": address}, raise_on_error=False)
    [content] = found.contents
    assert (content.mime_type, content.meta, content.text) == (MIME_TYPE, META, server.manager.documents[address].text)
    assert [uri for uri in listed if uri.startswith("ui:")] == []
    assert by_tool.structured_content["error"] == "InvalidURI"
    assert sum(f"surface=resource uri={address} outcome=ok" in one.getMessage() for one in caplog.records) == 1
    if mode == SESSIONLESS:
        assert (found.ttl_ms, found.cache_scope) == (86_400_000, "public")


@pytest.mark.parametrize("is_direct", [True, False])
async def test_the_page_is_the_same_over_http(is_direct: bool) -> None:  # noqa: FBT001 - a case
    server = create_server()
    [address] = server.manager.documents
    direct = server.manager if is_direct else None
    async with running(server, HTTPSettings(), direct=direct) as url, Client(f"{url}/mcp", mode=SESSIONLESS) as client:
        found = await client.read_resource_mcp(address)
    [content] = found.contents
    assert (content.text, content.mime_type) == (server.manager.documents[address].text, MIME_TYPE)
    assert (content.meta, found.ttl_ms, found.cache_scope) == (META, 86_400_000, "public")


@pytest.mark.parametrize("shows_pages", [True, False])
@pytest.mark.parametrize("mode", PROTOCOLS)
async def test_the_tool_is_listed_over_http_as_well(mode: str, shows_pages: bool) -> None:  # noqa: FBT001 - a case
    server = create_server()
    extensions = APP_CLIENT if shows_pages else None
    async with (
        running(server, HTTPSettings(), direct=server.manager) as url,
        Client(f"{url}/mcp", mode=mode, extensions=extensions) as client,
    ):
        names = {tool.name for tool in await client.list_tools()}
        shown = await client.call_tool("show_resource", {"uri": "metadata://templates"}, raise_on_error=False)
        read = await client.call_tool("get_resource", {"uri": "metadata://templates"})
    assert ("show_resource" in names) is shows_pages
    assert shown.is_error is not shows_pages
    if shows_pages:
        assert shown.content[0].text.startswith("The person sees")
        assert without_time(shown.structured_content) == without_time(read.structured_content)


@pytest.mark.parametrize(
    ("capabilities", "has_id"),
    [
        ({"extensions": {APPS: {}}}, True),
        ({"extensions": {"com.example/other": {}}}, False),
        ({"extensions": None, "experimental": {APPS: {}}}, False),
        ({"extensions": [APPS, 1]}, False),
        ([APPS], False),
        (None, False),
    ],
)
async def test_only_clients_that_show_pages_get_a_session_id(capabilities: Any, has_id: bool) -> None:  # noqa: FBT001 - a case
    given = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "a", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": given}
    async with running(create_server(), HTTPSettings()) as url, new_client(url) as client:
        answers = [await client.post("/mcp", json=message, headers={"Accept": ACCEPT}) for _ in range(2)]
    ids = [one.headers.get("mcp-session-id", "") for one in answers]
    assert [one.startswith(APPS_SESSION) for one in ids] == [has_id] * 2
    assert len(set(ids)) == (2 if has_id else 1)


@pytest.mark.parametrize(("view", "announces"), [("auto", True), ("off", False)])
async def test_apps_are_announced_if_there_is_a_page(view: str, announces: bool) -> None:  # noqa: FBT001 - a case
    async with Client(create_server(Settings(view=view))) as client:
        capabilities = client.server_capabilities
    assert capabilities is not None
    assert (APPS in (capabilities.extensions or {})) is announces

"""Registries at addresses that do not belong to the catalog, and worlds that redirect: no token leaves the registry."""

from http import HTTPStatus

import pytest
from fastmcp import Client

from quilt_mcp.demo.http_server import Answer as Response
from quilt_mcp.demo.world import World
from quilt_mcp.server import create_server
from tests.contract.surfaces import ask
from tests.contract.test_hostile_stacks import STATUS, check
from tests.support.samples import choose_every
from tests.worlds.sign_in_mishaps import create_api_key

OTHER_REGISTRIES = (
    "http://quilt-registry.acme.example.com",
    "http://quilt-registry.acme.example.com:443",
    "https://quilt-registry.acme.example.com:8443",
    "https://registry.evil.example.net",
    "https://quilt-registry.acme.example.com.evil.example.net",
    "https://quilt.acme.example.com@evil.example.net",
    "https://evil.example.net/quilt-registry.acme.example.com",
    "https://evil.example.net\\.acme.example.com",
    "https://evil.example.net#.acme.example.com",
    "https://[::1]",
    "https://2130706433",
    "ftp://quilt-registry.acme.example.com",
    "file:///etc/passwd",
    "//quilt-registry.acme.example.com",
    "javascript:alert(1)",
    "https://",
    "https://\u202equilt.acme.example.com",
    "https://quilt-registry.acme.example.com\r\nX-Evil: 1",
    "x" * 100_000,
)


@pytest.mark.parametrize("address", choose_every(3, OTHER_REGISTRIES), ids=range(len(OTHER_REGISTRIES)))
async def test_a_registry_at_another_address_gets_no_token(
    address: str, fresh_world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stack = fresh_world.stack
    key = create_api_key(stack, stack.company.users[0])
    stack.forced["/config.json"] = Response(HTTPStatus.OK, {**stack.describe_catalog(), "registryUrl": address})
    monkeypatch.setenv("QUILT_API_KEY", key)
    monkeypatch.setenv("QUILT_CATALOG_URL", stack.url)
    async with Client(create_server()) as client:
        for uri in (STATUS, "auth://catalog/info", "admin://users", "permissions://discover"):
            answer = await ask(client, uri)
            check(answer, caplog)
            assert key not in str(answer)
        assert (await ask(client, STATUS)).body["data"]["authenticated"] is False
    assert [call for call in stack.calls if call.has_token] == []

"""`quilt-mcp doctor --sign-in`: a setting that does not fit the provider is named, and one sign-in proves the rest."""

import time
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from pydantic import AnyHttpUrl

from quilt_mcp.commands.doctor import doctor
from quilt_mcp.http.provider_checks import _check_clock, check_provider, sign_in_once
from tests.http.test_openid import AUDIENCE, OPAQUE, PUBLIC, Person, Provider, Proxy, home, provider  # noqa: F401 - fixtures
from tests.http.web import shop
from tests.support.settings import Settings


async def check(provider: Provider, **settings: Any) -> dict[str, tuple[str, str]]:  # noqa: F811 - not the fixture
    found = await check_provider(provider.settings(**settings))
    return {one["name"]: (one["state"], f"{one['detail']} {one['fix']}") for one in found}


async def test_settings_that_fit_are_ok(provider: Provider) -> None:  # noqa: F811 - a fixture
    provider.metadata = {"issuer": provider.url, "scopes_supported": ["openid", "read"]}
    found = await check(provider, required_scopes=("read",), oidc_audience=AUDIENCE)
    assert {name: state for name, (state, _) in found.items()} == {
        "metadata": "ok",
        "clock": "ok",
        "endpoints": "ok",
        "scopes": "ok",
        "keys": "ok",
        "tokens": "info",
        "redirect address": "info",
    }
    assert f"{PUBLIC}/auth/callback" in found["redirect address"][1]


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    # metadata, settings, the check, and what it says
    "issuer": ({}, {}, "metadata", "names the issuer https://issuer.example.com"),
    "scopes": ({"scopes_supported": ["openid"]}, {"required_scopes": ("read",)}, "scopes", "does not list read"),
    "endpoints": ({"token_endpoint": None}, {}, "endpoints", "lack token_endpoint"),
    "introspection": ({}, {"oidc_token": "introspection"}, "tokens", "QUILT_MCP_OIDC_TOKEN to id"),
    "keys": ({"jwks_uri": "http://127.0.0.1:1/"}, {}, "keys", "cannot be read (ConnectError)"),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_does_not_fit_is_named(case: str, provider: Provider) -> None:  # noqa: F811 - a fixture
    metadata, settings, name, said = CASES[case]
    provider.metadata = metadata
    state, text = (await check(provider, **settings))[name]
    assert (state, said in text) == ("failed", True), text


async def test_an_algorithm_without_a_key_is_named(provider: Provider) -> None:  # noqa: F811 - a fixture
    provider.algorithm = "ES256"
    state, text = (await check(provider))["keys"]
    assert (state, "none is for ES256; there are RSA" in text) == ("failed", True)


@pytest.mark.parametrize(("behind", "state"), [(None, "skipped"), (5, "ok"), (1200, "failed"), (-1200, "failed")])
def test_a_clock_that_is_off_is_measured(behind: float | None, state: str) -> None:
    assert _check_clock(None if behind is None else time.time() - behind)["state"] == state


@pytest.mark.filterwarnings("ignore:Using in-memory token storage")
@pytest.mark.parametrize(("tokens", "state"), [({}, "ok"), (OPAQUE, "failed")])
async def test_one_sign_in_proves_that_requests_are_accepted(
    tokens: Any,
    state: str,
    provider: Provider,  # noqa: F811 - a fixture
) -> None:
    settings = provider.settings(public_url=AnyHttpUrl(PUBLIC))
    provider.tokens = tokens
    async with shop(settings) as (client, _):

        def create(*_: Any, auth: httpx2.Auth | None = None, **options: Any) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(auth=auth, transport=Proxy(client, ""), base_url=PUBLIC, **options)

        transport = StreamableHttpTransport(f"{PUBLIC}/mcp", auth=Person(create(), PUBLIC), httpx_client_factory=create)
        found = await sign_in_once(settings, client=Client(transport))
    assert found["state"] == state, found
    if state == "failed":
        assert "Read the page in the browser" in str(found["fix"])


async def test_without_a_provider_nothing_is_checked() -> None:
    [found] = await check_provider(Settings())
    assert (found["state"], "QUILT_MCP_OIDC_CONFIG_URL" in found["detail"]) == ("skipped", True)


def test_the_command_prints_the_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor(sign_in=True) == 0
    assert "no OpenID provider is configured" in " ".join(capsys.readouterr().out.split())

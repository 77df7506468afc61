"""The ways to sign in, as the settings choose them; and settings that cannot be used."""

import asyncio
import json
import os
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import fastmcp
import httpx2
import pytest
from fastmcp.server.auth import OIDCProxy
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from joserfc.jwk import RSAKey
from pydantic import AnyHttpUrl, SecretStr

from quilt_mcp import runtime_context, shared_state
from quilt_mcp.cli import main
from quilt_mcp.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.errors import Unavailable
from quilt_mcp.http.auth import MisconfiguredSignIn, auth_from
from quilt_mcp.http.settings import HTTPSettings
from quilt_mcp.settings import Settings
from quilt_mcp.shared_state import SharedSignIns
from tests.over_http.web import ANN, READ_QUICK, TOKENS, Shop, shop
from tests.valkey_server import valkey_server

KEYS = RSAKeyPair.generate()
CALLBACK = "http://localhost:1234/callback"
ISSUER, AUDIENCE, PUBLIC = "https://issuer.example.com", "quilt-mcp", "https://mcp.example.com"
JWT: dict[str, Any] = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
JWT_VARIABLES = {"JWT_ISSUER": ISSUER, "JWT_AUDIENCE": AUDIENCE}


@pytest.fixture
def provider() -> Iterator[str]:
    """The URL of a server that publishes keys, and an OpenID configuration."""

    def answer(request: Request) -> Answer:
        key = RSAKey.import_key(KEYS.public_key).as_dict() | {"kid": "one", "alg": "RS256", "use": "sig"}
        pages: dict[str, Any] = {
            "/keys": {"keys": [key]},
            "/.well-known/openid-configuration": {
                "issuer": ISSUER,
                "authorization_endpoint": f"{ISSUER}/authorize",
                "token_endpoint": f"{ISSUER}/token",
                "jwks_uri": f"{url}/keys",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            },
        }
        found = pages.get(request.path)
        return Answer(HTTPStatus.OK, found) if found else Answer(HTTPStatus.NOT_FOUND, {})

    server = LoopbackServer(answer, 0)
    url = f"http://127.0.0.1:{server.port}"
    server.start()
    yield url
    server.stop()


def token(**claims: Any) -> dict[str, str]:
    made: dict[str, Any] = {"subject": "ann", "issuer": ISSUER, "audience": AUDIENCE, "kid": "one"} | claims
    return {"Authorization": f"Bearer {KEYS.create_token(**made)}"}


async def statuses(settings: HTTPSettings, *credentials: dict[str, str]) -> list[int]:
    """What a read is answered to each of these."""
    async with shop(settings) as (client, _):
        reads = [await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | one}) for one in credentials]
    return [answer.status_code for answer in reads]


async def test_with_published_keys(provider: str) -> None:
    settings = HTTPSettings(jwt_jwks_url=AnyHttpUrl(f"{provider}/keys"), **JWT)
    assert await statuses(settings, token(), token(audience="another")) == [HTTPStatus.OK, HTTPStatus.UNAUTHORIZED]


async def test_with_keys_that_cannot_be_had_nobody_is_let_in() -> None:
    settings = HTTPSettings(jwt_jwks_url=AnyHttpUrl("http://127.0.0.1:1/keys"), **JWT)
    assert await statuses(settings, token(), {}) == [HTTPStatus.UNAUTHORIZED] * 2


@pytest.mark.parametrize("is_file", ["in a file", "as the value"])
async def test_with_a_public_key(is_file: str, tmp_path: Path) -> None:
    place = tmp_path / "key.pem"
    place.write_text(KEYS.public_key)
    settings = HTTPSettings(jwt_public_key=str(place) if is_file == "in a file" else KEYS.public_key, **JWT)
    assert await statuses(settings, token(), token(issuer="x"), {}) == [HTTPStatus.OK, 401, 401]


@pytest.mark.parametrize("is_file", ["in a file", "as the value"])
async def test_with_static_tokens(is_file: str, tmp_path: Path) -> None:
    place = tmp_path / "tokens.json"
    place.write_text(TOKENS)
    value = SecretStr(str(place) if is_file == "in a file" else TOKENS)
    stranger = {"Authorization": "Bearer another"}
    assert await statuses(HTTPSettings(static_tokens=value), ANN, stranger, {}) == [HTTPStatus.OK, 401, 401]
    assert await statuses(HTTPSettings(static_tokens=value, required_scopes=("write",)), ANN) == [401]


def by_openid(provider: str) -> HTTPSettings:
    return HTTPSettings(
        oidc_config_url=AnyHttpUrl(f"{provider}/.well-known/openid-configuration"),
        oidc_client_id="quilt",
        oidc_client_secret=SecretStr("the-secret"),
        public_url=AnyHttpUrl(PUBLIC),
        allowed_hosts=("127.0.0.1",),
    )


async def registered(client: httpx2.AsyncClient) -> str:
    """The id of a client that has registered."""
    answer = await client.post("/register", json={"redirect_uris": [CALLBACK], "client_name": "zq-client"})
    assert answer.status_code == HTTPStatus.CREATED
    return str(answer.json()["client_id"])


async def begun(client: httpx2.AsyncClient, client_id: str) -> httpx2.Response:
    """What the client is answered that begins to sign someone in."""
    given = {"client_id": client_id, "redirect_uri": CALLBACK, "response_type": "code", "state": "1"}
    return await client.get("/authorize", params=given | {"code_challenge": "x" * 43, "code_challenge_method": "S256"})


async def test_by_way_of_an_openid_provider(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)  # FastMCP keeps the clients that register there
    async with shop(by_openid(provider)) as (client, _):
        refused = await client.post(**READ_QUICK)
        assert (refused.status_code, refused.text) == (HTTPStatus.UNAUTHORIZED, "")
        assert f"{PUBLIC}/.well-known/oauth-protected-resource/mcp" in refused.headers["www-authenticate"]
        server = (await client.get("/.well-known/oauth-authorization-server")).json()
        assert server["authorization_endpoint"] == f"{PUBLIC}/authorize"
        answer = await begun(client, await registered(client))
        assert answer.status_code == HTTPStatus.FOUND
        assert answer.headers["location"].startswith(f"{PUBLIC}/consent")
        assert (await client.get("/none")).status_code == HTTPStatus.UNAUTHORIZED
    assert "the-secret" not in caplog.text


def store_of(store: SharedSignIns, secret: str) -> SharedSignIns:
    assert secret == "the-secret"
    return store


async def test_machines_that_share_a_valkey_go_on_with_each_others_sign_ins(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    with valkey_server() as valkey:
        stores = [SharedSignIns(valkey.url, "the-secret") for _ in range(2)]
        one, other = (shop(by_openid(provider), shared_store=partial(store_of, store)) for store in stores)
        async with one as (first, _), other as (second, _):
            client_id = await registered(first)
            answer = await begun(second, client_id)
            page = await first.get(answer.headers["location"].removeprefix(PUBLIC))
            assert (page.status_code, "zq-client" in page.text) == (HTTPStatus.OK, True)
            read = valkey.values()
            assert set(valkey.lives()) == {True}
        for store in stores:
            await store.close()
    assert len(read) >= 2
    assert "zq-client" not in str(read)
    assert not any(files for _, _, files in os.walk(tmp_path))


def issued(shop: Shop) -> dict[str, str]:
    """A token that this server has signed; whose it is would stand in the store."""
    proxy = shop.server.auth
    assert isinstance(proxy, OIDCProxy)
    signed = proxy.jwt_issuer.issue_access_token(client_id="a", scopes=["openid"], jti="b", expires_in=3600)
    headers: dict[str, str] = READ_QUICK["headers"]
    return headers | {"Authorization": f"Bearer {signed}"}


async def test_while_sign_ins_cannot_be_looked_up_callers_are_told_to_wait(
    provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    with valkey_server() as valkey:
        store = SharedSignIns(valkey.url, "the-secret")
        async with shop(by_openid(provider), shared_store=partial(store_of, store)) as (client, found):
            good, junk = READ_QUICK | {"headers": issued(found)}, READ_QUICK | {"headers": READ_QUICK["headers"] | ANN}
            await store.check()
            assert (await client.post(**good)).status_code == HTTPStatus.UNAUTHORIZED
            valkey.stop()
            refused = [await client.post(**good), await client.post("/register", json={"redirect_uris": [CALLBACK]})]
            assert [answer.status_code for answer in refused] == [HTTPStatus.SERVICE_UNAVAILABLE] * 2
            assert {answer.headers["retry-after"] for answer in refused} == {"5"}
            assert not any("www-authenticate" in answer.headers for answer in refused)
            assert (await client.post(**junk)).status_code == HTTPStatus.UNAUTHORIZED
            with pytest.raises(Unavailable):
                await store.check()
            valkey.start()
            assert (await client.post(**good)).status_code == HTTPStatus.UNAUTHORIZED
        await store.close()
    assert valkey.url.removeprefix("unix://") not in caplog.text


async def test_a_rush_is_no_failure_of_the_store(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_state, "CONNECTIONS", 1)
    with valkey_server() as valkey:
        store = SharedSignIns(valkey.url, "the-secret")
        async with shop(by_openid(provider), shared_store=partial(store_of, store)) as (client, found):
            good = READ_QUICK | {"headers": issued(found)}
            answers = await asyncio.gather(*(client.post(**good) for _ in range(100)))
        await store.close()
    assert {answer.status_code for answer in answers} == {HTTPStatus.UNAUTHORIZED}


async def test_who_registers_sends_no_more_than_that_takes(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    async with shop(by_openid(provider)) as (client, _):
        answer = await client.post("/register", json={"redirect_uris": [CALLBACK], "client_name": "x" * 16_384})
    assert answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize("secret", ["", "  "])
def test_a_blank_secret_is_named(provider: str, secret: str) -> None:
    settings = by_openid(provider).model_copy(update={"oidc_client_secret": SecretStr(secret)})
    with pytest.raises(MisconfiguredSignIn, match="QUILT_MCP_OIDC_CLIENT_SECRET is blank"):
        auth_from(settings)


def test_the_settings_say_where_sign_ins_are_shared(provider: str) -> None:
    asked: list[str] = []
    auth_from(by_openid(provider), shared_store=asked.append)
    assert asked == ["the-secret"]
    before = runtime_context.settings()
    for url, kind in ((None, type(None)), (SecretStr("valkey://127.0.0.1:1"), SharedSignIns)):
        runtime_context.use_settings(Settings(state_url=url))
        assert isinstance(runtime_context.shared_sign_ins("the-secret"), kind)
    runtime_context.use_settings(before)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit status of `serve` and the one line that it says."""
    status = main(["serve", *arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = [line for line in captured.err.splitlines() if line.startswith("quilt-mcp: ")]
    return status, line


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"JWT_JWKS_URL": "https://x/keys"}, ["JWT_JWKS_URL", "JWT_ISSUER", "JWT_AUDIENCE"]),
        ({"JWT_PUBLIC_KEY": "x", "JWT_ISSUER": "x"}, ["JWT_PUBLIC_KEY", "JWT_AUDIENCE"]),
        ({"OIDC_CONFIG_URL": "https://x"}, ["OIDC_CONFIG_URL", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "PUBLIC_URL"]),
        ({"STATIC_TOKENS": TOKENS, "JWT_JWKS_URL": "https://x"}, ["STATIC_TOKENS", "JWT_JWKS_URL"]),
        ({"JWT_ISSUER": "https://x"}, ["JWT_ISSUER", "JWT_JWKS_URL", "JWT_PUBLIC_KEY"]),
        ({"REQUIRED_SCOPES": "read"}, ["REQUIRED_SCOPES", "OIDC_CONFIG_URL", "STATIC_TOKENS"]),
        ({"OIDC_CLIENT_SECRET": "the-secret"}, ["OIDC_CLIENT_SECRET", "OIDC_CONFIG_URL"]),
        ({"JWT_JWKS_URL": "no url"}, ["JWT_JWKS_URL"]),
        ({"JWT_ALGORITHM": "HS256"}, ["JWT_ALGORITHM"]),
        ({"TRUSTED_PROXIES": "10.0.0.0/8, nginx"}, ["TRUSTED_PROXIES"]),
        ({"STATIC_TOKENS": '{"the-secret": {"scopes": 1}}'}, ["STATIC_TOKENS"]),
        ({"STATIC_TOKENS": '{"the-secret"'}, ["STATIC_TOKENS"]),
        ({"STATIC_TOKENS": "/none/the-secret"}, ["STATIC_TOKENS"]),
        ({"JWT_PUBLIC_KEY": "/none", **JWT_VARIABLES}, ["JWT_PUBLIC_KEY"]),
        (
            {"JWT_PUBLIC_KEY": "-----BEGIN PRIVATE KEY-----", **JWT_VARIABLES},
            ["JWT_PUBLIC_KEY"],
        ),
        (
            {
                "OIDC_CONFIG_URL": "http://127.0.0.1:1/x",
                "OIDC_CLIENT_ID": "x",
                "OIDC_CLIENT_SECRET": "the-secret",
                "PUBLIC_URL": PUBLIC,
            },
            ["OIDC_CONFIG_URL"],
        ),
    ],
)
def test_settings_that_cannot_be_used_get_one_line(
    environment: dict[str, str],
    named: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"QUILT_MCP_{name}", value)
    status, line = refusal(capsys, "--transport", "http", "--port", "0")
    assert status == 2
    assert [name for name in named if f"QUILT_MCP_{name}" not in line] == []
    assert "the-secret" not in line


@pytest.mark.parametrize(
    ("environment", "arguments", "named"),
    [
        ({}, ["--host", "0.0.0.0"], "--allow-anyone-who-reaches-this-address"),  # noqa: S104 - it is refused
        ({}, ["--host", "::"], "--allow-anyone-who-reaches-this-address"),
        (
            {"STATIC_TOKENS": TOKENS},
            ["--host", "0.0.0.0", "--allow-anyone-who-reaches-this-address"],  # noqa: S104 - it is refused
            "--allow-static-tokens-beyond-this-machine",
        ),
        ({}, ["--workers", "2", "--demo"], "--demo"),
    ],
)
def test_an_address_that_others_reach_is_refused_unless_they_sign_in(
    environment: dict[str, str],
    arguments: list[str],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"QUILT_MCP_{name}", value)
    status, line = refusal(capsys, "--transport", "http", "--port", "0", *arguments)
    assert status == 2
    assert named in line


def test_sse_has_no_workers(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "--transport", "sse", "--workers", "2")[0] == 2


def test_a_host_that_is_unknown_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, line = refusal(capsys, "--transport", "http", "--host", "no-such-host.invalid")
    assert status == 1
    assert "no-such-host.invalid" in line


def test_lists_are_words_and_a_secret_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_ALLOWED_HOSTS", "a.example.com, b.example.com")
    monkeypatch.setenv("QUILT_MCP_STATIC_TOKENS", json.dumps({"the-secret": {"client_id": "ann"}}))
    monkeypatch.setenv("QUILT_MCP_METRICS_TOKEN", "the-secret")
    settings = HTTPSettings(_env_prefix="QUILT_MCP_")
    assert settings.allowed_hosts == ("a.example.com", "b.example.com")
    assert "the-secret" not in f"{settings!r} {settings.model_dump()} {settings.model_dump_json()}"


def test_without_settings_nobody_has_to_sign_in() -> None:
    assert auth_from(HTTPSettings()) is None
    with pytest.raises(MisconfiguredSignIn):
        auth_from(HTTPSettings(static_tokens=SecretStr("[]")))

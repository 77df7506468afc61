"""The kinds of sign-in that the settings select, and invalid settings."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import fastmcp
import httpx2
import pytest
import time_machine
from fastmcp.server.auth import OIDCProxy
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from joserfc.jwk import RSAKey
from pydantic import AnyHttpUrl, SecretStr
from starlette.responses import Response

from quilt_mcp.commands.cli import main
from quilt_mcp.commands.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.http.auth import MisconfiguredSignIn, SignIns, create_auth, find_checks
from quilt_mcp.http.layers import QUERY_BYTES, SIGN_IN_RATES, LimitSignIns
from quilt_mcp.http.shared_state import SharedSignIns
from quilt_mcp.settings import HTTPSettings
from tests.http.web import ANN, READ_QUICK, TOKENS, shop
from tests.support.toys import Shop
from tests.support.valkey_server import valkey_server

KEYS = RSAKeyPair.generate()
CALLBACK = "http://localhost:1234/callback"
ISSUER, AUDIENCE, PUBLIC = "https://issuer.example.com", "quilt-mcp", "https://mcp.example.com"
JWT: dict[str, Any] = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
JWT_VARIABLES = {"JWT_ISSUER": ISSUER, "JWT_AUDIENCE": AUDIENCE}


@pytest.fixture
def provider() -> Iterator[str]:
    """The URL of a server with keys and an OpenID configuration."""

    def answer(request: Request) -> Answer:
        key = RSAKey.import_key(KEYS.public_key).as_dict() | {"kid": "one", "alg": "RS256", "use": "sig"}
        configuration = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        pages: dict[str, Any] = {
            "/keys": {"keys": [key]},
            "/.well-known/openid-configuration": configuration | {"jwks_uri": f"{url}/keys"},
            "/without-keys/.well-known/openid-configuration": configuration | {"jwks_uri": f"{url}/none"},
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
    """The status of a read with each of these."""
    async with shop(settings) as (client, _):
        reads = [await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | one}) for one in credentials]
    return [answer.status_code for answer in reads]


async def test_tokens_are_verified_with_published_keys(provider: str) -> None:
    settings = HTTPSettings(jwt_jwks_url=AnyHttpUrl(f"{provider}/keys"), **JWT)
    assert await statuses(settings, token(), token(audience="another")) == [HTTPStatus.OK, HTTPStatus.UNAUTHORIZED]


async def test_no_token_can_be_verified_if_the_keys_cannot_be_fetched() -> None:
    settings = HTTPSettings(jwt_jwks_url=AnyHttpUrl("http://127.0.0.1:1/keys"), **JWT)
    assert await statuses(settings, token(), {}) == [HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.UNAUTHORIZED]


@pytest.mark.parametrize("is_file", ["in a file", "as the value"])
async def test_tokens_are_verified_with_a_public_key(is_file: str, tmp_path: Path) -> None:
    place = tmp_path / "key.pem"
    place.write_text(KEYS.public_key)
    settings = HTTPSettings(jwt_public_key=str(place) if is_file == "in a file" else KEYS.public_key, **JWT)
    assert await statuses(settings, token(), token(issuer="x"), {}) == [HTTPStatus.OK, 401, 401]


@pytest.mark.parametrize("is_file", ["in a file", "as the value"])
async def test_static_tokens_are_accepted(is_file: str, tmp_path: Path) -> None:
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


async def register(client: httpx2.AsyncClient) -> str:
    """Register a client and return its id."""
    answer = await client.post("/register", json={"redirect_uris": [CALLBACK], "client_name": "zq-client"})
    assert answer.status_code == HTTPStatus.CREATED
    return str(answer.json()["client_id"])


async def start_sign_in(client: httpx2.AsyncClient, client_id: str, state: str = "1") -> httpx2.Response:
    """Start a sign-in and return the response."""
    given = {"client_id": client_id, "redirect_uri": CALLBACK, "response_type": "code", "state": state}
    return await client.get("/authorize", params=given | {"code_challenge": "x" * 43, "code_challenge_method": "S256"})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which FastMCP stores sign-ins."""
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    return tmp_path


async def test_callers_sign_in_through_an_openid_provider(
    provider: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop(by_openid(provider)) as (client, _):
        refused = await client.post(**READ_QUICK)
        assert (refused.status_code, refused.text) == (HTTPStatus.UNAUTHORIZED, "")
        assert f"{PUBLIC}/.well-known/oauth-protected-resource/mcp" in refused.headers["www-authenticate"]
        server = (await client.get("/.well-known/oauth-authorization-server")).json()
        assert server["authorization_endpoint"] == f"{PUBLIC}/authorize"
        answer = await start_sign_in(client, await register(client))
        assert answer.status_code == HTTPStatus.FOUND
        assert answer.headers["location"].startswith(f"{PUBLIC}/consent")
        assert (await client.get("/none")).status_code == HTTPStatus.UNAUTHORIZED
        assert (await client.get("/ready")).status_code == HTTPStatus.OK
    assert "the-secret" not in caplog.text


async def test_the_server_is_not_ready_without_the_keys_of_the_provider(provider: str) -> None:
    check = find_checks(create_auth(by_openid(f"{provider}/without-keys")))["token-issuer"]
    with pytest.raises(Unavailable):
        await check()


def store_of(store: SharedSignIns, secret: str) -> SharedSignIns:
    assert secret == "the-secret"
    return store


async def test_machines_that_share_a_valkey_continue_each_others_sign_ins(provider: str, home: Path) -> None:
    with valkey_server() as valkey:
        stores = [SharedSignIns(valkey.url, "the-secret") for _ in range(2)]
        one, other = (shop(by_openid(provider), shared_store=partial(store_of, store)) for store in stores)
        async with one as (first, _), other as (second, _):
            client_id = await register(first)
            answer = await start_sign_in(second, client_id)
            page = await first.get(answer.headers["location"].removeprefix(PUBLIC))
            assert (page.status_code, "zq-client" in page.text) == (HTTPStatus.OK, True)
            read = valkey.values()
            assert set(valkey.expiries()) == {True}
        for store in stores:
            await store.close()
    assert len(read) >= 2
    assert "zq-client" not in str(read)
    assert count_files(home) == 0


def issue_token(shop: Shop) -> dict[str, str]:
    """A token that this server signed. The store does not contain its owner."""
    proxy = shop.server.auth
    assert isinstance(proxy, OIDCProxy)
    signed = proxy.jwt_issuer.issue_access_token(client_id="a", scopes=["openid"], jti="b", expires_in=3600)
    headers: dict[str, str] = READ_QUICK["headers"]
    return headers | {"Authorization": f"Bearer {signed}"}


async def test_callers_get_503_while_the_store_is_unavailable(provider: str, caplog: pytest.LogCaptureFixture) -> None:
    with valkey_server() as valkey:
        store = SharedSignIns(valkey.url, "the-secret")
        async with shop(by_openid(provider), shared_store=partial(store_of, store)) as (client, found):
            good, junk = (
                READ_QUICK | {"headers": issue_token(found)},
                READ_QUICK | {"headers": READ_QUICK["headers"] | ANN},
            )
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


async def test_many_concurrent_requests_are_not_a_failure_of_the_store(provider: str) -> None:
    with valkey_server() as valkey:
        store = SharedSignIns(valkey.url, "the-secret", connections=1)
        async with shop(by_openid(provider), shared_store=partial(store_of, store)) as (client, found):
            good = READ_QUICK | {"headers": issue_token(found)}
            answers = await asyncio.gather(*(client.post(**good) for _ in range(30)))
        await store.close()
    assert {answer.status_code for answer in answers} == {HTTPStatus.UNAUTHORIZED}


async def test_registrations_have_a_size_limit(provider: str, home: Path) -> None:
    async with shop(by_openid(provider)) as (client, _):
        answer = await client.post("/register", json={"redirect_uris": [CALLBACK], "client_name": "x" * 16_384})
    assert answer.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize("path", SIGN_IN_RATES)
async def test_an_address_can_begin_a_limited_number_of_sign_ins(path: str) -> None:
    app, rate = LimitSignIns(Response()), int(SIGN_IN_RATES[path].removesuffix("/minute"))

    async def ask(address: str, method: str = "GET") -> httpx2.Response:
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app, client=(address, 1)), base_url=PUBLIC
        ) as client:
            return await client.request(method, path)

    with time_machine.travel(0.0, tick=False):  # the window of the limit slides
        allowed = [await ask("2001:db8::1", ("GET", "POST", "HEAD")[number % 3]) for number in range(rate)]
        refused = [await ask("2001:db8::2", method) for method in ("GET", "POST", "HEAD")]
    others = [await ask(address) for address in ("2001:db8:0:1::1", "203.0.113.7", "nonsense")]
    others.append(await ask("2001:db8::1", "OPTIONS"))
    assert {answer.status_code for answer in (*allowed, *others)} == {HTTPStatus.OK}
    assert {answer.status_code for answer in refused} == {HTTPStatus.TOO_MANY_REQUESTS}
    assert int(refused[0].headers["retry-after"]) > 0


async def test_registrations_have_a_limit(provider: str, home: Path) -> None:
    async with shop(by_openid(provider)) as (client, _):
        with time_machine.travel(datetime.now(UTC), tick=False):  # the window of the limit slides
            for _ in range(20):
                await register(client)
            before = count_files(home)
            refused = await client.post("/register", json={"redirect_uris": [CALLBACK]})
        assert refused.status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert count_files(home) == before


async def test_requests_of_strangers_for_tokens_store_nothing(provider: str, home: Path) -> None:
    code = {"grant_type": "authorization_code", "code": "x", "code_verifier": "x" * 43, "redirect_uri": CALLBACK}
    counts = []
    async with shop(by_openid(provider)) as (client, _):
        known = {"client_id": await register(client)}
        for _ in range(2):  # the store writes a file for each kind of value when it first looks for one
            for path, form in (
                ("/token", code),
                ("/token", code | known),
                ("/token", {"grant_type": "refresh_token", "refresh_token": "x"} | known),
                ("/revoke", {"token": "x"} | known),
            ):
                assert (await client.post(path, data=form)).is_client_error
            await client.post("/mcp", headers=ANN)
            counts.append(count_files(home))
    assert counts[0] == counts[1]


async def test_a_long_query_is_an_error(provider: str, home: Path) -> None:
    async with shop(by_openid(provider)) as (client, _):
        known = await register(client)
        before = count_files(home)
        refused = await start_sign_in(client, known, state="x" * QUERY_BYTES)
        assert (refused.status_code, refused.json()["error"]) == (HTTPStatus.BAD_REQUEST, "invalid_request")
        assert count_files(home) == before
        assert (await start_sign_in(client, known, state="x" * 4096)).status_code == HTTPStatus.FOUND


def count_files(home: Path) -> int:
    return sum(1 for path in home.rglob("*") if path.is_file())


@pytest.mark.parametrize(("secret", "reason"), [("", "is blank"), (" \n", "is blank"), ("a\nb", "has several lines")])
def test_a_client_secret_is_one_line(provider: str, secret: str, reason: str) -> None:
    settings = by_openid(provider).model_copy(update={"oidc_client_secret": SecretStr(secret)})
    with pytest.raises(MisconfiguredSignIn, match=f"QUILT_MCP_OIDC_CLIENT_SECRET {reason}"):
        create_auth(settings)


def test_the_settings_select_the_store_of_sign_ins(provider: str) -> None:
    given: list[str] = []
    create_auth(by_openid(provider), shared_store=given.append)
    assert given == ["the-secret"]
    for url, kind in ((None, type(None)), (SecretStr("valkey://127.0.0.1:1"), SharedSignIns)):
        assert isinstance(SignIns(HTTPSettings(state_url=url)).open("the-secret", lambda: None), kind)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit status of `serve` and its one line on stderr."""
    status = main(["serve", *arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith("quilt-mcp: ")
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
def test_invalid_settings_give_one_line(
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
def test_a_public_address_needs_a_sign_in(
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


def test_workers_need_streamable_http(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "--transport", "sse", "--workers", "2")[0] == 2


def test_an_unknown_host_gives_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, line = refusal(capsys, "--transport", "http", "--host", "no-such-host.invalid")
    assert status == 1
    assert "no-such-host.invalid" in line


def test_lists_are_split_and_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_ALLOWED_HOSTS", "a.example.com, b.example.com")
    monkeypatch.setenv("QUILT_MCP_STATIC_TOKENS", json.dumps({"the-secret": {"client_id": "ann"}}))
    monkeypatch.setenv("QUILT_MCP_METRICS_TOKEN", "the-secret")
    settings = HTTPSettings(_env_prefix="QUILT_MCP_")
    assert settings.allowed_hosts == ("a.example.com", "b.example.com")
    assert "the-secret" not in f"{settings!r} {settings.model_dump()} {settings.model_dump_json()}"


def test_by_default_no_sign_in_is_needed() -> None:
    assert create_auth(HTTPSettings()) is None
    with pytest.raises(MisconfiguredSignIn):
        create_auth(HTTPSettings(static_tokens=SecretStr("[]")))

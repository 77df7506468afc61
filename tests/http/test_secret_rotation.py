"""Secrets that are replaced while the server runs, and sign-ins through an OpenID provider."""

import hashlib
import json
import re
import signal
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sized
from http import HTTPStatus
from pathlib import Path
from typing import Any

import fastmcp
import httpx2
import pytest
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from joserfc import jws
from joserfc.jwk import RSAKey
from pydantic import AnyHttpUrl, SecretStr

from quilt_mcp.commands.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.http.auth import create_auth
from quilt_mcp.http.sign_in_store import CLIENTS, SignInStore, delete_expired
from quilt_mcp.settings import HTTPSettings, Settings
from tests.http.web import READ_QUICK, shop
from tests.support.server_process import serve_http
from tests.support.waiting import until

RELOADED = re.compile("has read its settings again|keeps its settings")
OLD, NEW = "zq-old-secret", "zq-new-secret"
ISSUER, AUDIENCE, PUBLIC = "https://issuer.example.com", "quilt-mcp", "https://mcp.example.com"
CALLBACK = "http://localhost:1234/callback"
VERIFIER = "v" * 43
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


def tokens(*names: str) -> str:
    return json.dumps({name: {"client_id": "ann"} for name in names})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def read(client: httpx2.AsyncClient, token: str) -> int:
    return (await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | bearer(token)})).status_code


async def metrics(client: httpx2.AsyncClient, token: str) -> int:
    return (await client.get("/metrics", headers=bearer(token))).status_code


@pytest.mark.soak
async def test_workers_that_replace_others_read_the_files(tmp_path: Path) -> None:
    file = tmp_path / "metrics"
    file.write_text(OLD)
    async with (
        serve_http(tmp_path, "--workers", "2", QUILT_MCP_METRICS_TOKEN_FILE=str(file)) as server,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client,
    ):
        assert [await metrics(client, one) for one in (OLD, NEW)] == [200, 401]
        before = server.workers
        file.write_text(NEW)
        server.process.send_signal(signal.SIGHUP)
        await until(lambda: not set(before) & set(server.workers) and len(server.workers) == 2)
        async with httpx2.AsyncClient(base_url=client.base_url, trust_env=False) as second:
            assert [await metrics(second, one) for one in (OLD, NEW)] == [401, 200]
            before = server.workers
            file.write_text("")
            server.process.send_signal(signal.SIGHUP)
            await until(lambda: "aborting the restart" in server.log)
            assert (server.workers, await metrics(second, NEW)) == (before, 200)
        log = server.log
    assert f"this worker cannot start: Invalid settings: QUILT_MCP_METRICS_TOKEN_FILE: the file {file} is empty" in log
    assert (OLD in log, NEW in log, "Traceback" in log) == (False, False, False)


async def test_a_token_is_valid_with_each_of_several_public_keys() -> None:
    old, new = RSAKeyPair.generate(), RSAKeyPair.generate()
    signed = [key.create_token(subject="ann", issuer=ISSUER, audience=AUDIENCE) for key in (old, new)]
    for keys, expected in (([old], [200, 401]), ([old, new], [200, 200]), ([new], [401, 200])):
        text = "\n".join(key.public_key for key in keys)
        settings = HTTPSettings(jwt_public_key=text, jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
        async with shop(settings) as (client, _):
            assert [await read(client, one) for one in signed] == expected


class Provider:
    """An OpenID provider that knows one client secret, and can fail."""

    def __init__(self) -> None:
        self.keys = RSAKeyPair.generate()
        self.secret = OLD
        self.failure: Answer | None = None
        self.server = LoopbackServer(self._respond, 0)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def token(self, seconds: int) -> dict[str, Any]:
        access = self.keys.create_token(
            subject="ann", issuer=ISSUER, audience=AUDIENCE, expires_in_seconds=seconds, kid="one"
        )
        return {"access_token": access, "refresh_token": "r", "token_type": "Bearer", "expires_in": 3600}

    def _respond(self, asked: Request) -> Answer:
        if asked.path == "/keys":
            key = RSAKey.import_key(self.keys.public_key).as_dict() | {"kid": "one", "alg": "RS256", "use": "sig"}
            return Answer(HTTPStatus.OK, {"keys": [key]})
        if asked.path == "/token":
            sent = f"Basic {urlsafe_b64encode(f'quilt:{self.secret}'.encode()).decode()}"
            if self.failure:
                return self.failure
            if asked.signature != sent:
                return Answer(HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"})
            return Answer(HTTPStatus.OK, self.token(3600))
        found = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        return Answer(HTTPStatus.OK, found)

    def settings(self, secret: str) -> Settings:
        return Settings(
            oidc_config_url=AnyHttpUrl(f"{self.url}/.well-known/openid-configuration"),
            oidc_client_id="quilt",
            oidc_client_secret=SecretStr(secret),
            public_url=AnyHttpUrl(PUBLIC),
            allowed_hosts=("127.0.0.1",),
        )


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    found = Provider()
    found.server.start()
    yield found
    found.server.stop()


async def register(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/register", json={"redirect_uris": [CALLBACK], "client_name": "zq"})


async def sign_in(client: httpx2.AsyncClient, store: SignInStore, provider: Provider, seconds: int = 3600) -> Any:
    """Register, and exchange a code as it is stored after the provider's callback. Return the tokens and the client."""
    client_id = (await register(client)).json()["client_id"]
    now = time.time()
    code = {
        "code": "the-code",
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "scopes": [],
        "idp_tokens": provider.token(seconds),
        "expires_at": now + 300,
        "created_at": now,
    }
    await store.put("the-code", code, collection="mcp-authorization-codes", ttl=300)
    form = {"grant_type": "authorization_code", "code": "the-code", "redirect_uri": CALLBACK}
    answer = await client.post("/token", data=form | {"client_id": client_id, "code_verifier": VERIFIER})
    assert answer.status_code == HTTPStatus.OK, answer.text
    return answer.json() | {"client_id": client_id}


async def refresh(client: httpx2.AsyncClient, signed_in: Any) -> httpx2.Response:
    form = {"grant_type": "refresh_token", "refresh_token": signed_in["refresh_token"]}
    return await client.post("/token", data=form | {"client_id": signed_in["client_id"]})


def store_of(found: Any) -> SignInStore:
    store = found.server.auth.sign_ins
    assert isinstance(store, SignInStore)
    return store


async def test_sign_ins_end_with_the_client_secret(provider: Provider) -> None:
    async with shop(provider.settings(OLD)) as (client, found):
        signed_in = await sign_in(client, store_of(found), provider)
    for secret, status in ((OLD, HTTPStatus.OK), (NEW, HTTPStatus.UNAUTHORIZED)):
        async with shop(provider.settings(secret)) as (client, _):  # another process of this machine
            assert await read(client, signed_in["access_token"]) == status


FAILURES = {
    "server error": Answer(HTTPStatus.INTERNAL_SERVER_ERROR, {}),
    "no JSON": Answer(HTTPStatus.OK, b"<html>"),
    "unavailable": Answer(HTTPStatus.BAD_REQUEST, {"error": "temporarily_unavailable"}),
    "unknown client": Answer(HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"}),
}


@pytest.mark.soak
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_a_refresh_gets_503_while_the_provider_fails(
    failure: Answer, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop(provider.settings(OLD)) as (client, found):
        signed_in = await sign_in(client, store_of(found), provider)
        provider.failure = failure
        refused = await refresh(client, signed_in)
        assert (refused.status_code, refused.headers["retry-after"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "5")
        provider.failure = None
        assert (await refresh(client, signed_in)).status_code == HTTPStatus.OK
        provider.failure = Answer(HTTPStatus.BAD_REQUEST, {"error": "invalid_grant"})
        signed_in = await sign_in(client, store_of(found), provider)
        assert (await refresh(client, signed_in)).json()["error"] == "invalid_grant"
    assert "Traceback" not in caplog.text


async def test_a_read_gets_503_if_the_provider_fails_to_renew_its_token(provider: Provider) -> None:
    async with shop(provider.settings(OLD)) as (client, found):
        token = (await sign_in(client, store_of(found), provider, seconds=-1))["access_token"]
        await expire_at_provider(store_of(found), token)
        provider.failure = FAILURES["server error"]
        assert await read(client, token) == HTTPStatus.SERVICE_UNAVAILABLE
        provider.failure = None
        assert await read(client, token) == HTTPStatus.OK


async def expire_at_provider(store: SignInStore, token: str) -> None:
    """Let the stored token of the provider be too old."""
    jti = json.loads(jws.extract_compact(token.encode()).payload)["jti"]
    mapping = await store.get(jti, collection="mcp-jti-mappings")
    assert mapping
    name = mapping["upstream_token_id"]
    stored = await store.get(name, collection="mcp-upstream-tokens")
    assert stored
    await store.put(name, stored | {"expires_at": 1.0}, collection="mcp-upstream-tokens", ttl=3600)


async def test_an_unused_client_is_deleted_after_an_hour(provider: Provider) -> None:
    async with shop(provider.settings(OLD)) as (client, found):
        unused = (await register(client)).json()["client_id"]
        used = (await sign_in(client, store_of(found), provider))["client_id"]
        seconds = [(await store_of(found).ttl(one, collection=CLIENTS))[1] or 0 for one in (unused, used)]
    assert 3000 < seconds[0] <= 3600
    assert 364 * 86_400 < seconds[1] <= 365 * 86_400


async def test_the_metadata_name_this_server_as_the_issuer(provider: Provider) -> None:
    async with shop(provider.settings(OLD)) as (client, _):
        resource = (await client.get("/.well-known/oauth-protected-resource/mcp")).json()
        issuer = (await client.get("/.well-known/oauth-authorization-server")).json()
    assert resource["resource"] == f"{PUBLIC}/mcp"
    assert resource["authorization_servers"] == [issuer["issuer"]]


async def test_the_files_of_expired_values_are_deleted(provider: Provider, tmp_path: Path) -> None:
    store = store_of_auth(provider.settings(OLD))
    await store.put("a", {"x": 1}, collection="c", ttl=0.001)
    await store.put("b", {"x": 1}, collection="c", ttl=3600)
    (tmp_path / "broken.json").write_text("{")
    await until(lambda: count_after_sweep(tmp_path) == 1)
    assert await store.get("b", collection="c") == {"x": 1}


def count_after_sweep(directory: Path) -> int:
    delete_expired(directory)
    return len(list(directory.rglob("c/*.json")))


def store_of_auth(settings: Settings) -> SignInStore:
    found = create_auth(settings)
    store = found.sign_ins  # type: ignore[union-attr]  # with these settings it has one
    assert isinstance(store, SignInStore)
    return store


def has_length(found: Sized, expected: int) -> bool:
    return len(found) == expected

"""Requests without a valid token get 401 with a `WWW-Authenticate` header, for every URI."""

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import httpx2
import pytest
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from pydantic import AnyHttpUrl, SecretStr

from quilt_mcp.settings import HTTPSettings
from tests.http.web import ANN, CALL_QUICK, READ_QUICK, TOKENS, request, shop

KEYS = RSAKeyPair.generate()
ISSUER, AUDIENCE, PUBLIC = "https://issuer.example.com", "quilt-mcp", "https://mcp.example.com"
METADATA = f"{PUBLIC}/.well-known/oauth-protected-resource/mcp"
CHALLENGE = f'Bearer scope="read", resource_metadata="{METADATA}"'
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
PATHS = (
    "/",
    "/mcp",
    "/mcp/",
    "/sse",
    "/messages/",
    "/none",
    "/docs",
    "/..%2fmcp",
    "/health/",
    "/ready/x",
    "//mcp",
    "/é",
)


def jwt_settings(**more: Any) -> HTTPSettings:
    return HTTPSettings(
        jwt_public_key=KEYS.public_key,
        jwt_issuer=ISSUER,
        jwt_audience=AUDIENCE,
        required_scopes=("read",),
        public_url=AnyHttpUrl(PUBLIC),
        allowed_hosts=("127.0.0.1",),
        **more,
    )


def bearer(keys: RSAKeyPair = KEYS, **claims: Any) -> dict[str, str]:
    made: dict[str, Any] = {"subject": "ann", "issuer": ISSUER, "audience": AUDIENCE, "scopes": ["read"]} | claims
    return {"Authorization": f"Bearer {keys.create_token(**made)}"}


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with shop(jwt_settings()) as (found, _):
        yield found


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_and_method_gets_the_same_401(client: httpx2.AsyncClient, path: str) -> None:
    for method in METHODS:
        answer = await client.request(method, path, content=b"{}" if method == "POST" else None)
        assert (method, answer.status_code, answer.text) == (method, HTTPStatus.UNAUTHORIZED, "")
        expected = {"www-authenticate": CHALLENGE, "content-length": "0"}
        assert {name: value for name, value in answer.headers.items() if name != "date"} == expected


@pytest.mark.parametrize("body", [READ_QUICK, CALL_QUICK, request("tools/list"), request("resources/list")])
async def test_a_read_needs_a_token(client: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    answer = await client.post(**body)
    assert (answer.status_code, answer.text) == (HTTPStatus.UNAUTHORIZED, "")


@pytest.mark.parametrize(
    "body", [b"", b"x" * 5_000_000, b"{", b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', b"[" * 10_000]
)
async def test_the_body_does_not_change_the_401(client: httpx2.AsyncClient, body: bytes) -> None:
    answer = await client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.text) == (HTTPStatus.UNAUTHORIZED, "")


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer nonsense",
        "bearer x.y.z",
        "Bearer " + "a" * 20_000,
        *bearer(issuer="https://other.example.com").values(),
        *bearer(audience="another-service").values(),
        *bearer(scopes=["write"]).values(),
        *bearer(expires_in_seconds=-10).values(),
        *bearer(RSAKeyPair.generate()).values(),
    ],
    ids=["nonsense", "no JWT", "long", "issuer", "audience", "scope", "expired", "other key"],
)
async def test_an_invalid_token_gets_401(client: httpx2.AsyncClient, authorization: str) -> None:
    for answer in (
        await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | {"Authorization": authorization}}),
        await client.get("/none", headers={"Authorization": authorization}),
    ):
        assert answer.status_code == HTTPStatus.UNAUTHORIZED
        assert answer.json()["error"] == "invalid_token"
        assert METADATA in answer.headers["www-authenticate"]


async def test_other_schemes_than_bearer_get_401(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/mcp", headers={"Authorization": "Basic YW5uOnBhc3N3b3Jk"})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (HTTPStatus.UNAUTHORIZED, CHALLENGE)


async def test_a_valid_token_gives_the_usual_answers(client: httpx2.AsyncClient) -> None:
    good = bearer()
    answer = await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | good})
    assert json.loads(answer.json()["result"]["contents"][0]["text"]) == {"open": True}
    assert (await client.get("/none", headers=good)).status_code == HTTPStatus.NOT_FOUND
    assert (await client.get("/mcp", headers=good)).status_code == HTTPStatus.METHOD_NOT_ALLOWED


async def test_the_metadata_of_the_sign_in_is_public(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/.well-known/oauth-protected-resource/mcp")
    assert answer.status_code == HTTPStatus.OK
    assert answer.json()["resource"] == f"{PUBLIC}/mcp"
    assert answer.json()["authorization_servers"] == [ISSUER]  # as the token names it (RFC 9728)
    assert answer.json()["scopes_supported"] == ["read"]
    assert (await client.get("/.well-known/openid-configuration")).status_code == HTTPStatus.UNAUTHORIZED
    assert (await client.get("/health")).status_code == HTTPStatus.OK


async def test_a_wrong_host_or_origin_is_refused_before_the_token_is_checked(client: httpx2.AsyncClient) -> None:
    for headers, status in (
        ({"Host": "attacker.example.com"}, HTTPStatus.MISDIRECTED_REQUEST),
        ({"Origin": "https://attacker.example.com"}, HTTPStatus.FORBIDDEN),
    ):
        for path in ("/mcp", "/none"):
            answer = await client.post(path, headers=headers | bearer())
            assert answer.status_code == status
            assert "www-authenticate" not in answer.headers


async def test_sse_needs_a_token() -> None:
    async with shop(HTTPSettings(static_tokens=SecretStr(TOKENS)), transport="sse") as (client, _):
        for path in ("/sse", "/messages/", "/messages/?session_id=0", "/none"):
            answer = await client.post(path, json={})
            assert (answer.status_code, answer.text) == (HTTPStatus.UNAUTHORIZED, "")
        assert (await client.get("/none", headers=ANN)).status_code == HTTPStatus.NOT_FOUND

"""The kinds of sign-in that the settings select, what needs a token, and invalid settings."""

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from pydantic import AnyHttpUrl, SecretStr

from quilt_mcp.commands.cli import main
from quilt_mcp.settings import HTTPSettings
from tests.http.web import ANN, CALL_QUICK, READ_QUICK, TOKENS, request, shop, statuses, with_headers

KEYS, OTHER_KEYS = RSAKeyPair.generate(), RSAKeyPair.generate()
ISSUER, AUDIENCE, PUBLIC = "https://issuer.example.com", "quilt-mcp", "https://mcp.example.com"
JWT: dict[str, Any] = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
JWT_VARIABLES = {"JWT_ISSUER": ISSUER, "JWT_AUDIENCE": AUDIENCE}
METADATA = f"{PUBLIC}/.well-known/oauth-protected-resource/mcp"
CHALLENGE = f'Bearer scope="read", resource_metadata="{METADATA}"'
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
PATHS = (
    *("/", "/mcp", "/mcp/", "/sse", "/messages/", "/none", "/docs", "/..%2fmcp", "/health/", "/ready/x", "//mcp"),
    "/é",
)


def bearer(keys: RSAKeyPair = KEYS, **claims: Any) -> dict[str, str]:
    made: dict[str, Any] = {"subject": "ann", "issuer": ISSUER, "audience": AUDIENCE, "scopes": ["read"]} | claims
    return {"Authorization": f"Bearer {keys.create_token(**made)}"}


async def statuses_of(settings: HTTPSettings, *credentials: dict[str, str]) -> list[int]:
    async with shop(settings) as (client, _):
        return await statuses(client, READ_QUICK, *credentials)


@pytest.mark.parametrize("mark", ["", "\ufeff", None])
async def test_a_key_or_static_tokens_verify_tokens_as_a_value_or_in_a_file(mark: str | None, tmp_path: Path) -> None:
    def place(text: str) -> str:
        file = tmp_path / "file"
        file.write_text(f"{mark}{text}", encoding="utf-8")
        return text if mark is None else str(file)

    by_key = HTTPSettings(jwt_public_key=place(KEYS.public_key), **JWT)
    assert await statuses_of(by_key, bearer(), bearer(issuer="x"), {}) == [HTTPStatus.OK, 401, 401]
    value = SecretStr(place(TOKENS))
    stranger = {"Authorization": "Bearer another"}
    assert await statuses_of(HTTPSettings(static_tokens=value), ANN, stranger, {}) == [HTTPStatus.OK, 401, 401]
    assert await statuses_of(HTTPSettings(static_tokens=value, required_scopes=("write",)), ANN) == [403]


async def test_a_token_is_for_one_of_several_audiences() -> None:
    several = JWT | {"jwt_audience": f"https://other.example.com, {AUDIENCE}"}
    settings = HTTPSettings(jwt_public_key=KEYS.public_key, **several)
    assert await statuses_of(settings, bearer(), bearer(audience=f"{AUDIENCE}/")) == [HTTPStatus.OK, 401]


async def test_a_token_is_valid_with_each_of_several_public_keys() -> None:
    both = f"{KEYS.public_key}\n{OTHER_KEYS.public_key}"
    for keys, expected in ((KEYS.public_key, [200, 401]), (both, [200, 200]), (OTHER_KEYS.public_key, [401, 200])):
        settings = HTTPSettings(jwt_public_key=keys, **JWT)
        assert await statuses_of(settings, bearer(), bearer(OTHER_KEYS)) == expected


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    named: dict[str, Any] = {"public_url": AnyHttpUrl(PUBLIC), "allowed_hosts": ("127.0.0.1",)}
    async with shop(HTTPSettings(jwt_public_key=KEYS.public_key, required_scopes=("read",), **JWT, **named)) as (
        found,
        _,
    ):
        yield found


async def test_every_path_method_and_body_gets_the_same_401(client: httpx2.AsyncClient) -> None:
    expected = {"www-authenticate": CHALLENGE, "content-length": "0"}
    for path in PATHS:
        for method in METHODS:
            answer = await client.request(method, path, content=b"{}" if method == "POST" else None)
            shown = {name: value for name, value in answer.headers.items() if name != "date"}
            assert (answer.status_code, answer.text, shown) == (HTTPStatus.UNAUTHORIZED, "", expected), (method, path)
    for asked in (READ_QUICK, CALL_QUICK, request("tools/list"), request("resources/list")):
        answer = await client.post(**asked)
        assert (answer.status_code, answer.text) == (HTTPStatus.UNAUTHORIZED, "")
    initialize = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}'
    for body in (b"", b"x" * 5_000_000, b"{", initialize, b"[" * 10_000):
        answer = await client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.text) == (HTTPStatus.UNAUTHORIZED, "")


async def test_an_invalid_token_gets_401(client: httpx2.AsyncClient) -> None:
    good = bearer()["Authorization"].removeprefix("Bearer ")
    cut, unsigned, twice = good[:-4], good.rpartition(".")[0] + ".", f"{good}, Bearer {good}"
    bad = ("nonsense", "x.y.z", "...", "a.b.c.d.e", "a" * 20_000, cut, unsigned, twice)
    for sent in (
        *({"Authorization": f"Bearer {one}"} for one in bad),
        {"Authorization": "bearer x.y.z"},
        *(bearer(issuer="https://other.example.com"), bearer(audience="another-service")),
        *(bearer(expires_in_seconds=-10), bearer(OTHER_KEYS)),
    ):
        for answer in (await client.post(**with_headers(READ_QUICK, sent)), await client.get("/none", headers=sent)):
            assert (answer.status_code, answer.json()["error"]) == (HTTPStatus.UNAUTHORIZED, "invalid_token"), sent
            assert METADATA in answer.headers["www-authenticate"]
    for scopes in (["write"], []):
        answer = await client.post("/mcp", headers=bearer(scopes=scopes))
        assert (answer.status_code, answer.json()["error"]) == (HTTPStatus.FORBIDDEN, "insufficient_scope")
        assert 'scope="read"' in answer.headers["www-authenticate"]
    expired = await client.get("/mcp", headers=bearer(scopes=["write"], expires_in_seconds=-10))
    assert (expired.status_code, expired.json()["error"]) == (HTTPStatus.UNAUTHORIZED, "invalid_token")
    for other in ("Basic YW5uOnBhc3N3b3Jk", good, f"Basic {good}", "Bearer"):
        answer = await client.get("/mcp", headers={"Authorization": other})
        assert (answer.status_code, answer.headers["www-authenticate"]) == (HTTPStatus.UNAUTHORIZED, CHALLENGE), other


async def test_a_valid_token_gives_the_usual_answers_and_the_metadata_are_public(client: httpx2.AsyncClient) -> None:
    good = bearer()
    answer = await client.post(**with_headers(READ_QUICK, good))
    assert json.loads(answer.json()["result"]["contents"][0]["text"]) == {"open": True}
    assert (await client.get("/none", headers=good)).status_code == HTTPStatus.NOT_FOUND
    assert (await client.get("/mcp", headers=good)).status_code == HTTPStatus.METHOD_NOT_ALLOWED
    assert (await client.get("/.well-known/oauth-protected-resource/mcp")).status_code == HTTPStatus.OK
    assert (await client.get("/.well-known/openid-configuration")).status_code == HTTPStatus.UNAUTHORIZED
    assert (await client.get("/health")).status_code == HTTPStatus.OK


async def test_a_wrong_host_or_origin_is_refused_before_the_token_is_checked(client: httpx2.AsyncClient) -> None:
    for headers, status in (
        ({"Host": "attacker.example.com"}, HTTPStatus.MISDIRECTED_REQUEST),
        ({"Origin": "https://attacker.example.com"}, HTTPStatus.FORBIDDEN),
    ):
        for path in ("/mcp", "/none"):
            answer = await client.post(path, headers=headers | bearer())
            assert (answer.status_code, "www-authenticate" in answer.headers) == (status, False)


async def test_sse_needs_a_token() -> None:
    async with shop(HTTPSettings(static_tokens=SecretStr(TOKENS)), transport="sse") as (client, _):
        for path in ("/sse", "/messages/", "/messages/?session_id=0", "/none"):
            answer = await client.post(path, json={})
            assert (answer.status_code, answer.text) == (HTTPStatus.UNAUTHORIZED, "")
        assert (await client.get("/none", headers=ANN)).status_code == HTTPStatus.NOT_FOUND


OIDC = {"OIDC_CONFIG_URL": "http://127.0.0.1:1/x", "OIDC_CLIENT_ID": "x", "OIDC_CLIENT_SECRET": "the-secret"}
EVERYONE = "--allow-anyone-who-reaches-this-address"
BEYOND = "--allow-static-tokens-beyond-this-machine"
RATES = ("", "600", "0/minute", "-1/minute", "1/fortnight", "600/minute;", "x", "1e3/minute", "1//s")
STATES = ("http://localhost", "localhost:6379", "valkey://", "valkey://host/0?socket_timeout=abc", "")
REFUSED: list[tuple[dict[str, str], str, list[str]]] = [
    *(({"RATE_LIMIT": rate}, "", ["RATE_LIMIT: must be like 600/minute"]) for rate in RATES),
    *(({"STATE_URL": url}, "", ["STATE_URL"]) for url in (*STATES, "redis://:the-secret@host:port/0")),
    ({"JWT_JWKS_URL": "https://x/keys"}, "", ["JWT_JWKS_URL", "JWT_ISSUER", "JWT_AUDIENCE"]),
    ({"JWT_PUBLIC_KEY": "x", "JWT_ISSUER": "x"}, "", ["JWT_PUBLIC_KEY", "JWT_AUDIENCE"]),
    ({"OIDC_CONFIG_URL": "https://x"}, "", ["OIDC_CONFIG_URL", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "PUBLIC_URL"]),
    ({"STATIC_TOKENS": TOKENS, "JWT_JWKS_URL": "https://x"}, "", ["STATIC_TOKENS", "JWT_JWKS_URL"]),
    ({"JWT_ISSUER": "https://x"}, "", ["JWT_ISSUER", "JWT_JWKS_URL", "JWT_PUBLIC_KEY"]),
    ({"REQUIRED_SCOPES": "read"}, "", ["REQUIRED_SCOPES", "OIDC_CONFIG_URL", "STATIC_TOKENS"]),
    ({"OIDC_CLIENT_SECRET": "the-secret"}, "", ["OIDC_CLIENT_SECRET", "OIDC_CONFIG_URL"]),
    ({"JWT_JWKS_URL": "no url"}, "", ["JWT_JWKS_URL"]),
    ({"JWT_ALGORITHM": "HS256"}, "", ["JWT_ALGORITHM"]),
    ({"TRUSTED_PROXIES": "10.0.0.0/8, nginx"}, "", ["TRUSTED_PROXIES"]),
    ({"STATIC_TOKENS": '{"the-secret": {"scopes": 1}}'}, "", ["STATIC_TOKENS"]),
    ({"STATIC_TOKENS": '{"the-secret"'}, "", ["STATIC_TOKENS"]),
    ({"STATIC_TOKENS": "[]"}, "", ["STATIC_TOKENS"]),
    ({"STATIC_TOKENS": "/none/the-secret"}, "", ["STATIC_TOKENS is neither a valid value nor a readable file."]),
    ({"STATIC_TOKENS": "~the-secret/x"}, "", ["STATIC_TOKENS is neither a valid value nor a readable file."]),
    ({"JWT_PUBLIC_KEY": "/none", **JWT_VARIABLES}, "", ["JWT_PUBLIC_KEY"]),
    *(
        ({"JWT_PUBLIC_KEY": key, **JWT_VARIABLES}, "", ["JWT_PUBLIC_KEY is not a public key in PEM format"])
        for key in ("-----BEGIN PUBLIC KEY-----", KEYS.private_key.get_secret_value())
    ),
    (OIDC | {"PUBLIC_URL": PUBLIC}, "", ["OIDC_CONFIG_URL: cannot read the OpenID configuration (ConnectError)."]),
    ({}, "--host 0.0.0.0", [EVERYONE]),
    ({}, "--host ::", [EVERYONE]),
    ({"STATIC_TOKENS": TOKENS}, f"--host 0.0.0.0 {EVERYONE}", [BEYOND]),
    ({}, "--workers 2 --demo", ["--demo"]),
    ({}, "--transport sse --workers 2", ["--transport http"]),
]
"""Settings, arguments, and what the refusal names."""


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit status of `serve` and its one line on stderr."""
    status = main(["serve", *([] if "--transport" in arguments else ["--transport", "http"]), *arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith("quilt-mcp: ")
    return status, line


@pytest.mark.parametrize(("environment", "arguments", "named"), REFUSED)
def test_settings_and_arguments_that_are_refused_give_one_line(
    environment: dict[str, str],
    arguments: str,
    named: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(f"QUILT_MCP_{name}", value)
    status, line = refusal(capsys, "--port", "0", *arguments.split())
    expected = [name if name.startswith("--") else f"QUILT_MCP_{name}" for name in named]
    assert (status, [name for name in expected if name not in line], "the-secret" in line) == (2, [], False)


def test_lists_are_split_and_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUILT_MCP_ALLOWED_HOSTS", "a.example.com, b.example.com")
    monkeypatch.setenv("QUILT_MCP_STATIC_TOKENS", json.dumps({"the-secret": {"client_id": "ann"}}))
    monkeypatch.setenv("QUILT_MCP_METRICS_TOKEN", "the-secret")
    settings = HTTPSettings(_env_prefix="QUILT_MCP_")
    assert settings.allowed_hosts == ("a.example.com", "b.example.com")
    assert "the-secret" not in f"{settings!r} {settings.model_dump()} {settings.model_dump_json()}"

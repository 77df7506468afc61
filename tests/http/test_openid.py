"""Sign-ins through an OpenID provider: what is stored, for how long, and what happens while a part fails."""

import asyncio
import hashlib
import itertools
import json
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import fastmcp
import httpx2
import pytest
import time_machine
from fastmcp import Client
from fastmcp.client.auth import OAuth
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from joserfc import jws, jwt
from joserfc.jwk import RSAKey
from mcp.shared.auth import AuthorizationCodeResult
from pydantic import AnyHttpUrl, SecretStr
from starlette.responses import Response

from quilt_mcp.core.errors import Unavailable
from quilt_mcp.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.http.app import find_checks
from quilt_mcp.http.auth import MisconfiguredSignIn, create_auth
from quilt_mcp.http.layers import QUERY_BYTES, SIGN_IN_RATES, LimitSignIns
from quilt_mcp.http.openid import PROVIDER_SECONDS
from quilt_mcp.http.shared_state import SharedSignIns
from quilt_mcp.http.sign_ins import CLIENTS, LocalSignIns, SignInStore, delete_expired
from quilt_mcp.http.tokens import ANSWER_BYTES
from quilt_mcp.server import create_server
from tests.http.web import ANN, READ_QUICK, shop, started, statuses, with_headers
from tests.support.settings import Settings
from tests.support.toys import QUICK
from tests.support.valkey_server import valkey_server
from tests.support.waiting import until, until_awaited

SECRET = "zq-secret"
ISSUER, AUDIENCE, PUBLIC = "https://issuer.example.com", "quilt-mcp", "https://mcp.example.com"
CALLBACK = "http://localhost:1234/callback"
VERIFIER = "v" * 43
PAIR = RSAKeyPair.generate()
CHALLENGE = urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


class Provider:
    """An OpenID provider that knows one client secret, and can fail."""

    def __init__(self) -> None:
        self.algorithm: Any = "RS256"
        self.failure: Answer | None = None
        self.metadata: dict[str, Any] = {}
        self.exchanges = 0
        self.pages: dict[str, Answer] = {}
        """What it answers instead, by path."""
        self.claims: dict[str, Any] = {}
        self.tokens: dict[str, Any] = {}
        """What its tokens have instead."""
        self.rotates: Iterator[int] | None = None
        self.used: set[str] = set()
        """With rotation, refresh tokens that were used. Another use ends the sign-in."""
        self.is_revoked = False
        self.revoked: list[str] = []
        self.use_keys(PAIR, "one")
        self.server = LoopbackServer(self._respond, 0)
        self.url = f"http://127.0.0.1:{self.server.port}"

    def use_keys(self, pair: RSAKeyPair, key_id: str) -> None:
        """Sign with this key, and publish no other one."""
        self.pair, self.key_id = pair, key_id
        self.keys = RSAKey.import_key(pair.public_key).as_dict() | {"kid": key_id, "alg": "RS256", "use": "sig"}

    def token(self, seconds: int = 3600) -> dict[str, Any]:
        claims = {"sub": "ann", "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + seconds} | self.claims
        key = RSAKey.import_key(self.pair.private_key.get_secret_value())
        access = jwt.encode({"alg": self.algorithm, "kid": self.key_id}, claims, key, algorithms=[self.algorithm])
        refresh = "r" if self.rotates is None else f"r{next(self.rotates)}"
        found = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600}
        return found | self.tokens

    def _respond(self, asked: Request) -> Answer:
        if asked.path in self.pages:
            return self.pages[asked.path]
        if asked.path == "/keys":
            return Answer(HTTPStatus.OK, {"keys": [self.keys] if self.keys else []})
        if asked.path == "/revoked":
            self.revoked.append(asked.form["token"])
            return Answer(HTTPStatus.OK, b"")
        if asked.path == "/introspect":
            is_known = asked.form["token"] == "opaque"
            return Answer(HTTPStatus.OK, {"active": is_known, "sub": "ann", "client_id": "quilt"})
        if asked.path == "/token":
            self.exchanges += 1
            return self.failure or self._exchange(asked)
        found = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        return Answer(HTTPStatus.OK, found | self.metadata)

    def _exchange(self, asked: Request) -> Answer:
        if self.rotates and (used := asked.form.get("refresh_token")):
            self.is_revoked |= used in self.used
            self.used.add(used)
        if self.is_revoked:
            return Answer(HTTPStatus.BAD_REQUEST, {"error": "invalid_grant"})
        if asked.signature != f"Basic {urlsafe_b64encode(f'quilt:{SECRET}'.encode()).decode()}":
            return Answer(HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"})
        return Answer(HTTPStatus.OK, self.token())

    def settings(self, secret: str = SECRET, config_url: str = "", **more: Any) -> Settings:
        given: dict[str, Any] = {"public_url": AnyHttpUrl(PUBLIC), "allowed_hosts": ("127.0.0.1",)} | more
        return Settings(
            oidc_config_url=AnyHttpUrl(f"{config_url or self.url}/.well-known/openid-configuration"),
            oidc_client_id="quilt",
            jwt_algorithm=self.algorithm,
            oidc_client_secret=SecretStr(secret),
            **given,
        )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fastmcp.settings, "home", tmp_path)
    return tmp_path


@pytest.fixture
def provider(home: Path) -> Iterator[Provider]:
    yield from started(Provider())


def files_of(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


def register(client: httpx2.AsyncClient, name: str = "zq-client") -> Any:
    return client.post("/register", json={"redirect_uris": [CALLBACK], "client_name": name})


async def client_id(client: httpx2.AsyncClient) -> str:
    return str((await register(client)).json()["client_id"])


async def start_sign_in(client: httpx2.AsyncClient, client_id: str, state: str = "1") -> httpx2.Response:
    given = {"client_id": client_id, "redirect_uri": CALLBACK, "response_type": "code", "state": state}
    # some clients always ask for both scopes
    given |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256", "scope": "openid offline_access"}
    return await client.get("/authorize", params=given)


async def consent(client: httpx2.AsyncClient, began: httpx2.Response, origin: str = PUBLIC) -> httpx2.Response:
    """Send the form of consent as a browser does, behind a proxy that ends TLS. The answer's request has the cookie."""
    page = await client.get(f"/consent?{urlsplit(began.headers['location']).query}")
    form = dict(re.findall(r'name="(txn_id|csrf_token)"\s+value="([^"]+)"', page.text)) | {"action": "approve"}
    return await client.post("/consent", data=form, headers={"Origin": origin} | cookies_of(page))


def cookies_of(answer: httpx2.Response) -> dict[str, str]:
    return {"Cookie": "; ".join(one.partition(";")[0] for one in answer.headers.get_list("set-cookie"))}


def query_of(answer: httpx2.Response) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


async def come_back(client: httpx2.AsyncClient, client_id: str) -> httpx2.Response:
    """Consent, and return from the provider."""
    approved = await consent(client, await start_sign_in(client, client_id))
    back = {"code": "of the provider", "state": query_of(approved)["state"]}
    return await client.get("/auth/callback", params=back, headers=cookies_of(approved))


async def get_code(client: httpx2.AsyncClient) -> dict[str, str]:
    """Register, and sign in as a client and its browser do. Return the form that exchanges the code."""
    known = await client_id(client)
    found = query_of(await come_back(client, known))
    assert found["iss"] == f"{PUBLIC}/"  # RFC 9207
    form = {"client_id": known, "grant_type": "authorization_code", "code": found["code"], "redirect_uri": CALLBACK}
    return form | {"code_verifier": VERIFIER, "resource": f"{PUBLIC}/mcp"}


async def sign_in(client: httpx2.AsyncClient) -> Any:
    """Sign in, and return the tokens and the client."""
    form = await get_code(client)
    answer = await client.post("/token", data=form)
    assert answer.status_code == HTTPStatus.OK, answer.text
    return answer.json() | {"client_id": form["client_id"]}


async def refresh(client: httpx2.AsyncClient, signed_in: Any) -> httpx2.Response:
    form = {"grant_type": "refresh_token"} | {name: signed_in[name] for name in ("refresh_token", "client_id")}
    return await client.post("/token", data=form)


async def read(client: httpx2.AsyncClient, token: str) -> int:
    return (await statuses(client, READ_QUICK, {"Authorization": f"Bearer {token}"}))[0]


def store_of(auth: Any) -> SignInStore:
    return cast("SignInStore", auth.sign_ins)


def shares(store: SharedSignIns) -> Any:
    def choose(secret: str) -> SharedSignIns:
        assert secret == SECRET
        return store

    return choose


class Proxy(httpx2.AsyncHTTPTransport):
    """What serves the server at its public URL, and removes the path of that URL."""

    def __init__(self, client: httpx2.AsyncClient, prefix: str) -> None:
        super().__init__()
        self.client, self.prefix = client, prefix

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert str(request.url).startswith((f"{PUBLIC}{self.prefix}/", f"{PUBLIC}/.well-known/"))
        path = request.url.raw_path.decode().removeprefix(self.prefix)
        headers = dict(request.headers) | {"host": self.client.base_url.netloc.decode()}
        answer = await self.client.request(request.method, path, headers=headers, content=await request.aread())
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)


class Person(OAuth):
    """FastMCP's client, with a person who approves it in a browser and signs in at the provider."""

    def __init__(self, browser: httpx2.AsyncClient, url: str) -> None:
        super().__init__(f"{url}/mcp", scopes="openid profile")
        self.browser, self.url = browser, url

    async def redirect_handler(self, authorization_url: str) -> None:
        began = await self.browser.get(authorization_url)
        assert began.headers["location"].startswith(f"{self.url}/consent?")
        approved = await consent(self.browser, began)
        back = {"code": "of the provider", "state": query_of(approved)["state"]}
        self.found = query_of(await self.browser.get("/auth/callback", params=back, headers=cookies_of(approved)))

    async def callback_handler(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(self.found)


@pytest.mark.filterwarnings("ignore:Using in-memory token storage")
@pytest.mark.parametrize("prefix", ["", "/quilt"])  # which a proxy removes
async def test_the_client_of_fastmcp_finds_the_sign_in_reads_and_refreshes(
    prefix: str, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    url = PUBLIC + prefix
    async with shop(provider.settings(public_url=AnyHttpUrl(url))) as (client, _):

        def create(*_: Any, auth: httpx2.Auth | None = None, **options: Any) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(auth=auth, transport=Proxy(client, prefix), base_url=url, **options)

        person = Person(create(), url)
        reader: Client[Any] = Client(StreamableHttpTransport(f"{url}/mcp", auth=person, httpx_client_factory=create))
        for exchanges in (1, 2):  # the second one is a refresh
            async with reader:
                assert '"open"' in str(await reader.read_resource(QUICK))
            assert provider.exchanges == exchanges
            person.context.token_expiry_time = 1.0
        assert (await client.get("/none")).status_code == HTTPStatus.UNAUTHORIZED
        assert (await client.get("/ready")).status_code == HTTPStatus.OK
    assert SECRET not in caplog.text


async def test_the_page_of_consent_accepts_its_own_origin_only_and_the_provider_gets_its_own_scopes(
    provider: Provider,
) -> None:
    async with shop(provider.settings(required_scopes=("read",))) as (client, _):  # over HTTP, as from the proxy
        began = await start_sign_in(client, await client_id(client))
        assert (await consent(client, began, "https://attacker.example.com")).status_code == HTTPStatus.FORBIDDEN
        answer = await consent(client, began)
    assert answer.headers["location"].startswith(f"{ISSUER}/authorize?")
    assert query_of(answer)["scope"] == "openid read"


def test_metadata_of_another_issuer_are_used_with_a_warning(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    create_auth(provider.settings())
    create_auth(provider.settings(config_url=provider.url.replace("://", "://ann:password@")))
    expected = f"QUILT_MCP_OIDC_CONFIG_URL is of {provider.url}, but names the issuer '{ISSUER}'"
    assert (caplog.text.count(expected), "password" in caplog.text) == (2, False)
    caplog.clear()
    for issuer in (provider.url, f"{provider.url}/"):  # of which some providers have the slash
        provider.metadata = {"issuer": issuer}
        create_auth(provider.settings())
    assert "names the issuer" not in caplog.text


def test_metadata_have_a_limited_length_and_time(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=itertools.count(step=PROVIDER_SECONDS + 1).__next__)
    with monkeypatch.context() as patch:
        patch.setattr("quilt_mcp.http.openid.time", clock)
        with pytest.raises(MisconfiguredSignIn, match="cannot read the OpenID configuration"):
            create_auth(provider.settings())
    provider.metadata = {"claims_supported": ["x" * ANSWER_BYTES]}
    with pytest.raises(MisconfiguredSignIn, match="cannot read the OpenID configuration"):
        create_auth(provider.settings())


async def test_machines_that_share_a_valkey_continue_each_others_sign_ins(provider: Provider, home: Path) -> None:
    with valkey_server() as valkey:
        stores = [SharedSignIns(valkey.url, SECRET) for _ in range(2)]
        one, other = (shop(provider.settings(), shared_store=shares(store)) for store in stores)
        async with one as (first, _), other as (second, _):
            answer = await start_sign_in(second, await client_id(first))
            page = await first.get(answer.headers["location"].removeprefix(PUBLIC))
            assert (page.status_code, "zq-client" in page.text) == (HTTPStatus.OK, True)
            assert page.headers["cache-control"] == "no-store"
            found = valkey.values()
            assert set(valkey.expiries()) == {True}
        for store in stores:
            await store.close()
    assert (len(found) >= 2, "zq-client" in str(found)) == (True, False)
    assert len(files_of(home)) == 0


async def test_callers_get_503_while_the_store_is_unavailable(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    with valkey_server() as valkey:
        store = SharedSignIns(valkey.url, SECRET, connections=1)
        async with shop(provider.settings(), shared_store=shares(store)) as (client, _):
            good = with_headers(READ_QUICK, Authorization=f"Bearer {(await sign_in(client))['access_token']}")
            await store.check()
            # many requests at once are no failure of the store
            answers = await asyncio.gather(*(client.post(**good) for _ in range(30)))
            assert {answer.status_code for answer in answers} == {HTTPStatus.OK}
            valkey.stop()
            refused = [await client.post(**good), await register(client)]
            assert [answer.status_code for answer in refused] == [HTTPStatus.SERVICE_UNAVAILABLE] * 2
            assert {answer.headers["retry-after"] for answer in refused} == {"5"}
            assert not any("www-authenticate" in answer.headers for answer in refused)
            assert await statuses(client, READ_QUICK, ANN) == [HTTPStatus.UNAUTHORIZED]
            with pytest.raises(Unavailable):
                await store.check()
            valkey.start()
            assert (await client.post(**good)).status_code == HTTPStatus.UNAUTHORIZED
        await store.close()
    assert valkey.url.removeprefix("unix://") not in caplog.text


@pytest.mark.parametrize("path", SIGN_IN_RATES)
async def test_an_address_can_begin_a_limited_number_of_sign_ins(path: str) -> None:
    app, rate = LimitSignIns(Response()), int(SIGN_IN_RATES[path].removesuffix("/minute"))

    async def ask(address: str, method: str = "GET") -> httpx2.Response:
        transport = httpx2.ASGITransport(app, client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url=PUBLIC) as client:
            return await client.request(method, path)

    with time_machine.travel(0.0, tick=False):  # the window of the limit slides
        allowed = [await ask("2001:db8::1", ("GET", "POST", "HEAD")[number % 3]) for number in range(rate)]
        refused = [await ask("2001:db8::2", method) for method in ("GET", "POST", "HEAD")]
        allowed += [await ask(f"::ffff:192.0.2.{number}") for number in range(rate + 1)]  # of IPv4
    others = [await ask(address) for address in ("2001:db8:0:1::1", "203.0.113.7", "nonsense")]
    others.append(await ask("2001:db8::1", "OPTIONS"))
    assert {answer.status_code for answer in (*allowed, *others)} == {HTTPStatus.OK}
    assert {answer.status_code for answer in refused} == {HTTPStatus.TOO_MANY_REQUESTS}
    assert int(refused[0].headers["retry-after"]) > 0


async def test_what_strangers_can_store_is_limited(provider: Provider, home: Path) -> None:
    code = {"grant_type": "authorization_code", "code": "x", "code_verifier": "x" * 43, "redirect_uri": CALLBACK}
    counts = []
    async with shop(provider.settings()) as (client, _):
        with time_machine.travel(datetime.now(UTC), tick=False):  # the window of the limit slides
            long = await register(client, "x" * 16_384)
            assert long.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE  # and counts
            known = [{"client_id": await client_id(client)} for _ in range(19)][-1]
            before = len(files_of(home))
            assert (await register(client)).status_code == HTTPStatus.TOO_MANY_REQUESTS
        refused = await start_sign_in(client, known["client_id"], state="x" * QUERY_BYTES)
        assert (refused.status_code, refused.json()["error"]) == (HTTPStatus.BAD_REQUEST, "invalid_request")
        assert len(files_of(home)) == before
        assert (await start_sign_in(client, known["client_id"], state="x" * 4096)).status_code == HTTPStatus.FOUND
        for _ in range(2):  # the store writes a file for each kind of value when it first looks for one
            for path, form in (
                ("/token", code),
                ("/token", code | known),
                ("/token", {"grant_type": "refresh_token", "refresh_token": "x"} | known),
                ("/revoke", {"token": "x"} | known),
            ):
                answer = await client.post(path, data=form)
                assert answer.is_client_error or (path == "/revoke" and answer.text == "")  # which it always answers so
            await client.post("/mcp", headers=ANN)
            counts.append(len(files_of(home)))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(("secret", "reason"), [("", "is blank"), (" \n", "is blank"), ("a\nb", "has several lines")])
def test_a_client_secret_is_one_line(provider: Provider, secret: str, reason: str) -> None:
    settings = provider.settings().model_copy(update={"oidc_client_secret": SecretStr(secret)})
    with pytest.raises(MisconfiguredSignIn, match=f"QUILT_MCP_OIDC_CLIENT_SECRET {reason}"):
        create_auth(settings)


async def test_the_settings_select_the_store_and_the_server_needs_the_keys_of_the_provider(provider: Provider) -> None:
    shared = provider.settings().model_copy(update={"state_url": SecretStr("valkey://127.0.0.1:1")})
    for settings, kind, checks in (
        (provider.settings(), LocalSignIns, ["token-issuer"]),
        (shared, SharedSignIns, ["token-issuer", "sign-ins"]),
    ):
        auth = create_server(settings).auth
        assert isinstance(store_of(auth), kind)
        assert list(find_checks(auth)) == checks
    provider.keys = {}
    with pytest.raises(Unavailable):
        await find_checks(auth)["token-issuer"]()


async def test_sign_ins_end_with_the_client_secret_and_an_unused_client_after_an_hour(provider: Provider) -> None:
    async with shop(provider.settings()) as (client, found):
        store = store_of(found.server.auth)
        unused, signed_in = await client_id(client), await sign_in(client)
        ttls = [(await store.ttl(one, collection=CLIENTS))[1] or 0 for one in (unused, signed_in["client_id"])]
    assert 3000 < ttls[0] <= 3600
    assert 364 * 86_400 < ttls[1] <= 365 * 86_400
    for secret, status in ((SECRET, HTTPStatus.OK), ("another", HTTPStatus.UNAUTHORIZED)):
        async with shop(provider.settings(secret)) as (client, _):  # another process of this machine
            assert await read(client, signed_in["access_token"]) == status


FAILURES = {
    "server error": Answer(HTTPStatus.INTERNAL_SERVER_ERROR, {}),
    "no JSON": Answer(HTTPStatus.OK, b"<html>"),
    "unavailable": Answer(HTTPStatus.BAD_REQUEST, {"error": "temporarily_unavailable"}),
    "unknown client": Answer(HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"}),
    "too many requests": Answer(HTTPStatus.TOO_MANY_REQUESTS, {"error": "Too Many Requests"}),
    "another form": Answer(HTTPStatus.BAD_REQUEST, {"errorCode": "E0000009"}),
    "null": Answer(HTTPStatus.OK, b"null"),
    "a deep list": Answer(HTTPStatus.OK, b"[" * 100_000 + b"]" * 100_000),
}


@pytest.mark.soak
async def test_a_refresh_gets_503_while_the_provider_fails(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop(provider.settings()) as (client, _):
        signed_in = await sign_in(client)
        for name, failure in FAILURES.items():
            provider.failure = failure
            refused = await refresh(client, signed_in)
            assert (refused.status_code, refused.headers["retry-after"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "5"), name
            provider.failure = None
            answer = await refresh(client, signed_in)
            assert answer.status_code == HTTPStatus.OK, name
            signed_in |= answer.json()
        for error in ("invalid_grant", "interaction_required"):
            provider.failure = Answer(HTTPStatus.BAD_REQUEST, {"error": error})
            assert (await refresh(client, signed_in)).json()["error"] == "invalid_grant"
    assert "Traceback" not in caplog.text


async def sign_in_long_ago(client: httpx2.AsyncClient, store: SignInStore, provider: Provider) -> str:
    """Return the access token of a sign-in whose token of the provider is too old."""
    token: str = (await sign_in(client))["access_token"]
    old = provider.token(seconds=-1)["access_token"]
    jti = json.loads(jws.extract_compact(token.encode()).payload)["jti"]
    name = (await store.get(jti, collection="mcp-jti-mappings") or {})["upstream_token_id"]
    stored = await store.get(name, collection="mcp-upstream-tokens") or {}
    await store.put(name, stored | {"expires_at": 1.0, "access_token": old}, collection="mcp-upstream-tokens", ttl=3600)
    return token


async def test_a_read_gets_503_if_the_provider_fails_to_renew_its_token(provider: Provider) -> None:
    async with shop(provider.settings()) as (client, found):
        token = await sign_in_long_ago(client, store_of(found.server.auth), provider)
        for name in ("server error", "too many requests", "another form"):
            provider.failure = FAILURES[name]
            assert await read(client, token) == HTTPStatus.SERVICE_UNAVAILABLE, name
        provider.failure = None
        assert await read(client, token) == HTTPStatus.OK


async def test_two_refreshes_at_once_ask_the_provider_once_and_get_the_same_tokens(provider: Provider) -> None:
    provider.algorithm = "PS256"
    async with shop(provider.settings()) as (client, _):
        signed_in = await sign_in(client)
        before = provider.exchanges
        one, other = await asyncio.gather(refresh(client, signed_in), refresh(client, signed_in))
        assert one.json() == other.json(), (one.text, other.text)
        assert (provider.exchanges - before, await read(client, one.json()["access_token"])) == (1, HTTPStatus.OK)
        assert (await refresh(client, signed_in)).json() == one.json()
        assert provider.exchanges - before == 1


ROUNDS = 5


@pytest.mark.parametrize("place", ["files", "Valkey"])
async def test_refreshes_at_once_in_two_processes_end_no_session(place: str, provider: Provider, home: Path) -> None:
    """The provider ends a sign-in whose refresh token is used twice."""
    provider.rotates = itertools.count()
    async with AsyncExitStack() as stack:
        given: list[dict[str, Any]] = [{}, {}]
        if place == "Valkey":
            valkey = stack.enter_context(valkey_server())
            for more in given:
                store = SharedSignIns(valkey.url, SECRET)
                stack.push_async_callback(store.close)
                more["shared_store"] = shares(store)
        one, other = [(await stack.enter_async_context(shop(provider.settings(), **more)))[0] for more in given]
        signed_in = await sign_in(one)
        for _ in range(ROUNDS):
            answers = await asyncio.gather(*(refresh(client, signed_in) for client in (one, other) * 2))
            assert [answer.status_code for answer in answers] == [HTTPStatus.OK] * 4
            assert len({answer.json()["refresh_token"] for answer in answers}) == 1
            again = await refresh(other, signed_in)  # the first answer was lost
            assert again.json() == answers[0].json()
            signed_in |= again.json()
            assert await read(one, signed_in["access_token"]) == HTTPStatus.OK
    assert not provider.is_revoked


async def test_a_repeated_refresh_is_for_its_client_and_for_a_moment(provider: Provider) -> None:
    def choose(secret: str) -> SignInStore:
        return LocalSignIns("short", secret, repeat_seconds=1)  # it is only waited for

    async with shop(provider.settings(), shared_store=choose) as (client, _):
        signed_in = await sign_in(client)
        assert (await refresh(client, signed_in)).status_code == HTTPStatus.OK
        stranger = await refresh(client, signed_in | {"client_id": await client_id(client)})
        assert (stranger.status_code, stranger.json()["error"]) == (HTTPStatus.BAD_REQUEST, "invalid_grant")

        async def is_forgotten() -> bool:
            answer: dict[str, str] = (await refresh(client, signed_in)).json()
            return answer.get("error") == "invalid_grant"

        await until_awaited(is_forgotten)


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"client_name": "zq\u202etxt"}, "invalid_client_metadata"),
        ({"client_name": "zq\n\nApprove"}, "invalid_client_metadata"),
        ({"client_name": "z" * 101}, "invalid_client_metadata"),
        ({"redirect_uris": [f"{CALLBACK}#there"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [f"{CALLBACK}#"]}, "invalid_redirect_uri"),
        ({"client_name": "Zoë's Клиент 客户 🙂"}, None),
    ],
)
async def test_a_client_that_the_page_of_consent_cannot_show_is_not_registered(
    metadata: dict[str, Any], error: str | None, provider: Provider
) -> None:
    async with shop(provider.settings()) as (client, _):
        answer = await client.post("/register", json={"redirect_uris": [CALLBACK]} | metadata)
        assert answer.status_code == (HTTPStatus.BAD_REQUEST if error else HTTPStatus.CREATED)
        assert answer.json().get("error") == error


async def test_tokens_are_for_this_resource_only(provider: Provider) -> None:
    async with shop(provider.settings()) as (client, _):
        form = await get_code(client)
        for other in ("https://evil.example/mcp", f"{PUBLIC}/mcp/other", ""):
            answer = await client.post("/token", data=form | {"resource": [f"{PUBLIC}/mcp", other]})
            expected = HTTPStatus.BAD_REQUEST if other else HTTPStatus.OK  # an empty parameter is none
            assert answer.status_code == expected, other
            assert other == "" or answer.json()["error"] == "invalid_target"
        signed_in = answer.json() | {"client_id": form["client_id"]}
        asked = {name: signed_in[name] for name in ("refresh_token", "client_id")} | {"grant_type": "refresh_token"}
        answer = await client.post("/token", data=asked | {"resource": "https://evil.example/mcp"})
        assert (answer.status_code, answer.json()["error"]) == (HTTPStatus.BAD_REQUEST, "invalid_target")
        assert answer.headers["cache-control"] == "no-store"
        answer = await client.post("/token", data=asked | {"resource": f"{PUBLIC}/mcp/"})
        assert answer.status_code == HTTPStatus.OK
        unknown = await client.post("/token", data=asked | {"client_id": "zq"})
        assert (unknown.status_code, unknown.json()["error"]) == (HTTPStatus.UNAUTHORIZED, "invalid_client")


async def test_a_code_is_exchanged_once_in_all_processes(provider: Provider) -> None:
    async with shop(provider.settings()) as (one, _), shop(provider.settings()) as (other, _):
        form = await get_code(one)
        answers = await asyncio.gather(*(client.post("/token", data=form) for client in (one, other) * 4))
        assert sorted(answer.status_code for answer in answers) == [HTTPStatus.OK, *[HTTPStatus.BAD_REQUEST] * 7]


async def test_a_person_stays_signed_in_for_a_day_of_refreshes_restarts_and_new_keys(provider: Provider) -> None:
    provider.rotates = itertools.count()
    signed_in: dict[str, Any] = {}
    with time_machine.travel(datetime.now(UTC)) as clock:
        for part in range(8):
            if part % 2:
                provider.use_keys(RSAKeyPair.generate(), f"of part {part}")
            async with shop(provider.settings()) as (client, _):  # as after a restart
                signed_in = signed_in or await sign_in(client)
                ends = time.time() + signed_in["expires_in"] if part == 0 else time.time()
                for _ in range(6):
                    clock.shift(1800)
                    if time.time() >= ends:
                        answer = await refresh(client, signed_in)
                        assert answer.status_code == HTTPStatus.OK, answer.text
                        signed_in |= answer.json()
                        ends = time.time() + signed_in["expires_in"]
                    assert await read(client, signed_in["access_token"]) == HTTPStatus.OK
    assert not provider.is_revoked


@pytest.mark.parametrize("name", ["refresh_token", "access_token"])
async def test_a_revoked_token_ends_its_sign_in_and_no_other(name: str, provider: Provider) -> None:
    provider.metadata = {"revocation_endpoint": f"{provider.url}/revoked"}
    async with shop(provider.settings()) as (client, _):
        found = (await client.get("/.well-known/oauth-authorization-server")).json()
        assert found["revocation_endpoint"] == f"{PUBLIC}/revoke"
        one, other = await sign_in(client), await sign_in(client)
        one |= (await refresh(client, one)).json()
        stranger = await client.post("/revoke", data={"client_id": other["client_id"], "token": one[name]})
        unknown = await client.post("/revoke", data={"client_id": one["client_id"], "token": "zq"})
        assert [answer.status_code for answer in (stranger, unknown)] == [HTTPStatus.OK] * 2
        assert await read(client, one["access_token"]) == HTTPStatus.OK
        answer = await client.post("/revoke", data={"client_id": one["client_id"], "token": one[name]})
        assert (answer.status_code, answer.text, provider.revoked) == (HTTPStatus.OK, "", ["r"])
        assert await read(client, one["access_token"]) == HTTPStatus.UNAUTHORIZED
        assert (await refresh(client, one)).json()["error"] == "invalid_grant"
        assert await read(client, other["access_token"]) == HTTPStatus.OK
        nobody = await client.post("/revoke", data={"client_id": "zq", "token": other[name]})
        assert (nobody.status_code, nobody.json()) == (HTTPStatus.UNAUTHORIZED, {"error": "invalid_client"})


OPAQUE = {"access_token": "opaque"}


@pytest.mark.parametrize(
    ("tokens", "claims", "reason"),
    [
        (OPAQUE, {}, "is not a JWT. Set QUILT_MCP_OIDC_TOKEN"),
        ({}, {"aud": "another"}, "is for another audience"),
        ({}, {"iss": "https://other.example"}, "names another issuer"),
        ({}, {"exp": 1}, "has expired"),
    ],
)
async def test_a_token_that_no_request_can_use_ends_the_sign_in_with_the_reason(
    tokens: Any, claims: Any, reason: str, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.tokens, provider.claims = tokens, claims
    async with shop(provider.settings(oidc_audience=AUDIENCE)) as (client, _):
        answer = await come_back(client, await client_id(client))
    assert answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert reason.replace("'", "&#x27;") in answer.text
    assert reason in caplog.text


async def test_opaque_tokens_work_with_the_id_token_or_by_introspection(provider: Provider) -> None:
    provider.tokens = OPAQUE
    provider.metadata = {"introspection_endpoint": f"{provider.url}/introspect"}
    async with shop(provider.settings(oidc_token="introspection")) as (client, _):
        assert await read(client, (await sign_in(client))["access_token"]) == HTTPStatus.OK
    provider.claims = {"aud": "quilt"}  # an ID token is for the client
    provider.tokens = {}
    provider.tokens = OPAQUE | {"id_token": provider.token()["access_token"]}
    async with shop(provider.settings(oidc_token="id")) as (client, _):
        assert await read(client, (await sign_in(client))["access_token"]) == HTTPStatus.OK


async def test_the_answer_of_another_provider_and_a_short_challenge_are_refused(provider: Provider) -> None:
    async with shop(provider.settings()) as (client, _):
        refused = await client.get("/auth/callback", params={"code": "c", "state": "s", "iss": "https://evil.example"})
        assert refused.status_code == HTTPStatus.BAD_REQUEST
        assert "not of the OpenID provider" in refused.text
        asked = {"client_id": await client_id(client), "redirect_uri": CALLBACK, "response_type": "code", "state": "1"}
        answer = await client.get("/authorize", params=asked | {"code_challenge": "a", "code_challenge_method": "S256"})
        assert query_of(answer)["error"] == "invalid_request"


@pytest.mark.soak
async def test_two_processes_renew_a_token_at_once_at_a_provider_that_accepts_it_once(provider: Provider) -> None:
    async with shop(provider.settings()) as (one, found), shop(provider.settings()) as (other, _):
        provider.rotates = itertools.count()
        token = await sign_in_long_ago(one, store_of(found.server.auth), provider)
        before = provider.exchanges
        assert set(await asyncio.gather(*(read(client, token) for client in (one, other) * 4))) == {HTTPStatus.OK}
        assert (provider.exchanges - before, provider.is_revoked) == (1, False)


async def test_a_damaged_file_ends_a_sign_in_and_files_that_cannot_be_used_give_503(
    provider: Provider, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop(provider.settings()) as (client, _):
        signed_in = await sign_in(client)
        files = [path for path in files_of(home) if "-info" not in path.name]
        for path in files:
            path.write_bytes(b"")
        assert await read(client, signed_in["access_token"]) == HTTPStatus.UNAUTHORIZED
        assert (await refresh(client, signed_in)).status_code == HTTPStatus.UNAUTHORIZED
        for path in files:
            path.unlink()
            path.mkdir()
        assert await read(client, signed_in["access_token"]) == HTTPStatus.SERVICE_UNAVAILABLE
        refused = await refresh(client, signed_in)
        assert (refused.status_code, refused.headers["retry-after"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "5")
    assert "the sign-ins cannot be read or stored" in caplog.text
    assert "Traceback" not in caplog.text


async def test_the_files_of_expired_values_are_deleted(provider: Provider, tmp_path: Path) -> None:
    store = store_of(create_auth(provider.settings()))
    await store.put("a", {"x": 1}, collection="c", ttl=0.001)
    await store.put("b", {"x": 1}, collection="c", ttl=3600)
    (tmp_path / "broken.json").write_text("{")

    def has_deleted() -> bool:
        delete_expired(tmp_path)
        return len(list(tmp_path.rglob("c/*.json"))) == 1

    await until(has_deleted)
    assert await store.get("b", collection="c") == {"x": 1}

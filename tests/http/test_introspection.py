"""Opaque tokens, which the issuer describes, and what the server tells clients about issuers (RFC 9728)."""

import asyncio
import gzip
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from fastmcp.server.auth import AccessToken
from pydantic import AnyHttpUrl, SecretStr

from quilt_mcp.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.http.app import find_checks
from quilt_mcp.http.auth import check_audience, create_auth
from quilt_mcp.http.tokens import QUESTIONS, IntrospectionVerifier
from quilt_mcp.settings import HTTPSettings
from tests.http.web import READ_QUICK, shop, started, statuses, with_headers
from tests.support.waiting import SECONDS, until, until_awaited

ISSUER, AUDIENCE, PUBLIC = "https://issuer.example.com", "https://mcp.example.com/mcp", "https://mcp.example.com"
KNOWN: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, "client_id": "quilt", "client_secret": "zq-secret"}
GOOD: dict[str, Any] = {"active": True, "sub": "ann", "aud": AUDIENCE, "client_id": "cli", "scope": "read"}
MISSING: dict[str, Any] = {"active": False}


class Server(LoopbackServer):
    request_queue_size = 128  # the default of 5 makes further connections wait for seconds


class Issuer:
    def __init__(self) -> None:
        self.known: dict[str, object] = {"good": GOOD}
        self.failure: Answer | None = None
        self.asked: Counter[str] = Counter()
        self.gate = threading.Event()
        self.gate.set()
        self.asking = self.most = 0
        """The number of questions at this moment, and its maximum."""
        self.connections: set[int] = set()
        self._lock = threading.Lock()
        self.server = Server(self._respond, 0)
        self.url = f"http://127.0.0.1:{self.server.port}/introspect"
        given: dict[str, Any] = {"introspection_url": self.url, "required_scopes": ("read",), "public_url": PUBLIC}
        given |= {f"introspection_{name}": value for name, value in KNOWN.items()}
        self.settings = HTTPSettings(**given, allowed_hosts=("127.0.0.1",))

    def create_verifier(self, **options: Any) -> IntrospectionVerifier:
        return IntrospectionVerifier(introspection_url=self.url, **KNOWN | {"audience": [AUDIENCE]}, **options)

    def _respond(self, asked: Request) -> Answer:
        token = asked.form["token"]
        with self._lock:
            self.asked[token] += 1
            self.asking += 1
            self.most = max(self.most, self.asking)
            self.connections.add(threading.get_ident())
        self.gate.wait(SECONDS)
        with self._lock:
            self.asking -= 1
        if asked.signature != "Basic cXVpbHQ6enEtc2VjcmV0":  # quilt:zq-secret
            return Answer(HTTPStatus.UNAUTHORIZED, {})
        return self.failure or Answer(HTTPStatus.OK, self.known.get(token, MISSING))


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    yield from started(Issuer())


def asking(token: str) -> dict[str, Any]:
    return with_headers(READ_QUICK, Authorization=f"Bearer {token}")


REFUSED: dict[str, object] = {
    "unknown": MISSING,
    "another audience": GOOD | {"aud": "https://other.example.com"},
    "no audience": {name: value for name, value in GOOD.items() if name != "aud"},
    "another issuer": GOOD | {"iss": "https://other.example.com"},
    "expired": GOOD | {"exp": 1},
    "exp is infinite": json.dumps(GOOD | {"exp": 1e999}).encode(),
    "no scope": GOOD | {"scope": ""},
    "sub is a list": GOOD | {"sub": ["ann"]},
    "sub is no Unicode": json.dumps(GOOD | {"sub": "\ud800"}).encode(),
    "a claim is no Unicode": json.dumps(GOOD | {"team": ["\ud800"]}).encode(),
    "a deep claim": json.dumps(GOOD).encode()[:-1] + b', "team": ' + b"[" * 300 + b"]" * 300 + b"}",
    "aud is a number": GOOD | {"aud": 7},
    "exp is a text": GOOD | {"exp": "4102444800"},
    "exp is true": GOOD | {"exp": True},
    "exp is a long number": GOOD | {"exp": 10**400},
    "valid in an hour": GOOD | {"nbf": time.time() + 3600},
}


async def test_a_token_that_the_issuer_does_not_accept_gets_401_and_one_without_the_scope_403(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.known |= REFUSED
    async with shop(issuer.settings) as (client, _):
        sent = [{"Authorization": f"Bearer {token}"} for token in (*REFUSED, "good", "good")]
        found = await statuses(client, READ_QUICK, *sent)
    expected = dict.fromkeys(REFUSED, HTTPStatus.UNAUTHORIZED) | {"no scope": HTTPStatus.FORBIDDEN}
    assert dict(zip(REFUSED, found, strict=False)) == expected
    assert found[-2:] == [HTTPStatus.OK] * 2
    assert issuer.asked == dict.fromkeys((*REFUSED, "good"), 1)
    assert "quilt_mcp" not in {record.name.partition(".")[0] for record in caplog.records}
    assert "Traceback" not in caplog.text
    assert "zq-" not in caplog.text


async def test_null_is_an_unknown_claim(issuer: Issuer) -> None:
    described = json.dumps(GOOD | {"exp": None, "nbf": None, "iss": None, "client_id": None, "email": None})
    issuer.failure = Answer(HTTPStatus.OK, gzip.compress(described.encode().ljust(2**20)), ZIPPED)  # as long as allowed
    found = await issuer.create_verifier().verify_token("good")
    assert found
    known = {"active": True, "sub": "ann", "aud": AUDIENCE, "scope": "read", "iss": ISSUER}
    assert (found.claims, found.client_id) == (known, "unknown")


async def test_a_clock_that_is_set_back_keeps_no_revoked_token(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = issuer.create_verifier(cache_seconds=0.01)  # it is only waited for
    assert await verifier.verify_token("good")
    now, issuer.known["good"] = time.time(), MISSING
    monkeypatch.setattr(time, "time", lambda: now - 3600)

    async def is_refused() -> bool:
        return await verifier.verify_token("good") is None

    await until_awaited(is_refused)


async def test_the_number_of_remembered_tokens_is_limited(issuer: Issuer) -> None:
    issuer.known["other"] = GOOD
    verifier = issuer.create_verifier(cached_tokens=1)
    for token in ("good", "good", "junk", "junk", "other", "good", "bad", "junk"):
        await verifier.verify_token(token)
    assert issuer.asked == {"good": 2, "other": 1, "junk": 2, "bad": 1}


@pytest.mark.parametrize("token", ["good", "bad", "foreign"])
async def test_concurrent_requests_with_the_same_token_share_one_question(token: str, issuer: Issuer) -> None:
    issuer.known["foreign"] = GOOD | {"aud": "https://other.example.com"}
    verifier = issuer.create_verifier()
    found = await asyncio.gather(*(verifier.verify_token(token) for _ in range(30)))
    assert {one is not None for one in found} == {token == "good"}
    assert await verifier.verify_token(token) == found[0]
    assert issuer.asked == {token: 1}


async def test_a_cancelled_request_does_not_fail_others_with_its_token(issuer: Issuer) -> None:
    issuer.gate.clear()
    verifier = issuer.create_verifier()
    first, second = (asyncio.create_task(verifier.verify_token("good")) for _ in range(2))
    await until(lambda: issuer.asked["good"])
    first.cancel()
    await asyncio.wait([first])
    issuer.gate.set()
    assert await second
    assert issuer.asked == {"good": 1}


@pytest.mark.parametrize("questions", [1, QUESTIONS])
async def test_invalid_tokens_of_one_address_do_not_delay_others(
    questions: int, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer.known["new"] = GOOD
    seen = list[str]()
    limits = {} if questions == QUESTIONS else {"questions": questions}
    verifier = issuer.create_verifier(queue_seconds=SECONDS, answer_seconds=SECONDS, **limits)
    verify = verifier.verify_token

    async def note(token: str) -> AccessToken | None:
        seen.append(token)
        return await verify(token)

    monkeypatch.setattr(verifier, "verify_token", note)
    async with shop(auth=verifier) as (client, _):
        assert (await client.post(**asking("good"))).status_code == HTTPStatus.OK
        issuer.gate.clear()
        junk = [asyncio.create_task(client.post(**asking(f"junk {number}"))) for number in range(60)]
        await until(lambda: issuer.asking == questions and len(seen) == 1 + len(junk))
        assert (await client.post(**asking("good"))).status_code == HTTPStatus.OK  # the issuer is not asked
        elsewhere = with_headers(asking("new"), {"X-Forwarded-For": "203.0.113.7"})
        honest = asyncio.create_task(client.post(**elsewhere))
        await until(lambda: "new" in seen)
        issuer.gate.set()
        assert (await honest).status_code == HTTPStatus.OK
        assert {answer.status_code for answer in await asyncio.gather(*junk)} == {HTTPStatus.UNAUTHORIZED}
    if questions == 1:  # more arrive in any order
        assert list(issuer.asked).index("new") == 2  # after "good" and the question that was open
    assert issuer.most == questions
    assert len(issuer.connections) < len(junk)


async def test_a_question_that_waits_too_long_gives_503(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    issuer.gate.clear()
    verifier = issuer.create_verifier(questions=1, queue_seconds=0.01)  # the issuer does not answer the first
    async with shop(auth=verifier) as (client, _):
        first = asyncio.create_task(client.post(**asking("good")))
        await until(lambda: issuer.asking)
        refused = await client.post(**asking("other"))
        assert (refused.status_code, refused.headers["retry-after"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "5")
        issuer.gate.set()
        assert (await first).status_code == HTTPStatus.OK
        assert (await client.post(**asking("other"))).status_code == HTTPStatus.UNAUTHORIZED
    assert "does not respond" not in caplog.text


ZIPPED = (("Content-Encoding", "gzip"),)
FAILURES = {
    # 200 KB of gzip can be 200 MB
    "a long answer": Answer(HTTPStatus.OK, gzip.compress(json.dumps(GOOD).encode().ljust(2**20 + 1)), ZIPPED),
    "server error": Answer(HTTPStatus.INTERNAL_SERVER_ERROR, {}),
    "refuses this server": Answer(HTTPStatus.UNAUTHORIZED, {}),
    "no JSON": Answer(HTTPStatus.OK, b"<html>"),
    "no answer": Answer(HTTPStatus.OK, {"error": "maintenance"}),
    **{
        f"active is {active!r}": Answer(HTTPStatus.OK, GOOD | {"active": active})
        for active in ("false", "true", 1, None)
    },
}


async def test_requests_get_503_while_the_issuer_does_not_answer(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    async with shop(issuer.settings) as (client, _):
        for name, failure in FAILURES.items():
            issuer.failure = failure
            refused = await client.post(**asking(name))
            assert (refused.status_code, refused.headers["retry-after"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "5"), name
            assert "www-authenticate" not in refused.headers
            assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.UNAUTHORIZED
            await client.post(**asking(name))
            issuer.failure, issuer.known[name] = None, GOOD
            assert (await client.post(**asking(name))).status_code == HTTPStatus.OK, name
        assert caplog.text.count("the introspection endpoint does not respond") == len(FAILURES)
        issuer.server.stop()
        assert (await client.post(**asking("unknown"))).status_code == HTTPStatus.SERVICE_UNAVAILABLE


async def test_the_server_is_ready_while_the_issuer_answers(issuer: Issuer) -> None:
    verifier = issuer.create_verifier()
    for _ in range(2):
        await verifier.check_issuer()
    assert issuer.asked == {"quilt-mcp-readiness": 1}
    issuer.failure = FAILURES["server error"]
    await verifier.check_issuer()  # the failure is not known yet
    async with shop(auth=verifier) as (client, _):
        assert (await client.post(**asking("good"))).status_code == HTTPStatus.SERVICE_UNAVAILABLE
        assert (await client.get("/ready")).status_code == HTTPStatus.SERVICE_UNAVAILABLE
    issuer.failure = None
    await verifier.check_issuer()


def test_readiness_has_a_check_of_the_issuer_if_there_is_one(issuer: Issuer) -> None:
    for settings in (issuer.settings, issuer.settings.model_copy(update={"public_url": None})):
        assert list(find_checks(create_auth(settings))) == ["token-issuer"]
    for settings in (HTTPSettings(), HTTPSettings(static_tokens=SecretStr('{"t": {"client_id": "ann"}}'))):
        assert find_checks(create_auth(settings)) == {}


@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize(
    ("public", "prefix", "scopes"),
    [("https://mcp.example.com", "", ["read"]), ("https://x.example.com/quilt/", "/quilt", None)],
)
async def test_the_metadata_name_the_resource_its_issuer_and_the_scopes(
    public: str, prefix: str, scopes: list[str] | None, transport: Any, issuer: Issuer
) -> None:
    update = {"public_url": AnyHttpUrl(public), "required_scopes": tuple(scopes or ())}
    settings = issuer.settings.model_copy(update=update)
    path = {"http": "/mcp", "sse": "/sse"}[transport]
    origin = public.rstrip("/").removesuffix(prefix)
    async with shop(settings, transport=transport) as (client, _):
        refused = await client.get(path)
        assert refused.status_code == HTTPStatus.UNAUTHORIZED
        well_known = f"/.well-known/oauth-protected-resource{prefix}{path}"
        assert f'resource_metadata="{origin}{well_known}"' in refused.headers["www-authenticate"]
        found = (await client.get(well_known)).json()
    assert (found["resource"], found["authorization_servers"]) == (f"{origin}{prefix}{path}", [ISSUER])
    assert found.get("scopes_supported", ()) == (scopes or ())  # RFC 9728 has no empty lists


def by_jwt(**more: Any) -> HTTPSettings:
    known = {"jwt_issuer": ISSUER, "jwt_jwks_url": "https://x/keys", "public_url": PUBLIC}
    return HTTPSettings(**known | more)


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        (by_jwt(jwt_audience="quilt-mcp"), 1),
        (by_jwt(jwt_audience="https://other.example.com/mcp"), 1),
        (by_jwt(jwt_audience=AUDIENCE), 0),
        (by_jwt(jwt_audience=f"{AUDIENCE}/"), 0),
        (by_jwt(jwt_audience=PUBLIC), 0),
        (by_jwt(jwt_audience="quilt-mcp", public_url=None), 0),
        (HTTPSettings(), 0),
    ],
)
def test_an_audience_that_is_not_the_servers_url_is_logged(
    settings: HTTPSettings, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    check_audience(settings, "http")
    assert caplog.text.count("QUILT_MCP_JWT_AUDIENCE") == caplog.text.count(f"for {AUDIENCE}. Check") == warnings

"""Tokens that are refused, and issuers that do not publish their keys for a while."""

import asyncio
import json
import math
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import httpx2
import pytest
from fastmcp.server.auth.providers.jwt import RSAKeyPair
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joserfc import jws, jwt
from joserfc.jwk import RSAKey
from pydantic import AnyHttpUrl

from quilt_mcp.commands.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.http.tokens import PublishedKeys, StrictJWTVerifier
from quilt_mcp.settings import HTTPSettings
from tests.http.web import READ_QUICK, shop
from tests.support.examples import count_examples

PAIR = RSAKeyPair.generate()
PRIVATE = RSAKey.import_key(PAIR.private_key.get_secret_value())
ISSUER, AUDIENCE = "https://issuer.example.com", "quilt-mcp"
BY_KEY = HTTPSettings(jwt_public_key=PAIR.public_key, jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
HOUR = 3600


def sign(payload: bytes | dict[str, Any], **header: Any) -> dict[str, str]:
    """Return the header of a request with a signed token."""
    head = {"alg": "RS256", "kid": "one"} | header
    if isinstance(payload, dict):
        signed = jwt.encode(head, payload, PRIVATE, algorithms=["RS256"])
    else:
        signed = jws.serialize_compact(head, payload, PRIVATE, algorithms=["RS256"])
    return {"Authorization": f"Bearer {signed}"}


def claims(**more: Any) -> dict[str, Any]:
    made = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": time.time() + HOUR} | more
    return {name: value for name, value in made.items() if value is not None}


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def bearer(*parts: bytes) -> dict[str, str]:
    """Return the header of a request with a token of these parts, which nobody signed."""
    return {"Authorization": "Bearer " + ".".join(urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)}


REFUSED = {
    "no exp": sign(claims(exp=None)),
    "expired": sign(claims(exp=time.time() - HOUR)),
    "exp is infinite": sign(json.dumps(claims(exp=math.inf)).encode()),
    "exp is not a number": sign(json.dumps(claims(exp="later")).encode()),
    "exp is true": sign(json.dumps(claims(exp=True)).encode()),
    "valid tomorrow": sign(claims(nbf=time.time() + HOUR)),
    "nbf is a list": sign(json.dumps(claims(nbf=[])).encode()),
    "issued tomorrow": sign(claims(iat=time.time() + HOUR)),
    "a refresh token": sign(claims(), typ="refresh+jwt"),
    "a proof of possession": sign(claims(), typ="dpop+jwt"),
    "typ is a list": bearer(b'{"alg":"RS256","typ":[]}', json.dumps(claims()).encode(), b"x"),
    "alg is none": bearer(b'{"alg":"none"}', json.dumps(claims()).encode(), b""),
    "alg is a list": bearer(b'{"alg":["RS256"],"kid":"one"}', json.dumps(claims()).encode(), b"x"),
    "kid is a list": bearer(b'{"alg":"RS256","kid":["one"]}', json.dumps(claims()).encode(), b"x"),
    "kid is long": bearer(b'{"alg":"RS256","kid":"%s"}' % (b"x" * 9_000), b"{}", b"x"),
    "payload is a list": sign(b"[]"),
    "deep payload": sign(nested(2500)),
    "deep header": bearer(nested(2500), b"{}", b"x"),
    "no JSON": bearer(b"\xff", b"\xff", b"x"),
    **{f"header is {text.decode()}": bearer(text, b"{}", b"x") for text in (b"[]", b"null", b"7", b'"x"', b"true")},
}


class Issuer:
    """Publishes keys, or another answer."""

    def __init__(self) -> None:
        key = RSAKey.import_key(PAIR.public_key).as_dict() | {"kid": "one", "alg": "RS256", "use": "sig"}
        self.keys = self.answer = Answer(HTTPStatus.OK, {"keys": [key]})
        self.fetches = 0
        self.server = LoopbackServer(self._respond, 0)
        self.settings = HTTPSettings(
            jwt_jwks_url=AnyHttpUrl(f"http://127.0.0.1:{self.server.port}/keys"),
            jwt_issuer=ISSUER,
            jwt_audience=AUDIENCE,
        )

    def create_verifier(self, refresh_seconds: float = 0.0) -> StrictJWTVerifier:
        """Return the verifier of the settings. By default, it fetches the keys again at once."""
        url = str(self.settings.jwt_jwks_url)
        return StrictJWTVerifier(jwks_uri=url, issuer=ISSUER, audience=AUDIENCE, refresh_seconds=refresh_seconds)

    def _respond(self, _: Request) -> Answer:
        self.fetches += 1
        return self.answer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    found.server.start()
    yield found
    found.server.stop()


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
async def test_a_token_that_is_not_valid_now_gets_401(
    refused: dict[str, str], issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    assert await statuses(issuer.settings, refused) == [HTTPStatus.UNAUTHORIZED]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "application/at+jwt"])
async def test_an_access_token_is_accepted(typ: str) -> None:
    now = time.time()
    assert await statuses(BY_KEY, sign(claims(nbf=now, iat=now + 30), typ=typ), sign(claims())) == [HTTPStatus.OK] * 2


NAMES = st.sampled_from(["alg", "kid", "typ", "crit", "exp", "iss", "aud", "sub", "nbf", "scope"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["RS256", "one", "none"]) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=8,
)
SEGMENTS = st.binary(max_size=20) | VALUES.map(lambda value: json.dumps(value).encode())


@pytest.fixture
def verifiers(issuer: Issuer) -> list[StrictJWTVerifier]:
    """Two verifiers: with a public key, and with published keys."""
    by_key = StrictJWTVerifier(jwks_uri=None, public_key=PAIR.public_key, issuer=ISSUER, audience=AUDIENCE)
    return [by_key, issuer.create_verifier(refresh_seconds=HOUR)]


@given(header=SEGMENTS, payload=SEGMENTS, is_signed=st.booleans())
@settings(max_examples=count_examples(thorough=200), suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_token_is_an_error_of_the_verifier(
    *, header: bytes, payload: bytes, is_signed: bool, verifiers: list[StrictJWTVerifier]
) -> None:
    made = sign(payload) if is_signed else bearer(header, payload, b"x")
    token = made["Authorization"].removeprefix("Bearer ")
    for verifier in verifiers:
        assert await verifier.verify_token(token) is None


async def statuses(settings: HTTPSettings, *credentials: dict[str, str]) -> list[int]:
    async with shop(settings) as (client, _):
        reads = [await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | one}) for one in credentials]
    return [answer.status_code for answer in reads]


FAILURES = {
    "server error": Answer(HTTPStatus.INTERNAL_SERVER_ERROR, {}),
    "no keys": Answer(HTTPStatus.OK, {"error": "maintenance"}),
    "wrong keys": Answer(HTTPStatus.OK, {"keys": "none"}),
    "an empty set": Answer(HTTPStatus.OK, {"keys": []}),
    "keys that are none": Answer(HTTPStatus.OK, {"keys": [None, 7, "one", {"kid": "one"}]}),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_requests_get_503_until_the_keys_can_be_fetched(failure: Answer, issuer: Issuer) -> None:
    issuer.answer = failure
    async with shop(auth=issuer.create_verifier()) as (client, _):
        asked = READ_QUICK | {"headers": READ_QUICK["headers"] | sign(claims())}
        refused = await client.post(**asked)
        assert (refused.status_code, refused.headers["retry-after"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "5")
        assert "www-authenticate" not in refused.headers
        assert (await client.post(**READ_QUICK)).status_code == HTTPStatus.UNAUTHORIZED
        issuer.answer = issuer.keys
        assert (await client.post(**asked)).status_code == HTTPStatus.OK


@pytest.mark.parametrize("failure", ["server error", "an empty set"])
async def test_the_last_keys_are_used_while_the_issuer_fails(failure: str, issuer: Issuer) -> None:
    async with shop(auth=issuer.create_verifier()) as (client, _):

        async def read(credentials: dict[str, str]) -> int:
            return (await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | credentials})).status_code

        assert await read(sign(claims())) == HTTPStatus.OK
        issuer.answer = FAILURES[failure]
        new = sign(claims(), kid="two")
        assert await read(new) == HTTPStatus.SERVICE_UNAVAILABLE
        assert await read(sign(claims())) == HTTPStatus.OK
        assert await read(sign(claims(exp=1))) == HTTPStatus.UNAUTHORIZED
        issuer.answer = issuer.keys
        assert await read(new) == HTTPStatus.UNAUTHORIZED


async def test_values_that_are_no_keys_are_ignored(issuer: Issuer) -> None:
    keys = issuer.keys.body
    assert isinstance(keys, dict)
    issuer.answer = Answer(HTTPStatus.OK, {"keys": [None, 7, {}, *keys["keys"]]})
    assert await statuses(issuer.settings, sign(claims())) == [HTTPStatus.OK]


@pytest.mark.parametrize("answer", ["the keys", *FAILURES])
async def test_junk_tokens_do_not_fetch_the_keys_again(answer: str, issuer: Issuer) -> None:
    issuer.answer = FAILURES.get(answer, issuer.keys)
    verifier = issuer.create_verifier(refresh_seconds=HOUR)
    junk = [sign(claims(), kid=f"junk {number}")["Authorization"].removeprefix("Bearer ") for number in range(30)]
    assert await asyncio.gather(*map(verifier.verify_token, junk)) == [None] * 30
    assert issuer.fetches == 1


async def test_requests_that_waited_for_a_failure_do_not_repeat_it(issuer: Issuer) -> None:
    """One after another, each would wait as long as the first."""
    issuer.answer = FAILURES["server error"]
    keys = PublishedKeys(refresh_seconds=HOUR)
    for _ in range(3):
        with pytest.raises(httpx2.HTTPError, match="unavailable"):
            await keys.get(str(issuer.settings.jwt_jwks_url))
    assert issuer.fetches == 1


async def test_keys_older_than_a_day_are_not_used(issuer: Issuer) -> None:
    keys, old = PublishedKeys(refresh_seconds=0), PublishedKeys(refresh_seconds=0, max_stale_seconds=-1)
    url = str(issuer.settings.jwt_jwks_url)
    for one in (keys, old):
        assert (await one.get(url)).json()["keys"]
    issuer.answer = FAILURES["server error"]
    assert (await keys.get(url)).json()["keys"]
    with pytest.raises(httpx2.HTTPError, match="unavailable"):
        await old.get(url)


async def test_the_server_is_ready_as_long_as_it_has_keys(issuer: Issuer) -> None:
    verifier = issuer.create_verifier()
    issuer.answer = FAILURES["an empty set"]
    with pytest.raises(Unavailable):
        await verifier.check_issuer()
    issuer.answer = issuer.keys
    await verifier.check_issuer()
    issuer.answer = FAILURES["server error"]
    async with shop(auth=verifier) as (client, _):
        for credentials, status in ((sign(claims()), 200), (sign(claims(), kid="two"), 503)):
            read = await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | credentials})
            assert read.status_code == status
        fetches = issuer.fetches
        assert (await client.get("/ready")).status_code == HTTPStatus.OK
    assert issuer.fetches == fetches

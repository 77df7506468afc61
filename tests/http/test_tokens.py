"""Tokens that are refused, and issuers that do not publish their keys for a while."""

import asyncio
import gzip
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

from quilt_mcp.core.errors import Unavailable
from quilt_mcp.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.http.tokens import PublishedKeys, StrictJWTVerifier
from quilt_mcp.settings import HTTPSettings
from tests.http.web import READ_QUICK, shop, started, statuses, with_headers
from tests.support.examples import count_examples
from tests.support.waiting import until_awaited

PAIR = RSAKeyPair.generate()
PRIVATE = RSAKey.import_key(PAIR.private_key.get_secret_value())
ISSUER, AUDIENCE = "https://issuer.example.com", "quilt-mcp"
BY_KEY = HTTPSettings(jwt_public_key=PAIR.public_key, jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
HOUR = 3600


def sign(payload: bytes | dict[str, Any], **header: Any) -> dict[str, str]:
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
    "crit is empty": sign(claims(), crit=[]),
    "no exp": sign(claims(exp=None)),
    "expired": sign(claims(exp=time.time() - HOUR)),
    "exp is infinite": sign(json.dumps(claims(exp=math.inf)).encode()),
    "exp is 10**400": sign(json.dumps(claims(exp=10**400)).encode()),
    "exp is not a number": sign(json.dumps(claims(exp="later")).encode()),
    "exp is true": sign(json.dumps(claims(exp=True)).encode()),
    "valid tomorrow": sign(claims(nbf=time.time() + HOUR)),
    "nbf is a list": sign(json.dumps(claims(nbf=[])).encode()),
    "issued tomorrow": sign(claims(iat=time.time() + HOUR)),
    "iat is true": sign(json.dumps(claims(iat=True)).encode()),
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
    yield from started(Issuer())


async def test_a_token_that_is_not_valid_now_gets_401(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    async with shop(issuer.settings) as (client, _):
        found = await statuses(client, READ_QUICK, *REFUSED.values())
    expected = dict.fromkeys(REFUSED, HTTPStatus.UNAUTHORIZED) | {"kid is long": HTTPStatus.SERVICE_UNAVAILABLE}
    assert dict(zip(REFUSED, found, strict=True)) == expected  # the keys were just read, without an unknown one
    assert "Traceback" not in caplog.text


async def test_an_access_token_is_accepted(issuer: Issuer) -> None:
    keys = issuer.keys.body
    assert isinstance(keys, dict)
    [key] = keys["keys"]
    encrypting = key | {"use": "enc", "n": f"w{key['n'][1:]}"}
    others = [{"kty": "EC", "kid": ["one"]}, {"kty": "EC", "x": math.nan}, encrypting]
    issuer.answer = Answer(HTTPStatus.OK, {"keys": [None, 7, {}, key, *others]})  # what is no key is ignored
    current = claims(nbf=time.time(), iat=time.time() + 30)
    for settings_of in (BY_KEY, issuer.settings):
        sent = [sign(current, typ=typ) for typ in ("JWT", "at+jwt", "application/at+jwt")]
        async with shop(settings_of) as (client, _):
            assert await statuses(client, READ_QUICK, *sent, sign(claims())) == [HTTPStatus.OK] * 4


NAMES = st.sampled_from(["alg", "kid", "typ", "crit", "exp", "iss", "aud", "sub", "nbf", "scope"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["RS256", "one", "none"]) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=8,
)
SEGMENTS = st.binary(max_size=20) | VALUES.map(lambda value: json.dumps(value).encode())


@pytest.fixture
def verifiers(issuer: Issuer) -> list[StrictJWTVerifier]:
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


ZIPPED = (("Content-Encoding", "gzip"),)
FAILURES = {
    "server error": Answer(HTTPStatus.INTERNAL_SERVER_ERROR, {}),
    "no keys": Answer(HTTPStatus.OK, {"error": "maintenance"}),
    "wrong keys": Answer(HTTPStatus.OK, {"keys": "none"}),
    "an empty set": Answer(HTTPStatus.OK, {"keys": []}),
    # a few KB of gzip can be gigabytes
    "a long answer": Answer(HTTPStatus.OK, gzip.compress(b'{"keys": [{"kty": "RSA"}]}'.ljust(2**20 + 1)), ZIPPED),
    "keys that are none": Answer(HTTPStatus.OK, {"keys": [None, 7, "one", {"kid": "one"}]}),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_the_last_keys_are_used_while_the_issuer_fails(failure: str, issuer: Issuer) -> None:
    new = sign(claims(), kid="two")
    async with shop(auth=issuer.create_verifier()) as (client, _):

        async def read(*credentials: dict[str, str]) -> list[int]:
            return await statuses(client, READ_QUICK, *credentials)

        issuer.answer = FAILURES[failure]
        refused = await client.post(**with_headers(READ_QUICK, sign(claims())))
        assert (refused.status_code, refused.headers["retry-after"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "5")
        assert "www-authenticate" not in refused.headers
        assert await read({}) == [HTTPStatus.UNAUTHORIZED]
        issuer.answer = issuer.keys
        assert await read(sign(claims())) == [HTTPStatus.OK]
        issuer.answer = FAILURES[failure]
        assert await read(new, sign(claims()), sign(claims(exp=1))) == [503, 200, 401]
        issuer.answer = issuer.keys
        assert await read(new) == [HTTPStatus.UNAUTHORIZED]


@pytest.mark.parametrize("answer", ["the keys", *FAILURES])
async def test_junk_tokens_do_not_fetch_the_keys_again(answer: str, issuer: Issuer) -> None:
    issuer.answer = FAILURES.get(answer, issuer.keys)
    verifier = issuer.create_verifier(refresh_seconds=HOUR)
    junk = [sign(claims(), kid=f"junk {number}")["Authorization"].removeprefix("Bearer ") for number in range(30)]
    assert await asyncio.gather(*map(verifier.verify_token, junk)) == [None] * 30
    assert issuer.fetches == 1


async def test_a_token_with_a_new_key_just_after_one_with_no_key_is_not_refused_for_good(issuer: Issuer) -> None:
    async with shop(auth=issuer.create_verifier(refresh_seconds=HOUR)) as (client, _):
        sent = [
            sign(claims(), kid="junk"),
            sign(claims(), kid="new"),
            sign(claims()),
            bearer(b'{"alg":"RS256"}', b"{}"),
        ]
        assert await statuses(client, READ_QUICK, *sent) == [401, 503, 200, 401]


async def test_each_of_several_keys_with_one_id_verifies(issuer: Issuer) -> None:
    keys = issuer.keys.body
    assert isinstance(keys, dict)
    [known] = keys["keys"]
    other = RSAKey.generate_key(2048)
    second = RSAKey.import_key(other.as_pem(private=False)).as_dict() | {"kid": "one"}
    foreign = [{"kty": "EC", "kid": "one"}, {"kty": "OKP", "kid": "one", "crv": "Ed25519"}]
    for order in ([known, *foreign, second], [second, *foreign, known]):
        issuer.answer = Answer(HTTPStatus.OK, {"keys": order})
        async with shop(auth=issuer.create_verifier()) as (client, _):
            head = {"alg": "RS256", "kid": "one"}
            by_other = {"Authorization": f"Bearer {jwt.encode(head, claims(), other)}"}
            expired = {"Authorization": f"Bearer {jwt.encode(head, claims(exp=1), other)}"}
            stranger = {"Authorization": f"Bearer {jwt.encode(head, claims(), RSAKey.generate_key(2048))}"}
            found = await statuses(client, READ_QUICK, sign(claims()), by_other, expired, stranger)
            assert found == [HTTPStatus.OK, HTTPStatus.OK, HTTPStatus.UNAUTHORIZED, HTTPStatus.UNAUTHORIZED]


async def test_tokens_of_a_retired_key_get_401_also_beside_others_with_unknown_keys(issuer: Issuer) -> None:
    verifier = issuer.create_verifier(refresh_seconds=0.3)  # it is only waited for
    async with shop(auth=verifier) as (client, _):
        noise, retired = sign(claims(), kid="noise"), sign(claims(), kid="retired")
        expired = sign(claims(exp=time.time() - HOUR), kid="retired")
        assert (await statuses(client, READ_QUICK, noise, expired))[1] == HTTPStatus.UNAUTHORIZED

        async def is_known_to_be_retired() -> bool:
            others = [sign(claims(), kid=f"noise {number}") for number in range(5)]
            return (await statuses(client, READ_QUICK, *others, retired))[-1] == HTTPStatus.UNAUTHORIZED

        await until_awaited(is_known_to_be_retired)
        assert set(await statuses(client, READ_QUICK, *[retired, noise] * 5)) == {HTTPStatus.UNAUTHORIZED}


async def test_each_reason_for_a_refusal_is_logged_once(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "quilt_mcp.http.tokens")
    verifier = issuer.create_verifier(refresh_seconds=HOUR)
    tokens = {
        "is for another audience (aud), perhaps one with another slash at its end": sign(claims(aud=f"{AUDIENCE}/")),
        "names another issuer (iss)": sign(claims(iss="zq")),
        "has expired (exp)": sign(claims(exp=1)),
        "has another algorithm than QUILT_MCP_JWT_ALGORITHM": bearer(b'{"alg":"HS256"}', b"{}", b""),
        "is not a JWT": {"Authorization": "Bearer zq"},
        "has a signature or a key (kid) that": sign(claims(), kid="zq"),
    }
    for reason, header in tokens.items():
        for _ in range(2):
            assert await verifier.verify_token(header["Authorization"].removeprefix("Bearer ")) is None
        said = [one.getMessage() for one in caplog.records if one.name == "quilt_mcp.http.tokens"]
        assert [reason in one for one in said] == [True]
        caplog.clear()


async def test_a_failure_is_not_repeated_and_keys_older_than_a_day_are_not_used(issuer: Issuer) -> None:
    """One after another, each request would wait as long as the first."""
    url, waiting = str(issuer.settings.jwt_jwks_url), PublishedKeys(refresh_seconds=HOUR)
    keys, old = (PublishedKeys(refresh_seconds=0, max_stale_seconds=seconds) for seconds in (60, -1))
    for one in (keys, old):
        assert (await one.get(url)).json()["keys"]
    issuer.answer, fetches = FAILURES["server error"], issuer.fetches
    assert (await keys.get(url)).json()["keys"]
    for one in (old, waiting, waiting, waiting):
        with pytest.raises(httpx2.HTTPError, match="unavailable"):
            await one.get(url)
    assert issuer.fetches == fetches + 3


async def test_the_server_is_ready_as_long_as_it_has_keys(issuer: Issuer) -> None:
    verifier = issuer.create_verifier()
    issuer.answer = FAILURES["an empty set"]
    with pytest.raises(Unavailable):
        await verifier.check_issuer()
    issuer.answer = issuer.keys
    await verifier.check_issuer()
    issuer.answer = FAILURES["server error"]
    async with shop(auth=verifier) as (client, _):
        assert await statuses(client, READ_QUICK, sign(claims()), sign(claims(), kid="two")) == [200, 503]
        fetches = issuer.fetches
        assert (await client.get("/ready")).status_code == HTTPStatus.OK
    assert issuer.fetches == fetches

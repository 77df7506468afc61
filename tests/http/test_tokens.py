"""Tokens that are refused, and issuers that do not publish their keys for a while."""

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
from joserfc import jws, jwt
from joserfc.jwk import RSAKey
from pydantic import AnyHttpUrl

from quilt_mcp.commands.demo.http_server import Answer, LoopbackServer, Request
from quilt_mcp.http.tokens import PublishedKeys, StrictJWTVerifier
from quilt_mcp.settings import HTTPSettings
from tests.http.web import READ_QUICK, shop

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
    "deep payload": sign(nested(2500)),
    "deep header": bearer(nested(2500), b"{}", b"x"),
    "no JSON": bearer(b"\xff", b"\xff", b"x"),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
async def test_a_token_that_is_not_valid_now_gets_401(
    refused: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert await statuses(BY_KEY, refused) == [HTTPStatus.UNAUTHORIZED]
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "application/at+jwt"])
async def test_an_access_token_is_accepted(typ: str) -> None:
    now = time.time()
    assert await statuses(BY_KEY, sign(claims(nbf=now, iat=now + 30), typ=typ), sign(claims())) == [HTTPStatus.OK] * 2


async def statuses(settings: HTTPSettings, *credentials: dict[str, str]) -> list[int]:
    async with shop(settings) as (client, _):
        reads = [await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | one}) for one in credentials]
    return [answer.status_code for answer in reads]


class Issuer:
    """Publishes keys, or another answer."""

    def __init__(self) -> None:
        key = RSAKey.import_key(PAIR.public_key).as_dict() | {"kid": "one", "alg": "RS256", "use": "sig"}
        self.keys = self.answer = Answer(HTTPStatus.OK, {"keys": [key]})
        self.server = LoopbackServer(self._respond, 0)
        self.settings = HTTPSettings(
            jwt_jwks_url=AnyHttpUrl(f"http://127.0.0.1:{self.server.port}/keys"),
            jwt_issuer=ISSUER,
            jwt_audience=AUDIENCE,
        )

    def create_verifier(self) -> StrictJWTVerifier:
        """Return the verifier of the settings. It fetches the keys again at once."""
        url = str(self.settings.jwt_jwks_url)
        return StrictJWTVerifier(jwks_uri=url, issuer=ISSUER, audience=AUDIENCE, refresh_seconds=0.0)

    def _respond(self, _: Request) -> Answer:
        return self.answer


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    found.server.start()
    yield found
    found.server.stop()


FAILURES = {
    "server error": Answer(HTTPStatus.INTERNAL_SERVER_ERROR, {}),
    "no keys": Answer(HTTPStatus.OK, {"error": "maintenance"}),
    "wrong keys": Answer(HTTPStatus.OK, {"keys": "none"}),
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


async def test_the_last_keys_are_used_while_the_issuer_fails(issuer: Issuer) -> None:
    async with shop(auth=issuer.create_verifier()) as (client, _):

        async def read(credentials: dict[str, str]) -> int:
            return (await client.post(**READ_QUICK | {"headers": READ_QUICK["headers"] | credentials})).status_code

        assert await read(sign(claims())) == HTTPStatus.OK
        issuer.answer = FAILURES["server error"]
        new = sign(claims(), kid="two")
        assert await read(new) == HTTPStatus.SERVICE_UNAVAILABLE
        assert await read(sign(claims())) == HTTPStatus.OK
        assert await read(sign(claims(exp=1))) == HTTPStatus.UNAUTHORIZED
        issuer.answer = issuer.keys
        assert await read(new) == HTTPStatus.UNAUTHORIZED


async def test_keys_older_than_a_day_are_not_used(issuer: Issuer) -> None:
    keys, old = PublishedKeys(), PublishedKeys(max_stale_seconds=-1)
    url = str(issuer.settings.jwt_jwks_url)
    for one in (keys, old):
        assert (await one.get(url)).json()["keys"]
    issuer.answer = FAILURES["server error"]
    assert (await keys.get(url)).json()["keys"]
    with pytest.raises(httpx2.HTTPError, match="unavailable"):
        await old.get(url)

"""Verification of JSON Web Tokens: FastMCP's, with what it leaves out; and of opaque tokens (RFC 7662).

FastMCP's verifier of opaque tokens treats an issuer that does not respond like one that refuses the token, and asks it
for every request with an invalid token. auth.py imports this module on first use, because it imports cryptography.

Sources: RFC 7519 (the claims `exp`, `nbf`, `iat`), RFC 9068 and RFC 8725 (the header `typ`).
"""

import asyncio
import base64
import hashlib
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextvars import Context
from http import HTTPStatus
from typing import Any, TypeGuard

import httpx2
from cachetools import TTLCache
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.utilities.auth import decode_jwt_header
from joserfc.errors import JoseError
from joserfc.jwk import OctKey, import_key
from pydantic import BaseModel, ConfigDict, FiniteFloat, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from quilt_mcp.app.fair_queue import FairQueue, NoPlace, Share
from quilt_mcp.app.json_depth import is_nested_too_deeply
from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.http.rate_limiter import find_network
from quilt_mcp.http.request_state import current_scope, note_sign_in_failure

LEEWAY_SECONDS = 60
"""The number of seconds that the issuer's clock may be ahead of ours."""
ACCESS_TOKEN_TYPES = {"", "JWT", "AT+JWT"}
"""The values of `typ` for access tokens, in upper case. Issuers sign other tokens with the same keys."""
MAX_STALE_SECONDS = 86_400
FETCH_SECONDS = 10.0
REFRESH_SECONDS = 5.0
MAX_TIME = 1e15
"""In seconds. NaN, infinity and numbers of 400 digits are no times."""
UNKNOWN_SECONDS = 60.0
"""How long a key that the issuer does not have stays unknown."""
UNKNOWN_KEYS, MAX_KEY_ID = 10_000, 200
MAX_KEYS_OF_ID = 4
"""How many keys with one `kid` are tried. An issuer that replaces a key without a new id publishes two."""
LOGGED_REASONS, LOGGED_SECONDS = 100, 60.0
"""A reason for a refusal is logged once in this time."""
NO_JWT = (
    "is not a JWT. Set QUILT_MCP_OIDC_TOKEN to id or to introspection; or, if the provider issues JWTs for an audience "
    "alone, set QUILT_MCP_OIDC_AUDIENCE"
)


logger = logging.getLogger(__name__)


class _KeySet(TypedDict):
    """A JSON Web Key Set (RFC 7517)."""

    keys: list[object]


KEY_SET = TypeAdapter(_KeySet)


class StrictJWTVerifier(JWTVerifier):
    """Also refuses tokens that never expire, that are not valid yet, that are not access tokens, or that are malformed.

    If the issuer does not publish its keys at the moment, the last ones are used for a day. A token with another key
    cannot be verified then, and neither just after another unknown key, because the issuer is not asked again yet: the
    request gets 503 instead of 401, because clients discard a token after 401. A key that the issuer did not have when
    it was asked is unknown for a minute, so that tokens of a retired key get 401.

    Scopes are not checked here: a token without a required one is valid, and gets 403.

    Args:
        jwks_uri: where the issuer publishes its keys; None with a public key.
        refresh_seconds: how long to wait before the keys are fetched again, for a token with an unknown key or after
            a failure.
        options: as for FastMCP's verifier.
    """

    def __init__(self, *, jwks_uri: str | None, refresh_seconds: float = REFRESH_SECONDS, **options: Any) -> None:
        self._published = PublishedKeys(refresh_seconds) if jwks_uri else None
        self._logged: TTLCache[str, bool] = TTLCache(LOGGED_REASONS, LOGGED_SECONDS)
        super().__init__(
            jwks_uri=jwks_uri, http_client=self._published, jwks_refresh_interval=refresh_seconds, **options
        )

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = await self._load(token)
        if found is None and (problem := self._explain(token)) not in self._logged:
            self._logged[problem] = True
            logger.info("a token was refused: it %s", problem)
        return found

    async def find_problem(self, token: str) -> str | None:
        """Return why a token is not accepted, in words that follow "the token"; None if it is."""
        return None if await self._load(token) else self._explain(token)

    async def _load(self, token: str) -> AccessToken | None:
        try:
            header: object = decode_jwt_header(token)
            if not isinstance(header, dict) or header.get("crit") == []:  # RFC 7515, 4.1.11
                return None
            before = self._published.fetches if self._published else 0
            found = await super().load_access_token(token) or await self._try_others(token, header.get("kid"))
            is_valid = found is not None and _is_access_token(header) and _is_current(found.claims)
        except (ValueError, RecursionError, OverflowError):  # no JSON, deeply nested JSON, an `exp` of 400 digits
            return None
        is_open = found is None and not _has_expired(_read_claims(token))
        if is_open and self._published is not None and self._published.may_lack(header.get("kid"), before):
            note_sign_in_failure()
        return found if is_valid else None

    async def _try_others(self, token: str, key_id: object) -> AccessToken | None:
        """Verify a token with each of several keys that have one `kid`. FastMCP's verifier knows the last of them."""
        keys = self._published.find_keys(key_id) if self._published else []
        for key in keys[:MAX_KEYS_OF_ID] if len(keys) > 1 else []:
            try:
                made = import_key(key)
            except (JoseError, TypeError, ValueError):  # a type that the library does not know, or a damaged key
                continue
            if isinstance(made, OctKey):  # a secret is no public key
                continue
            public_key = made.as_pem(private=False)
            one = JWTVerifier(
                public_key=public_key, issuer=self.issuer, audience=self.audience, algorithm=self.algorithm
            )
            if found := await one.load_access_token(token):
                return found
        return None

    def _explain(self, token: str) -> str:
        """Return why a token is refused, as far as it says that itself."""
        try:
            header: object = decode_jwt_header(token)
        except (ValueError, RecursionError):
            return NO_JWT
        claims = _read_claims(token)
        if claims is None or not isinstance(header, dict):
            return NO_JWT
        audiences = self.audience if isinstance(self.audience, list) else [self.audience]
        named = claims.get("aud")
        reasons = {
            "has another algorithm than QUILT_MCP_JWT_ALGORITHM": header.get("alg") != self.algorithm,
            "is no access token by its header (typ)": not _is_access_token(header),
            "has expired (exp)": _has_expired(claims),
            "has no expiry (exp), or is not valid yet (nbf, iat)": not _is_current(claims),
            "names another issuer (iss)": self.issuer is not None and claims.get("iss") != self.issuer,
            "is for another audience (aud), perhaps one with another slash at its end": self.audience is not None
            and not {*map(str, named if isinstance(named, list) else [named])} & {*map(str, audiences)},
        }
        found = next((reason for reason, holds in reasons.items() if holds), None)
        return found or "has a signature or a key (kid) that the keys of the issuer do not verify"

    async def check_issuer(self) -> None:
        """Check that there are keys to verify tokens with. The issuer is asked only if there are none.

        Raises:
            Unavailable: the issuer does not respond with keys.
        """
        if self._published is None or self._published.has_keys:
            return
        try:
            await self._published.get(str(self.jwks_uri))
        except httpx2.HTTPError as error:
            raise Unavailable("The token issuer does not respond with keys.") from error


class PublishedKeys(httpx2.AsyncClient):
    """Fetches the keys of the issuer. If that fails, `get` returns the last good response.

    Each fetch has its own connection, so there is nothing to close.

    Args:
        refresh_seconds: how long a failure is the answer to further requests. Requests that waited for it would
            otherwise repeat it one after another.
    """

    def __init__(
        self, refresh_seconds: float = REFRESH_SECONDS, *, max_stale_seconds: float = MAX_STALE_SECONDS
    ) -> None:
        super().__init__(timeout=FETCH_SECONDS)
        self._refresh_seconds = refresh_seconds
        self._max_stale_seconds = max_stale_seconds
        self._good: tuple[float, httpx2.Response] | None = None  # with its time on the monotonic clock
        self._failed_at: float | None = None
        # by key id: how often the issuer had been asked when a token with this unknown key arrived
        self._missing: TTLCache[str, int] = TTLCache(UNKNOWN_KEYS, UNKNOWN_SECONDS)
        self.fetches = 0  # how often the issuer was asked

    @property
    def has_keys(self) -> bool:
        return self._good is not None and time.monotonic() - self._good[0] <= self._max_stale_seconds

    async def get(self, url: httpx2.URL | str, **options: Any) -> httpx2.Response:
        """Return the response with the keys.

        Raises:
            HTTPError: the issuer does not respond with keys, and there is no earlier response.
        """
        if self._failed_at is not None and time.monotonic() < self._failed_at + self._refresh_seconds:
            return self._find_last()
        self.fetches += 1
        try:
            async with (
                asyncio.timeout(FETCH_SECONDS),
                httpx2.AsyncClient(timeout=self.timeout) as client,
                client.stream("GET", url, **options) as answer,
            ):
                keys = _find_keys(await _read(answer))
        except (httpx2.HTTPError, NoAnswer, TimeoutError, ValueError) as error:
            self._note_failure(error)
            return self._find_last()
        response = httpx2.Response(HTTPStatus.OK, content=json.dumps({"keys": keys}), request=answer.request)
        self._good, self._failed_at = (time.monotonic(), response), None
        return response

    def find_keys(self, key_id: object) -> list[JSONObject]:
        """Return the keys of the last good response that have this id."""
        keys = self._good[1].json()["keys"] if self._good else []
        return [one for one in keys if one.get("kid") == key_id]

    def may_lack(self, key_id: object, before: int) -> bool:
        """Return whether the issuer may have published this key: it fails, or was not asked after `before` fetches."""
        if self.find_keys(key_id):
            return False
        if self._failed_at is not None or not isinstance(key_id, str):
            return self._failed_at is not None
        return self.fetches == self._missing.setdefault(key_id[:MAX_KEY_ID], before)

    def _note_failure(self, error: Exception) -> None:
        if self._failed_at is None:
            reason = str(error) if type(error) in {NoAnswer, ValueError} else type(error).__name__
            logger.warning("cannot fetch the keys of the token issuer (%s)", reason)
        self._failed_at = time.monotonic()

    def _find_last(self) -> httpx2.Response:
        if self._good is None or not self.has_keys:
            raise httpx2.HTTPError("the issuer's keys are unavailable")
        return self._good[1]


def _find_keys(content: bytes) -> list[Mapping[str, object]]:
    """Return the keys of a response that can verify tokens. Everything else is ignored (RFC 7517, section 5).

    Raises:
        ValueError: there is none. With an empty set, no token is valid: the issuer is about to replace its keys.
    """
    keys = [one for one in KEY_SET.validate_json(content)["keys"] if isinstance(one, dict) and "kty" in one]
    # FastMCP accepts no token at all if the id of one key is not a text
    found: list[Mapping[str, object]] = [
        one for one in keys if isinstance(one.get("kid"), str | None) and one.get("use", "sig") == "sig"
    ]
    if not found:
        raise ValueError("no keys")
    return found


def _is_access_token(header: Mapping[str, object]) -> bool:
    kind = header.get("typ", "")
    return isinstance(kind, str) and kind.upper().removeprefix("APPLICATION/") in ACCESS_TOKEN_TYPES


def _is_current(claims: Mapping[str, object]) -> bool:
    """Return whether a token expires, and was valid a moment ago. FastMCP has compared `exp` with the clock."""
    latest = time.time() + LEEWAY_SECONDS
    starts = [claims[name] for name in ("nbf", "iat") if name in claims]
    return _is_time(claims.get("exp")) and all(_is_time(start) and start <= latest for start in starts)


def _read_claims(token: str) -> Mapping[str, object] | None:
    """Return the claims of a JWT, which nobody has verified; None if it is none."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004 - of a JWT
        return None
    try:
        claims: object = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    return claims if isinstance(claims, dict) else None


def _has_expired(claims: Mapping[str, object] | None) -> bool:
    end = (claims or {}).get("exp")
    return _is_time(end) and end < time.time()


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MAX_TIME < value < MAX_TIME


CACHE_SECONDS = 10
"""How long the issuer is not asked about a token again. A token that is revoked is accepted for this time."""
CACHED_TOKENS = 10_000
"""The maximum number of accepted tokens that are remembered, and of refused ones."""
QUESTIONS = 16
"""The maximum number of questions to the issuer at the same time."""
QUEUE_SECONDS = 5.0
INTROSPECTION_SECONDS = 5.0
ANSWER_BYTES = 1_048_576
"""The maximum size of an answer after decompression."""
ANSWERED_SECONDS = 30.0
"""How long the issuer counts as available after an answer, until a question fails."""


class NoAnswer(Exception):
    """The issuer does not say whether a token is active. The message is the reason, without the token."""


class IntrospectionVerifier(TokenVerifier):
    """Accepts tokens that are active at the issuer. While it does not respond, requests get 503 instead of 401.

    Requests with the same token share one question. The answer is remembered for a few seconds. Questions wait for each
    other, in turns for each network address, so that invalid tokens from one address do not delay the others.

    Args:
        issuer: who issues the tokens. Answers need not name it; callers are distinguished by it.
        client_id, client_secret: of this server at the issuer.
        audience: of which the tokens must have one; empty if it is enough that they were issued to `client_id`.
        queue_seconds: how long a question waits for others.
    """

    def __init__(
        self,
        *,
        issuer: str,
        introspection_url: str,
        client_id: str,
        client_secret: str,
        audience: Sequence[str],
        cached_tokens: int = CACHED_TOKENS,
        cache_seconds: float = CACHE_SECONDS,
        questions: int = QUESTIONS,
        queue_seconds: float = QUEUE_SECONDS,
        answer_seconds: float = INTROSPECTION_SECONDS,
    ) -> None:
        super().__init__()
        self._issuer = issuer
        self._audiences, self._client_id = set(audience), client_id
        self._endpoint = _Endpoint(introspection_url, client_id, client_secret, seconds=answer_seconds)
        # apart, so that invalid tokens displace no valid ones; the keys are hashes
        self._accepted: TTLCache[bytes, AccessToken] = TTLCache(cached_tokens, cache_seconds)
        self._refused: TTLCache[bytes, bool] = TTLCache(cached_tokens, cache_seconds)
        self._questions: dict[bytes, asyncio.Task[AccessToken | None]] = {}
        self._queue = FairQueue(questions)
        self._queue_seconds, self._answer_seconds = queue_seconds, answer_seconds

    async def verify_token(self, token: str) -> AccessToken | None:
        key = hashlib.sha256(token.encode()).digest()
        if (found := self._accepted.get(key)) or key in self._refused:
            return found
        if key not in self._questions:
            # In a task of its own: another request may wait for the answer when this one is cancelled.
            asked = asyncio.create_task(self._ask(token, key, Share(find_network(current_scope()))), context=Context())
            self._questions[key] = asked
            asked.add_done_callback(lambda _: self._questions.pop(key))
        try:
            return await asyncio.shield(self._questions[key])
        except NoAnswer:
            note_sign_in_failure()
            return None

    async def find_problem(self, token: str) -> str | None:
        """Return why a token is not accepted, in words that follow "the token"; None if it is."""
        if await self.verify_token(token):
            return None
        return "is not active by the introspection endpoint, or was issued for something else"

    async def check_issuer(self) -> None:
        """Check that the issuer responds. It is asked about a token that does not exist, if it is not known to respond.

        Raises:
            Unavailable: it does not respond.
        """
        if time.monotonic() < self._endpoint.answered_at + ANSWERED_SECONDS:
            return
        try:
            await self._endpoint.ask("quilt-mcp-readiness")
        except NoAnswer as error:
            raise Unavailable("The token issuer does not respond.", details=str(error)) from error

    async def _ask(self, token: str, key: bytes, share: Share) -> AccessToken | None:
        try:
            async with self._queue.place(share, wait=self._queue_seconds, hold=self._answer_seconds):
                content = await self._endpoint.ask(token)
        except NoPlace:
            raise NoAnswer("too many questions wait") from None
        found = self._accept(token, content)
        if found is None:
            self._refused[key] = True
        else:
            self._accepted[key] = found
        return found

    def _accept(self, token: str, content: bytes) -> AccessToken | None:
        try:
            answer = _Answer.model_validate_json(content)
        except ValidationError:  # a claim has another type, or is not Unicode, or is nested too deeply
            return None
        scopes = answer.scope.split() if isinstance(answer.scope, str) else answer.scope or []
        is_accepted = (
            answer.active
            and answer.iss in {None, self._issuer}
            and self._is_for_us(answer)
            and (answer.exp is None or answer.exp > time.time())
            and (answer.nbf is None or answer.nbf <= time.time() + LEEWAY_SECONDS)
        )
        if not is_accepted:
            return None
        claims = {name: value for name, value in json.loads(content).items() if value is not None}  # also others
        return AccessToken(
            token=token,
            client_id=answer.client_id or "unknown",
            scopes=scopes,
            expires_at=None if answer.exp is None else int(answer.exp),
            subject=answer.sub,
            claims=claims | {"iss": self._issuer},  # an answer need not name it
        )

    def _is_for_us(self, answer: "_Answer") -> bool:
        if not self._audiences:
            return answer.client_id == self._client_id
        return bool(self._audiences & {*([answer.aud] if isinstance(answer.aud, str) else answer.aud or [])})


class _Endpoint:
    """The issuer's endpoint. Each question has its own connection, so there is nothing to close.

    Attributes:
        answered_at: when it answered, in seconds of the monotonic clock; minus infinity if the last question failed.
    """

    def __init__(self, url: str, client_id: str, client_secret: str, *, seconds: float) -> None:
        self._url, self._seconds = url, seconds
        self._auth = httpx2.BasicAuth(client_id, client_secret)
        self._tls = httpx2.create_ssl_context()  # to load the certificate authorities takes longer than a request
        self._has_failed = False
        self.answered_at = -math.inf

    async def ask(self, token: str) -> bytes:
        """Return the issuer's answer about a token.

        Raises:
            NoAnswer: it does not respond, or refuses this server.
        """
        form = {"token": token, "token_type_hint": "access_token"}
        try:
            async with (
                asyncio.timeout(self._seconds),
                httpx2.AsyncClient(auth=self._auth, verify=self._tls, timeout=self._seconds) as client,
                client.stream("POST", self._url, data=form, headers={"Accept": "application/json"}) as response,
            ):
                content = await _read(response)
            _check_answer(content)
        except (httpx2.HTTPError, TimeoutError) as error:
            self._note_failure(type(error).__name__)
            raise NoAnswer(type(error).__name__) from None
        except NoAnswer as error:
            self._note_failure(str(error))
            raise
        self._has_failed, self.answered_at = False, time.monotonic()
        return content

    def _note_failure(self, reason: str) -> None:
        if not self._has_failed:
            logger.warning("cannot verify tokens: the introspection endpoint does not respond (%s)", reason)
        self._has_failed, self.answered_at = True, -math.inf


class _Answer(BaseModel):
    """What decides whether a token is accepted, and who owns it. Issuers write null for what they do not know."""

    model_config = ConfigDict(strict=True)

    active: bool
    iss: str | None = None
    sub: str | None = None
    client_id: str | None = None
    aud: str | list[str] | None = None
    scope: str | list[str] | None = None
    exp: FiniteFloat | None = None
    nbf: FiniteFloat | None = None


async def _read(response: httpx2.Response) -> bytes:
    """Return the body of an answer.

    Raises:
        NoAnswer: the issuer refuses this server, or the body is longer than ANSWER_BYTES.
    """
    if response.status_code != HTTPStatus.OK:  # such as 401, if the issuer refuses this server
        raise NoAnswer(f"HTTP {response.status_code}")
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > ANSWER_BYTES:
            raise NoAnswer(f"more than {ANSWER_BYTES:,} bytes")
    return bytes(content)


def _check_answer(content: bytes) -> None:
    """Check that an answer says whether the token is active. Other claims can be malformed: they belong to the token.

    Raises:
        NoAnswer: it does not.
    """
    if is_nested_too_deeply(content):
        return
    try:
        answer = json.loads(content)
    except ValueError:
        raise NoAnswer("no JSON") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("active"), bool):
        raise NoAnswer("`active` is not a boolean")


class AnyVerifier(TokenVerifier):
    """Accepts a token that one of several verifiers accepts. They do not check scopes.

    A valid token without a required scope is accepted here: then the request gets 403 and `insufficient_scope`
    (RFC 6750, 3.1), so that the client asks for the scope instead of discarding its token.

    Attributes:
        check_issuer: checks that the issuer of tokens responds; None if none is asked.
    """

    def __init__(self, verifiers: Sequence[TokenVerifier], required_scopes: Sequence[str]) -> None:
        super().__init__(required_scopes=list(required_scopes))
        self._verifiers = verifiers
        asking = [one for one in verifiers if isinstance(one, StrictJWTVerifier | IntrospectionVerifier)]
        self.check_issuer = asking[0].check_issuer if asking else None

    async def verify_token(self, token: str) -> AccessToken | None:
        for verifier in self._verifiers:
            if found := await verifier.verify_token(token):
                return found
        return None

"""Verification of opaque tokens: the issuer says whether a token is active, and who owns it (RFC 7662).

FastMCP's verifier treats an issuer that does not respond like one that refuses the token, and asks it for every request
with an invalid token.

auth.py imports this module on first use.
"""

import asyncio
import hashlib
import json
import logging
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from http import HTTPStatus

import httpx2
from cachetools import TTLCache
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.dependencies import get_http_request
from fastmcp.utilities.token_cache import TokenCache
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from quilt_mcp.app.fair_queue import FairQueue, NoPlace, Share
from quilt_mcp.app.json_depth import is_nested_too_deeply
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.http.rate_limiter import find_network
from quilt_mcp.http.sign_in_failures import note_sign_in_failure

CACHE_SECONDS = 10
"""How long the issuer is not asked about a token again. A token that is revoked is accepted for this time."""
CACHED_TOKENS = 10_000
"""The maximum number of accepted tokens that are remembered, and of refused ones."""
QUESTIONS = 16
"""The maximum number of questions to the issuer at the same time."""
QUEUE_SECONDS = 5.0
INTROSPECTION_SECONDS = 5.0
ANSWERED_SECONDS = 30.0
"""How long the issuer counts as available after an answer, until a question fails."""
LEEWAY_SECONDS = 60
"""The number of seconds that the issuer's clock may be ahead of ours."""

logger = logging.getLogger(__name__)


class NoAnswer(Exception):
    """The issuer does not say whether a token is active. The message is the reason, without the token."""


class IntrospectionVerifier(TokenVerifier):
    """Accepts tokens that are active at the issuer. While it does not respond, requests get 503 instead of 401.

    Requests with the same token share one question. The answer is remembered for a few seconds. Questions wait for each
    other, in turns for each network address, so that invalid tokens from one address do not delay the others.

    Args:
        issuer: who issues the tokens. Answers need not name it; callers are distinguished by it.
        introspection_url: where the issuer answers.
        client_id: of this server at the issuer.
        client_secret: of this server at the issuer.
        audience: that the tokens must have.
        required_scopes: that the tokens must have.
        cached_tokens: the maximum number of accepted tokens that are remembered, and of refused ones.
        questions: the maximum number of questions at the same time.
        queue_seconds: how long a question waits for others.
        answer_seconds: how long the issuer may take to answer.
    """

    def __init__(
        self,
        *,
        issuer: str,
        introspection_url: str,
        client_id: str,
        client_secret: str,
        audience: str,
        required_scopes: list[str],
        cached_tokens: int = CACHED_TOKENS,
        questions: int = QUESTIONS,
        queue_seconds: float = QUEUE_SECONDS,
        answer_seconds: float = INTROSPECTION_SECONDS,
    ) -> None:
        super().__init__(required_scopes=required_scopes)
        self._issuer = issuer
        self._audience = audience
        self._endpoint = _Endpoint(
            introspection_url, client_id, client_secret, connections=questions, seconds=answer_seconds
        )
        self._accepted = TokenCache(ttl_seconds=CACHE_SECONDS, max_size=cached_tokens)
        # of their own, so that invalid tokens displace no valid ones; the keys are hashes
        self._refused: TTLCache[bytes, bool] = TTLCache(cached_tokens, CACHE_SECONDS)
        self._questions: dict[bytes, asyncio.Task[AccessToken | None]] = {}
        self._queue = FairQueue(questions)
        self._queue_seconds, self._answer_seconds = queue_seconds, answer_seconds

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the claims of an active token, or None."""
        is_known, found = self._accepted.get(token)
        key = hashlib.sha256(token.encode()).digest()
        if is_known or key in self._refused:
            return found
        if key not in self._questions:
            # In a task of its own: another request may wait for the answer when this one is cancelled.
            asked = asyncio.create_task(self._ask(token, key, Share(_find_caller())), context=Context())
            self._questions[key] = asked
            asked.add_done_callback(lambda _: self._questions.pop(key))
        try:
            return await asyncio.shield(self._questions[key])
        except NoAnswer:
            note_sign_in_failure()
            return None

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
            self._accepted.set(token, found)
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
            and self._audience in ([answer.aud] if isinstance(answer.aud, str) else answer.aud or [])
            and set(self.required_scopes) <= set(scopes)
            and (answer.exp is None or answer.exp > time.time())
            and (answer.nbf is None or answer.nbf <= time.time() + LEEWAY_SECONDS)
        )
        if not is_accepted:
            return None
        claims = {name: value for name, value in json.loads(content).items() if value is not None}
        return AccessToken(
            token=token,
            client_id=answer.client_id or answer.sub or "unknown",
            scopes=scopes,
            expires_at=None if answer.exp is None else int(answer.exp),
            subject=answer.sub,
            claims=claims | {"iss": self._issuer},
        )


class _Endpoint:
    """The issuer's endpoint. Its connections are closed when no question is left, so there is nothing to close.

    Args:
        url: of the endpoint.
        client_id: of this server.
        client_secret: of this server.
        connections: the maximum number of connections.
        seconds: how long an answer may take.

    Attributes:
        answered_at: when it answered, in seconds of the monotonic clock; minus infinity if the last question failed.
    """

    def __init__(self, url: str, client_id: str, client_secret: str, *, connections: int, seconds: float) -> None:
        self._url, self._seconds = url, seconds
        self._auth = httpx2.BasicAuth(client_id, client_secret)
        self._limits = httpx2.Limits(max_connections=connections)
        self._tls = httpx2.create_ssl_context()  # to load the certificate authorities takes longer than a request
        self._client: httpx2.AsyncClient | None = None
        self._asking = 0
        self._has_failed = False
        self.answered_at = -math.inf

    async def ask(self, token: str) -> bytes:
        """Return the issuer's answer about a token.

        Raises:
            NoAnswer: it does not respond, or refuses this server.
        """
        form = {"token": token, "token_type_hint": "access_token"}
        try:
            async with asyncio.timeout(self._seconds), self._connect() as client:
                response = await client.post(self._url, data=form, headers={"Accept": "application/json"})
            _check_answer(response)
        except (httpx2.HTTPError, TimeoutError) as error:
            self._note_failure(type(error).__name__)
            raise NoAnswer(type(error).__name__) from None
        except NoAnswer as error:
            self._note_failure(str(error))
            raise
        self._has_failed, self.answered_at = False, time.monotonic()
        return response.content

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[httpx2.AsyncClient]:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                auth=self._auth, verify=self._tls, limits=self._limits, timeout=self._seconds
            )
        client, self._asking = self._client, self._asking + 1
        try:
            yield client
        finally:
            self._asking -= 1
            if not self._asking:
                self._client = None
                await client.aclose()

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


def _check_answer(response: httpx2.Response) -> None:
    """Check that an answer says whether the token is active. Other claims can be malformed: they belong to the token.

    Raises:
        NoAnswer: it does not.
    """
    if response.status_code != HTTPStatus.OK:  # such as 401, if the issuer refuses this server
        raise NoAnswer(f"HTTP {response.status_code}")
    if is_nested_too_deeply(response.content):
        return
    try:
        answer = json.loads(response.content)
    except ValueError:
        raise NoAnswer("no JSON") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("active"), bool):
        raise NoAnswer("`active` is not a boolean")


def _find_caller() -> str:
    """Return the network address that a request comes from; empty if there is no request."""
    try:
        return find_network(get_http_request())
    except RuntimeError:
        return ""

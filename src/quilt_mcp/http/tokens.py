"""Verification of JSON Web Tokens: FastMCP's, with what it leaves out.

auth.py imports this module on first use, because it imports cryptography.

Sources: RFC 7519 (the claims `exp`, `nbf`, `iat`), RFC 9068 and RFC 8725 (the header `typ`).
"""

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from typing import Any, TypeGuard

import httpx2
from fastmcp.server.auth import AccessToken
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.utilities.auth import decode_jwt_header
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from quilt_mcp.core.errors import Unavailable
from quilt_mcp.http.sign_in_failures import note_sign_in_failure

LEEWAY_SECONDS = 60
"""The number of seconds that the issuer's clock may be ahead of ours."""
ACCESS_TOKEN_TYPES = {"", "JWT", "AT+JWT"}
"""The values of `typ` for access tokens, in upper case. Issuers sign other tokens with the same keys."""
MAX_STALE_SECONDS = 86_400
FETCH_SECONDS = 10.0
REFRESH_SECONDS = 5.0


logger = logging.getLogger(__name__)


class _KeySet(TypedDict):
    """A JSON Web Key Set (RFC 7517)."""

    keys: list[object]


KEY_SET = TypeAdapter(_KeySet)


class StrictJWTVerifier(JWTVerifier):
    """Also refuses tokens that never expire, that are not valid yet, that are not access tokens, or that are malformed.

    If the issuer does not publish its keys at the moment, the last ones are used for a day. A token with another key
    cannot be verified then: the request gets 503 instead of 401, because clients discard a token after 401.

    Args:
        jwks_uri: where the issuer publishes its keys; None with a public key.
        refresh_seconds: how long to wait before the keys are fetched again, for a token with an unknown key or after
            a failure.
        options: as for FastMCP's verifier.
    """

    def __init__(self, *, jwks_uri: str | None, refresh_seconds: float = REFRESH_SECONDS, **options: Any) -> None:
        self._published = PublishedKeys(refresh_seconds) if jwks_uri else None
        super().__init__(
            jwks_uri=jwks_uri, http_client=self._published, jwks_refresh_interval=refresh_seconds, **options
        )

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return the claims of a valid token, or None."""
        try:
            header: object = decode_jwt_header(token)
            if not isinstance(header, dict):
                return None
            found = await super().load_access_token(token)
        except (ValueError, RecursionError, OverflowError):  # no JSON, deeply nested JSON, an infinite `exp`
            return None
        if found is None and self._published is not None and self._published.may_lack(header.get("kid")):
            note_sign_in_failure()
        return found if found and _is_access_token(header) and _is_current(found.claims) else None

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
        max_stale_seconds: the maximum age of the last good response.
    """

    def __init__(
        self, refresh_seconds: float = REFRESH_SECONDS, *, max_stale_seconds: float = MAX_STALE_SECONDS
    ) -> None:
        super().__init__(timeout=FETCH_SECONDS)
        self._refresh_seconds = refresh_seconds
        self._max_stale_seconds = max_stale_seconds
        self._good: tuple[float, httpx2.Response] | None = None
        self._failed_at: float | None = None

    @property
    def has_keys(self) -> bool:
        """Whether there is a good response that is not too old."""
        return self._good is not None and time.monotonic() - self._good[0] <= self._max_stale_seconds

    async def get(self, url: httpx2.URL | str, **options: Any) -> httpx2.Response:
        """Return the response with the keys.

        Raises:
            HTTPError: the issuer does not respond with keys, and there is no earlier response.
        """
        if self._failed_at is not None and time.monotonic() < self._failed_at + self._refresh_seconds:
            return self._find_last()
        try:
            async with asyncio.timeout(FETCH_SECONDS), httpx2.AsyncClient(timeout=self.timeout) as client:
                response = (await client.get(url, **options)).raise_for_status()
            _find_keys(response)
        except (httpx2.HTTPError, TimeoutError, ValueError) as error:
            self._note_failure(error)
            return self._find_last()
        self._good, self._failed_at = (time.monotonic(), response), None
        return response

    def may_lack(self, key_id: object) -> bool:
        """Return whether the issuer may have published this key since its last response."""
        keys = _find_keys(self._good[1]) if self._good else []
        return self._failed_at is not None and all(one.get("kid") != key_id for one in keys)

    def _note_failure(self, error: Exception) -> None:
        if self._failed_at is None:
            reason = str(error) if type(error) is ValueError else type(error).__name__
            logger.warning("cannot fetch the keys of the token issuer (%s)", reason)
        self._failed_at = time.monotonic()

    def _find_last(self) -> httpx2.Response:
        if self._good is None or not self.has_keys:
            raise httpx2.HTTPError("the issuer's keys are unavailable")
        return self._good[1]


def _find_keys(response: httpx2.Response) -> list[Mapping[str, object]]:
    """Return the keys of a response. What is not a key is ignored (RFC 7517, section 5).

    Raises:
        ValueError: there is none. With an empty set, no token is valid: the issuer is about to replace its keys.
    """
    found: list[Mapping[str, object]] = [
        one for one in KEY_SET.validate_json(response.content)["keys"] if isinstance(one, dict) and "kty" in one
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


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

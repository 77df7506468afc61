"""Verification of JSON Web Tokens: FastMCP's, with what it leaves out.

auth.py imports this module on first use, because it imports cryptography.

Sources: RFC 7519 (the claims `exp`, `nbf`, `iat`), RFC 9068 and RFC 8725 (the header `typ`).
"""

import logging
import math
import time
from collections.abc import Mapping
from typing import Any, TypeGuard

import httpx2
from fastmcp.server.auth import AccessToken
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.utilities.auth import decode_jwt_header
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

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

    keys: list[dict[str, object]]


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
        self._published = PublishedKeys() if jwks_uri else None
        super().__init__(
            jwks_uri=jwks_uri, http_client=self._published, jwks_refresh_interval=refresh_seconds, **options
        )

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Return the claims of a valid token, or None."""
        try:
            found = await super().load_access_token(token)
            header = decode_jwt_header(token)
        except (ValueError, RecursionError, OverflowError):  # no JSON, deeply nested JSON, an infinite `exp`
            return None
        if found is None and self._published is not None and self._published.may_lack(header.get("kid")):
            note_sign_in_failure()
        return found if found and _is_access_token(header) and _is_current(found.claims) else None


class PublishedKeys(httpx2.AsyncClient):
    """Fetches the keys of the issuer. If that fails, `get` returns the last good response.

    Each fetch has its own connection, so there is nothing to close.

    Args:
        max_stale_seconds: the maximum age of that response.
    """

    _good: tuple[float, httpx2.Response] | None = None
    _has_failed = False

    def __init__(self, max_stale_seconds: float = MAX_STALE_SECONDS) -> None:
        super().__init__(timeout=FETCH_SECONDS)
        self._max_stale_seconds = max_stale_seconds

    async def get(self, url: httpx2.URL | str, **options: Any) -> httpx2.Response:
        """Return the response with the keys.

        Raises:
            HTTPError: the issuer does not respond with keys, and there is no earlier response.
        """
        try:
            async with httpx2.AsyncClient(timeout=self.timeout) as client:
                response = (await client.get(url, **options)).raise_for_status()
            KEY_SET.validate_json(response.content)
        except (httpx2.HTTPError, ValidationError) as error:
            return self._find_last(error)
        self._good, self._has_failed = (time.monotonic(), response), False
        return response

    def may_lack(self, key_id: object) -> bool:
        """Return whether the issuer may have published this key since its last response."""
        keys = KEY_SET.validate_json(self._good[1].content)["keys"] if self._good else []
        return self._has_failed and all(one.get("kid") != key_id for one in keys)

    def _find_last(self, error: Exception) -> httpx2.Response:
        if not self._has_failed:
            logger.warning("cannot fetch the keys of the token issuer (%s)", type(error).__name__)
        self._has_failed = True
        if self._good is None or time.monotonic() - self._good[0] > self._max_stale_seconds:
            raise httpx2.HTTPError("the issuer's keys are unavailable") from error
        return self._good[1]


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

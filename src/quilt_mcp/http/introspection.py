"""Verification of opaque tokens: the issuer says whether a token is active, and who owns it (RFC 7662).

auth.py imports this module on first use.
"""

import logging
from http import HTTPStatus

import httpx2
from fastmcp.server.auth import AccessToken
from fastmcp.server.auth.providers.introspection import IntrospectionTokenVerifier
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from quilt_mcp.http.sign_in_failures import note_sign_in_failure

CACHE_SECONDS = 10
"""How long an active token is not asked for again. A token that is revoked is accepted for this time."""
CACHED_TOKENS = 10_000
INTROSPECTION_SECONDS = 5.0

logger = logging.getLogger(__name__)


class _Answer(TypedDict):
    """The required part of every answer of an issuer."""

    active: bool


ANSWER = TypeAdapter(_Answer)


class StrictIntrospectionVerifier(IntrospectionTokenVerifier):
    """Also refuses tokens of another issuer. While the issuer does not respond, requests get 503 instead of 401.

    Args:
        issuer: who issues the tokens. Answers need not name it; callers are distinguished by it.
        introspection_url, client_id, client_secret, audience, required_scopes: as for FastMCP's verifier.
        cached_tokens: the maximum number of tokens that are not asked for again.
    """

    def __init__(  # noqa: PLR0913 - all are keyword-only
        self,
        *,
        issuer: str,
        introspection_url: str,
        client_id: str,
        client_secret: str,
        audience: str,
        required_scopes: list[str],
        cached_tokens: int = CACHED_TOKENS,
    ) -> None:
        self._issuer = issuer
        super().__init__(
            introspection_url=introspection_url,
            client_id=client_id,
            client_secret=client_secret,
            audience=audience,
            required_scopes=required_scopes,
            http_client=httpx2.AsyncClient(transport=_CheckedAnswers()),
            cache_ttl_seconds=CACHE_SECONDS,
            max_cache_size=cached_tokens,
        )

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the claims of an active token, or None."""
        found = await super().verify_token(token)
        if found is None or found.claims.get("iss", self._issuer) != self._issuer:
            return None
        return found.model_copy(update={"claims": found.claims | {"iss": self._issuer}})


class _CheckedAnswers(httpx2.AsyncBaseTransport):
    """Notes when the issuer does not respond. Each request has its own connection, so there is nothing to close."""

    def __init__(self) -> None:
        self._tls = httpx2.create_ssl_context()  # to load the certificate authorities takes longer than a request
        self._has_failed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            async with httpx2.AsyncClient(verify=self._tls) as client:
                request.extensions["timeout"] = httpx2.Timeout(INTROSPECTION_SECONDS).as_dict()
                response = await client.send(request)
            _require_success(response)
            ANSWER.validate_json(response.content)
        except (httpx2.HTTPError, ValidationError) as error:
            note_sign_in_failure()
            if not self._has_failed:
                reason = str(error) if type(error) is httpx2.HTTPError else type(error).__name__
                logger.warning("cannot verify tokens: the introspection endpoint does not respond (%s)", reason)
            self._has_failed = True
            raise httpx2.TransportError("the token issuer does not respond") from None
        self._has_failed = False
        return httpx2.Response(response.status_code, content=response.content)


def _require_success(response: httpx2.Response) -> None:
    if response.status_code != HTTPStatus.OK:  # such as 401, if the issuer refuses this server
        raise httpx2.HTTPError(f"HTTP {response.status_code}")

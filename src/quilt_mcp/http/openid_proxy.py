"""FastMCP's OpenID proxy, with a store that forgets unused clients, and 503 while the provider does not respond.

auth.py imports this module on first use, because it imports authlib.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from fastmcp.server.auth import OIDCProxy, TokenVerifier
from fastmcp.server.auth.oauth_proxy.upstream import AsyncOAuth2Client, OAuthError
from mcp.server.auth.provider import AuthorizationCode, RefreshToken
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from quilt_mcp.http.sign_in_failures import SignInStoreError, note_sign_in_failure
from quilt_mcp.http.sign_in_store import SignInStore
from quilt_mcp.http.tokens import StrictJWTVerifier

PROVIDER_SECONDS = 10.0
NO_VERDICT = {"invalid_client", "server_error", "temporarily_unavailable"}
"""Errors of the provider that say nothing about a sign-in. With the first, it does not accept the client secret."""


class OpenIDProxy(OIDCProxy):
    """Signs callers in at an OpenID provider.

    Args:
        store: of the sign-ins.
        client_id: of this server at the provider.
        client_secret: of this server at the provider. It also signs this server's own tokens.
        config_url, audience, base_url, required_scopes: as for FastMCP's proxy.

    Attributes:
        sign_ins: the store.
    """

    def __init__(
        self,
        *,
        store: SignInStore,
        client_id: str,
        client_secret: str,
        config_url: str,
        audience: str | None,
        base_url: str,
        required_scopes: list[str],
    ) -> None:
        self.sign_ins = store
        self._credentials = (client_id, client_secret)
        super().__init__(
            client_id=client_id,
            client_secret=client_secret,
            client_storage=store,
            config_url=config_url,
            audience=audience,
            base_url=base_url,
            required_scopes=required_scopes,
        )

    def get_token_verifier(
        self,
        *,
        algorithm: str | None = None,
        audience: str | None = None,
        required_scopes: list[str] | None = None,
        timeout_seconds: int | None = None,  # noqa: ARG002 - of FastMCP
    ) -> TokenVerifier:
        """Return the verifier of the provider's tokens."""
        self._verifier = StrictJWTVerifier(
            jwks_uri=str(self.oidc_config.jwks_uri),
            issuer=str(self.oidc_config.issuer),
            algorithm=algorithm,
            audience=audience,
            required_scopes=required_scopes,
        )
        return self._verifier

    async def check_issuer(self) -> None:
        """Check that there are keys to verify the provider's tokens with.

        Raises:
            Unavailable: the provider does not respond with keys.
        """
        await self._verifier.check_issuer()

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        """Return tokens for a sign-in, and keep the client's registration."""
        token = await super().exchange_authorization_code(client, authorization_code)
        await self.sign_ins.keep_client(str(client.client_id))
        return token

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Return new tokens, and keep the client's registration."""
        token = await super().exchange_refresh_token(client, refresh_token, scopes)
        await self.sign_ins.keep_client(str(client.client_id))
        return token

    def _create_upstream_oauth_client(self) -> AsyncOAuth2Client:
        return _ProviderClient(*self._credentials, timeout=PROVIDER_SECONDS)


class _ProviderClient(AsyncOAuth2Client):
    """Lets requests get 503 if the provider says nothing about the sign-in. FastMCP would refuse them for good."""

    async def fetch_token(
        self, url: str, *, grant_type: str = "authorization_code", **params: object
    ) -> dict[str, object]:
        with _noting_failures():
            return await super().fetch_token(url, grant_type=grant_type, **params)

    async def refresh_token(self, url: str, *, refresh_token: str | None = None, **params: object) -> dict[str, object]:
        with _noting_failures():
            return await super().refresh_token(url, refresh_token=refresh_token, **params)


@contextmanager
def _noting_failures() -> Iterator[None]:
    try:
        yield
    except OAuthError as error:
        if error.error not in NO_VERDICT:
            raise
        reason = str(error.error)
    except (httpx2.HTTPError, ValueError) as error:  # a ValueError if it returns no JSON
        reason = type(error).__name__
    else:
        return
    note_sign_in_failure()
    raise SignInStoreError(f"The OpenID provider returned no tokens ({reason}).")

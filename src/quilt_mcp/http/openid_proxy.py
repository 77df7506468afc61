"""FastMCP's OpenID proxy, with client secrets that can be replaced, and 503 while the provider does not respond.

auth.py imports this module on first use, because it imports cryptography.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import httpx2
from fastmcp.server.auth import OIDCProxy, TokenVerifier
from fastmcp.server.auth.jwt_issuer import JWTIssuer, derive_jwt_key
from fastmcp.server.auth.oauth_proxy.upstream import AsyncOAuth2Client, OAuthError
from joserfc.errors import JoseError
from mcp.server.auth.provider import AuthorizationCode, RefreshToken
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from quilt_mcp.http.sign_in_failures import SignInStoreError, note_sign_in_failure
from quilt_mcp.http.sign_in_store import SignInStore
from quilt_mcp.http.tokens import StrictJWTVerifier

PROVIDER_SECONDS = 10.0
REFUSED_CLIENT = "invalid_client"
REFUSED_FOR_NOW = {"server_error", "temporarily_unavailable"}

T = TypeVar("T")


class OpenIDProxy(OIDCProxy):
    """Signs with the first client secret, and accepts what was signed with each of them.

    Args:
        secrets: the client secrets, the newest first.
        store: of the sign-ins.
        client_id: of this server at the provider.
        config_url, audience, base_url, required_scopes: as for FastMCP's proxy.

    Attributes:
        sign_ins: the store.
    """

    def __init__(  # noqa: PLR0913 - all are keyword-only
        self,
        *,
        secrets: Sequence[str],
        store: SignInStore,
        client_id: str,
        config_url: str,
        audience: str | None,
        base_url: str,
        required_scopes: list[str],
    ) -> None:
        self._secrets, self.sign_ins, self._id_at_provider = secrets, store, client_id
        super().__init__(
            client_id=client_id,
            client_secret=secrets[0],
            client_storage=store,
            config_url=config_url,
            audience=audience,
            base_url=base_url,
            required_scopes=required_scopes,
        )

    @property
    def jwt_issuer(self) -> JWTIssuer:
        """The issuer of this server's own tokens."""
        made = super().jwt_issuer
        return _RotatingIssuer(made.issuer, made.audience, [_derive_key(one) for one in self._secrets])

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
        return _ProviderClient(self._id_at_provider, self._secrets)


class _RotatingIssuer(JWTIssuer):
    def __init__(self, issuer: str, audience: str, keys: list[bytes]) -> None:
        super().__init__(issuer, audience, keys[0])
        self._older = [JWTIssuer(issuer, audience, key) for key in keys[1:]]

    def verify_token(self, token: str, expected_token_use: str = "access") -> dict[str, object]:  # noqa: S107 - a kind of token
        try:
            return super().verify_token(token, expected_token_use)
        except JoseError:
            for older in self._older:
                try:
                    return older.verify_token(token, expected_token_use)
                except JoseError:
                    continue
            raise


class _ProviderClient(AsyncOAuth2Client):
    """Tries each client secret, because the provider may not know the newest yet, or the oldest no more."""

    def __init__(self, client_id: str, secrets: Sequence[str]) -> None:
        super().__init__(client_id, timeout=PROVIDER_SECONDS)
        self._secrets = secrets

    async def fetch_token(
        self, url: str, *, grant_type: str = "authorization_code", **params: object
    ) -> dict[str, object]:
        send = super().fetch_token
        return await self._try_secrets(lambda: send(url, grant_type=grant_type, **params))

    async def refresh_token(self, url: str, *, refresh_token: str | None = None, **params: object) -> dict[str, object]:
        send = super().refresh_token
        return await self._try_secrets(lambda: send(url, refresh_token=refresh_token, **params))

    async def _try_secrets(self, send: Callable[[], Awaitable[T]]) -> T:
        reason = REFUSED_CLIENT
        for secret in self._secrets:
            self.client_secret = secret
            try:
                return await send()
            except OAuthError as error:
                if error.error in REFUSED_FOR_NOW:
                    reason = str(error.error)
                    break
                if error.error != REFUSED_CLIENT:
                    raise
            except (httpx2.HTTPError, ValueError) as error:  # a ValueError if it returns no JSON
                reason = type(error).__name__
                break
        note_sign_in_failure()
        raise SignInStoreError(f"The OpenID provider returned no tokens ({reason}).")


def _derive_key(secret: str) -> bytes:
    return derive_jwt_key(high_entropy_material=secret, salt="fastmcp-jwt-signing-key")

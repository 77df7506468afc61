"""How callers over HTTP prove who they are: FastMCP's providers, as the settings choose them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
from fastmcp.server import auth  # it imports each provider on first use
from fastmcp.server.auth import AuthProvider, RemoteAuthProvider, TokenVerifier
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, TypeAdapter, ValidationError

from quilt_mcp.http.settings import HTTPSettings

if TYPE_CHECKING:
    from key_value.aio.protocols import AsyncKeyValue

SharedStore = Callable[[str], "AsyncKeyValue | None"]


class MisconfiguredSignIn(Exception):
    """A setting of the sign-in cannot be used; the message names its environment variable, and holds no secret."""


class StaticToken(BaseModel):
    """What is known of who sends a static token; all of it becomes the token's claims."""

    model_config = ConfigDict(extra="allow")

    client_id: str
    scopes: list[str] = []
    sub: str | None = None
    expires_at: int | None = None
    """In seconds since 1970."""


def auth_from(settings: HTTPSettings, *, shared_store: SharedStore = lambda _: None) -> AuthProvider | None:
    """The provider that checks callers' tokens; None where the settings name no way to sign in.

    An OpenID provider is asked for its configuration here, for at most ten seconds.

    Args:
        settings: of HTTP.
        shared_store: given a secret to encrypt with, where sign-ins by way of an OpenID provider are kept; with None,
            FastMCP keeps them in files of this machine.

    Raises:
        MisconfiguredSignIn: a setting cannot be used.
    """
    if settings.oidc_config_url:
        return _oidc(settings, str(settings.oidc_config_url), shared_store)
    if settings.static_tokens:
        tokens = _static_tokens(settings.static_tokens.get_secret_value())
        return auth.StaticTokenVerifier(tokens, required_scopes=list(settings.required_scopes))
    if settings.jwt_jwks_url or settings.jwt_public_key:
        return _advertised(_jwt(settings), settings)
    return None


def _jwt(settings: HTTPSettings) -> TokenVerifier:
    try:
        return auth.JWTVerifier(
            jwks_uri=str(settings.jwt_jwks_url) if settings.jwt_jwks_url else None,
            public_key=_public_key(settings.jwt_public_key) if settings.jwt_public_key else None,
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            algorithm=settings.jwt_algorithm,
            required_scopes=list(settings.required_scopes),
        )
    except ValueError as error:
        raise MisconfiguredSignIn(f"QUILT_MCP_JWT_PUBLIC_KEY: {error}") from error


def _public_key(text: str) -> str:
    key = text if "-----BEGIN" in text else _read("QUILT_MCP_JWT_PUBLIC_KEY", text)
    if "-----BEGIN" not in key or "PRIVATE KEY" in key:
        raise MisconfiguredSignIn("QUILT_MCP_JWT_PUBLIC_KEY holds no public key in PEM")
    return key


def _advertised(verifier: TokenVerifier, settings: HTTPSettings) -> AuthProvider:
    """The verifier; where the server's address is known, and the issuer's, refusals tell where to sign in."""
    try:
        issuer = AnyHttpUrl(settings.jwt_issuer or "")
    except ValidationError:
        return verifier
    if settings.public_url is None:
        return verifier
    return RemoteAuthProvider(verifier, [issuer], settings.public_url)


def _oidc(settings: HTTPSettings, config_url: str, shared_store: SharedStore) -> AuthProvider:
    secret = settings.oidc_client_secret.get_secret_value() if settings.oidc_client_secret else ""
    if not secret.strip():
        raise MisconfiguredSignIn("QUILT_MCP_OIDC_CLIENT_SECRET is blank")
    store = shared_store(secret)
    try:
        return auth.OIDCProxy(
            config_url=config_url,
            client_id=settings.oidc_client_id or "",
            client_secret=secret,
            audience=settings.oidc_audience,
            base_url=str(settings.public_url),
            required_scopes=list(settings.required_scopes),
            client_storage=store,
        )
    except (httpx2.HTTPError, ValueError) as error:  # a ValidationError is a ValueError too
        kind = type(error).__name__
        raise MisconfiguredSignIn(f"QUILT_MCP_OIDC_CONFIG_URL: no OpenID configuration there ({kind})") from error


def _static_tokens(text: str) -> dict[str, dict[str, object]]:
    document = text if text.lstrip().startswith("{") else _read("QUILT_MCP_STATIC_TOKENS", text)
    try:
        found = TypeAdapter(dict[str, StaticToken]).validate_json(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = first["loc"][1:]  # what comes first is the token itself
        where = f" (at {'.'.join(map(str, field))})" if field else ""
        raise MisconfiguredSignIn(f"QUILT_MCP_STATIC_TOKENS: {first['msg']}{where}") from None
    return {token: known.model_dump(exclude_none=True) for token, known in found.items()}


def _read(variable: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # of a name that is none: a ValueError
        raise MisconfiguredSignIn(f"{variable}: no such file, and not the value itself") from error

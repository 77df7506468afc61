"""Authentication over HTTP: the FastMCP provider that the settings select."""

import logging
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
from fastmcp.server import auth  # it imports each provider on first use
from fastmcp.server.auth import AuthProvider, RemoteAuthProvider, TokenVerifier
from pydantic import AnyHttpUrl, BaseModel, ConfigDict, SecretStr, TypeAdapter, ValidationError

from quilt_mcp.settings import HTTPSettings

if TYPE_CHECKING:
    from quilt_mcp.http.sign_ins import SignInStore

RESOURCES = {"http": "mcp", "sse": "sse"}
"""The path of the MCP endpoint, by transport."""

logger = logging.getLogger(__name__)

SharedStore = Callable[[str], "SignInStore | None"]
"""Returns the store of sign-ins that processes share, given the secret to encrypt with."""

PEM = re.compile(r"-----BEGIN [^-]+-----.+?-----END [^-]+-----", re.DOTALL)
ISSUER = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))
"""An issuer is compared as text: it must not get a slash at its end."""


class MisconfiguredSignIn(Exception):
    """A setting of the sign-in is invalid. The message names its environment variable and contains no secret."""


class StaticToken(BaseModel):
    """The owner of a static token. All fields become the token's claims."""

    model_config = ConfigDict(extra="allow")

    client_id: str
    scopes: list[str] = []
    sub: str | None = None
    expires_at: int | None = None
    """Seconds since 1970."""


def create_auth(settings: HTTPSettings, *, shared_store: SharedStore = lambda _: None) -> AuthProvider | None:
    """Return the provider that verifies callers' tokens; None if the settings configure no sign-in.

    For an OpenID provider, this fetches its configuration, for at most ten seconds. If `shared_store` returns None, its
    sign-ins are stored in files on this machine.

    Raises:
        MisconfiguredSignIn: a setting is invalid.
    """
    if settings.oidc_config_url:
        return _proxy_oidc(settings, str(settings.oidc_config_url), shared_store)
    if settings.static_tokens:
        tokens = _read_static_tokens(settings.static_tokens.get_secret_value())
        return _require_scopes([auth.StaticTokenVerifier(tokens)], settings)
    if settings.introspection_url:
        verifier = _require_scopes([_introspect(settings)], settings)
        return _advertise(verifier, settings.introspection_issuer, settings)
    if settings.jwt_jwks_url or settings.jwt_public_key:
        verifier = _require_scopes(_verify_jwt(settings), settings)
        return _advertise(verifier, settings.jwt_issuer, settings)
    return None


def _require_scopes(verifiers: Sequence[TokenVerifier], settings: HTTPSettings) -> TokenVerifier:
    module = import_module("quilt_mcp.http.tokens")  # it imports cryptography
    verifier: TokenVerifier = module.AnyVerifier(verifiers, settings.required_scopes)
    return verifier


def check_audience(settings: HTTPSettings, transport: str) -> None:
    """Log a warning if tokens have another audience than the URL of this server, which clients request (RFC 8707)."""
    name = "introspection_audience" if settings.introspection_url else "jwt_audience"
    audiences = getattr(settings, name)
    if settings.public_url is None or not audiences:
        return
    public = str(settings.public_url).rstrip("/")
    resource = f"{public}/{RESOURCES[transport]}"
    if not {one.rstrip("/") for one in audiences} & {public, resource}:
        logger.warning(
            "QUILT_MCP_%s is %s, but MCP clients request tokens for %s. Check the audience at your issuer.",
            name.upper(),
            ", ".join(audiences),
            resource,
        )


def _verify_jwt(settings: HTTPSettings) -> list[TokenVerifier]:
    tokens = import_module("quilt_mcp.http.tokens")  # it imports cryptography
    keys = _read_public_keys(settings.jwt_public_key) if settings.jwt_public_key else [None]
    try:
        return [
            tokens.StrictJWTVerifier(
                jwks_uri=str(settings.jwt_jwks_url) if settings.jwt_jwks_url else None,
                public_key=key,
                issuer=settings.jwt_issuer,
                audience=list(settings.jwt_audience),
                algorithm=settings.jwt_algorithm,
            )
            for key in keys
        ]
    except ValueError as error:
        raise MisconfiguredSignIn(f"QUILT_MCP_JWT_PUBLIC_KEY: {error}") from error


def _introspect(settings: HTTPSettings) -> TokenVerifier:
    module = import_module("quilt_mcp.http.tokens")
    secret = _read_secret("QUILT_MCP_INTROSPECTION_CLIENT_SECRET", settings.introspection_client_secret)
    verifier: TokenVerifier = module.IntrospectionVerifier(
        introspection_url=str(settings.introspection_url),
        issuer=settings.introspection_issuer,
        audience=settings.introspection_audience,
        client_id=settings.introspection_client_id,
        client_secret=secret,
    )
    return verifier


def _read_public_keys(text: str) -> list[str]:
    document = text if "-----BEGIN" in text else _read_file("QUILT_MCP_JWT_PUBLIC_KEY", text)
    keys = PEM.findall(document)
    if not keys or "PRIVATE KEY" in document:
        raise MisconfiguredSignIn("QUILT_MCP_JWT_PUBLIC_KEY is not a public key in PEM format")
    return keys


def _advertise(verifier: TokenVerifier, issuer: str | None, settings: HTTPSettings) -> AuthProvider:
    """Let 401 responses name the issuer (RFC 9728), if the URLs of the server and the issuer are known."""
    try:
        server = ISSUER.validate_python(issuer)
    except ValidationError:
        return verifier
    if settings.public_url is None:
        return verifier
    return _Resource(verifier, [server], settings.public_url)


class _Resource(RemoteAuthProvider):
    @property
    def scopes_supported(self) -> list[str]:
        return super().scopes_supported or None  # type: ignore[return-value]  # no empty lists (RFC 9728, 3.2)


def _proxy_oidc(settings: HTTPSettings, config_url: str, shared_store: SharedStore) -> AuthProvider:
    secret = _read_secret("QUILT_MCP_OIDC_CLIENT_SECRET", settings.oidc_client_secret)
    stores = import_module("quilt_mcp.http.sign_ins")  # it imports key_value
    store = shared_store(secret) or stores.LocalSignIns(f"{config_url} {settings.oidc_client_id}", secret)
    try:
        proxy: AuthProvider = import_module("quilt_mcp.http.openid").OpenIDProxy(
            config_url=config_url,
            client_id=settings.oidc_client_id or "",
            client_secret=secret,
            store=store,
            verified=settings.oidc_token or "access",
            forward_resource=settings.oidc_resource != "omit",
            audience=settings.oidc_audience,
            algorithm=settings.jwt_algorithm,
            base_url=str(settings.public_url),
            required_scopes=list(settings.required_scopes),
        )
    except (httpx2.HTTPError, ValueError, RecursionError) as error:  # a ValidationError is a ValueError too
        problem = f"cannot read the OpenID configuration ({type(error).__name__})"
        raise MisconfiguredSignIn(f"QUILT_MCP_OIDC_CONFIG_URL: {problem}") from error
    return proxy


def _read_secret(variable: str, secret: SecretStr | None) -> str:
    text = secret.get_secret_value().strip() if secret else ""
    if len(text.splitlines()) != 1:
        raise MisconfiguredSignIn(f"{variable} {'has several lines: keep one secret' if text else 'is blank'}")
    return text


def _read_static_tokens(text: str) -> dict[str, dict[str, object]]:
    document = text if text.lstrip().startswith("{") else _read_file("QUILT_MCP_STATIC_TOKENS", text)
    try:
        found = TypeAdapter(dict[str, StaticToken]).validate_json(document)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = first["loc"][1:]  # the first element is the token itself
        where = f" (at {'.'.join(map(str, field))})" if field else ""
        raise MisconfiguredSignIn(f"QUILT_MCP_STATIC_TOKENS: {first['msg']}{where}") from None
    # a claim that is null would count as given
    return {token: known.model_dump(exclude_none=True) for token, known in found.items()}


def _read_file(variable: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8-sig")
    except (OSError, ValueError, RuntimeError) as error:  # a null byte in the path, the home of an unknown user
        raise MisconfiguredSignIn(f"{variable} is neither a valid value nor a readable file") from error

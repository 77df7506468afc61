"""The settings of serving over HTTP; `quilt_mcp.settings.Settings` has them among its own."""

from ipaddress import ip_network
from typing import Annotated, Literal, Self

from pydantic import AnyHttpUrl, BeforeValidator, Field, IPvAnyNetwork, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode

# Only with a pair of keys: with a shared secret, this server could sign what it accepts.
Algorithm = Literal[
    "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA", "Ed25519", "Ed448"
]

_SPLIT = BeforeValidator(lambda value: value.replace(",", " ").split() if isinstance(value, str) else value)
Words = Annotated[tuple[str, ...], NoDecode, _SPLIT]
"""In the environment they are separated by commas or spaces."""
Networks = Annotated[tuple[IPvAnyNetwork, ...], NoDecode, _SPLIT]

_JWT = ("jwt_issuer", "jwt_audience")
_OIDC = ("oidc_client_id", "oidc_client_secret")
_WAYS: dict[str, tuple[str, ...]] = {
    "jwt_jwks_url": _JWT,  # without both, a token that was made for another service would do
    "jwt_public_key": _JWT,
    "oidc_config_url": (*_OIDC, "public_url"),
    "static_tokens": (),
}
"""The ways to sign in, one of which may be set; and what each needs."""
_USERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_JWT, ("jwt_jwks_url", "jwt_public_key")),
    **dict.fromkeys((*_OIDC, "oidc_audience"), ("oidc_config_url",)),
    "required_scopes": tuple(_WAYS),
}
"""What is of no use unless one of these is set: who sets it believes that callers must sign in."""


class HTTPSettings(BaseSettings):
    """How a server on a network is reached, and how its callers prove who they are."""

    public_url: AnyHttpUrl | None = Field(
        None, description="Over HTTP: the server's address as clients see it, such as https://mcp.example.com."
    )
    allowed_hosts: Words = Field((), description="Over HTTP: further names in the Host header that are answered.")
    allowed_origins: Words = Field((), description="Over HTTP: origins of web pages that may call the server.")
    trusted_proxies: Networks = Field(
        (ip_network("127.0.0.1"), ip_network("::1")),
        description="Over HTTP: the proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.",
    )
    max_request_bytes: int = Field(
        1_048_576,
        ge=4096,
        le=67_108_864,
        description="Over HTTP: the largest body of a request; others get 413.",
    )
    max_connections: int = Field(
        2000, ge=1, le=100_000, description="Over HTTP: how many connections a process holds; a further one gets 503."
    )
    metrics_token: SecretStr | None = Field(
        None, description="Over HTTP: who sends it as a bearer token may read /metrics; without it, only this machine."
    )
    required_scopes: Words = Field((), description="Over HTTP: the scopes that every caller's token must have.")
    jwt_jwks_url: AnyHttpUrl | None = Field(None, description="Where the keys are published that sign callers' tokens.")
    jwt_public_key: str | None = Field(None, description="The key that signs callers' tokens, in PEM; or its file.")
    jwt_issuer: str | None = Field(None, description="Who issues callers' tokens: their claim `iss`.")
    jwt_audience: str | None = Field(None, description="For whom callers' tokens are: their claim `aud`.")
    jwt_algorithm: Algorithm = Field("RS256", description="How callers' tokens are signed.")
    oidc_config_url: AnyHttpUrl | None = Field(
        None, description="The OpenID configuration of a provider at which callers sign in by way of this server."
    )
    oidc_client_id: str | None = Field(None, description="The client that is registered with this provider.")
    oidc_client_secret: SecretStr | None = Field(None, description="This client's secret.")
    oidc_audience: str | None = Field(None, description="For whom this provider's tokens are: asked for, and checked.")
    static_tokens: SecretStr | None = Field(
        None,
        description="For development: JSON, or its file, such as "
        '{"the token": {"client_id": "ann", "scopes": ["read"]}}.',
    )

    @property
    def has_sign_in(self) -> bool:
        """Whether callers over HTTP must sign in."""
        return any(getattr(self, name) for name in _WAYS)

    @model_validator(mode="after")
    def _sign_in_is_whole(self) -> Self:
        chosen = [name for name in _WAYS if getattr(self, name)]
        if len(chosen) > 1:
            raise ValueError(f"{_variables(chosen, 'and')} exclude each other: callers sign in in one way")
        for name in chosen:
            if missing := [other for other in _WAYS[name] if not getattr(self, other)]:
                raise ValueError(f"{_variables([name])} needs {_variables(missing, 'and')} too")
        for name, users in _USERS.items():
            if getattr(self, name) and not set(users) & set(chosen):
                raise ValueError(f"{_variables([name])} is of no use without {_variables(users, 'or')}")
        return self


def _variables(names: list[str] | tuple[str, ...], conjunction: str = "") -> str:
    return f" {conjunction} ".join(f"QUILT_MCP_{name.upper()}" for name in names)

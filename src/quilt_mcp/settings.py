"""The settings of the server, and those of its domains, in one class.

Each is an environment variable QUILT_MCP_<NAME>, unless its field names another.
"""

import inspect
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from ipaddress import ip_network
from typing import Annotated, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    BeforeValidator,
    Field,
    IPvAnyNetwork,
    SecretStr,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from quilt_mcp.app import secret_files
from quilt_mcp.app.build import advise_extra
from quilt_mcp.app.secret_files import SecretFiles
from quilt_mcp.app.settings import SIGN_IN, STORAGE_AND_LOG, DispatchSettings, Group, SettingsGroup

Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda value: str(value).upper())]

# What the parser of limits accepts. Its own parser would import the whole library.
RATE_LIMIT = re.compile(r"none|([1-9]\d{0,8}/([1-9]\d{0,4} )?(second|minute|hour|day)s?(;(?=\d)|$))+", re.ASCII)
_PREFIXES = ("QUILT_MCP_", "FASTMCP_")
TITLE = "Settings"
"""The title of an error of the settings of the environment."""
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+")  # webviews and extensions have schemes of their own
DEFAULT_PORTS = {"http": ":80", "https": ":443"}
STATE_SCHEMES = ("valkey", "valkeys", "redis", "rediss", "unix")


def _check_rate_limit(text: str) -> str:
    if not RATE_LIMIT.fullmatch(text):
        raise ValueError("must be like 600/minute, 100/5 seconds or 20/second;600/minute, or none")
    return text


def _check_state_url(url: SecretStr) -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    if parts.scheme not in STATE_SCHEMES or not (parts.hostname or parts.path):
        raise ValueError(
            f"must start with {', '.join(f'{scheme}://' for scheme in STATE_SCHEMES)} and contain an address"
        )
    if parts.query and not (parts.scheme == "unix" and re.fullmatch(r"db=\d+", parts.query)):
        raise ValueError("must not have a query")
    _ = parts.port  # raises a ValueError if it is invalid
    if find_spec("redis") is None:
        raise ValueError(advise_extra("valkey"))
    return url


def _check_host(host: str) -> str:
    if "/" in host:
        raise ValueError("must be names such as mcp.example.com, without https:// and without a path")
    return host


def _check_origin(text: str) -> str:
    """Return an origin as browsers send it: they compare it as text with the one that an answer allows."""
    origin = text.lower().rstrip("/")
    if origin not in {"*", "null"} and not ORIGIN.fullmatch(origin):
        raise ValueError("must be like https://app.example.com, without a path")
    return origin.removesuffix(DEFAULT_PORTS.get(origin.partition("://")[0], " "))


RateLimit = Annotated[str, BeforeValidator(lambda text: str(text).strip().lower()), AfterValidator(_check_rate_limit)]
StateURL = Annotated[SecretStr, AfterValidator(_check_state_url)]

# Asymmetric algorithms only. With a shared secret, this server could sign the tokens that it accepts.
Algorithm = Literal[
    "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA", "Ed25519", "Ed448"
]

_SPLIT = BeforeValidator(lambda value: value.replace(",", " ").split() if isinstance(value, str) else value)
Words = Annotated[tuple[str, ...], NoDecode, _SPLIT]
"""In the environment, separated by commas or spaces."""
Hosts = Annotated[tuple[Annotated[str, AfterValidator(_check_host)], ...], NoDecode, _SPLIT]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_check_origin)], ...], NoDecode, _SPLIT]
Networks = Annotated[tuple[IPvAnyNetwork, ...], NoDecode, _SPLIT]

_JWT = ("jwt_issuer", "jwt_audience")
_OIDC = ("oidc_client_id", "oidc_client_secret")
_INTROSPECTION = tuple(f"introspection_{name}" for name in ("client_id", "client_secret", "issuer", "audience"))
_SIGN_INS: dict[str, tuple[str, ...]] = {
    "jwt_jwks_url": _JWT,  # without both, tokens for other services would be accepted
    "jwt_public_key": _JWT,
    "oidc_config_url": (*_OIDC, "public_url"),
    "introspection_url": _INTROSPECTION,  # without the audience, tokens for other services would be accepted
    "static_tokens": (),
}
"""The kinds of sign-in, of which at most one can be set, and the settings that each needs."""
_NEEDED_BY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_JWT, ("jwt_jwks_url", "jwt_public_key")),
    **dict.fromkeys(_INTROSPECTION, ("introspection_url",)),
    **dict.fromkeys((*_OIDC, "oidc_audience", "oidc_token", "oidc_resource"), ("oidc_config_url",)),
    "required_scopes": tuple(_SIGN_INS),
}
"""Settings that have no effect without one of these. Without an error, users would expect a sign-in."""


class NetworkSettings(SettingsGroup):
    """How clients and proxies reach the server."""

    group = Group("Serving a team: network", "For servers over HTTP. See [deploy.md](deploy.md).")

    public_url: AnyHttpUrl | None = Field(
        None, description="Public URL of the server, such as https://mcp.example.com."
    )
    allowed_hosts: Hosts = Field(
        (),
        description="Additional accepted values of the Host header, without a port; `*` stands for any text. Requests "
        "with other values get 421.",
    )
    allowed_origins: Origins = Field(
        (), description="Origins of web pages that can call the server, such as https://app.example.com, or `*`."
    )
    trusted_proxies: Networks = Field(
        (ip_network("127.0.0.1"), ip_network("::1")),
        description="Proxies with trusted X-Forwarded-For and X-Forwarded-Proto headers.",
    )
    drain_seconds: float = Field(
        5.0,
        ge=0,
        le=600,
        description="Time after SIGTERM in which requests are still accepted, while /ready returns 503. It is for load "
        "balancers, which need some seconds to notice.",
    )
    metrics_token: SecretStr | None = Field(
        None,
        description="Bearer token that /metrics requires; with several lines, each is valid. By default only this "
        "machine can read /metrics.",
    )


class SignInSettings(NetworkSettings):
    """Who signs in, and how."""

    group = SIGN_IN

    required_scopes: Words = Field((), description="Scopes that every access token must have.")
    jwt_jwks_url: AnyHttpUrl | None = Field(None, description="URL of the keys that sign access tokens (JWKS).")
    jwt_public_key: secret_files.Text | None = Field(
        None,
        description="Public key that verifies access tokens, in PEM format, or its file. With several keys, each is "
        "valid.",
    )
    jwt_issuer: str | None = Field(None, description="Expected token issuer (`iss`).")
    jwt_audience: Words = Field((), description="Expected token audience (`aud`). Of several, a token needs one.")
    jwt_algorithm: Algorithm = Field("RS256", description="Signature algorithm of access tokens.")
    oidc_config_url: AnyHttpUrl | None = Field(
        None, description="URL of the configuration of an OpenID provider. Callers sign in there through this server."
    )
    oidc_client_id: str | None = Field(None, description="Client id of this server at the OpenID provider.")
    oidc_client_secret: SecretStr | None = Field(
        None,
        description="Client secret of this server at the OpenID provider. It also signs this server's tokens and "
        "encrypts sign-ins: with another one, callers sign in again.",
    )
    oidc_audience: str | None = Field(
        None, description="Audience of the OpenID provider's tokens. It is requested and verified."
    )
    oidc_token: Literal["access", "id", "introspection"] | None = Field(
        None,
        description="Which token of the OpenID provider is verified: the `access` token as a JWT, the default; the "
        "`id` token, if access tokens are opaque; or the access token by `introspection` at the provider.",
    )
    oidc_resource: Literal["forward", "omit"] | None = Field(
        None,
        description="Whether the OpenID provider gets the `resource` of clients (RFC 8707): `forward`, the default, or "
        "`omit`, for a provider that refuses the parameter or does not know this resource.",
    )
    introspection_url: AnyHttpUrl | None = Field(
        None, description="URL where the issuer of opaque access tokens says who owns them (RFC 7662)."
    )
    introspection_client_id: str | None = Field(None, description="Client id of this server at that issuer.")
    introspection_client_secret: SecretStr | None = Field(
        None, description="Client secret of this server at that issuer."
    )
    introspection_issuer: str | None = Field(None, description="Issuer of the opaque tokens (`iss`).")
    introspection_audience: Words = Field(
        (), description="Expected audience of the opaque tokens (`aud`). Of several, a token needs one."
    )
    static_tokens: SecretStr | None = Field(
        None,
        description="For development only: tokens and their owners as JSON, or its file, such as "
        '{"the token": {"client_id": "ann", "scopes": ["read"]}}.',
    )

    @property
    def has_sign_in(self) -> bool:
        """Whether requests over HTTP need an access token."""
        return any(getattr(self, name) for name in _SIGN_INS)

    @model_validator(mode="after")
    def _check_sign_in(self) -> Self:
        chosen = [name for name in _SIGN_INS if getattr(self, name)]
        if len(chosen) > 1:
            raise ValueError(f"{_variables(chosen, 'and')} exclude each other: configure one kind of sign-in")
        for name in chosen:
            if missing := [other for other in _SIGN_INS[name] if not getattr(self, other)]:
                raise ValueError(f"{_variables([name])} also needs {_variables(missing, 'and')}")
        for name, needed_by in _NEEDED_BY.items():
            if getattr(self, name) and not set(needed_by) & set(chosen):
                raise ValueError(f"{_variables([name])} has no effect without {_variables(needed_by, 'or')}")
        return self


class LimitSettings(SettingsGroup):
    """What one caller can use, and the state that processes share."""

    group = Group("Serving a team: limits and shared state", "See [deploy.md](deploy.md#limits).")

    max_request_bytes: int = Field(
        1_048_576,
        ge=4096,
        le=67_108_864,
        description="Maximum size of a request body. Larger requests get 413.",
    )
    max_connections: int = Field(
        2000,
        ge=1,
        le=100_000,
        description="Maximum number of connections per process. "
        "Further connections get 503, except for /health and /ready.",
    )
    rate_limit: RateLimit = Field(
        "600/minute",
        description="Maximum rate of requests per identity, such as 20/second;600/minute, or none.",
    )
    concurrent_reads: int = Field(
        16,
        ge=0,
        le=100_000,
        description="Maximum number of concurrent reads per identity and process. 0 means no limit.",
    )
    state_url: StateURL | None = Field(
        None,
        description="Valkey or Redis for the rate limits and OpenID sign-ins of all processes, such as "
        "valkey://:password@host:6379/0. By default, each process counts by itself, and each machine has its own "
        "sign-ins.",
    )

    @property
    def is_unlimited(self) -> bool:
        return self.rate_limit == "none"


class HTTPSettings(SignInSettings, LimitSettings):
    """Serving over HTTP: addresses, sign-in and limits."""

    group = NetworkSettings.group


class LogSettings(SettingsGroup):
    """The log and the audit log."""

    group = STORAGE_AND_LOG

    log_format: Literal["console", "json"] = Field("console", description="Format of the log on stderr.")
    log_level: Level = Field("INFO", description="Lowest level that is logged to stderr.")
    audit_log: str | None = Field(
        None, description="File of the audit log, with one line of JSON for each request, or `stderr`."
    )


class DomainChoice(SettingsGroup):
    """Which of the installed domains are served."""

    group = DispatchSettings.group
    model_config = SettingsConfigDict(env_prefix=_PREFIXES[0], extra="ignore", hide_input_in_errors=True)

    domains: Words = Field(
        (), description="Names of the domains that are served. Default: all that are installed. `doctor` lists them."
    )


class ServerSettings(DispatchSettings, HTTPSettings, LogSettings, DomainChoice):
    """The settings of every server. `combine_settings` adds those of its domains."""

    group = DispatchSettings.group
    model_config = SettingsConfigDict(
        env_prefix=_PREFIXES[0], extra="ignore", populate_by_name=True, hide_input_in_errors=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - of pydantic-settings
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - of pydantic-settings
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return where settings come from: arguments, files that the environment names, and the environment."""
        return init_settings, SecretFiles(settings_cls), env_settings


class InvalidSettings(ValueError):
    """Two classes declare the same setting. The message names it."""


@cache
def combine_settings(classes: tuple[type[SettingsGroup], ...]) -> type[ServerSettings]:
    """Return one class with the settings of the server and of its domains. A new instance reads the environment.

    Raises:
        InvalidSettings: two classes declare the same setting.
    """
    owners: dict[str, type] = {}
    parts: list[type[SettingsGroup]] = [ServerSettings, *classes]
    for owner in dict.fromkeys(base for part in parts for base in part.__mro__):
        for name in inspect.get_annotations(owner).keys() & getattr(owner, "model_fields", {}).keys():
            if owners.setdefault(name, owner) is not owner:
                raise InvalidSettings(f"{owner.__name__} declares {name}, as {owners[name].__name__} does")
    # the server's class is a base, which the stubs of create_model cannot say of several
    combined = cast(
        "type[ServerSettings]", create_model(TITLE, __base__=(*classes, parts[0]), __doc__=ServerSettings.__doc__)
    )
    variables = Counter(one for name in combined.model_fields for one in secret_files.name_variables(combined, name))
    for variable, count in variables.items():
        if count > 1:
            raise InvalidSettings(f"two settings are read from {variable}")
    return combined


def find_unknown_variables(settings: type[BaseSettings], environment: Iterable[str]) -> list[str]:
    """Return a message for each environment variable that looks like one of a setting, and is ignored."""
    prefix = _PREFIXES[0]
    known = dict[str, str]()
    for setting, field in settings.model_fields.items():
        for one in secret_files.name_variables(settings, setting):
            files = [one + secret_files.SUFFIX] if secret_files.can_be_in_file(field) else []
            known |= {name.removeprefix(prefix): name for name in (one, *files)}
    messages = []
    for given in environment:
        name = given.upper().removeprefix(prefix)
        if given.upper().startswith(prefix) and known.get(name) != given.upper():
            nearest = "".join(f" Did you mean {known[one]}?" for one in get_close_matches(name, known, 1))
            messages.append(f"{given} is ignored: there is no such setting.{nearest}")
    return messages


def variables_like(settings: type[BaseSettings], variable: str) -> list[str]:
    """Return the environment variables of the same setting, including this one. The first that is set is used."""
    choices = (secret_files.name_variables(settings, name) for name in settings.model_fields)
    return next((names for names in choices if variable in names), [variable])


def describe_setting(error: ValidationError, find_class: Callable[[], type[BaseSettings]]) -> str:
    """Return which environment variable has an invalid value, and why.

    Args:
        error: of settings of ours, or of FastMCP's.
        find_class: returns the class of ours. It is not called for an error of FastMCP's: then nothing can be imported.
    """
    first = error.errors()[0]
    if not first["loc"]:  # settings that contradict each other; the message names them
        return f"Invalid settings: {first['msg'].removeprefix('Value error, ')}."
    name = str(first["loc"][0]).upper()
    has_several = name.startswith(_PREFIXES[0])
    known = variables_like(find_class(), name) if has_several else [f"{prefix}{name}" for prefix in _PREFIXES]
    set_here = {variable.upper(): variable for variable in os.environ}
    known += [f"{one}_FILE" for one in (*known, name)]
    variable = next((set_here[one] for one in known if one in set_here), name)
    return f"Invalid environment variable {variable}: {first['msg'].removeprefix('Value error, ')}."


def _variables(names: list[str] | tuple[str, ...], conjunction: str = "") -> str:
    return f" {conjunction} ".join(f"QUILT_MCP_{name.upper()}" for name in names)

"""Settings of the Quilt domain."""

import re
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    AnyHttpUrl,
    BeforeValidator,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from quilt_mcp.app.database import StorageSettings
from quilt_mcp.app.settings import SIGN_IN, DispatchSettings, Group, Seconds, SettingsGroup

Timeout = tuple[float, float]
"""The time limits for connecting and for a response, in seconds."""
GIB = 1 << 30
RETRY_SECONDS = 5.0
"""How long a failure of the catalog is remembered."""

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)")  # a digit is that of a port
ADDRESS = re.compile(r"https?://[^\s/?#@]+")
URL = TypeAdapter(AnyHttpUrl)


def _check_address(url: str) -> str:
    """Return an address in lower case, with https:// if it has no scheme, without blanks and slashes around it.

    Raises:
        PydanticCustomError: it has another form. The text does not repeat it, because it can contain a password.
    """
    address = url.strip().rstrip("/")
    if not SCHEME.match(address):
        address = f"https://{address}"
    scheme, _, host = address.partition("://")
    address = f"{scheme.lower()}://{host.lower()}"  # neither has a path, so case does not matter
    try:
        URL.validate_python(address)  # such as the port
    except ValidationError:
        address = ""
    if not ADDRESS.fullmatch(address):
        raise PydanticCustomError("address", "it must be like https://quilt.example.com, without a path")
    return address


CatalogURL = Annotated[str, AfterValidator(_check_address)]

GivenURL = Annotated[CatalogURL | None, BeforeValidator(lambda url: str(url or "").strip() or None)]
"""Programs that start this server often set variables of other programs to nothing."""


LOCAL = Group(
    "Local use",
    "Quilt and AWS, for one person over stdio. The defaults suit most users; a slow network needs longer timeouts.",
)


class CallerSettings(SettingsGroup):
    """How callers who sign in over HTTP reach Quilt."""

    group = SIGN_IN

    catalog_url: CatalogURL | None = Field(
        None,
        description="Quilt catalog for callers who sign in over HTTP. Default: the catalog that quilt3 is configured "
        "for.",
    )
    quilt_token_header: str = Field(
        "X-Quilt-Token",
        pattern=r"^[A-Za-z0-9-]{1,64}$",
        description="HTTP header in which callers who sign in send their Quilt API key or access token.",
    )


class StackSettings(CallerSettings):
    """The connection to Quilt and AWS."""

    group = LOCAL

    connect_timeout_seconds: Seconds = Field(3.0, description="Timeout for connecting to Quilt or AWS.")
    read_timeout_seconds: Seconds = Field(10.0, description="Timeout for each response from Quilt or AWS.")
    api_key: SecretStr | None = Field(
        None,
        validation_alias="QUILT_API_KEY",
        description="Quilt API key of the local user. It is used instead of the login of `quilt-mcp login`. "
        "Callers who sign in over HTTP send their own.",
    )
    local_catalog_url: GivenURL = Field(
        None,
        validation_alias="QUILT_CATALOG_URL",
        description="Quilt catalog of the local user. Default: the catalog that quilt3 is configured for.",
    )
    local_registry_url: GivenURL = Field(
        None,
        validation_alias="QUILT_REGISTRY_URL",
        description="Registry of the local user's catalog. Default: the registry that the catalog names.",
    )

    @property
    def timeout(self) -> Timeout:
        return self.connect_timeout_seconds, self.read_timeout_seconds


class QuiltSettings(StackSettings, StorageSettings, DispatchSettings):
    """The settings of the Quilt resources."""

    group = LOCAL

    probe_seconds: Seconds = Field(
        15.0, description="Time budget for asking all buckets or workgroups. The answer names those not reached."
    )
    probe_writes: bool = Field(
        default=False,
        description="Let `permissions://` test write access with a conditional PutObject that stores nothing.",
    )
    athena_queries: bool = Field(
        default=True, description="Offer the tool `athena_query`, which runs queries in Athena. They cost."
    )
    athena_scan_bytes: int = Field(
        10 * GIB,
        ge=10_000_000,
        le=1_000_000 * GIB,
        description="Stop a query of `athena_query` that has scanned more bytes. Athena charges by them.",
    )

    @model_validator(mode="after")
    def _check_time_limits(self) -> Self:
        if self.probe_seconds >= self.deadline_seconds:
            raise ValueError("QUILT_MCP_PROBE_SECONDS must be less than QUILT_MCP_DEADLINE_SECONDS")
        return self

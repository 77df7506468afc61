"""Every setting of the server. Each is an environment variable QUILT_MCP_<NAME>."""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from quilt_mcp.http.settings import HTTPSettings
from quilt_mcp.logs import Format

Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda value: str(value).upper())]
Seconds = Annotated[float, Field(gt=0, le=600)]
CatalogURL = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+$"), BeforeValidator(lambda url: str(url).rstrip("/"))]

# What limits' parser takes, which would come in with all of the library
RATE_LIMIT = re.compile(r"none|([1-9]\d{0,8}/([1-9]\d{0,4} )?(second|minute|hour|day)s?(;(?=\d)|$))*", re.ASCII)
STATE_SCHEMES = ("valkey", "valkeys", "redis", "rediss", "unix")


def _checked_rate_limit(text: str) -> str:
    if not RATE_LIMIT.fullmatch(text):
        raise ValueError("it is not like 600/minute, 100/5 seconds or 20/second;600/minute, and not none")
    return text


def _checked_state_url(url: SecretStr) -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    if parts.scheme not in STATE_SCHEMES or not (parts.hostname or parts.path):
        raise ValueError(f"it does not begin with {', '.join(f'{scheme}://' for scheme in STATE_SCHEMES)} and a place")
    if parts.query and not (parts.scheme == "unix" and re.fullmatch(r"db=\d+", parts.query)):
        raise ValueError("it has a query")
    _ = parts.port  # which is checked when it is asked for
    if find_spec("redis") is None:
        raise ValueError("it needs an extra: run `make install EXTRAS=valkey` in the source directory")
    return url


def _checked_workflows_url(url: SecretStr) -> SecretStr:
    if urlsplit(url.get_secret_value()).scheme not in {"postgresql", "postgres"}:
        raise ValueError("it does not begin with postgresql://")
    if find_spec("psycopg") is None:
        raise ValueError("it needs an extra: run `make install EXTRAS=postgres` in the source directory")
    return url


RateLimit = Annotated[str, BeforeValidator(lambda text: str(text).strip().lower()), AfterValidator(_checked_rate_limit)]
StateURL = Annotated[SecretStr, AfterValidator(_checked_state_url)]
WorkflowsURL = Annotated[SecretStr, AfterValidator(_checked_workflows_url)]


class Settings(HTTPSettings):
    """The settings, read from the environment when an instance is made."""

    model_config = SettingsConfigDict(env_prefix="QUILT_MCP_", extra="ignore", populate_by_name=True)

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("quilt-mcp", appauthor=False)),
        description="Where workflows and the embedded requirements database are kept.",
    )
    deadline_seconds: Seconds = Field(30.0, description="The longest a read may take before it is given up.")
    connect_timeout_seconds: Seconds = Field(3.0, description="Limit for opening a connection to Quilt or AWS.")
    read_timeout_seconds: Seconds = Field(10.0, description="Limit for each answer from Quilt or AWS.")
    probe_seconds: Seconds = Field(
        15.0, description="Limit for asking all buckets or workgroups; those not reached in time are told as such."
    )
    probe_writes: bool = Field(
        default=False,
        description="Let permissions:// test write access with a conditional PutObject that can store nothing.",
    )
    catalog_url: CatalogURL | None = Field(
        None,
        description="The Quilt catalog of callers who sign in over HTTP, https://…; else the one quilt3 is set up for.",
    )
    quilt_token_header: str = Field(
        "X-Quilt-Token",
        pattern=r"^[A-Za-z0-9-]{1,64}$",
        description="The HTTP header in which a caller who signs in sends its Quilt API key or access token.",
    )
    log_format: Format = Field("console", description="How the log on stderr is written: console or json.")
    log_level: Level = Field("INFO", description="What goes to stderr: DEBUG, INFO, WARNING or ERROR.")
    database_url: SecretStr | None = Field(
        None,
        description="Where the requirements are: postgresql://user:password@host/name; else a file in data_dir.",
    )
    database_timeout_seconds: Seconds = Field(
        5.0, description="Limit for connecting to the requirements database, and for each of its statements."
    )
    requirements_user: str | None = Field(
        None,
        description="As which user of the requirements database this machine's caller reads; else as administrator.",
    )
    requirements_user_claim: str = Field(
        "sub", description="Which claim of a caller's token is its name among the users of the requirements database."
    )
    list_page_size: int = Field(200, ge=1, le=1000, description="How many resources are on a page of resources/list.")
    list_provider_seconds: Seconds = Field(
        5.0, description="How long resources/list waits for a provider; one that takes longer is left out, and named."
    )
    list_search_template: bool = Field(
        default=False, description="List requirements://search/{query} in resources/list too, as if it were a resource."
    )
    enable_caching: bool = Field(
        default=False, description="Keep pages of resources/list, for each caller, until something is written."
    )
    cache_ttl: Seconds = Field(300.0, description="How long a page is kept, in seconds, where they are.")
    search_candidates: int = Field(
        2000, ge=1, le=100_000, description="How many matches of a search are ranked and paged through, at most."
    )

    analysis_memory_limit_mb: int = Field(
        2048,
        ge=128,
        le=65536,
        validation_alias=AliasChoices("QUILT_MCP_ANALYSIS_MEMORY_LIMIT_MB", "SYMBOLIC_MEMORY_LIMIT_MB"),
        description="The address space of the process that analyses code, in MiB.",
    )
    analysis_code_size_bytes: int = Field(
        65536,
        ge=1024,
        le=1048576,
        validation_alias=AliasChoices("QUILT_MCP_ANALYSIS_CODE_SIZE_BYTES", "SYMBOLIC_CODE_SIZE_LIMIT"),
        description="The longest code that is analysed, in bytes of UTF-8.",
    )
    analysis_coverage_threshold: int = Field(
        1000,
        ge=100,
        le=100000,
        validation_alias=AliasChoices(
            "QUILT_MCP_ANALYSIS_COVERAGE_THRESHOLD", "SYMBOLIC_COVERAGE_EXHAUSTIVE_THRESHOLD"
        ),
        description="How many paths of a function are explored for each condition, at most.",
    )
    analysis_default_timeout_seconds: int = Field(
        30, ge=1, le=120, description="How long an analysis may take where the call does not say."
    )
    analysis_concurrency: int = Field(
        default_factory=lambda: min(os.cpu_count() or 1, 64),
        ge=1,
        le=64,
        description="How many analyses run at once; without it as many as there are cores.",
    )
    analysis_allow_weaker_sandbox: bool = Field(
        default=False,
        description="Analyse code also where the kernel does not offer every layer of the sandbox.",
    )
    rate_limit: RateLimit = Field(
        "600/minute",
        description="How often each identity may ask, over HTTP with sign-in: such as 20/second;600/minute, or none.",
    )
    concurrent_reads: int = Field(
        16, ge=0, le=100_000, description="How many reads of one identity a process does at once; 0 is no limit."
    )
    state_url: StateURL | None = Field(
        None,
        description="A Valkey or Redis in which all processes count together, and keep sign-ins by way of an OpenID "
        "provider: valkey://:password@host:6379/0; without it each counts by itself, and a machine keeps sign-ins.",
    )

    workflows_url: WorkflowsURL | None = Field(
        None,
        description="A PostgreSQL in which several machines share workflows: postgresql://user:password@host/name; "
        "without it they are in a file in the data directory.",
    )

    @property
    def is_unlimited(self) -> bool:
        """Whether identities may ask as often as they like."""
        return self.rate_limit in {"", "none"}

    @model_validator(mode="after")
    def _partial_answers_come_in_time(self) -> Self:
        if self.probe_seconds >= self.deadline_seconds:
            raise ValueError("QUILT_MCP_PROBE_SECONDS must be less than QUILT_MCP_DEADLINE_SECONDS")
        return self


def variables_like(variable: str) -> list[str]:
    """The environment variables that set what this one sets, itself among them; the first that is set counts."""
    aliases = [field.validation_alias for field in Settings.model_fields.values()]
    choices = [[str(name) for name in alias.choices] for alias in aliases if isinstance(alias, AliasChoices)]
    return next((names for names in choices if variable in names), [variable])

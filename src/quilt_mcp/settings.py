"""Every setting of the server. Each is an environment variable QUILT_MCP_<NAME>."""

import os
from pathlib import Path
from typing import Annotated, Literal, Self

import platformdirs
from pydantic import AliasChoices, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from quilt_mcp.http.settings import HTTPSettings
from quilt_mcp.logs import Format

Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda value: str(value).upper())]
Seconds = Annotated[float, Field(gt=0, le=600)]
CatalogURL = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+$"), BeforeValidator(lambda url: str(url).rstrip("/"))]


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
        description="Where the requirements are: postgresql://user:password@host/name; else a file in the data directory.",
    )
    database_timeout_seconds: Seconds = Field(
        5.0, description="Limit for connecting to the requirements database, and for each of its statements."
    )
    requirements_user: str | None = Field(
        None,
        description="As which user of the requirements database this machine's own caller reads; else as administrator.",
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
        2000, ge=1, le=100_000, description="How many matches of a search are ranked, at most; more are only counted."
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

    @model_validator(mode="after")
    def _partial_answers_come_in_time(self) -> Self:
        if self.probe_seconds >= self.deadline_seconds:
            raise ValueError("QUILT_MCP_PROBE_SECONDS must be less than QUILT_MCP_DEADLINE_SECONDS")
        return self

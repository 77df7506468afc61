"""Every setting of the server. Each is an environment variable QUILT_MCP_<NAME>."""

from pathlib import Path
from typing import Annotated, Literal, Self

import platformdirs
from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from quilt_mcp.logs import Format

Level = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda value: str(value).upper())]
Seconds = Annotated[float, Field(gt=0, le=600)]


class Settings(BaseSettings):
    """The settings, read from the environment when an instance is made."""

    model_config = SettingsConfigDict(env_prefix="QUILT_MCP_", extra="ignore")

    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("quilt-mcp", appauthor=False)),
        description="Where workflows are kept.",
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
    log_format: Format = Field("console", description="How the log on stderr is written: console or json.")
    log_level: Level = Field("INFO", description="What goes to stderr: DEBUG, INFO, WARNING or ERROR.")

    @model_validator(mode="after")
    def _partial_answers_come_in_time(self) -> Self:
        if self.probe_seconds >= self.deadline_seconds:
            raise ValueError("QUILT_MCP_PROBE_SECONDS must be less than QUILT_MCP_DEADLINE_SECONDS")
        return self

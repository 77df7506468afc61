"""Settings of the workflow domain."""

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from quilt_mcp.app.database import StorageSettings, check_url
from quilt_mcp.app.settings import Group

FILE_NAME = "workflows.sqlite3"
"""The workflow file, in the data directory."""


class WorkflowSettings(StorageSettings):
    """Settings of the storage of workflows."""

    group = Group("Workflows", "See [deploy.md](deploy.md#state-that-processes-share).")

    workflows_url: Annotated[SecretStr, AfterValidator(check_url)] | None = Field(
        None,
        description="PostgreSQL database in which several machines share workflows: "
        "postgresql://user:password@host/name. Default: a file in the data directory.",
    )
    workflows_per_caller: int = Field(
        1000,
        ge=1,
        le=1_000_000,
        description="Maximum number of workflows of one signed-in caller. The local user has no limit.",
    )
    workflow_bytes_per_caller: int = Field(
        20_971_520,
        ge=65_536,
        le=1_073_741_824,
        description="Maximum size of all texts in the workflows of one signed-in caller, in bytes of UTF-8. The local "
        "user has no limit.",
    )
    workflow_retention_days: int | None = Field(
        None,
        ge=1,
        le=36_500,
        description="Delete workflows of any status that have not changed for this time. Default: keep all.",
    )

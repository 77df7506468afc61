"""Settings of the requirements domain."""

from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from quilt_mcp.app.database import StorageSettings, check_url
from quilt_mcp.app.settings import Group

FILE_NAME = "requirements.sqlite3"
"""The embedded database, in the data directory."""


class RequirementsSettings(StorageSettings):
    """Settings of the requirements database, and of the access to it."""

    group = Group("Requirements", "See [requirements.md](requirements.md).")

    database_url: Annotated[SecretStr, AfterValidator(partial(check_url, others=("sqlite",)))] | None = Field(
        None,
        description="Requirements database: postgresql://user:password@host/name. Default: a file in the data "
        "directory.",
    )
    requirements_user: Annotated[str | None, AfterValidator(lambda name: name or None)] = Field(
        None, description="User of the requirements database that local callers read as. Default: an administrator."
    )
    requirements_user_claim: str = Field(
        "sub", min_length=1, description="Token claim that names the caller in the requirements database."
    )
    list_entities: bool = Field(
        default=True,
        description="List each entity in `resources/list`. If off, the list does not use the requirements database.",
    )
    max_resources_per_provider: int = Field(
        25,
        ge=0,
        description="List at most so many entities of each kind in `resources/list`: those that changed last. 0 lists "
        "all. All of them can be read, searched and completed.",
    )
    list_search_template: bool = Field(
        default=False, description="List `requirements://search/{query}` in `resources/list` as a resource too."
    )
    search_candidates: int = Field(
        2000, ge=1, le=100_000, description="Maximum number of search matches that are ranked and paged through."
    )

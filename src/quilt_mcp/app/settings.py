"""What the classes of settings share: their group in the documents, and the settings that every server has."""

from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field
from pydantic_settings import BaseSettings

Seconds = Annotated[float, Field(gt=0, le=600)]


class Group(NamedTuple):
    """Where the documents describe the settings of a class.

    Attributes:
        title: of the section. Classes can share one.
        introduction: its first paragraph, in Markdown.
    """

    title: str
    introduction: str


STORAGE_AND_LOG = Group("Storage and log", "Every transport.")
SIGN_IN = Group(
    "Serving a team: sign-in",
    "How callers prove who they are, and how they reach Quilt. See [deploy.md](deploy.md#sign-in).",
)


class SettingsGroup(BaseSettings):
    """A class of settings. Each domain has one, and the server combines them."""

    group: ClassVar[Group]


class DispatchSettings(SettingsGroup):
    """Time limits, pages, and how answers are shown."""

    group = Group("Time limits and lists", "Every transport.")

    deadline_seconds: Seconds = Field(30.0, description="Maximum time for one read; more than QUILT_MCP_PROBE_SECONDS.")
    list_page_size: int = Field(200, ge=1, le=1000, description="Resources per page of `resources/list`.")
    list_provider_seconds: Seconds = Field(
        5.0,
        description="Time budget for a page of `resources/list`. A data source that exceeds it is left out, and the "
        "page names it.",
    )
    enable_caching: bool = Field(default=False, description="Let clients cache pages of `resources/list`.")
    cache_ttl: Seconds = Field(300.0, description="How long clients may cache a page, in seconds.")
    view: Literal["auto", "on", "off"] = Field(
        "auto",
        description="The tool `show_resource`, which shows answers to a person: `auto` for clients that declare MCP "
        "Apps, `on` for all clients.",
    )

"""The mapping file of an import from Jira: which columns and values of the CSV file mean what."""

import tomllib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from quilt_mcp.core.errors import ResourceExecutionError
from quilt_mcp.requirements.transfer.field_types import Priority, RequirementStatus, StoryStatus
from quilt_mcp.requirements.transfer.wording import shorten

IssueKind = Literal["epic", "user_story", "acceptance_criteria", "requirement", "skip"]
# of Jira Cloud and of Jira Server; a site can have others
_TIME_FORMATS = ("%d/%b/%y %I:%M %p", "%d/%b/%y %H:%M", "%d/%b/%Y %I:%M %p", "%d/%b/%Y %H:%M", "%Y-%m-%d %H:%M")
_MOST_BYTES = 1_000_000
_COLUMNS = {
    "id": "key",  # from which the ID is computed
    "assignee_id": "assignee",
    "epic_id": "parent",
    "user_story_id": "parent",
    **dict.fromkeys(("creator_id", "author_id", "created_by"), "creator"),
}
"""The attribute of `Columns` for fields with other names."""
_SETTINGS = {"project_id": "project", "relationship_type_id": "links"}
_NUMBERS = ("greater_than_equal", "less_than_equal", "int_type", "int_parsing", "int_from_float")
_REASONS = {
    "extra_forbidden": "there is no such setting",
    "missing": "it is missing",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
} | dict.fromkeys(_NUMBERS, "must be a whole number from 1 to 4")


def _make_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _find_zone(value: object) -> object:
    try:
        return ZoneInfo(value) if isinstance(value, str) else value
    except (ValueError, OSError, LookupError):  # LookupError: ZoneInfoNotFoundError
        raise ValueError("is not a time zone such as Europe/Berlin") from None


Names = Annotated[list[str], BeforeValidator(_make_list)]
Zone = Annotated[ZoneInfo, BeforeValidator(_find_zone)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Columns(_Part):
    """The names of columns. Of several, the first one with a value counts."""

    key: Names = ["Issue key"]
    id: Names = ["Issue id"]
    type: Names = ["Issue Type"]
    title: Names = ["Summary"]
    description: Names = ["Description"]
    status: Names = ["Status"]
    priority: Names = ["Priority"]
    parent: Names = ["Parent key", "Parent", "Parent id", "Epic Link", "Custom field (Epic Link)"]
    created_at: Names = ["Created"]
    updated_at: Names = ["Updated"]
    creator: Names = []
    assignee: Names = []


class Statuses(_Part):
    """Our status for each status of Jira, by kind."""

    epic: dict[str, StoryStatus] = {}
    user_story: dict[str, StoryStatus] = {}
    requirement: dict[str, RequirementStatus] = {}


class Defaults(_Part):
    """Titles of entities that are created for issues without a parent."""

    epic: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    user_story: Annotated[str, Field(min_length=1, max_length=500)] | None = None


class JiraMapping(_Part):
    """The mapping.

    Attributes:
        columns: the columns of fields.
        types: the kind of each issue type; `skip` for types that are not imported.
        statuses: our statuses.
        priorities: our priority for each priority of Jira.
        users: the username for each user of Jira; others are usernames already.
        links: the type of relationship for columns with links, which contain issue keys.
        attributes: columns with values that are added to the description.
        defaults: parents of issues without one, for each project.
        project: the project of the epics; by default the default project.
        time_format: the format of times that are not in one of Jira's own formats, as for Python's strptime. Times that
            are not in this format can be in ISO 8601.
        time_zone: of times without one.
    """

    types: Annotated[dict[str, IssueKind], Field(min_length=1)]
    columns: Columns = Columns()
    statuses: Statuses = Statuses()
    priorities: dict[str, Priority] = {}
    users: dict[str, str] = {}
    links: dict[str, str] = {}
    attributes: Names = []
    defaults: Defaults = Defaults()
    project: str | None = None
    time_format: str | None = None
    time_zone: Zone = ZoneInfo("UTC")

    def name_field(self, field: str) -> str:
        """Return the column of a field of a record, or the setting that the field comes from."""
        if field in _SETTINGS:
            return f"{_SETTINGS[field]} in the mapping"
        names: list[str] = getattr(self.columns, _COLUMNS.get(field, field), [])
        return names[0] if names else field

    def parse_time(self, text: str) -> datetime | None:
        """Return a time with its zone; None if it is in no known format."""
        formats = (self.time_format,) if self.time_format else _TIME_FORMATS
        readers: list[Callable[[str], datetime]]
        readers = [lambda value, one=one: datetime.strptime(value, one) for one in formats]  # type: ignore[misc]  # noqa: DTZ007 - the zone follows
        # a time in the format of the mapping can look like ISO 8601 with another order of day and month
        readers.insert(1 if self.time_format else 0, datetime.fromisoformat)
        for read in readers:
            try:
                time = read(text)
            except ValueError:
                continue
            return time if time.tzinfo else time.replace(tzinfo=self.time_zone)
        return None


def read_mapping(path: Path) -> JiraMapping:
    """Read a mapping file.

    Raises:
        OSError: the file cannot be read.
        ResourceExecutionError: the mapping is not valid.
    """
    with path.open("rb") as file:
        raw = file.read(_MOST_BYTES + 1)
    try:
        if len(raw) > _MOST_BYTES:
            raise _refuse(path, f"It has more than {_MOST_BYTES:,} bytes.")
        return JiraMapping.model_validate(tomllib.loads(raw.decode()))
    except UnicodeDecodeError as error:
        raise _refuse(path, f"It is not valid UTF-8 at byte {error.start + 1}.") from None
    except tomllib.TOMLDecodeError as error:
        raise _refuse(path, f"It is not valid TOML: {shorten(str(error))}.") from None
    except RecursionError:
        raise _refuse(path, "It is nested too deep.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(one) for one in first["loc"] if one != "[key]")
        raise _refuse(path, f"{shorten(place)}: {_explain(first)}.") from None


def _explain(error: ErrorDetails) -> str:
    if error["type"] == "literal_error":
        return f"must be one of {error['ctx']['expected']}"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return _REASONS.get(error["type"], "the value has the wrong type")


def _refuse(path: Path, reason: str) -> ResourceExecutionError:
    return ResourceExecutionError(
        f"The mapping {path} is not valid. Nothing was imported.",
        details=reason,
        suggested_actions=["See the documentation of requirements for the settings of a mapping."],
    )

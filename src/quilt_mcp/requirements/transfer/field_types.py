"""The types of the fields of records: texts, IDs, times and references, with their limits."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticKnownError

from quilt_mcp.requirements import kinds
from quilt_mcp.requirements.filters import PRIORITIES

# PostgreSQL cannot store U+0000, and neither database lone surrogates. Both store all other characters.
_FORBIDDEN = re.compile(r"[\x00\ud800-\udfff]")


def can_store(value: str) -> bool:
    """Return whether the databases can store a text."""
    return not _FORBIDDEN.search(value)


def _check_text(value: str) -> str:
    if not can_store(value):
        raise ValueError("Must not contain the character U+0000 or half of a surrogate pair. Remove it.")
    return value


def check_not_blank(value: str) -> str:
    """Return a text that is not blank."""
    if not value.strip():
        raise ValueError("Must not be blank. Write a text.")
    return value


def _parse_uuid(value: str) -> str:
    try:
        return str(UUID(value))
    except ValueError:
        raise ValueError("Must be a UUID. Correct it, or leave it out for a new one.") from None


def _parse_time(value: object) -> datetime:
    """Parse a time. Pydantic would also take a number, such as the year 2026 for a second in 1970."""
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        if time.tzinfo:
            return time.astimezone(UTC)
    except (ValueError, OverflowError):  # OverflowError: in UTC it is before the year 1 or after the year 9999
        pass
    raise ValueError("Must be a date and a time with a time zone, such as 2026-01-31T12:00:00Z.")


def _parse_priority(value: object) -> object:
    """Return the number of a priority with a name. Refuse true and false, which pydantic takes for 1 and 0."""
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return PRIORITIES.get(value, value) if isinstance(value, str) else value


_NUMBER = "(00[1-9]|0[1-9][0-9]|[1-9][0-9]{2,8})"
EpicReference = Annotated[str, Field(pattern=f"^EP-{_NUMBER}$")]
UserStoryReference = Annotated[str, Field(pattern=f"^US-{_NUMBER}$")]
AcceptanceCriteriaReference = Annotated[str, Field(pattern=f"^AC-{_NUMBER}$")]
RequirementReference = Annotated[str, Field(pattern=f"^REQ-{_NUMBER}$")]
Text = Annotated[str, AfterValidator(_check_text)]
Id = Annotated[str, AfterValidator(_parse_uuid)]
Link = Annotated[Text, Field(min_length=1, max_length=255)]
Name = Annotated[Text, Field(max_length=100), AfterValidator(check_not_blank)]
Title = Annotated[Text, Field(max_length=kinds.TITLE_LENGTH), AfterValidator(check_not_blank)]
Description = Annotated[Text, Field(max_length=kinds.DESCRIPTION_LENGTH)]
Time = Annotated[datetime, BeforeValidator(_parse_time)]
StoryStatus = Literal["Backlog", "Draft", "In Progress", "Done", "Cancelled"]
RequirementStatus = Literal["Draft", "Active", "Obsolete"]
Priority = Annotated[int, BeforeValidator(_parse_priority), Field(ge=1, le=4)]

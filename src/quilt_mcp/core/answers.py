"""The answers of `get_resource`: data, an error, or the list of resources. Fields are attributes and items."""

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal, overload

import pydantic_core
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field

from quilt_mcp.core.errors import INTERNAL_ERROR

MIME_TYPE = "application/json"
JSONObject = dict[str, Any]
"""A JSON object of any shape."""


@overload
def iso(moment: datetime) -> str: ...
@overload
def iso(moment: datetime | None) -> str | None: ...
def iso(moment: datetime | None) -> str | None:
    """Return ISO 8601 in UTC with a `Z`, to the second. A moment without a zone counts as UTC; None stays None."""
    if moment is None:
        return None
    if moment.tzinfo is not None and moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat()[:19]}Z"  # takes a third of the time of strftime


class PlainJSON(str):
    """JSON text that pydantic reads back as it was: with text keys, and at most 200 levels deep."""

    __slots__ = ()


def to_json(value: object) -> str:
    """Return the JSON text of a value of JSON types and models, as `json.dumps` writes it. Both surfaces use it.

    Raises:
        TypeError, ValueError: the value contains something else, such as a datetime or NaN. Services convert these.
    """
    with suppress(ValueError):  # a lone surrogate, NaN, an unknown type, or deep nesting
        text = pydantic_core.to_json(value)
        is_spelled_alike = b"0.0000" not in text and not _NEAR_ZERO.search(text)
        # pydantic also writes other types, such as datetimes, as texts. Read again, they are not equal to the value.
        if is_spelled_alike and pydantic_core.from_json(text, allow_inf_nan=False, cache_strings="keys") == value:
            return PlainJSON(text, "utf-8")
    return _ENCODER.encode(value)


def _model(value: object) -> JSONObject:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not a JSON type")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_model)
_NEAR_ZERO = re.compile(rb"e-[6-9](?:[,}\]]|\Z)")  # pydantic writes 1e-6 for 1e-06, and 0.00001 for 1e-05


UTCDatetime = Annotated[datetime, AfterValidator(lambda one: one if one.tzinfo else one.replace(tzinfo=UTC))]
"""A point in time; without a time zone it counts as UTC."""


class DictAccessibleModel(BaseModel):
    """A model with fields that can also be read like the keys of a dict."""

    model_config = ConfigDict(populate_by_name=True)

    def __getitem__(self, key: str) -> Any:
        if key not in type(self).model_fields:
            raise KeyError(key)
        return getattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in type(self).model_fields

    def get(self, key: str, default: object = None) -> Any:
        """Return the field's value, or `default` if there is no such field."""
        return getattr(self, key) if key in self else default


class ResourceMetadata(DictAccessibleModel):
    """One resource, as discovery lists it."""

    model_config = ConfigDict(frozen=True)

    uri: str = Field(description="The URI, with {variables} if it is a template.")
    name: str = Field(description="The name, for a person.")
    description: str = Field(description="What it contains.")
    is_template: bool = Field(description="True if the URI contains variables.")
    template_variables: list[str] = Field(
        default_factory=list, description="The names of the variables, in the URI's order."
    )
    requires_admin: bool = Field(description="True if only administrators may read it.")
    requires_sign_in: bool = Field(default=False, description="True if only callers who are signed in may read it.")
    category: str = Field(description="The URI's scheme.")


class GetResourceSuccess(DictAccessibleModel):
    """The data of a resource; with an empty `uri`, the resources by category."""

    success: Literal[True] = Field(default=True, description="Whether the read succeeded.")
    uri: str = Field(description="The URI that was read; empty for discovery.")
    resource_name: str = Field(description="The resource's name, for a person.")
    data: JSONObject = Field(description="The value that resources/read returns as JSON text.")
    timestamp: UTCDatetime = Field(
        default_factory=lambda: datetime.now(UTC), description="When the data was retrieved, in UTC."
    )
    mime_type: str = Field(default=MIME_TYPE, description="The MIME type of the resource.")

    @cached_property
    def data_json(self) -> str:
        """The JSON text of `data`, as resources/read returns it."""
        return to_json(self.data) if self.uri else pydantic_core.to_json(self.data).decode()  # only models

    def body(self) -> JSONObject:
        """Return the JSON object that the tool returns. Its `data` is not a copy."""
        # Only the data of discovery contain models. To search all other data for models would cost as much as JSON.
        return self._envelope() | {"data": self.data if self.uri else json.loads(self.data_json)}

    def body_json(self) -> str:
        """Return the JSON text of `body`. The text of the data is reused."""
        return f'{to_json(self._envelope())[:-1]},"data":{self.data_json}}}'

    def _envelope(self) -> JSONObject:
        return {
            "success": True,
            "uri": self.uri,
            "resource_name": self.resource_name,
            "timestamp": self.timestamp.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "mime_type": self.mime_type,
        }


class GetResourceError(DictAccessibleModel):
    """What went wrong, what to do next, and whether to retry."""

    success: Literal[False] = Field(default=False, description="Whether the read succeeded.")
    uri: str = Field(default="", description="The requested URI.")
    error: str = Field(
        description="InvalidURI, MissingTemplateVariable, InvalidTemplateVariable, Unauthorized, NotFound, "
        "or ResourceExecutionError."
    )
    message: str = Field(validation_alias=AliasChoices("message", "cause"), description="What happened, for a person.")
    details: str | None = Field(default=None, description="Technical detail, if there is any.")
    suggested_actions: list[str] = Field(min_length=1, description="What to do next.")
    transient: bool = Field(default=False, description="Whether the same call can succeed later.")
    valid_uris: list[str] | None = Field(default=None, description="For InvalidURI: all URIs.")
    retry_after_seconds: int | None = Field(
        default=None, description="For a caller that exceeds a limit: when to retry."
    )
    code: int = Field(default=INTERNAL_ERROR, exclude=True, description="The JSON-RPC code; not part of the body.")

    @property
    def cause(self) -> str:
        """The message, under its older name."""
        return self.message

    def body(self) -> JSONObject:
        """Return the JSON object that both surfaces send. It has the last two fields only if they apply."""
        unused = {name for name in ("valid_uris", "retry_after_seconds") if getattr(self, name) is None}
        return self.model_dump(mode="json", exclude=unused)

    def body_json(self) -> str:
        """Return the JSON text of `body`."""
        return to_json(self.body())

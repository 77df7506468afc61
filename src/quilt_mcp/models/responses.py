"""What `get_resource` answers: data, an error, or the list of resources.

All three allow attribute access (`answer.uri`) and item access (`answer["uri"]`).
"""

import json
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field

from quilt_mcp.errors import INTERNAL_ERROR


def to_json(value: Any) -> str:
    """The JSON text of a value of JSON types and models; both surfaces write with it.

    Raises:
        TypeError, ValueError: for any other value (a datetime, NaN): a service must convert these itself.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_model)


def _model(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not a JSON type")


class DictAccessibleModel(BaseModel):
    """A model whose fields can also be read like the keys of a dict."""

    model_config = ConfigDict(populate_by_name=True)

    def __getitem__(self, key: str) -> Any:
        if key not in type(self).model_fields:
            raise KeyError(key)
        return getattr(self, key)

    def __contains__(self, key: object) -> bool:
        return key in type(self).model_fields

    def get(self, key: str, default: Any = None) -> Any:
        """The field's value, or `default` where there is no such field."""
        return getattr(self, key) if key in self else default


class ResourceMetadata(DictAccessibleModel):
    """One resource, as discovery lists it."""

    model_config = ConfigDict(frozen=True)

    uri: str = Field(description="The URI, with {variables} if it is a template.")
    name: str = Field(description="Its name, for a person.")
    description: str = Field(description="What it answers.")
    is_template: bool = Field(description="True if the URI holds variables.")
    template_variables: list[str] = Field(default_factory=list, description="Their names, in the URI's order.")
    requires_admin: bool = Field(description="True if only administrators of the stack may read it.")
    category: str = Field(description="The URI's scheme.")


class GetResourceSuccess(DictAccessibleModel):
    """A resource's data, or with an empty `uri` the resources by category."""

    success: Literal[True] = Field(default=True, description="Whether there is data.")
    uri: str = Field(description="The URI that was read; empty for discovery.")
    resource_name: str = Field(description="The resource's name, for a person.")
    data: dict[str, Any] = Field(description="The same value that resources/read answers as JSON text.")
    timestamp: AwareDatetime = Field(
        default_factory=lambda: datetime.now(UTC), description="When the data was retrieved, in UTC."
    )
    mime_type: str = Field(default="application/json", description="The MIME type of the resource.")

    @cached_property
    def data_json(self) -> str:
        """The JSON text of `data`: what resources/read answers."""
        return to_json(self.data)

    def body(self) -> dict[str, Any]:
        """The JSON object that the tool answers. Its `data` are this answer's own, not a copy."""
        # Only discovery's data hold models; a walk over all others, to find none, would cost what their JSON does.
        return self._envelope() | {"data": self.data if self.uri else json.loads(self.data_json)}

    def body_json(self) -> str:
        """The JSON text of `body`, around the one of the data, which is not written a second time."""
        return f'{to_json(self._envelope())[:-1]},"data":{self.data_json}}}'

    def _envelope(self) -> dict[str, Any]:
        return {
            "success": True,
            "uri": self.uri,
            "resource_name": self.resource_name,
            "timestamp": self.timestamp.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "mime_type": self.mime_type,
        }


class GetResourceError(DictAccessibleModel):
    """Why there is no data, whether waiting helps, and what to do."""

    success: Literal[False] = Field(default=False, description="Whether there is data.")
    uri: str = Field(default="", description="The URI that was asked for.")
    error: str = Field(
        description="InvalidURI, MissingTemplateVariable, InvalidTemplateVariable, Unauthorized, NotFound, "
        "or ResourceExecutionError."
    )
    message: str = Field(validation_alias=AliasChoices("message", "cause"), description="What happened, for a person.")
    details: str | None = Field(default=None, description="Technical detail, where there is some.")
    suggested_actions: list[str] = Field(min_length=1, description="What to do next.")
    transient: bool = Field(default=False, description="Whether the same call may succeed later by itself.")
    valid_uris: list[str] | None = Field(default=None, description="For InvalidURI: every URI there is.")
    retry_after_seconds: int | None = Field(
        default=None, description="For a caller that asks too often or too much at once: when to try again."
    )
    code: int = Field(default=INTERNAL_ERROR, exclude=True, description="The JSON-RPC code; no part of the body.")

    def body(self) -> dict[str, Any]:
        """The JSON object that both surfaces answer; the last two fields are there only where they apply."""
        unused = {name for name in ("valid_uris", "retry_after_seconds") if getattr(self, name) is None}
        return self.model_dump(mode="json", exclude=unused)

    def body_json(self) -> str:
        """The JSON text of `body`."""
        return to_json(self.body())

"""The answers of `get_resource`: data, an error, or the list of resources. Fields are attributes and items."""

import base64
import json
import marshal
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, TypeVar, overload

import orjson
import pydantic_core
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from quilt_mcp.core.errors import INTERNAL_ERROR, SESSIONLESS_CODES

MIME_TYPE = "application/json"
MAX_LEVELS = 250
"""The maximum depth of data. FastMCP cannot write answers of more than 255 levels."""
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


def to_json(value: object) -> str:
    """Return the JSON text of a value of JSON types and models. Both surfaces use it.

    Raises:
        TypeError, ValueError: the value contains something else, such as a datetime or NaN. Services convert these.
    """
    with suppress(orjson.JSONEncodeError):  # a long integer, a lone surrogate, a key or a value of another type
        text = orjson.dumps([[[[[value]]]]], option=orjson.OPT_PASSTHROUGH_SUBCLASS)  # five levels less than 255
        if _is_plain(value):
            return escape_separators(text[5:-5]).decode()
    unusual = _ENCODER.encode(value).encode(
        errors="surrogatepass"
    )  # raises for NaN, foreign types, circular references
    _check(value)
    return escape_separators(unusual).decode(errors="surrogatepass")


def escape_separators(text: bytes) -> bytes:
    """Escape U+2028 and U+2029 in JSON in UTF-8. They are valid there, but some clients end a line at them."""
    return text.replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029")


def _is_plain(value: object) -> bool:
    """Return whether a value has only JSON types. orjson writes NaN as null, and an enum or a date as a text.

    Marshal refuses these types, and writes infinity and NaN as `_NOT_FINITE`. A walk in Python takes five times as long
    as orjson. Other data can contain the same bytes by chance: the slower encoder writes them.
    """
    try:
        known = marshal.dumps(value, 4)  # type: ignore[arg-type] # that it refuses other types is why
    except ValueError:
        return False
    return not any(one.search(known) for one in _NOT_FINITE)


def _check(value: object, levels: int = MAX_LEVELS) -> None:
    """Raise a TypeError or ValueError for a key that is not a text, or too many levels."""
    if not levels:
        raise ValueError(f"more than {MAX_LEVELS} levels")
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        raise TypeError("a key is not a text")
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        _check(one, levels - 1)


def _model(value: object) -> JSONObject:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not a JSON type")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_model)
# One pattern for both would be slower: a search starts at a fixed byte.
_NOT_FINITE = [re.compile(code + rb".{6}[\xf0-\xff][\x7f\xff]", re.DOTALL) for code in (rb"g", rb"\xe7")]
"""A float of marshal, the second if it can be repeated later, with all bits of its exponent set: infinity or NaN."""


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


@dataclass(frozen=True, slots=True)
class Attachment:
    """Bytes that belong to an answer, such as a picture. Its data can say what they are, and never contain them.

    `resources/read` sends them as a second content, a blob; the tool as a block of its own.
    """

    content: bytes
    mime_type: str

    def encode(self) -> str:
        """Return the bytes in base64, as both surfaces send them."""
        return base64.b64encode(self.content).decode()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServiceResult(Generic[T]):
    """What a service function returns whose answer is more than its data.

    Attributes:
        data: a JSON object.
        attachment: bytes that belong to it.
        ttl_seconds: how long a client may keep this answer; None for as long as the definition says.
    """

    data: T
    attachment: Attachment | None = None
    ttl_seconds: int | None = None


_LEFT_OUT = frozenset({"requires_sign_in"})


class ResourceMetadata(DictAccessibleModel):
    """One resource, as discovery lists it. JSON leaves out the fields that are empty or false by default."""

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

    @model_serializer(mode="wrap")
    def _leave_out_defaults(self, dump: SerializerFunctionWrapHandler) -> JSONObject:
        found: JSONObject = dump(self)
        return {name: value for name, value in found.items() if value or name not in _LEFT_OUT}


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
    ttl_ms: int = Field(default=0, exclude=True, description="How long a client may keep it; not part of the body.")
    cache_scope: Literal["public", "private"] = Field(
        default="private", exclude=True, description="Whose caches may keep it; not part of the body."
    )
    attachment: Attachment | None = Field(
        default=None, exclude=True, description="Bytes that belong to the answer; not part of the body."
    )

    @cached_property
    def data_json(self) -> str:
        """The JSON text of `data`, as resources/read returns it."""
        if self.uri:
            return to_json(self.data)
        return escape_separators(pydantic_core.to_json(self.data)).decode()  # only models

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


class Document(GetResourceSuccess):
    """A text that only `resources/read` returns, such as a page for MCP Apps. It is not in the registry."""

    text: str = Field(exclude=True, description="What resources/read returns.")
    meta: JSONObject = Field(default_factory=dict, exclude=True, description="The `_meta` of the contents.")

    @cached_property
    def data_json(self) -> str:
        return self.text


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
    code: int = Field(
        default=INTERNAL_ERROR,
        exclude=True,
        description="The JSON-RPC code before protocol 2026-07-28; not part of the body.",
    )

    @property
    def cause(self) -> str:
        """The message, under its older name."""
        return self.message

    def choose_code(self, version: str | None) -> int:
        """Return the JSON-RPC code in this version of the protocol; without one, that of the older versions."""
        return SESSIONLESS_CODES.get(self.code, self.code) if version in MODERN_PROTOCOL_VERSIONS else self.code

    def body(self) -> JSONObject:
        """Return the JSON object that both surfaces send. It has the last two fields only if they apply."""
        unused = {name for name in ("valid_uris", "retry_after_seconds") if getattr(self, name) is None}
        return self.model_dump(mode="json", exclude=unused)

    def body_json(self) -> str:
        return to_json(self.body())

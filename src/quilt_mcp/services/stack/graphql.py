"""GraphQL queries to a Quilt stack: those in operations.graphql, and the forms of their data."""

import math
import re
from collections.abc import Collection, Hashable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar, cast

from pydantic import BeforeValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from quilt_mcp.core.answers import iso
from quilt_mcp.core.errors import Unavailable
from quilt_mcp.services.stack.catalog_failures import NO_PLACE, WHOLE_QUERY, make_refusal, make_unexpected
from quilt_mcp.services.stack.failures import QueryRefused

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

DEFINITION = re.compile(r"^(?:query|fragment) (\w+)[^}]*?\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
FRAGMENT = re.compile(r"\.\.\.(\w+)")
NOTHING = object()
"""What is where data should be. No form fits it."""


def _read_time(value: object) -> str:
    try:
        return iso(cast("datetime", _create_adapter(datetime).validate_python(value)))
    except OverflowError as error:  # in UTC, the first and the last day can be outside of the calendar
        raise ValueError("not in the calendar") from error


def read_float(text: str) -> float | str:
    """Return a number of a foreign JSON text; one that is too large stays a text, as infinity and NaN do."""
    number = float(text)
    return number if math.isfinite(number) else text


Time = Annotated[str, BeforeValidator(_read_time)]
"""A time of the stack, in the form of answers."""
Size = Annotated[int, BeforeValidator(lambda one: int(one) if isinstance(one, float) and math.isfinite(one) else one)]
"""A number of bytes. The stack sends numbers with a point, because they have more than 32 bits."""


@dataclass(frozen=True)
class Rows(Generic[T]):
    """A list of the stack.

    Attributes:
        readable: the rows that the stack could read, and that have the form of this server.
        unreadable_count: the number of the others.
    """

    readable: list[T]
    unreadable_count: int = 0


def keep_readable(form: type[T], rows: Collection[object], *, failed: Collection[int] = ()) -> Rows[T]:
    """Keep the rows that have a form, so that one odd value does not hide the others. `failed` are refused rows.

    Raises:
        ResourceExecutionError: none has this form.
    """
    adapter, readable = _create_adapter(cast("Hashable", form)), list[T]()
    for number, row in enumerate(rows):
        with suppress(ValidationError):
            if number not in failed:
                readable.append(cast("T", adapter.validate_python(row)))
    if rows and not readable:
        raise make_unexpected(f"none of {len(rows)} rows has the form of {getattr(form, '__name__', 'this list')}")
    return Rows(readable, len(rows) - len(readable))


class Named(TypedDict):
    """An object, of which the operation requests the name."""

    name: str


@dataclass(frozen=True)
class PartialAnswer(Generic[T]):
    """What a stack returned for a query: data, errors, or both.

    Attributes:
        data: the data in the form that was requested; None if there are none in this form.
        error_paths: where the errors are, sorted, such as "me.role"; "query" for the query as a whole, "stack" for a
            failure of the stack. Empty if there are no errors: then the data are complete.
    """

    data: T | None
    error_paths: list[str]

    @property
    def is_not_understood(self) -> bool:
        """Whether the stack rejected the query as a whole, as it does if its schema has not all fields of the query.

        A stack that cannot process any query can return the same.
        """
        return self.data is None and self.error_paths == [WHOLE_QUERY]

    @property
    def refusal(self) -> QueryRefused:
        return make_refusal(self.error_paths)


def post_query(
    registry_url: str, session: "requests.Session", operation: str, form: type[T], *, at: str, variables: object
) -> PartialAnswer[T]:
    """Send an operation.

    Raises:
        Unavailable: the response is not a GraphQL response.
        ResourceExecutionError: the stack returned no errors, and data in another form.
    """
    body = {"query": read_operations()[operation], "operationName": operation, "variables": variables}
    payload = session.post(f"{registry_url}/graphql", json=body).json(parse_constant=str, parse_float=read_float)
    if not isinstance(payload, dict) or not ("data" in payload or payload.get("errors")):
        raise Unavailable("The Quilt stack did not return a valid response.", details=f"GraphQL query {operation}")
    errors, data = payload.get("errors"), _find(payload.get("data"), at.split(".") if at else [])
    try:
        found = None if data is None else cast("T", _create_adapter(cast("Hashable", form)).validate_python(data))
    except ValidationError as error:
        if not errors:
            raise make_unexpected(f"{error.error_count()} invalid fields in {operation}") from None
        found = None  # the errors in the same response explain it
    return PartialAnswer(found, _find_error_paths(errors) if errors else [])


def _find(data: object, path: list[str]) -> object:
    """Return what is at a path; NOTHING if there is no such path. Only the end of it can be null."""
    data = NOTHING if data is None else data
    for name in path:
        data = data.get(name, NOTHING) if isinstance(data, dict) else NOTHING
    return data


def _find_error_paths(errors: object) -> list[str]:
    return sorted({_find_place(one) for one in errors}) if isinstance(errors, list) and errors else [NO_PLACE]


def _find_place(error: object) -> str:
    """Return where an error is. Only one about the text of the query has no path, and `locations` in that text."""
    found = error if isinstance(error, dict) else {}
    if isinstance(path := found.get("path"), list) and path:
        return ".".join(map(str, path))
    return WHOLE_QUERY if found.get("locations") else NO_PLACE


@cache
def read_operations() -> dict[str, str]:
    """Return the text of each operation with its fragments, by their names."""
    text = Path(__file__).with_name("operations.graphql").read_text(encoding="utf-8")
    definitions = {found[1]: found[0] for found in DEFINITION.finditer(text)}
    operations = (name for name, definition in definitions.items() if definition.startswith("query"))
    return {name: "".join(_collect(name, definitions)) for name in operations}


def _collect(name: str, definitions: dict[str, str]) -> dict[str, None]:
    found = {definitions[name]: None}
    for fragment in FRAGMENT.findall(definitions[name]):
        found |= _collect(fragment, definitions)
    return found


@cache  # to create an adapter takes longer than the rest of a query, without the network
def _create_adapter(form: Hashable) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", form))

"""A tool made of a function. Arguments that are not valid get an error that says which values are allowed."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, wraps
from inspect import getdoc
from typing import Any, Self, cast

from fastmcp.exceptions import ValidationError
from fastmcp.tools import FunctionTool
from fastmcp.tools.base import ToolResult
from mcp_types import TextContent
from pydantic import ConfigDict, Field, SkipValidation
from pydantic import ValidationError as InvalidValues

from quilt_mcp.app import App
from quilt_mcp.core.answers import JSONObject, to_json
from quilt_mcp.core.errors import InvalidArguments, ResourceExecutionError, ResourceFailure
from quilt_mcp.core.uris import quote

_PROBLEMS = 5
_SHOWN = 80
_WORDS = {
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "object": "an object",
    "null": "null",
}

logger = logging.getLogger(__name__)


def make_error(failure: ResourceFailure) -> JSONObject:
    """Return the body of the error, with the fields of `GetResourceError` that apply."""
    return {
        "success": False,
        "error": failure.error,
        "message": failure.message,
        "details": failure.details,
        "suggested_actions": failure.suggested_actions,
        "transient": failure.transient,
    }


MakeError = Callable[[ResourceFailure], JSONObject]


class FailedCall(ToolResult):
    """The answer to a call that failed, with the name of the failure."""

    error: str = ""

    def __init__(self, error: str, body: JSONObject, *, is_structured: bool) -> None:
        text = TextContent(type="text", text=to_json(body))
        super().__init__([text], body if is_structured else None, is_error=True)
        self.error = error


class CheckedTool(FunctionTool):
    """A tool that answers invalid arguments, and failures of its function, with a result with `isError` and a body.

    Attributes:
        app: the current app while the function runs. The function must not refer to it: FastMCP keeps each function.
        make_error: makes the body. It is also structured content if it has the required keys of the output schema.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    app: App | None = Field(default=None, exclude=True, repr=False)
    make_error: SkipValidation[MakeError] = make_error

    @classmethod
    def create(
        cls,
        function: Callable[..., Awaitable[object]],
        make_error: MakeError = make_error,
        *,
        app: App | None = None,
        **options: Any,
    ) -> Self:
        """Return the tool; the options are those of `FunctionTool.from_function`."""
        tool = cast("Self", cls.from_function(without_docstring(function), description=getdoc(function), **options))
        tool.app, tool.make_error = app, make_error
        return tool

    async def run(self, arguments: JSONObject) -> ToolResult:
        """Call the function. A failure is a result with `isError`."""
        try:
            with nullcontext() if self.app is None else self.app.active():
                return await super().run(arguments)
        except ResourceFailure as error:
            failure = error
            level = logging.WARNING if isinstance(error, ResourceExecutionError) else logging.INFO
            logger.log(level, "%s failed: %s (%s)", self.name, error.error, error.details)
        except ValidationError as error:
            if not isinstance(error.__cause__, InvalidValues):
                raise
            failure = self._explain(error.__cause__)
        body = self.make_error(failure)
        is_valid = body.keys() >= set((self.output_schema or {}).get("required", ()))
        return FailedCall(failure.error, body, is_structured=is_valid)

    def _explain(self, invalid: InvalidValues) -> InvalidArguments:
        problems = invalid.errors(include_url=False, include_context=False)[:_PROBLEMS]
        logger.info("invalid arguments for %s: %s", self.name, ", ".join(str(one["loc"]) for one in problems))
        found = dict(self._describe(one["type"], one["loc"], one["input"]) for one in problems)
        return InvalidArguments(" ".join(found), suggested_actions=list(dict.fromkeys(found.values())))

    def _describe(self, kind: str, location: Sequence[object], value: object) -> tuple[str, str]:
        """Return what is wrong with an argument, and what to do."""
        properties: Mapping[str, JSONObject] = self.parameters["properties"]
        name = str(location[0])
        if name not in properties:
            names = ", ".join(properties)
            what = f"`{self.name}` has no argument {quote(name)}."
            return what, f"Use only these arguments: {names}." if names else "Send no arguments."
        allowed = f"`{name}` must be {describe_allowed(properties[name])}."
        if "default" in properties[name]:
            allowed += f" You can omit it: the default is {json.dumps(properties[name]['default'])}."
        if kind == "missing_argument":
            return f"`{name}` is missing.", f"Add it. {allowed}"
        if kind == "string_unicode":
            return f"`{name}` is not valid Unicode.", "Replace or remove each half of a surrogate pair."
        indexes = "".join(f"[{one}]" for one in location[1:] if isinstance(one, int))
        return f"`{name}{indexes}` is {_describe_value(value)}.", allowed


@cache  # FastMCP keeps each function: one for all servers
def without_docstring(function: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
    """Return the same asynchronous function without its docstring, which FastMCP would import a parser for."""

    @wraps(function)
    async def call(*args: object, **kwargs: object) -> object:
        return await function(*args, **kwargs)

    call.__doc__ = None
    return call


def describe_allowed(schema: JSONObject) -> str:
    """Return the values that a JSON schema of one argument allows."""
    if "enum" in schema:
        return f"one of: {', '.join(map(str, schema['enum']))}"
    if "anyOf" in schema:
        return " or ".join(describe_allowed(one) for one in schema["anyOf"])
    if schema.get("type") == "string":
        form = f" that matches {schema['pattern']}" if "pattern" in schema else ""
        return f"a string{_describe_range(schema, 'minLength', 'maxLength', ' characters')}{form}"
    if schema.get("type") == "array":
        size = _describe_range(schema, "minItems", "maxItems", " items")
        return f"an array{size}, each {describe_allowed(schema['items'])}"
    if schema.get("type") in {"number", "integer"}:
        return f"{_WORDS[schema['type']]}{_describe_range(schema, 'minimum', 'maximum', '', 'from')}"
    return _WORDS.get(schema.get("type", ""), "a JSON value")


def _describe_range(schema: JSONObject, least: str, most: str, unit: str, word: str = "of") -> str:
    if least in schema and most in schema:
        return f" {word} {schema[least]} to {schema[most]}{unit}"
    return f" of at most {schema[most]}{unit}" if most in schema else ""


def _describe_value(value: object) -> str:
    if isinstance(value, str):
        return f"{quote(value)}, a string of {len(value)} characters"
    if isinstance(value, list | dict):
        return f"an array of {len(value)} items" if isinstance(value, list) else "an object"
    return json.dumps(value)[:_SHOWN]

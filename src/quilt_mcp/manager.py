"""The one path from a URI to an answer, under both surfaces."""

import inspect
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from pydantic import BaseModel

from quilt_mcp import uri_rules
from quilt_mcp.errors import (
    DISCOVER,
    InvalidTemplateVariable,
    InvalidURI,
    MissingTemplateVariable,
    ResourceExecutionError,
    ResourceFailure,
    TooManyRequests,
    Unavailable,
)
from quilt_mcp.models.responses import GetResourceError, GetResourceSuccess, ResourceMetadata
from quilt_mcp.registry import Match, ResourceDefinition, UriIndex, validate_registry
from quilt_mcp.trace import Read, milliseconds_since, reading

MIME_TYPE = "application/json"
DEFAULT_DEADLINE = 30.0
DEFAULT_MAX_BYTES = 16 * 1024 * 1024
THREADS = 64  # of its own: slow services cannot take those with which FastMCP reads and writes stdio
_SHOWN = 5
_JSON_NAMES = {bool: "a boolean", int: "a number", float: "a number", list: "an array", dict: "an object"}

Values = Callable[[str, str], list[str] | Awaitable[list[str]]]
Admit = Callable[[Read], AbstractAsyncContextManager[None]]
Translate = Callable[[Exception], ResourceFailure | None]

T = TypeVar("T")

logger = logging.getLogger(__name__)


class ResourceManager:
    """Looks a URI up, runs its service function with a deadline, and answers with data or a typed error.

    Args:
        registry: from URI to definition; checked by `validate_registry`.
        deadline: tells the longest that one read may take, in seconds.
        translate: turns an exception of a foreign library into a ResourceFailure, or answers None.
        variable_values: for a template variable's name, the function that lists values which exist, given the template
            and a prefix; it may know more than it lists.
        free_text: the variables whose value may be any text.
        admit: a context around each read, entered before anything else is looked at; it raises a ResourceFailure where
            the caller may not read now.
        max_bytes: tells the longest data, in bytes of JSON, that one read may answer.
    """

    def __init__(  # noqa: PLR0913 - all but the registry are keyword-only, with defaults that serve any server
        self,
        registry: Mapping[str, ResourceDefinition],
        *,
        deadline: Callable[[], float] = lambda: DEFAULT_DEADLINE,
        translate: Translate = lambda _: None,
        variable_values: Mapping[str, Values] | None = None,
        free_text: Collection[str] = (),
        admit: Admit = lambda _: nullcontext(),
        max_bytes: Callable[[], int] = lambda: DEFAULT_MAX_BYTES,
    ) -> None:
        validate_registry(registry)
        self.registry = registry
        self._index = UriIndex(registry)
        self._deadline = deadline
        self._translate = translate
        self._variable_values = dict(variable_values or {})
        self._free_text = frozenset(free_text)
        self._admit = admit
        self._max_bytes = max_bytes
        self._threads = anyio.CapacityLimiter(THREADS)
        self._discovery = _discovery_data(registry)

    @property
    def waiting(self) -> int:
        """How many reads wait for a thread."""
        return self._threads.statistics().tasks_waiting

    async def get_discovery_data(self) -> dict[str, list[ResourceMetadata]]:
        """For each category, its resources sorted by URI. Computed once."""
        return self._discovery

    async def get_resource(self, uri: str | None = None) -> dict[str, Any]:
        """Read one resource; without a URI, list them all.

        Returns:
            `uri`, `resource_name`, `data` (a JSON object) and `mime_type`.

        Raises:
            ResourceFailure: one of its subclasses; anything else is a bug or a foreign exception.
        """
        return await self._read(uri, Read("python"))

    async def respond(
        self, uri: object, *, surface: str, unknown_arguments: Collection[str] = ()
    ) -> GetResourceSuccess | GetResourceError:
        """The answer to a client, whatever it sent. Logs one line; raises nothing but cancellation."""

        async def answer(read: Read) -> GetResourceSuccess:
            asked = _checked_arguments(uri, unknown_arguments)
            return _sendable(GetResourceSuccess(**await self._read(asked, read)), self._max_bytes())

        return await self.guarded(answer, surface=surface, uri=uri)

    async def guarded(
        self, work: Callable[[Read], Awaitable[T]], *, surface: str, uri: object = ""
    ) -> T | GetResourceError:
        """What the work gives a caller that is admitted, or why not. Logs one line; raises nothing but cancellation."""
        with reading(surface) as read:
            read.outcome = "cancelled"
            result: T | GetResourceError
            try:
                async with self._admit(read):
                    result = await work(read)
            except ResourceFailure as failure:
                result = self._error(uri, failure)
            except Exception as foreign:  # noqa: BLE001 - the process's edge: what is not ours is translated or masked
                result = self._error(uri, self._translate(foreign) or _masked(foreign, read.correlation_id))
            done = "partial" if read.failed else "ok"
            read.outcome = result.error if isinstance(result, GetResourceError) else done
            return result

    async def complete(self, template: str, variable: str, prefix: str = "") -> list[str]:
        """The values that exist for a template's variable and start with `prefix`.

        An empty list for what is unknown, and where they cannot be listed now: the read itself tells why.
        """
        definition = self.registry.get(template)
        values = self._variable_values.get(variable)
        if definition is None or values is None or variable not in definition["template_variables"]:
            return []
        try:
            with anyio.fail_after(self._deadline()):
                if inspect.iscoroutinefunction(values):
                    existing = await values(template, prefix)
                else:
                    existing = await self._in_thread(partial(values, template, prefix))
        except (ResourceFailure, TimeoutError):
            return []
        return [value for value in existing if value.startswith(prefix)]

    async def _read(self, uri: str | None, read: Read) -> dict[str, Any]:
        if not uri:
            read.uri = "discovery"
            return _answer("", "Available Resources", {key: list(rows) for key, rows in self._discovery.items()})
        uri_rules.check_text(uri, self.registry)
        match = self._index.find(uri)
        if match is None:
            raise uri_rules.unknown(uri, self.registry)
        definition = match.definition
        read.uri, read.lookup = definition["uri"], "template" if match.values else "static"
        parameters = await self._parameters(match)
        started = time.perf_counter()
        try:
            return _answer(uri, definition["name"], await self._call(definition, parameters))
        finally:
            read.service_ms = milliseconds_since(started)

    async def _parameters(self, match: Match) -> dict[str, str]:
        definition, parameters = match.definition, {}
        for variable, raw in match.values.items():
            try:
                value = uri_rules.checked_value(definition, variable, raw, free_text=variable in self._free_text)
            except (MissingTemplateVariable, InvalidTemplateVariable) as refusal:
                existing = await self.complete(definition["uri"], variable)
                refusal.suggested_actions = uri_rules.value_advice(definition, variable, existing[:_SHOWN])
                raise
            parameters[definition["parameter_mapping"][variable]] = value
        return parameters

    async def _call(self, definition: ResourceDefinition, parameters: dict[str, str]) -> dict[str, Any]:
        function, seconds, result = definition["service_function"], self._deadline(), None
        with anyio.move_on_after(seconds) as scope:
            if definition["is_async"]:
                result = await function(**parameters)
            else:
                result = await self._in_thread(partial(function, **parameters))
        if scope.cancelled_caught:
            raise Unavailable(f"{definition['uri']} gave no answer within {seconds:g} seconds.")
        data = result.model_dump(mode="json") if isinstance(result, BaseModel) else result
        if not isinstance(data, dict):
            raise TypeError(f"{definition['uri']}: a service function answers an object, not {type(data).__name__}")
        return data

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        return await to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._threads)

    def _error(self, uri: object, failure: ResourceFailure) -> GetResourceError:
        return GetResourceError(
            uri=uri_rules.echo(uri) if isinstance(uri, str) else "",
            error=failure.error,
            message=uri_rules.sendable(failure.message),
            details=failure.details and uri_rules.sendable(failure.details),
            suggested_actions=[uri_rules.sendable(action) for action in failure.suggested_actions],
            transient=failure.transient,
            valid_uris=list(self.registry) if isinstance(failure, InvalidURI) else None,
            retry_after_seconds=failure.retry_after_seconds if isinstance(failure, TooManyRequests) else None,
            code=failure.code,
        )


def _discovery_data(registry: Mapping[str, ResourceDefinition]) -> dict[str, list[ResourceMetadata]]:
    rows = sorted((ResourceMetadata.model_validate(definition) for definition in registry.values()), key=_category_uri)
    return {category: list(group) for category, group in groupby(rows, key=lambda row: row.category)}


def _category_uri(row: ResourceMetadata) -> tuple[str, str]:
    return row.category, row.uri


def _answer(uri: str, name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"uri": uri, "resource_name": name, "data": data, "mime_type": MIME_TYPE}


def _checked_arguments(uri: object, unknown_arguments: Collection[str]) -> str | None:
    if unknown_arguments:
        names = ", ".join(uri_rules.shown(name) for name in sorted(unknown_arguments)[:_SHOWN])
        raise InvalidURI("get_resource takes one argument, `uri`.", details=f"Not known: {names}")
    if uri is not None and not isinstance(uri, str):
        raise InvalidURI("`uri` must be a string.", details=f"It was {_JSON_NAMES.get(type(uri), 'something else')}.")
    return uri


def _sendable(response: GetResourceSuccess, max_bytes: int) -> GetResourceSuccess:
    """The response, checked to be JSON; lone surrogates in it, which no UTF-8 can hold, become question marks.

    Raises:
        TypeError, ValueError: the data are no JSON.
        ResourceExecutionError: they are longer than a client should get at once.
    """
    if len(response.data_json) > max_bytes:
        raise ResourceExecutionError(
            "The answer is too long to send.",
            details=f"{len(response.data_json)} characters of JSON; at most {max_bytes} are sent.",
            suggested_actions=["Read it in parts, where its URI takes a limit.", "Read a narrower resource.", DISCOVER],
        )
    try:
        response.data_json.encode()
    except UnicodeEncodeError:
        return GetResourceSuccess(**dict(response) | {"data": json.loads(uri_rules.sendable(response.data_json))})
    return response


def _masked(bug: Exception, correlation_id: str) -> ResourceExecutionError:
    """A bug in our own code: where it happened goes to the log, and to the client the id to find it by.

    The exception's text goes nowhere: it may hold what the code was working with.
    """
    kind = type(bug).__qualname__
    stand_in = Exception(f"{kind}, whose text is not logged")
    where = (Exception, stand_in, bug.__traceback__)
    logger.error("unexpected %s, correlation_id=%s", kind, correlation_id, exc_info=where)
    return ResourceExecutionError(
        "The server failed in a way that it did not foresee.",
        details=f"correlation id {correlation_id}",
        suggested_actions=["Report this, with the correlation id and the server's log lines that carry it."],
    )

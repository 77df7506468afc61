"""The dispatcher: the one path from a URI to an answer, for both surfaces."""

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any
from urllib.parse import quote, unquote

import anyio
from anyio import to_thread
from pydantic import BaseModel

from quilt_mcp.core import errors, uris
from quilt_mcp.core.answers import (
    Document,
    GetResourceError,
    GetResourceSuccess,
    JSONObject,
    ResourceMetadata,
    ServiceResult,
)
from quilt_mcp.core.registry import (
    Match,
    ResourceDefinition,
    UriIndex,
    parameters_of,
    path_of,
    path_variables,
    takes_known_values,
)
from quilt_mcp.core.tracing import Read, Reads, milliseconds_since

DEFAULT_DEADLINE = 30.0
DEFAULT_MAX_BYTES = 16 * 1024 * 1024
THREADS = 64  # a limiter of its own, so that slow services cannot take the threads in which FastMCP handles stdio
_SHOWN = 5
_JSON_NAMES = {bool: "a boolean", int: "a number", float: "a number", list: "an array", dict: "an object"}

Admit = Callable[[Read], AbstractAsyncContextManager[None]]
Call = Callable[[], Any]
Run = Callable[[ResourceDefinition, Call], Awaitable[Any]]
"""Calls a function of a resource: awaits it, or runs it in a thread, which the cancellation of the call abandons."""

logger = logging.getLogger(__name__)


@dataclass
class Guarded:
    """What runs inside of `ResourceManager.guard`.

    Attributes:
        read: describes it.
        admission: a context that raises a ResourceFailure if the caller must wait.
        error: why the body did not complete.
    """

    read: Read
    admission: AbstractAsyncContextManager[None]
    error: GetResourceError | None = None


class ResourceManager:
    """Finds the resource of a URI, calls its service function with a deadline, and returns data or a typed error.

    Args:
        registry: from URI to definition, as `build_registry` returns it.
        deadline: maximum time for one read, in seconds.
        failures: from the full name of a foreign exception class to the function that makes our failure from it.
        around: a context around each call of a service function or of completion values.
        admit: a context around each request, entered first. It raises a ResourceFailure if the caller must wait.
        run: calls service functions and lists the values of variables.
        max_bytes: maximum size of the data of one answer, in bytes of JSON.
        diagnosis: an action to suggest for every execution error that does not suggest a specific one.
        documents: texts that `resources/read` returns beside the resources, such as a page for MCP Apps.
        translations: read addresses of other schemes as URIs of this server.
        guesses: name the URI that an unknown one probably means.

    Attributes:
        registry, around, admit: as given.
        documents: by address.
        reads: notifies observers of each read.
    """

    def __init__(
        self,
        registry: Mapping[str, ResourceDefinition],
        *,
        deadline: float = DEFAULT_DEADLINE,
        failures: Mapping[str, errors.MakeFailure] | None = None,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
        admit: Admit = lambda _: nullcontext(),
        run: Run | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        diagnosis: str | None = None,
        documents: Iterable[Document] = (),
        translations: Iterable[uris.Translate] = (),
        guesses: Iterable[uris.Guess] = (),
    ) -> None:
        self.registry, self.reads = registry, Reads()
        self._index = UriIndex(registry)
        self._deadline = deadline
        self._failures = dict(failures or {})
        self.around, self.admit = around, admit
        self._run: Run = run or partial(_run, anyio.CapacityLimiter(THREADS))
        self._max_bytes = max_bytes
        self._diagnosis = diagnosis
        self.documents = {one.uri: one for one in documents}
        self._discovery = _discovery_data(registry)
        self._translations, self._guesses = tuple(translations), tuple(guesses)

    async def get_discovery_data(self) -> dict[str, list[ResourceMetadata]]:
        """Return the resources of each category, sorted by URI. Computed once."""
        return self._discovery

    async def get_resource(self, uri: str | None = None) -> JSONObject:
        """Read one resource; without a URI, list all of them.

        Returns:
            `uri`, `resource_name`, `data` (a JSON object) and `mime_type`.

        Raises:
            ResourceFailure: one of its subclasses. Anything else is a bug or a foreign exception.
        """
        with self.around():
            answer = await self._read(uri, Read("python"))
        return {key: answer[key] for key in ("uri", "resource_name", "data", "mime_type")}

    async def respond(
        self, uri: object, *, surface: str, others: Mapping[str, object] | None = None
    ) -> GetResourceSuccess | GetResourceError:
        """Answer any request of a client. Logs one line. Raises only on cancellation.

        Args:
            uri: what to read; empty to list all resources.
            surface: how the client reads.
            others: further arguments, which no surface has.
        """
        with self.guard(surface=surface, uri=uri) as guarded:
            async with guarded.admission:
                guarded.read.is_admitted = True
                asked = self._check_arguments(uri, others or {})
                answer = self._check_answer(await self._read(asked, guarded.read))
        return guarded.error or answer

    @contextmanager
    def guard(self, *, surface: str, uri: object = "") -> Iterator[Guarded]:
        """Turn failures of the body into errors, and log one line. The body must enter the admission first."""
        with self.around(), self.reads.reading(surface) as read:
            read.outcome = "cancelled"
            guarded = Guarded(read, nullcontext() if read.is_admitted else self.admit(read))
            try:
                yield guarded
            except Exception as error:  # noqa: BLE001 - the edge of the process
                guarded.error = self.make_error(uri, error, read)
            read.outcome = guarded.error.error if guarded.error else "partial" if read.failed else "ok"

    def find_failure(self, error: Exception) -> errors.ResourceFailure | None:
        """Return our failure, or make it from a foreign exception; None if no row describes it."""
        return error if isinstance(error, errors.ResourceFailure) else errors.find_failure(error, self._failures)

    async def complete(
        self, template: str, variable: str, prefix: str = "", known: Mapping[str, str] | None = None
    ) -> list[str]:
        """List the existing values of a template's variable that start with a prefix.

        The list is empty for unknown variables and if the values cannot be listed now; a read reports why.

        Args:
            template: the URI of the row.
            variable: the variable.
            prefix: what the values start with.
            known: the values of other variables, as the client sent them. Those that are not valid are left out.
        """
        definition = self.registry.get(template)
        if definition is None or not uris.is_text(prefix) or variable not in definition.get("values", {}):
            return []
        list_values = partial(definition["values"][variable], prefix)
        if takes_known_values(definition["values"][variable]):
            valid = {name: value for name, value in (known or {}).items() if uris.is_allowed(definition, name, value)}
            list_values = partial(list_values, valid)
        try:
            with self.around(), anyio.fail_after(self._deadline):
                existing = await self._run(definition, list_values)
        except BaseException as error:
            _check_end(error)
            if isinstance(error, TimeoutError) or (isinstance(error, Exception) and self.find_failure(error)):
                return []
            raise  # a bug
        return [value for value in existing if value.startswith(prefix)]

    async def _read(self, uri: str | None, read: Read) -> GetResourceSuccess:
        if not uri:
            read.uri = "discovery"
            rows = {category: list(rows) for category, rows in self._discovery.items()}
            return GetResourceSuccess(uri="", resource_name="Available Resources", data=rows)
        if read.surface == "resource" and (document := self.documents.get(uri)):
            read.uri, read.lookup = uri, "static"
            return document
        address = self._translate(uri)
        try:
            match = self._find(address.uri)
        except errors.InvalidURI as refusal:
            is_short = len(uri) <= uris.MAX_ENCODED  # a search in 64 MB takes seconds
            if is_short and (meant := await self._find_meant(address.uri)):
                refusal.suggested_actions = [f"Read {meant}."]
            raise
        definition = match.definition
        read.uri, read.lookup = definition["uri"], "template" if match.values else "static"
        parameters = await self._parameters(match)
        started, result = time.perf_counter(), None
        try:
            async with asyncio.timeout(self._deadline) as limit:
                if address.check:
                    await self._run(definition, address.check)
                result = await self._run(definition, partial(definition["service_function"], **parameters))
        except TimeoutError as error:
            if not limit.expired():  # it is one of the service function
                raise
            message = f"{definition['uri']} did not respond within {self._deadline:g} seconds."
            raise errors.Unavailable(message) from error
        except BaseException as error:
            _check_end(error)
            raise
        finally:
            read.service_ms = milliseconds_since(started)
        sent = result if isinstance(result, ServiceResult) else ServiceResult(result)
        data = sent.data.model_dump(mode="json") if isinstance(sent.data, BaseModel) else sent.data
        if not isinstance(data, dict):
            raise TypeError(f"{definition['uri']}: a service function must return an object, not {type(data).__name__}")
        return GetResourceSuccess(
            uri=address.uri,
            resource_name=definition["name"],
            data=data,
            ttl_ms=0 if read.failed else 1000 * (sent.ttl_seconds or definition.get("ttl_seconds", 0)),
            attachment=sent.attachment,
            cache_scope="public" if definition.get("shared") else "private",
        )

    def _translate(self, uri: str) -> uris.Address:
        if uri.partition(":")[0] not in self._discovery:
            for translate in self._translations:
                if (address := translate(uri)) is not None:
                    return address
        return uris.Address(uri)

    def _find(self, uri: str) -> Match:
        encoded = uris.encode_text(uri, self.registry)
        match = self._index.find(encoded)
        if encoded != uri and not (match and match.definition.get("free_text")):
            raise uris.make_unencoded(uri, self.registry)
        if match is None:
            raise uris.make_unknown_uri(uri, self.registry, self._index.find_parameters(uri))
        return match

    async def _find_meant(self, uri: str) -> str | None:
        """Return the only URI that an unknown one can mean; None if there are several, or a spelling is corrected."""
        if meant := uris.find_meant(uri, self.registry):
            return meant
        guessed = next(filter(None, (guess(uri) for guess in self._guesses)), None)
        if "://" in uri and guessed:
            return guessed
        if len(uris.find_nearest(uri, self.registry)) == 1:
            return None
        return guessed or await self._find_by_value(uri)

    async def _find_by_value(self, uri: str) -> str | None:
        """Return the shortest URI with a value that exists, for one that has only the scheme and that value."""
        scheme, _, rest = uri.partition("://")
        value = unquote(rest.strip("/"))
        words = {word.rstrip("s") for template in self.registry for word in template.split("/")[2:]}
        if scheme not in self._discovery or not value or "/" in value or value.lower().rstrip("s") in words:
            return None
        for template in sorted(self.registry, key=len):
            definition = self.registry[template]
            [variable, *more] = path_variables(template) or [""]
            if definition["category"] != scheme or not variable or more:
                continue
            if uris.is_allowed(definition, variable, value) and value in await self.complete(template, variable, value):
                return path_of(template).replace(f"{{{variable}}}", quote(value, safe=""))
        return None

    def _check_arguments(self, uri: object, others: Mapping[str, object]) -> str | None:
        """Return the URI.

        Raises:
            InvalidURI: it is no text, or there are other arguments. If they mean a URI, the failure names it.
        """
        if others:
            names = ", ".join(uris.quote(name) for name in sorted(others)[:_SHOWN])
            meant = self._join_arguments(uri, others)
            actions = [f'Call get_resource with {{"uri": {json.dumps(meant)}}}.'] if meant else ()
            raise errors.InvalidURI(
                "get_resource takes only one argument, `uri`.",
                details=f"Unknown arguments: {names}",
                suggested_actions=actions,
            )
        if uri is not None and not isinstance(uri, str):
            found = _JSON_NAMES.get(type(uri), "a value of another type")
            raise errors.InvalidURI("`uri` must be a string.", details=f"It was {found}.")
        return uri

    def _join_arguments(self, uri: object, others: Mapping[str, object]) -> str | None:
        """Return the URI that a call with other arguments means; None if that is not certain.

        These are parameters beside the URI, or a URI under another name.
        """
        texts = {name: str(value) for name, value in others.items() if isinstance(value, str | int) and value != ""}
        if len(texts) < len(others):
            return None
        if not uri:
            [text, *more] = texts.values()
            is_known = self._index.find(text) is not None or self._translate_safely(text) is not None
            return text if is_known and not more else None
        match = self._index.find(uri) if isinstance(uri, str) and len(uri) <= uris.MAX_LENGTH else None
        if match is None or not texts.keys() <= set(parameters_of(match.definition)) - match.values.keys():
            return None
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in texts.items())
        return f"{uri}{'&' if '?' in str(uri) else '?'}{query}"

    def _translate_safely(self, text: str) -> uris.Address | None:
        try:
            address = self._translate(text)
        except errors.ResourceFailure:
            return None
        return address if address.uri != text else None

    async def _parameters(self, match: Match) -> dict[str, str]:
        definition, parameters = match.definition, {}
        for variable, raw in match.values.items():
            try:
                value = uris.decode_value(definition, variable, raw)
            except (errors.MissingTemplateVariable, errors.InvalidTemplateVariable) as refusal:
                others = {name: unquote(value) for name, value in match.values.items() if name != variable}
                existing = await self.complete(definition["uri"], variable, known=others)
                values = uris.suggest_values(definition, variable, existing)
                refusal.suggested_actions = [*definition.get("advice", ()), *values]
                raise
            parameters[definition["parameter_mapping"][variable]] = value
        return parameters

    def _check_answer(self, answer: GetResourceSuccess) -> GetResourceSuccess:
        """Return the answer if it is JSON and not too long, without lone surrogates.

        Raises:
            TypeError, ValueError: the data are not JSON.
            ResourceExecutionError: the data exceed the maximum size.
        """
        try:
            size = len(answer.data_json.encode())
        except UnicodeEncodeError:
            data = json.loads(uris.replace_surrogates(answer.data_json), object_pairs_hook=_keep_all)
            answer = GetResourceSuccess.model_validate(dict(answer) | {"data": data})
            size = len(answer.data_json.encode())
        size += len(answer.attachment.content) if answer.attachment else 0
        if size > self._max_bytes:
            details = f"{size} bytes; the maximum is {self._max_bytes}."
            actions = ["Read it in parts, if its URI takes a limit.", "Read a narrower resource.", errors.DISCOVER]
            message = "The answer is too long to send."
            raise errors.ResourceExecutionError(message, details=details, suggested_actions=actions)
        return answer

    def make_error(self, uri: object, error: Exception, read: Read) -> GetResourceError:
        """Make the error that a client receives for an exception. Foreign exceptions are mapped, bugs are masked."""
        failure = self.find_failure(error) or _mask(error, read.correlation_id)
        actions = failure.suggested_actions
        if self._diagnosis and isinstance(failure, errors.ResourceExecutionError) and failure.has_default_actions:
            actions = [*actions, self._diagnosis]
        return GetResourceError(
            uri=uris.echo(uri) if isinstance(uri, str) else "",
            error=failure.error,
            message=uris.replace_surrogates(failure.message),
            details=failure.details and uris.replace_surrogates(failure.details),
            suggested_actions=[uris.replace_surrogates(action) for action in actions],
            transient=failure.transient,
            valid_uris=list(self.registry) if isinstance(failure, errors.InvalidURI) else None,
            retry_after_seconds=failure.retry_after_seconds if isinstance(failure, errors.TooManyRequests) else None,
            code=failure.code,
        )


def _keep_all(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object. A key that differed from another only in lone surrogates gets further question marks."""
    made: dict[str, object] = {}
    for key, value in pairs:
        while key in made:
            key += "?"  # noqa: PLW2901 - until it is a new one
        made[key] = value
    return made


async def _run(threads: anyio.CapacityLimiter, _: ResourceDefinition, call: Call) -> object:
    if inspect.iscoroutinefunction(call):
        return await call()
    return await to_thread.run_sync(call, abandon_on_cancel=True, limiter=threads)


def _check_end(error: BaseException) -> None:
    """Raise a bug for what would end the process or the connection, unless the user or the caller ends the read."""
    if isinstance(error, Exception | KeyboardInterrupt | GeneratorExit):  # Python closes the coroutine with the last
        return
    task = asyncio.current_task()
    if not (task and task.cancelling()):
        bug = RuntimeError(f"a function raised {type(error).__name__}, which is no failure")
        raise bug.with_traceback(error.__traceback__) from None


def _discovery_data(registry: Mapping[str, ResourceDefinition]) -> dict[str, list[ResourceMetadata]]:
    rows = [ResourceMetadata.model_validate(definition) for definition in registry.values()]
    rows.sort(key=lambda row: (row.category, row.uri))
    return {category: list(group) for category, group in groupby(rows, key=lambda row: row.category)}


def _mask(bug: Exception, correlation_id: str) -> errors.ResourceExecutionError:
    """Log where a bug happened, and make the error that clients receive instead.

    The exception's text is not logged either: it can contain data that the code was processing.
    """
    kind = type(bug).__qualname__
    stand_in = Exception(f"{kind} (text not logged)")
    where = (Exception, stand_in, bug.__traceback__)
    logger.error("unexpected %s, correlation_id=%s", kind, correlation_id, exc_info=where)
    return errors.ResourceExecutionError(
        "Internal server error.",
        details=f"correlation id {correlation_id}",
        suggested_actions=["Report this error with the correlation id and the log lines that contain it."],
    )

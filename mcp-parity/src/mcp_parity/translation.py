"""Translates what a server raises into typed failures."""

import re
from collections.abc import Iterator
from traceback import walk_tb
from typing import Any, NamedTuple, TypeGuard

from fastmcp import FastMCP
from fastmcp.exceptions import AuthorizationError, DisabledError, FastMCPError, NotFoundError, ValidationError
from fastmcp.utilities.exceptions import get_http_status_code, is_timeout_error
from fastmcp.utilities.versions import dedupe_with_versions
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError as InvalidArguments

from mcp_parity import Failure, InvalidVariable, NotFound, Unauthorized, Unavailable
from mcp_parity.failures import InvalidURI, MissingVariable
from mcp_parity.nearest import find_nearest

_MOST_CAUSES = 10
_BUSY = frozenset({429, 502, 503, 504})
_DENIED = frozenset({401, 403})
_LONGEST_URI = 80
_BRACES = re.compile(r"\{[^}]*\}")


class Listed(NamedTuple):
    """One resource or template that the caller may see."""

    uri: str
    name: str
    description: str
    mime_type: str | None
    variables: list[str]


async def list_visible(server: FastMCP[Any]) -> list[Listed]:
    """Return what this caller may see, sorted by URI. Middleware, visibility and authorization apply."""
    resources = dedupe_with_versions(list(await server.list_resources()), lambda one: str(one.uri))
    templates = dedupe_with_versions(list(await server.list_resource_templates()), lambda one: one.uri_template)
    found = [Listed(str(one.uri), one.name, one.description or "", one.mime_type, []) for one in resources]
    for one in templates:
        variables = list((one.parameters or {}).get("properties", {}))
        found.append(Listed(one.uri_template, one.name, one.description or "", one.mime_type, variables))
    return sorted(found)


async def translate(server: FastMCP[Any], uri: str, error: Exception) -> Failure:
    """Return the failure to tell clients, for an exception of a read."""
    for cause in _causes(error):
        failure = _translate_cause(cause, error)
        if failure is None and isinstance(cause, InvalidArguments):
            failure = await _name_variables(server, uri, cause)
        if isinstance(failure, InvalidVariable) and _BRACES.search(uri):
            return _refuse_template(uri)
        if failure is not None:
            return failure
    if isinstance(error, MCPError):  # the refusal of a server behind a proxy
        refused = Failure(error.error.message)
        refused.code = error.error.code
        return refused
    if isinstance(error, NotFoundError | DisabledError):
        return _translate_unknown(uri, [one.uri for one in await list_visible(server)])
    if isinstance(error, ValidationError):
        return InvalidVariable(str(error))
    # FastMCP's message contains that of the exception, unless the server masks error details
    return Failure(str(error) if isinstance(error, FastMCPError) else "The server failed for an unknown reason.")


def is_typed(error: Exception) -> TypeGuard[MCPError]:
    """Return whether it already has the body of a failure."""
    data = error.error.data if isinstance(error, MCPError) else None
    return isinstance(data, dict) and "suggested_actions" in data


def _causes(error: Exception) -> Iterator[BaseException]:
    """Yield the exception and its causes. FastMCP wraps and masks what a resource function raises."""
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is not None:
            yield cause
            cause = cause.__cause__


def _translate_cause(cause: BaseException, error: Exception) -> Failure | None:
    if isinstance(cause, Failure):
        return cause
    status = get_http_status_code(cause)
    if isinstance(cause, AuthorizationError) or status in _DENIED:
        return Unauthorized(str(error if status else cause))
    if isinstance(cause, TimeoutError) or status in _BUSY or is_timeout_error(cause):
        return Unavailable(str(error))
    if cause is not error and isinstance(cause, NotFoundError | FileNotFoundError):  # the resource function raised it
        return NotFound(str(cause if isinstance(cause, NotFoundError) else error))
    return InvalidVariable(f"{cause}.") if isinstance(cause, ValueError) and _is_conversion(cause) else None


async def _name_variables(server: FastMCP[Any], uri: str, cause: InvalidArguments) -> InvalidVariable | None:
    """Return a failure if the invalid values are those of a template's variables."""
    template = await server.get_resource_template(uri)
    if template is None:
        return None
    names = (template.parameters or {}).get("properties", {}).keys()
    wrong = [f"{one['loc'][0]}: {one['msg']}" for one in cause.errors() if one["loc"] and one["loc"][0] in names]
    return InvalidVariable(f"{template.uri_template}: {'; '.join(wrong)}.") if wrong else None


def _is_conversion(error: BaseException) -> bool:
    """Return whether FastMCP raised it while it converted a template's variable. Only the frame tells."""
    modules = [frame.f_globals.get("__name__") for frame, _ in walk_tb(error.__traceback__)]
    return modules[-1:] == ["fastmcp.resources.template"]


def _translate_unknown(uri: str, known: list[str]) -> Failure:
    if _BRACES.search(uri):
        return _refuse_template(uri)
    nearest = find_nearest(uri, known)
    hint = [f"Did you mean {' or '.join(nearest)}?"] if nearest else []
    return InvalidURI(f"There is no resource {_quote(uri)}.", suggested_actions=[*hint, *InvalidURI.actions])


def _refuse_template(uri: str) -> MissingVariable:
    return MissingVariable(f"{_quote(uri)} is a template: replace each {{variable}} with a value.")


def _quote(uri: str) -> str:
    return ascii(uri[:_LONGEST_URI])

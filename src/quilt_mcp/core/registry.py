"""The registry: what a resource is, and how a URI finds its resource.

A registry is a dict from URI to `ResourceDefinition`. A URI can be a template of RFC 6570, with segments `{variable}`
and, at its end, `{?name,name}` for optional parameters. A lookup costs the same for any number of resources.
"""

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, NotRequired, TypedDict, cast

Values = Callable[..., list[str] | Awaitable[list[str]]]
"""Lists existing values of a variable that start with a prefix. It may list fewer than exist.

A function with a second parameter gets the values of the other variables that are known, by name: the tables of a
database, for example, are those of the database in the URI.
"""

URI_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#]+(/[^\s/?#]+)*(\{\?[a-z][a-z0-9_]*(,[a-z][a-z0-9_]*)*\})?")
VARIABLE_SEGMENT = re.compile(r"\{([a-z][a-z0-9_]*)\}")


class ResourceDefinition(TypedDict):
    """One resource: its ten keys, and eight that only some resources have."""

    uri: str
    """The URI, with {variables} if it is a template."""
    name: str
    """Its name, for a person."""
    description: str
    """What it contains, in a sentence or two."""
    service_function: Callable[..., object]
    """Returns the data; takes the template's variables by keyword."""
    is_async: bool
    """Whether the service function is awaited. Others run in a thread."""
    is_template: bool
    template_variables: list[str]
    """The names of variables and optional parameters, in the URI's order."""
    requires_admin: bool
    """Whether only administrators may read it."""
    category: str
    """The URI's scheme."""
    parameter_mapping: dict[str, str]
    """From variable to the service function's parameter."""
    requires_sign_in: NotRequired[bool]
    """Whether only callers who are signed in may read it."""
    values: NotRequired[Mapping[str, Values]]
    """From variable to the function that lists existing values, for completion, examples and advice."""
    free_text: NotRequired[Collection[str]]
    """The variables that can have any text without control characters as their value."""
    keys: NotRequired[Collection[str]]
    """The variables that are a path or a key of stored data: any text of at most 1,024 bytes."""
    ttl_seconds: NotRequired[int]
    """How long a client may keep an answer; without it, not at all."""
    shared: NotRequired[bool]
    """Whether every caller gets the same answer, so that a cache between client and server may keep it for all."""
    parameters: NotRequired[list[str]]
    """Optional parameters of a resource that is no template: its URI is listed without them."""
    advice: NotRequired[Sequence[str]]
    """What to do if a variable has no value or an invalid one, before the examples of values."""
    pool: NotRequired[str]
    """Where its functions run, if not where the others of its scheme do. The server says which pools there are."""


def takes_known_values(values: Values) -> bool:
    """Return whether a function that lists values takes those of the other variables too."""
    return len(inspect.signature(values).parameters) > 1


def path_of(pattern: str) -> str:
    """Return the pattern without its optional parameters."""
    return pattern.partition("{?")[0]


def optional_parameters(pattern: str) -> list[str]:
    """Return the names in `{?name,name}` at the pattern's end."""
    return [name for name in pattern.partition("{?")[2].removesuffix("}").split(",") if name]


def parameters_of(definition: ResourceDefinition) -> list[str]:
    """Return the names of the optional parameters: those in the URI, and those that it does not name."""
    return optional_parameters(definition["uri"]) + definition.get("parameters", [])


def path_variables(pattern: str) -> list[str]:
    """Return the variables that are segments, in their order."""
    return [match[1] for segment in path_of(pattern).split("/") if (match := VARIABLE_SEGMENT.fullmatch(segment))]


def define(
    uri: str,
    service_function: Callable[..., object],
    *,
    name: str,
    requires_admin: bool = False,
    requires_sign_in: bool = False,
    description: str | None = None,
    parameter_mapping: Mapping[str, str] | None = None,
    values: Mapping[str, Values] | None = None,
    free_text: Collection[str] = (),
    keys: Collection[str] = (),
    ttl_seconds: int = 0,
    shared: bool = False,
    parameters: Collection[str] = (),
    pool: str = "",
    advice: Sequence[str] = (),
) -> ResourceDefinition:
    """Return the definition of one resource. What the URI and the function determine is derived from them.

    Args:
        uri: the URI, or a template with `{variables}` and `{?parameters}`.
        service_function: returns the data; takes the variables by keyword.
        name: for a person.
        requires_admin: whether only administrators may read it.
        requires_sign_in: whether only callers who are signed in may read it; administrators always are.
        description: by default the first paragraph of the function's docstring.
        parameter_mapping: from variable to parameter, where their names differ.
        values: from variable to a function that lists existing values. A template without optional parameters needs
            one for each variable: the first value is its example.
        free_text: the variables that can have any text without control characters as their value.
        keys: the variables that are a path or a key of stored data: any text of at most 1,024 bytes.
        ttl_seconds: how long a client may keep an answer. Only for what changes with the server's version or
            configuration: nobody tells the client that an answer is out of date.
        shared: whether every caller gets the same answer.
        parameters: optional parameters that the URI does not name, so that clients see a resource and no template.
        pool: where its functions run, for a resource that asks another system than the others of its scheme.
        advice: what to do if a variable has no value or an invalid one, before the examples of values.
    """
    variables = _variables(uri)
    docstring = inspect.getdoc(service_function) or ""
    definition: ResourceDefinition = {
        "uri": uri,
        "name": name,
        "description": description or " ".join(docstring.split("\n\n")[0].split()),
        "service_function": service_function,
        "is_async": inspect.iscoroutinefunction(service_function),
        "is_template": bool(variables),
        "template_variables": variables,
        "requires_admin": requires_admin,
        "category": uri.partition("://")[0],
        "parameter_mapping": {name: name for name in (*variables, *parameters)} | dict(parameter_mapping or {}),
    }
    optional = {
        "requires_sign_in": requires_sign_in or requires_admin,
        "values": values,
        "free_text": frozenset((*free_text, *keys)),
        "keys": frozenset(keys),
        "ttl_seconds": ttl_seconds,
        "shared": shared,
        "parameters": list(parameters),
        "pool": pool,
        "advice": advice,
    }
    given = {name: value for name, value in optional.items() if value}
    return cast("ResourceDefinition", definition | given)


def build_registry(definitions: Iterable[ResourceDefinition]) -> dict[str, ResourceDefinition]:
    """Return the validated registry of these definitions, in their order.

    Raises:
        ValueError: as `validate_registry`, or a URI is defined twice.
    """
    registry: dict[str, ResourceDefinition] = {}
    for definition in definitions:
        if definition["uri"] in registry:
            raise ValueError(f"URI defined twice: {definition['uri']}")
        registry[definition["uri"]] = definition
    validate_registry(registry)
    return registry


def validate_registry(registry: Mapping[str, ResourceDefinition]) -> None:
    """Check that every definition is complete, and consistent with itself and with the others.

    Raises:
        ValueError: names the URI and the problem, in one line.
    """
    shapes: dict[str, str] = {}
    for uri, definition in registry.items():
        if problem := next(_problems(uri, definition), None):
            raise ValueError(problem)
        shape = VARIABLE_SEGMENT.sub("{}", path_of(uri))
        if shape in shapes:
            raise ValueError(f"Two URIs match the same resources: {uri} and {shapes[shape]}")
        shapes[shape] = uri


def _problems(uri: str, definition: ResourceDefinition) -> Iterator[str]:
    if missing := ResourceDefinition.__required_keys__ - definition.keys():
        yield f"Definition lacks keys: {', '.join(sorted(missing))} in {uri}"
    else:
        yield from chain(_uri_problems(uri, definition), _template_problems(uri, definition))
        yield from _function_problems(uri, definition)


def _uri_problems(uri: str, definition: ResourceDefinition) -> Iterator[str]:
    if uri != definition["uri"]:
        yield f"URI mismatch: key={uri}, defn={definition['uri']}"
    if not URI_PATTERN.fullmatch(uri):
        yield f"URI is not of the form scheme://segment/segment: {uri}"
    if not definition["name"] or not definition["description"]:
        yield f"Definition lacks a name or a description: {uri}"
    if definition.get("ttl_seconds", 0) < 0:
        yield f"Negative time to live: {uri}"
    if definition.get("shared") and (definition["requires_admin"] or definition.get("requires_sign_in")):
        yield f"A shared answer would reach callers who may not read it: {uri}"
    if definition["category"] != uri.partition("://")[0]:
        yield f"Category is not the URI's scheme: {definition['category']} in {uri}"


def _template_problems(uri: str, definition: ResourceDefinition) -> Iterator[str]:
    path, variables = path_of(uri), _variables(uri)
    in_first_segment = "{" in path.partition("://")[2].split("/")[0]
    if {path.count("{"), path.count("}")} != {len(path_variables(uri))} or in_first_segment:
        yield f"Template variable is not a whole segment after the first: {uri}"
    if definition["is_template"] != bool(variables):
        yield f"Template flag inconsistent with URI: {uri}"
    if variables and not definition["template_variables"]:
        yield f"Template URI missing variable list: {uri}"
    if definition["template_variables"] != variables or len(set(variables)) != len(variables):
        yield f"Template variables inconsistent with URI: {uri}"
    mapped = set(definition["parameter_mapping"])
    if unmapped := set(variables) - mapped:
        yield f"Template variable not in parameter mapping: {', '.join(sorted(unmapped))} in {uri}"
    named = {*mapped, *definition.get("values", ()), *definition.get("free_text", ())}
    if unknown := named - {*variables, *definition.get("parameters", ())}:
        yield f"Definition names variables that the URI does not have: {', '.join(sorted(unknown))} in {uri}"


def _function_problems(uri: str, definition: ResourceDefinition) -> Iterator[str]:
    function, parameters = definition["service_function"], definition["parameter_mapping"].values()
    if not callable(function):
        yield f"Service function not callable: {uri}"
    elif definition["is_async"] != inspect.iscoroutinefunction(function):
        yield f"Async flag inconsistent with the service function: {uri}"
    else:
        try:
            inspect.signature(function).bind(**dict.fromkeys(parameters))
        except (TypeError, ValueError) as error:
            yield f"Service function does not match the URI: {error} in {uri}"


def _variables(uri: str) -> list[str]:
    return path_variables(uri) + optional_parameters(uri)


class Match(NamedTuple):
    """A definition, and the still percent-encoded values of its variables and of the parameters that the URI has."""

    definition: ResourceDefinition
    values: dict[str, str]


class UriIndex:
    """Finds the definition of a URI, static or template.

    Templates are grouped by the positions of their variables, so a lookup costs one dict access for each group of the
    same length. If several templates match, the one with a literal in the first different segment wins.
    """

    def __init__(self, registry: Mapping[str, ResourceDefinition]) -> None:
        self._static: dict[str, Match] = {}
        groups: dict[tuple[int, tuple[int, ...]], dict[tuple[str, ...], ResourceDefinition]] = {}
        for uri, definition in registry.items():
            if path_variables(uri):
                segments = _segments(path_of(uri))
                variables = tuple(at for at, one in enumerate(segments) if VARIABLE_SEGMENT.fullmatch(one))
                groups.setdefault((len(segments), variables), {})[_literals(segments, variables)] = definition
            else:
                self._static[path_of(uri)] = Match(definition, {})
        # the later the first variable of a group, the earlier it is tried
        by_precedence = sorted(groups, key=lambda group: (*group[1], math.inf), reverse=True)
        self._groups = [(length, variables, groups[length, variables]) for length, variables in by_precedence]

    def find(self, uri: str) -> Match | None:
        """Return the definition for this URI, or None. An empty segment matches a variable with an empty value.

        An empty parameter counts as absent. A URI with a parameter that the definition does not name, or that occurs
        twice, matches nothing.
        """
        if match := self._static.get(uri):  # the most common case; no key contains a question mark
            return match
        path, has_query, query = uri.partition("?")
        found = self._find_path(path)
        if not has_query:
            return found
        if found is None or not (names := parameters_of(found.definition)):
            return self._find_path(uri)  # the question mark is part of a value
        pairs = [pair.partition("=")[::2] for pair in query.split("&")]
        given = dict(pairs)
        if len(given) < len(pairs) or not given.keys() <= set(names):
            return None
        return Match(found.definition, found.values | {name: value for name, value in given.items() if value})

    def find_parameters(self, uri: str) -> list[str] | None:
        """Return the names of the parameters that the URI can have; None if no definition has its path."""
        found = self._find_path(uri.partition("?")[0])
        return parameters_of(found.definition) if found else None

    def _find_path(self, path: str) -> Match | None:
        if found := self._static.get(path):
            return found
        segments = _segments(path)
        for length, variables, definitions in self._groups:
            if length == len(segments) and (definition := definitions.get(_literals(segments, variables))):
                names = path_variables(definition["uri"])
                return Match(definition, {name: segments[at] for name, at in zip(names, variables, strict=True)})
        return None


def _segments(path: str) -> list[str]:
    scheme, separator, rest = path.partition("://")
    return [scheme, *rest.split("/")] if separator else []


def _literals(segments: list[str], variables: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(one for at, one in enumerate(segments) if at not in variables)

"""The registry: what a resource is, and how its URI is found.

A registry is a dict from URI to `ResourceDefinition`. A URI may be a template of RFC 6570: segments between slashes of
the form `{variable}`, and at its end `{?name,name}` for optional parameters. Looking up a path without variables is one
dict access; another is found by walking a trie of segments, so that neither grows with the number of resources.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypedDict

URI_PATTERN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#]+(/[^\s/?#]+)*(\{\?[a-z][a-z0-9_]*(,[a-z][a-z0-9_]*)*\})?")
VARIABLE_SEGMENT = re.compile(r"\{([a-z][a-z0-9_]*)\}")


class ResourceDefinition(TypedDict):
    """One resource: its ten keys."""

    uri: str
    """The URI, with {variables} if it is a template."""
    name: str
    """Its name, for a person."""
    description: str
    """What it answers, in a sentence or two."""
    service_function: Callable[..., Any]
    """Answers the resource; takes the template's variables by keyword."""
    is_async: bool
    """Whether the service function is awaited; otherwise it runs in a thread."""
    is_template: bool
    template_variables: list[str]
    """The names of variables and optional parameters, in the URI's order."""
    requires_admin: bool
    """Whether only administrators of the stack may read it."""
    category: str
    """The URI's scheme."""
    parameter_mapping: dict[str, str]
    """From variable to the service function's parameter."""


def path_of(pattern: str) -> str:
    """The pattern without its optional parameters: what may be asked as it is, if it holds no variable."""
    return pattern.partition("{?")[0]


def optional_parameters(pattern: str) -> list[str]:
    """The names in `{?name,name}` at the pattern's end."""
    return [name for name in pattern.partition("{?")[2].removesuffix("}").split(",") if name]


def path_variables(pattern: str) -> list[str]:
    """The variables that are segments, in their order."""
    return [match[1] for segment in path_of(pattern).split("/") if (match := VARIABLE_SEGMENT.fullmatch(segment))]


def define(  # noqa: PLR0913 - four are keyword-only, with defaults that fit most resources
    uri: str,
    service_function: Callable[..., Any],
    *,
    name: str,
    requires_admin: bool = False,
    description: str | None = None,
    parameter_mapping: Mapping[str, str] | None = None,
) -> ResourceDefinition:
    """A definition, with what can be derived from the URI and the function derived.

    The description is the first paragraph of the function's docstring unless given; a variable maps to the parameter
    of the same name unless `parameter_mapping` says otherwise.
    """
    variables = _variables(uri)
    docstring = inspect.getdoc(service_function) or ""
    return {
        "uri": uri,
        "name": name,
        "description": description or " ".join(docstring.split("\n\n")[0].split()),
        "service_function": service_function,
        "is_async": inspect.iscoroutinefunction(service_function),
        "is_template": bool(variables),
        "template_variables": variables,
        "requires_admin": requires_admin,
        "category": uri.partition("://")[0],
        "parameter_mapping": {variable: variable for variable in variables} | dict(parameter_mapping or {}),
    }


def registry_of(definitions: Iterable[ResourceDefinition]) -> dict[str, ResourceDefinition]:
    """The validated registry of these definitions, in their order.

    Raises:
        ValueError: as `validate_registry`, and for a URI that stands twice.
    """
    registry: dict[str, ResourceDefinition] = {}
    for definition in definitions:
        if definition["uri"] in registry:
            raise ValueError(f"{definition['uri']}: defined twice")
        registry[definition["uri"]] = definition
    validate_registry(registry)
    return registry


def validate_registry(registry: Mapping[str, ResourceDefinition]) -> None:
    """Check that every definition is complete and agrees with itself and with the others.

    Raises:
        ValueError: naming the URI and what is wrong with it.
    """
    shapes: dict[str, str] = {}
    for uri, definition in registry.items():
        if problem := next(_problems(uri, definition), None):
            raise ValueError(f"{uri}: {problem}")
        shape = VARIABLE_SEGMENT.sub("{}", path_of(uri))
        if shape in shapes:
            raise ValueError(f"{uri}: matches the same URIs as {shapes[shape]}")
        shapes[shape] = uri


def _problems(uri: str, definition: ResourceDefinition) -> Iterator[str]:
    if missing := ResourceDefinition.__required_keys__ - definition.keys():
        yield f"lacks {sorted(missing)}"
    else:
        yield from chain(_uri_problems(uri, definition), _template_problems(uri, definition))
        yield from _function_problems(definition)


def _uri_problems(uri: str, definition: ResourceDefinition) -> Iterator[str]:
    if uri != definition["uri"]:
        yield f"URI mismatch: the definition says {definition['uri']}"
    if not URI_PATTERN.fullmatch(uri):
        yield "is not of the form scheme://segment/segment"
    if not definition["name"] or not definition["description"]:
        yield "lacks a name or a description"
    if definition["category"] != uri.partition("://")[0]:
        yield f"category {definition['category']!r} is not the URI's scheme"


def _template_problems(uri: str, definition: ResourceDefinition) -> Iterator[str]:
    path, variables = path_of(uri), _variables(uri)
    if {path.count("{"), path.count("}")} != {len(path_variables(uri))} or "{" in path.partition("://")[2].split("/")[
        0
    ]:
        yield "a variable must be a whole segment, and not the first"
    if definition["is_template"] != bool(variables):
        yield "is_template does not agree with the URI"
    if definition["template_variables"] != variables or len(set(variables)) != len(variables):
        yield "template_variables do not agree with the URI"
    if set(definition["parameter_mapping"]) != set(variables):
        yield "parameter_mapping does not name exactly the template's variables"


def _function_problems(definition: ResourceDefinition) -> Iterator[str]:
    function, parameters = definition["service_function"], definition["parameter_mapping"].values()
    if not callable(function):
        yield "service_function is not callable"
    elif definition["is_async"] != inspect.iscoroutinefunction(function):
        yield "is_async does not agree with the service function"
    else:
        try:
            inspect.signature(function).bind(**dict.fromkeys(parameters))
        except (TypeError, ValueError) as error:
            yield f"the service function does not take these parameters: {error}"


def _variables(uri: str) -> list[str]:
    return path_variables(uri) + optional_parameters(uri)


class Match(NamedTuple):
    """A definition and the raw, still percent-encoded values of its variables, and of the parameters that are given."""

    definition: ResourceDefinition
    values: dict[str, str]


@dataclass(slots=True)
class _Node:
    literal: "dict[str, _Node]" = field(default_factory=dict)
    variable: "_Node | None" = None
    definition: ResourceDefinition | None = None
    variables: list[str] = field(default_factory=list)
    """The path variables of the definition's URI."""


class UriIndex:
    """Finds the definition for a URI, static or template.

    Where several templates match, the one whose first differing segment is literal wins.
    """

    def __init__(self, registry: Mapping[str, ResourceDefinition]) -> None:
        self._static: dict[str, Match] = {}
        self._templates = _Node()
        for uri, definition in registry.items():
            if path_variables(uri):
                self._add_template(definition)
            else:
                self._static[path_of(uri)] = Match(definition, {})

    def find(self, uri: str) -> Match | None:
        """The definition for this URI, or None. An empty segment matches a variable: the value is then empty.

        A parameter that is empty is taken for absent. One that the definition does not name, and one that is given
        twice, match nothing.
        """
        if match := self._static.get(uri):  # the commonest; these hold no question mark
            return match
        path, has_query, query = uri.partition("?")
        found = self._find_path(path)
        if not has_query:
            return found
        if found is None or not (names := optional_parameters(found.definition["uri"])):
            return self._find_path(uri)
        pairs = [pair.partition("=")[::2] for pair in query.split("&")]
        given = dict(pairs)
        if len(given) < len(pairs) or not given.keys() <= set(names):
            return None
        return Match(found.definition, found.values | {name: value for name, value in given.items() if value})

    def _find_path(self, path: str) -> Match | None:
        if found := self._static.get(path):
            return found
        scheme, separator, rest = path.partition("://")
        if not separator:
            return None
        values: list[str] = []
        node = self._walk(self._templates, [scheme, *rest.split("/")], 0, values)
        if node is None or node.definition is None:
            return None
        return Match(node.definition, dict(zip(node.variables, values, strict=True)))

    def _add_template(self, definition: ResourceDefinition) -> None:
        scheme, _, path = path_of(definition["uri"]).partition("://")
        node = self._templates
        for segment in [scheme, *path.split("/")]:
            if VARIABLE_SEGMENT.fullmatch(segment):
                node.variable = node.variable or _Node()
                node = node.variable
            else:
                node = node.literal.setdefault(segment, _Node())
        node.definition, node.variables = definition, path_variables(definition["uri"])

    def _walk(self, node: _Node, segments: list[str], at: int, values: list[str]) -> _Node | None:
        if at == len(segments):
            return node if node.definition else None
        segment = segments[at]
        if (literal := node.literal.get(segment)) and (found := self._walk(literal, segments, at + 1, values)):
            return found
        if node.variable is None:
            return None
        values.append(segment)
        if found := self._walk(node.variable, segments, at + 1, values):
            return found
        values.pop()
        return None

"""The stack's GraphQL endpoint: it executes each operation against the schema of the stack's age.

The versions of the schema, since 2022, all come from stack_schema.graphql.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Literal, NamedTuple

from graphql import (
    REMOVE,
    DocumentNode,
    FieldDefinitionNode,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    ObjectTypeDefinitionNode,
    StringValueNode,
    Visitor,
    VisitorAction,
    build_ast_schema,
    default_field_resolver,
    execute_sync,
    extend_schema,
    parse,
    validate,
    visit,
)

from quilt_mcp.commands.demo.http_server import Answer
from quilt_mcp.commands.demo.stack_data import JSON, Viewer, describe_stack

FILE = Path(__file__).with_name("stack_schema.graphql")

Age = Literal["2022", "2023", "2024-06", "2024-10", "2024-12", "2026-06", "today"]
"""When the stack was last updated."""

DAYS: dict[Age, str] = {
    "2022": "2022-04-30",
    "2023": "2023-12-31",
    "2024-06": "2024-06-30",
    "2024-10": "2024-10-31",
    "2024-12": "2024-12-31",
    "2026-06": "2026-06-30",
    "today": "9999-12-31",
}
"""For each age, the last day of changes that the stack has."""

VERSIONS: dict[Age, str] = {"2024-12": "1.57.0", "2026-06": "1.69.0", "today": "1.71.0"}
"""What config.json says about the version. The catalog shows it since 2024-11-05; older stacks may have none."""


NEW_ROLE_TYPE = "FederatedRole"
"""A made-up type of role, as a later version of the stack can have one."""


@cache
def load_schema(age: Age, *, has_new_role_type: bool = False) -> GraphQLSchema:
    """Return the schema of a stack of this age, if needed with a type of role that no client knows yet."""
    if has_new_role_type:
        fields = "{ id: ID! name: String! arn: String! }"
        extension = f"type {NEW_ROLE_TYPE} {fields} extend union Role = {NEW_ROLE_TYPE}"
        return extend_schema(load_schema(age), parse(extension))
    document = parse(FILE.read_text(encoding="utf-8"), no_location=True)
    return build_ast_schema(visit(document, _Remover(DAYS[age])))


class _Remover(Visitor):
    """Removes what did not exist on a day."""

    def __init__(self, day: str) -> None:
        super().__init__()
        self._day = day

    def enter_object_type_definition(self, node: ObjectTypeDefinitionNode, *_: object) -> VisitorAction:
        return None if _existed(node, self._day) else REMOVE

    def enter_field_definition(self, node: FieldDefinitionNode, *_: object) -> VisitorAction:
        return None if _existed(node, self._day) else REMOVE


def is_for_administrators(field: FieldDefinitionNode | None) -> bool:
    """Return whether the schema marks the field."""
    return field is not None and any(mark.name.value == "admin" for mark in field.directives or ())


def _existed(node: ObjectTypeDefinitionNode | FieldDefinitionNode, day: str) -> bool:
    dates = {
        mark.name.value: argument.value.value
        for mark in node.directives or ()
        for argument in mark.arguments or ()
        if isinstance(argument.value, StringValueNode)
    }
    return dates.get("since", "") <= day < dates.get("until", "9999-12-32")


class Query(NamedTuple):
    """The body of a request. `text` is empty if the body is not a query."""

    text: str = ""
    operation: str | None = None
    variables: Mapping[str, object] = {}

    @classmethod
    def parse(cls, body: bytes) -> "Query":
        """Return the query in the body of a request."""
        try:
            value = json.loads(body)
        except ValueError:
            return cls()
        if not isinstance(value, dict):
            return cls()
        return cls(str(value.get("query") or ""), value.get("operationName"), value.get("variables") or {})


@dataclass(frozen=True)
class Endpoint:
    """How a stack answers queries.

    Attributes:
        age: the version of the stack.
        invalid_status: the HTTP status for a query that does not match the schema. Servers use 200 or 400.
        failing_fields: the fields that cannot be resolved, such as `User.role`.
        names_caller: whether a bucket's collaborators include the user who asks. Not documented: Quilt's catalog
            says "Only you can see this bucket" if there are none.
        has_new_role_type: whether its schema has a type of role that no client knows yet.
    """

    age: Age = "today"
    invalid_status: HTTPStatus = HTTPStatus.OK
    failing_fields: Collection[str] = ()
    names_caller: bool = True
    has_new_role_type: bool = False

    def answer(self, query: Query, viewer: Viewer) -> Answer:
        """Return the response to a query. A failure after validation has the status 200, with or without data."""
        schema = load_schema(self.age, has_new_role_type=self.has_new_role_type)
        checked = _check(query.text, schema)
        if not isinstance(checked, DocumentNode):
            return Answer(self.invalid_status, {"errors": [error.formatted for error in checked]})
        result = execute_sync(
            schema,
            checked,
            describe_stack(viewer, names_caller=self.names_caller),
            _Context(viewer.is_admin, self.failing_fields),
            dict(query.variables),
            query.operation,
            _resolve,
        )
        return Answer(HTTPStatus.OK, result.formatted)


TODAY = Endpoint()


class _Context(NamedTuple):
    is_admin: bool
    failing_fields: Collection[str]


@lru_cache(maxsize=128)
def _check(text: str, schema: GraphQLSchema) -> DocumentNode | list[GraphQLError]:
    """Return the parsed query, or the errors that the schema finds in it."""
    try:
        document = parse(text)
    except GraphQLError as error:
        return [error]
    return validate(schema, document) or document


def _resolve(source: JSON, info: "GraphQLResolveInfo[_Context]", **arguments: object) -> object:
    """Return the value of a field.

    Raises:
        GraphQLError: the field is for administrators, or it fails.
    """
    context = info.context
    if is_for_administrators(info.parent_type.fields[info.field_name].ast_node) and not context.is_admin:
        raise GraphQLError("Unauthorized")
    if f"{info.parent_type.name}.{info.field_name}" in context.failing_fields:
        raise GraphQLError("Internal error")
    return default_field_resolver(source, info, **arguments)

"""The stack's GraphQL endpoint: it executes each operation against the schema of the stack's age."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLResolveInfo,
    GraphQLSchema,
    default_field_resolver,
    execute_sync,
    parse,
    validate,
)

from quilt_mcp.commands.demo.http_server import Answer
from quilt_mcp.commands.demo.schema import Age, is_for_administrators, load_schema
from quilt_mcp.commands.demo.stack_data import JSON, Viewer, describe_stack


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

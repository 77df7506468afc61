"""The schema of the stack's GraphQL API, in its versions since 2022. All come from stack_schema.graphql."""

from functools import cache
from pathlib import Path
from typing import Literal

from graphql import (
    REMOVE,
    FieldDefinitionNode,
    GraphQLSchema,
    ObjectTypeDefinitionNode,
    StringValueNode,
    Visitor,
    VisitorAction,
    build_ast_schema,
    extend_schema,
    parse,
    visit,
)

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

"""The types of the answers: what service functions declare that they return, as JSON Schema."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeGuard, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter
from typing_extensions import is_typeddict

from quilt_mcp.core.answers import JSONObject, ServiceResult
from quilt_mcp.core.registry import ResourceDefinition


def find_answer_type(row: ResourceDefinition) -> Any:
    """Return the type of the data that a service function returns: a class, or a union of classes."""
    answer = get_type_hints(row["service_function"])["return"]
    return get_args(answer)[0] if get_origin(answer) is ServiceResult else answer


def list_answers(row: ResourceDefinition) -> list[type[Any]]:
    """Return the classes of which a service function returns one."""
    answer = find_answer_type(row)
    return [answer] if isinstance(answer, type) or is_typeddict(answer) else list(get_args(answer))


def make_schema(answer: Any) -> JSONObject:
    """Return the schema of an answer. An object has no other fields than those of its type."""
    schema = TypeAdapter(answer).json_schema(mode="serialization")
    for part in _list_objects(schema):
        if "properties" in part:
            part["additionalProperties"] = False
    return schema


def _list_objects(value: object) -> Iterator[JSONObject]:
    if isinstance(value, dict):
        yield value
        for part in value.values():
            yield from _list_objects(part)
    elif isinstance(value, list):
        for part in value:
            yield from _list_objects(part)


def find_classes(annotation: object) -> Iterator[type[Any]]:
    """Yield the classes with fields in a type, with their bases, each before those that it contains."""
    if _has_fields(annotation):
        yield annotation
        for inner in (*list_bases(annotation), *get_type_hints(annotation).values()):
            yield from find_classes(inner)
    for inner in get_args(annotation):
        yield from find_classes(inner)


def list_bases(cls: type[Any]) -> list[type[Any]]:
    """Return the classes of which a class has all fields."""
    return [base for base in getattr(cls, "__orig_bases__", cls.__bases__) if _has_fields(base)]


def _has_fields(annotation: object) -> TypeGuard[type[Any]]:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation is not BaseModel
    return is_typeddict(annotation) or is_model


def describe_fields(cls: type[Any]) -> Mapping[str, str]:
    """Return what a class says about its own fields: below the field, or in its docstring."""
    node = _parse_classes(cls.__module__)[cls.__name__]
    found = dict(re.findall(r"^    (\w+): (.*(?:\n     .*)*)", _split_docstring(cls)[1], re.MULTILINE))
    own = {
        one.target.id: "" for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    for field, text in zip(node.body, node.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(described))):
                found[name] = described
    return {name: _make_sentence(found.get(name, "")) for name in own}


@cache
def _parse_classes(module: str) -> Mapping[str, ast.ClassDef]:
    body = ast.parse(inspect.getsource(import_module(module))).body
    return {node.name: node for node in body if isinstance(node, ast.ClassDef)}


def describe_class(cls: type[Any]) -> str:
    """Return the docstring of a class without its fields, in one line."""
    return " ".join(_split_docstring(cls)[0].split())


def _split_docstring(cls: type[Any]) -> tuple[str, str]:
    before, _, fields = inspect.cleandoc(cls.__doc__ or "").partition("\nAttributes:\n")
    return before, fields


def _make_sentence(text: str) -> str:
    """Return the text in one line, with a capital letter unless it starts with a name or a value."""
    words = " ".join(text.split())
    return words[:1].upper() + words[1:] if re.match(r"[a-z]+[ ,;.]", words) else words

"""Compares the raw body of an AWS response with the shape that botocore's service model gives it.

botocore's own parsers drop what they do not know, and accept what is missing.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from xml.etree import ElementTree as ET

Shape = Any
"""A shape of botocore, which has no types."""
Element = ET.Element


def compare_json(value: object, shape: Shape, path: str) -> Iterator[str]:
    """Yield the differences of a JSON value."""
    match shape.type_name:
        case "structure":
            yield from _compare_structure(value, shape, path)
        case "list" if isinstance(value, list):
            for index, item in enumerate(value):
                yield from compare_json(item, shape.member, f"{path}[{index}]")
        case "map" if isinstance(value, dict):
            for key, item in value.items():
                yield from compare_json(item, shape.value, f"{path}.{key}")
        case kind if not isinstance(value, JSON_TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
            yield f"{path} is {value!r}, not a {kind}"
        case _:
            yield from _compare_enum(value, shape, path)
            if isinstance(value, str) and len(value) < shape.metadata.get("min", 0):
                yield f"{path} is {value!r}, which is too short"


def _compare_structure(value: object, shape: Shape, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path} is {value!r}, not a structure"
        return
    members = {member.serialization.get("name", name): member for name, member in shape.members.items()}
    yield from (f"{path}.{key} is not in the model" for key in value.keys() - members.keys())
    yield from (f"{path}.{key} is missing" for key in set(shape.required_members) - value.keys())
    for key in value.keys() & members.keys():
        yield from compare_json(value[key], members[key], f"{path}.{key}")


def compare_xml(element: Element, shape: Shape, path: str) -> Iterator[str]:
    """Yield the differences of an XML element."""
    match shape.type_name:
        case "structure":
            yield from _compare_children(element, shape, path)
        case "list":
            for index, item in enumerate(element):
                yield from compare_xml(item, shape.member, f"{path}[{index}]")
        case kind:
            yield from compare_text(element.text or "", kind, path)
            yield from _compare_enum(element.text or "", shape, path)


def _compare_children(element: Element, shape: Shape, path: str) -> Iterator[str]:
    members = {_xml_name(name, member): member for name, member in shape.members.items() if _is_in_body(member)}
    found = {strip_namespace(child.tag) for child in element}
    yield from (f"{path}.{name} is not in the model" for name in found - members.keys())
    required = {_xml_name(name, shape.members[name]) for name in shape.required_members} & members.keys()
    yield from (f"{path}.{name} is missing" for name in required - found)
    for child in element:
        name = strip_namespace(child.tag)
        if member := members.get(name):
            is_flat = member.type_name == "list" and member.serialization.get("flattened")
            yield from compare_xml(child, member.member if is_flat else member, f"{path}.{name}")


def compare_headers(headers: Mapping[str, str], shape: Shape, ignored: frozenset[str]) -> Iterator[str]:
    """Yield the differences of the headers. Only those that begin with `x-amz-` must be in the model."""
    members = {
        member.serialization["name"].lower(): member
        for member in shape.members.values()
        if member.serialization.get("location") == "header"
    }
    given = {name.lower(): value for name, value in headers.items()}
    unknown = {name for name in given if name.startswith("x-amz-")} - members.keys() - ignored
    yield from (f"the header {name} is not in the model" for name in unknown)
    for name in given.keys() & members.keys():
        kind = members[name].type_name
        yield from compare_text(given[name], "http date" if kind == "timestamp" else kind, f"the header {name}")
        yield from _compare_enum(given[name], members[name], f"the header {name}")


def compare_text(text: str, kind: str, path: str) -> Iterator[str]:
    """Yield a difference if a text is not of this kind."""
    try:
        TEXT_PARSERS.get(kind, str)(text)
    except ValueError:
        yield f"{path} is {text!r}, not a {kind}"


def strip_namespace(tag: str) -> str:
    return tag.rpartition("}")[2]


def _xml_name(name: str, member: Shape) -> str:
    if member.type_name == "list" and member.serialization.get("flattened"):
        name = member.member.serialization.get("name", name)
    return str(member.serialization.get("name", name))


def _is_in_body(member: Shape) -> bool:
    return "location" not in member.serialization


def _compare_enum(value: object, shape: Shape, path: str) -> Iterator[str]:
    allowed = getattr(shape, "enum", [])
    # The model gives ListObjectVersions one storage class. S3 sends the others too, as AWS's command line shows.
    if allowed and value not in allowed and shape.name != "ObjectVersionStorageClass":
        yield f"{path} is {value!r}, not one of {', '.join(allowed)}"


def _parse_boolean(text: str) -> None:
    if text not in {"true", "false"}:
        raise ValueError(text)


def _parse_iso(text: str) -> None:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(text)


JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "double": (int, float),
    "boolean": (bool,),
    "timestamp": (int, float),  # seconds since 1970
    "list": (list,),
    "map": (dict,),
}
TEXT_PARSERS: dict[str, Callable[[str], object]] = {
    "integer": int,
    "long": int,
    "boolean": _parse_boolean,
    "timestamp": _parse_iso,
    "http date": parsedate_to_datetime,
}

"""The pages in docs/answers: the fields of each answer, written from the types that service functions return."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from quilt_mcp.core.answers import JSONObject
from quilt_mcp.core.registry import ResourceDefinition
from tests.support.answer_types import (
    describe_class,
    describe_fields,
    find_answer_type,
    find_classes,
    list_answers,
    list_bases,
    make_schema,
)

FOLDER = Path(__file__).parents[2] / "docs" / "answers"
PAGE_LINES = 300
_HEADING, _TABLE = 8, 7  # lines of a page without classes, and of a class without fields
_ABSENT = ", or absent"


class AnswerPages:
    """The pages of one scheme: as many as it takes to keep each at `PAGE_LINES`.

    Attributes:
        scheme: the scheme.
        rows: its resources.
        files: the name of the file that describes each class.
    """

    def __init__(self, scheme: str, rows: Iterable[ResourceDefinition]) -> None:
        self.scheme, self.rows = scheme, list(rows)
        self.files = self._divide()

    def _divide(self) -> Mapping[type[Any], str]:
        files: dict[type[Any], str] = {}
        number, lines = 1, _HEADING + len(self.rows)
        for row in self.rows:
            new = [cls for cls in find_classes(find_answer_type(row)) if cls not in files]
            added = sum(_TABLE + len(describe_fields(cls)) for cls in dict.fromkeys(new))
            if lines + added > PAGE_LINES:
                number, lines = number + 1, _HEADING
            lines += added
            files |= dict.fromkeys(new, f"{self.scheme}.md" if number == 1 else f"{self.scheme}-{number}.md")
        return files

    def link(self, cls: type[Any], *, on: str = "") -> str:
        """Return a link to the description of a class, on one of these pages or in docs."""
        file = {"": f"{FOLDER.name}/{self.files[cls]}", self.files[cls]: ""}.get(on, self.files[cls])
        return f"[{cls.__name__}]({file}#{cls.__name__.lower()})"

    def link_answer(self, row: ResourceDefinition, *, on: str = "") -> str:
        """Return a link to the description of a resource's answer, or to each of its forms."""
        return " or ".join(self.link(answer, on=on) for answer in list_answers(row))

    def write(self) -> dict[Path, str]:
        """Return the text of each page."""
        return {FOLDER / file: self._write_page(file) for file in dict.fromkeys(self.files.values())}

    def _write_page(self, file: str) -> str:
        first = f"{self.scheme}.md"
        lines = [
            f"# Fields of {self.scheme}://",
            "",
            f"`make mcp-list` writes this page. [Resources](../resources.md#{self.scheme}) describes the resources.",
        ]
        if file == first:
            lines += ["", "| URI | answer |", "| --- | --- |"]
            lines += [f"| `{row['uri']}` | {self.link_answer(row, on=file)} |" for row in self.rows]
        for cls in (cls for cls, place in self.files.items() if place == file):
            lines += self._write_class(cls, file)
        return "\n".join(lines) + "\n"

    def _write_class(self, cls: type[Any], file: str) -> list[str]:
        schema, fields = make_schema(cls), describe_fields(cls)
        bases = " and ".join(self.link(base, on=file) for base in list_bases(cls))
        inherited = f" It has all fields of {bases}{', and:' if fields else '.'}" if bases else ""
        lines = ["", f"## {cls.__name__}", "", describe_class(cls) + inherited]
        if fields:
            lines += ["", "| field | type | meaning |", "| --- | --- | --- |"]
        links = {other.__name__: self.link(other, on=file) for other in self.files}
        for name, meaning in fields.items():
            kind = _name_type(schema["properties"][name], links)
            lines.append(f"| `{name}` | {kind}{'' if name in schema.get('required', ()) else _ABSENT} | {meaning} |")
        return lines


def _name_type(schema: JSONObject, links: Mapping[str, str]) -> str:
    match schema:
        case {"$ref": str(reference)}:
            name = links[reference.rpartition("/")[2]]
        case {"anyOf": [*kinds]}:
            name = " or ".join(_name_type(kind, links) for kind in kinds)
        case {"enum": [*values]}:
            name = ", ".join(f"`{value}`" for value in values)
        case {"const": value}:
            name = f"`{str(value).lower() if isinstance(value, bool) else value}`"
        case {"type": "array", "items": items}:
            name = f"list of {_name_part(items, links)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            keys = f" by {_name_type(schema['propertyNames'], links)}" if "propertyNames" in schema else ""
            name = f"object of {_name_part(values, links)}{keys}"
        case {"type": kind}:
            name = str(kind)
        case _:
            name = "any value"
    return name


def _name_part(schema: JSONObject, links: Mapping[str, str]) -> str:
    name = _name_type(schema, links)
    return f"({name})" if " or " in name else name

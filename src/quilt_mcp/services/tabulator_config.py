"""The YAML configuration of a tabulator table.

Imported on first use by `tabulator_service.py`, because it imports yaml.
"""

import re
from typing import NamedTuple

import yaml
from pydantic import BaseModel, ValidationError

MAX_CONFIG = 20_000
MAX_DEPTH = 20
PROBLEMS = {"missing": "is missing", "string_type": "is not a text", "list_type": "is not a list"}
_GROUP = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>")


class Column(BaseModel):
    """A column."""

    name: str
    type: str


class Source(BaseModel):
    """Which objects the rows come from. The patterns are regular expressions."""

    type: str
    package_name: str
    logical_key: str


class Parser(BaseModel):
    """How objects are read."""

    format: str


class Config(BaseModel):
    """The parts that this server reads. Every value is text, as it is written in the YAML."""

    schema_: list[Column]
    source: Source
    parser: Parser

    model_config = {"alias_generator": lambda name: name.removesuffix("_")}

    @property
    def captured_columns(self) -> list[str]:
        """The columns that Quilt adds for the named groups in the patterns."""
        return _GROUP.findall(self.source.package_name) + _GROUP.findall(self.source.logical_key)


class Parsed(NamedTuple):
    """The configuration, or why it cannot be read."""

    config: Config | None
    error: str | None


def parse_config(text: str) -> Parsed:
    """Parse the YAML of a table, which an administrator of the stack wrote. It has the form that Quilt documents.

    YAML can describe far more data than it has characters, so its length and depth are limited, and aliases are not
    allowed.
    """
    value, problem = parse_yaml(text)
    if problem:
        return Parsed(None, problem)
    try:
        return Parsed(Config.model_validate(value), None)
    except ValidationError as error:
        problems = "; ".join(
            f"{_name_place(one['loc'])} {PROBLEMS.get(one['type'], 'has another form')}" for one in error.errors()[:3]
        )
        return Parsed(None, f"The configuration does not have the documented form: {problems}.")


def parse_yaml(text: str) -> tuple[object, str | None]:
    """Parse YAML with the same limits. Every value is text, as it is written. Return it, or why it cannot be parsed."""
    if len(text) > MAX_CONFIG:
        return None, f"The configuration has more than {MAX_CONFIG:,} characters, so it is not parsed."
    try:
        if problem := _find_problem(text):
            return None, problem
        return yaml.load(text, Loader=yaml.BaseLoader), None  # noqa: S506 - makes only texts, lists and dicts
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return None, f"The configuration is not valid YAML{f' at line {mark.line + 1}' if mark else ''}."
    except (ValueError, RecursionError):  # from Python's functions that yaml calls, such as `chr` and `int`
        return None, "The configuration is not valid YAML: a value in it is out of range."


def _find_problem(text: str) -> str | None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.BaseLoader):
        if isinstance(event, yaml.AliasEvent):
            return "The configuration contains a YAML alias, so it is not parsed."
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            return f"The configuration is nested more than {MAX_DEPTH} levels deep, so it is not parsed."
    return None


def _name_place(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "the whole"

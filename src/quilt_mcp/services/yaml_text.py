"""YAML that other people wrote.

It can describe far more data than it has characters, so its length and depth are limited, and aliases are not allowed.
"""

from importlib import import_module

MAX_CHARACTERS = 20_000
"""Longer texts are not parsed."""
MAX_SHOWN = 10_000
"""Characters of the text itself in an answer, which has its parts too."""
MAX_DEPTH = 20


def parse_yaml(text: str) -> tuple[object, str | None]:
    """Parse YAML. Every value is text, as it is written. Return it, or why it cannot be parsed."""
    if len(text) > MAX_CHARACTERS:
        return None, f"The configuration has more than {MAX_CHARACTERS:,} characters, so it is not parsed."
    yaml = import_module("yaml")  # on first use: it takes 10 ms
    try:
        if problem := _find_problem(text):
            return None, problem
        return yaml.load(text, Loader=yaml.BaseLoader), None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return None, f"The configuration is not valid YAML{f' at line {mark.line + 1}' if mark else ''}."
    except (ValueError, RecursionError):  # from Python's functions that yaml calls, such as `chr` and `int`
        return None, "The configuration is not valid YAML: a value in it is out of range."


def _find_problem(text: str) -> str | None:
    depth = 0
    yaml = import_module("yaml")
    for event in yaml.parse(text, Loader=yaml.BaseLoader):
        if isinstance(event, yaml.AliasEvent):
            return "The configuration contains a YAML alias, so it is not parsed."
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            return f"The configuration is nested more than {MAX_DEPTH} levels deep, so it is not parsed."
    return None
